"""What this machine can do at best, measured: the rates that bind the stages, and the least time that they leave."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass

import torch

from benchmarks.clock import median

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

    def seconds(self, products: float, exponentials: float) -> float:
        """Least time for so many operations, one kind after the other as the kernels do them."""
        return products / self.products + exponentials / self.exponentials


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


def encoder(lengths: list[int], width: int, feed_forward: int, heads: int, blocks: int) -> tuple[float, float]:
    """Operations of the encoder's matrix products, and exponentials of its softmax and GELU, without padding."""
    n, squares = sum(lengths), sum(x * x for x in lengths)
    products = 2 * blocks * (n * (4 * width**2 + 2 * width * feed_forward) + 2 * squares * width)
    return products, blocks * (heads * squares + n * feed_forward)


def continuum(lengths: list[int], queries: int, width: int, heads: int) -> tuple[float, float]:
    """The same of a lattice's reading and read-out: each key's value, its square and its mass are summed."""
    n = sum(lengths)
    rows = width + 2 * heads
    return 2 * queries * (n * rows + len(lengths) * width * rows), queries * (heads * n + len(lengths) * width)
