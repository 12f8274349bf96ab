"""What this machine can do at best, measured: the rates that bind the stages, and the least time that they leave."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass

import torch

from benchmarks.clock import median
from benchmarks.work import Work

RUNS = 9


@dataclass(frozen=True)
class Ceilings:
    """Rates a second."""

    products: float  # floating-point operations of a large matrix product, a multiplication and an addition each one
    exponentials: float  # of a tensor that the caches hold
    copied: float  # bytes of memory, read and written
    written: float  # bytes to a file, flushed to the disk

    def __str__(self) -> str:
        return (
            f"{self.products / 1e9:,.0f} GFLOP/s in matrix products, {self.exponentials / 1e9:.2f} billion "
            f"exponentials a second, memory copy {self.copied / 1e9:.1f} GB/s, "
            f"file write {self.written / 1e6:,.0f} MB/s"
        )

    def seconds(self, work: Work) -> float:
        """Least time for so much work, one kind after the other as the kernels do it."""
        return work.products / self.products + work.exponentials / self.exponentials + work.moved / self.copied


def measure(device: torch.device) -> Ceilings:
    """All four."""
    size = 2048 if device.type == "cpu" else 8192
    left, right = torch.randn(size, size, device=device), torch.randn(size, size, device=device)
    small, large = torch.randn(2**17, device=device), torch.randn(2**26, device=device)
    target, result = torch.empty_like(large), torch.empty_like(small)
    repeats = 200

    def exponentials() -> None:
        for _ in range(repeats):
            torch.exp2(small, out=result)

    return Ceilings(
        products=2 * size**3 / median(lambda: left @ right, RUNS),
        exponentials=repeats * small.numel() / median(exponentials, RUNS),
        copied=2 * large.nbytes / median(lambda: target.copy_(large), RUNS),
        written=_written(),
    )


def _written(size: int = 256 << 20) -> float:
    data = os.urandom(1 << 20) * (size >> 20)
    with tempfile.TemporaryFile(buffering=0) as file:

        def write() -> None:
            file.seek(0)
            file.write(data)
            os.fsync(file.fileno())

        return size / median(write, 3)
