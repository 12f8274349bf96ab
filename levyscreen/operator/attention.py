"""Levy Attention as a layer to put in place of `torch.nn.MultiheadAttention` where queries look at timed keys."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from levyscreen.operator.field import build_field, mean_path
from levyscreen.operator.grid import Grid
from levyscreen.operator.kernel import unit
from levyscreen.operator.sharpness import Sharpness
from levyscreen.operator.signals import read


class LevySignals(NamedTuple):
    """What one pass says of each query: (R, m) means over heads, or (R, H, m) by head."""

    evidence: Tensor  # Lambda_q, the expected number of atoms; low means that little was found
    disagreement: (
        Tensor  # tr Sigma_V(q), squared units of the projected values; high means that what was found conflicts
    )
    sigma_hat: Tensor  # root-mean-square deviation of the sampled layer, units of the projected values


class LevyAttention(nn.Module):
    """Cross-attention on its exact mean path, which says besides how much it found and how far that agrees.

    As `torch.nn.MultiheadAttention(embed_dim, num_heads, kdim=..., vdim=..., batch_first=True)` but for three things.
    Keys have times. Beside the output stand signals instead of weights. There is no dropout and no attention mask: a
    key is padding or it is not. A query's time is not asked for: it belongs into the query's embedding, since the
    operator places keys alone in its index space (eq:positions).

    `embed_dim` is the width of queries and output, divided by `num_heads`; `kdim` and `vdim` those of keys and values,
    if others. `time_cells` x `channel_cells` is the grid over [0, 1]^2, a cell being one bandwidth; with one channel
    cell the index space is time alone. `tau` > 0 is the rate: it scales the evidence and leaves the output as it is.
    `sharpness` > 0 is where each head's g begins, which is then learned: above 1, a query can focus on few keys. None
    is the paper's kernel, g = 1 and not learned.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        bias: bool = True,
        kdim: int | None = None,
        vdim: int | None = None,
        time_cells: int = 16,
        channel_cells: int = 8,
        tau: float = 0.5,
        sharpness: float | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        """Raises ValueError where the sizes do not fit each other."""
        super().__init__()
        if num_heads < 1 or embed_dim % num_heads:
            raise ValueError(f"embed_dim {embed_dim} cannot be split into num_heads {num_heads} of equal width")
        if time_cells < 1 or channel_cells < 1 or not tau > 0 or not (sharpness is None or sharpness > 0):
            raise ValueError(
                "needs one cell or more an axis, tau > 0 and sharpness > 0, not "
                f"{time_cells} x {channel_cells}, tau {tau}, sharpness {sharpness}"
            )
        self.embed_dim, self.num_heads, self.tau = embed_dim, num_heads, tau
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.grid = Grid(time_cells, channel_cells)
        self.query = nn.Linear(embed_dim, embed_dim, bias, device, dtype)
        self.key = nn.Linear(self.kdim, embed_dim, bias, device, dtype)
        self.value = nn.Linear(self.vdim, embed_dim, bias, device, dtype)
        self.out = nn.Linear(embed_dim, embed_dim, bias, device, dtype)
        # Its bias places keys on the channel axis, so it stays where `bias` is off. One cell leaves nothing to place.
        self.channel = nn.Linear(self.kdim, num_heads, True, device, dtype) if channel_cells > 1 else None
        self.sharpness = Sharpness(num_heads, embed_dim // num_heads, sharpness).to(device, dtype)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_time: Tensor,
        key_padding_mask: Tensor | None = None,
        need_signals: bool = True,
        average_signals: bool = True,
    ) -> tuple[Tensor, LevySignals | None]:
        """Output (R, m, embed_dim) and signals, for R records of n keys and m queries each.

        `query` (R, m, embed_dim), `key` (R, n, kdim), `value` (R, n, vdim); `key_time` (R, n) in [0, 1], the horizon
        being 1; `key_padding_mask` (R, n) bool, True for padding, where the rest may hold anything. Without
        `need_signals` the second is None, and training is faster; without `average_signals` signals are by head.
        Gradients reach all four. Train on the output and read the signals: where all values agree, the root in
        `sigma_hat` has no gradient. Under autocast, and in a layer of 16 bits, the projections alone are of 16 bits,
        since sums over the keys need more: signals are float32 then, or float64 in a layer of that.

        Raises ValueError for shapes that do not fit, times outside [0, 1], and a record without a key.
        """
        self._check(query, key, value, key_time, key_padding_mask)
        key, value, time, mask = _silenced(key, value, key_time, key_padding_mask)
        asked, keys, values = (self._split(x) for x in (self.query(query), self.key(key), self.value(value)))
        projected = asked, keys, values, self._channel(key), time.unsqueeze(1)
        with torch.autocast(query.device.type, enabled=False):
            wide = torch.promote_types(asked.dtype, torch.float32)
            asked, keys, values, channel, time = (x.to(wide) for x in projected)
            field = build_field(keys, values, time, channel.expand(*keys.shape[:-1]), self.grid, mask)
            asked, tau = self.sharpness(unit(asked)), self.sharpness.rate(self.tau)
            reading = read(asked, field, tau) if need_signals else None
            mean = mean_path(asked, field) if reading is None else reading.mean
        output = self._project(mean)
        if reading is None:
            return output, None
        signals = LevySignals(reading.evidence, reading.disagreement, reading.sigma_hat)
        if average_signals:
            signals = LevySignals(*(signal.mean(1) for signal in signals))
        return output, signals

    def extra_repr(self) -> str:
        """What a printed layer says of itself beside its parts."""
        return f"num_heads={self.num_heads}, grid={self.grid.time_cells}x{self.grid.channel_cells}, tau={self.tau}"

    def _channel(self, key: Tensor) -> Tensor:
        """eq:positions, (R, H, n); (1, 1, 1) of a single cell."""
        if self.channel is None:
            return key.new_full((1, 1, 1), 0.5)
        return torch.sigmoid(self.channel(key)).transpose(1, 2)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (R, H, ., d)

    def _project(self, heads: Tensor) -> Tensor:
        joined: Tensor = self.out(heads.transpose(1, 2).flatten(-2).to(self.out.weight.dtype))
        return joined  # (R, m, embed_dim)

    def _check(self, query: Tensor, key: Tensor, value: Tensor, time: Tensor, padding: Tensor | None) -> None:
        for name, x, width in (("query", query, self.embed_dim), ("key", key, self.kdim), ("value", value, self.vdim)):
            if x.dim() != 3 or x.shape[-1] != width:
                raise ValueError(
                    f"{name} is to be (records, {'m' if name == 'query' else 'n'}, {width}), not {_shape(x)}"
                )
        of_keys = key.shape[:2]
        if query.shape[0] != key.shape[0] or value.shape[:2] != of_keys or time.shape != of_keys:
            raise ValueError(
                f"query {_shape(query)}, key {_shape(key)}, value {_shape(value)} and key_time {_shape(time)} do not "
                "fit: all have a row a record, and there is a value and a time for each key"
            )
        if padding is None:
            padding = torch.zeros(of_keys, dtype=torch.bool, device=key.device)
        if padding.dtype != torch.bool or padding.shape != of_keys:
            raise ValueError(f"key_padding_mask is to be bool {_shape(time)}, not {padding.dtype} {_shape(padding)}")
        if bool((whole := padding.all(dim=1)).any()):
            rows = torch.nonzero(whole).flatten().tolist()
            raise ValueError(f"{len(rows)} records have no key, first row {rows[0]}: leave them out, or give each one")
        real = time[~padding]
        if not bool(((real >= 0) & (real <= 1)).all()):
            raise ValueError(
                f"key_time goes from {float(real.min()):g} to {float(real.max()):g}: divide it by the horizon, so that "
                "it lies in [0, 1]"
            )


def _silenced(
    key: Tensor, value: Tensor, time: Tensor, padding: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Padded keys emptied, since a weight of 0 does not silence a NaN, and a mask (R, 1, n) of the others."""
    if padding is None or not bool(padding.any()):
        return key, value, time, None
    key, value = (x.masked_fill(padding.unsqueeze(-1), 0) for x in (key, value))
    return key, value, time.masked_fill(padding, 0), ~padding.unsqueeze(1)


def _shape(x: Tensor) -> str:
    return f"({', '.join(map(str, x.shape))})"
