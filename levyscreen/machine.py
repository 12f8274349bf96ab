"""The process and the device it computes on."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from importlib.metadata import version
from typing import Any

import torch

from levyscreen.errors import UsageError

# From malloc.h.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -2, -4, -8


def prepare() -> None:
    """Settings of the whole process that make CPU tensors cheap; call once from a program, never from the library.

    torch's compiler makes a folder in TMPDIR when it is loaded, though nothing is compiled here: it is told of one that
    exists. Denormals are flushed. Under glibc, freed memory stays with the process: by default every large tensor is
    mapped anew and its pages are faulted in one by one, which takes longer than the narrow matrix products that fill
    it. All threads share one heap, since those of their own are given back.
    """
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", sys.prefix)
    torch.set_flush_denormal(True)
    if sys.platform == "linux" and platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_ARENA_MAX, 1)
        libc.mallopt(_M_MMAP_MAX, 0)
        libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
        libc.mallopt(_M_TOP_PAD, 64 * 2**20)


def device(name: str) -> torch.device:
    """`auto` (CUDA where there is one), `cpu` or `cuda`. Raises UsageError if it cannot be had."""
    if name not in ("auto", "cpu", "cuda"):
        raise UsageError(f"unknown device '{name}': use auto, cpu or cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("no CUDA device is available here: use --device cpu or auto")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def describe(device: torch.device) -> dict[str, Any]:
    """Device, threads and versions, for timings and provenance."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {
        "levyscreen": version("levyscreen"),
        "device": device.type,
        "device_name": name,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def settle() -> None:
    """Waits until a GPU has done what it was given, so that a clock may be read."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def peak_memory_bytes() -> int:
    """Largest resident size of this process so far; 0 where the platform does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
