"""Padded batches of records of similar length, without a loop over records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from levyscreen.types import Batch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from levyscreen.records.readings import Readings


def similar_length(lengths: NDArray[np.int64], records: int, generator: np.random.Generator) -> list[NDArray[np.int64]]:
    """Rows in shuffled batches of `records` of about the same length; neighbours in length change between calls."""
    jittered = lengths * generator.uniform(0.9, 1.1, len(lengths))
    batches = np.split(np.argsort(jittered), np.arange(records, len(lengths), records))
    return [batches[i] for i in generator.permutation(len(batches))]


def by_tokens(lengths: NDArray[np.int64], tokens: int) -> list[NDArray[np.int64]]:
    """Rows, longest first, in batches of at most `tokens` padded readings (one record at least)."""
    order = np.argsort(-lengths, kind="stable")
    batches, start = [], 0
    while start < len(order):
        size = max(1, tokens // max(1, int(lengths[order[start]])))
        batches.append(order[start : start + size])
        start += size
    return batches


class Batcher:
    """Cuts a cohort into batches: what is not hidden is context, what is hidden is asked."""

    def __init__(self, readings: Readings, hidden: NDArray[np.bool_]):
        self.readings = readings
        self.context, self.context_offsets = _positions(readings, ~hidden)
        self.queries, self.query_offsets = _positions(readings, hidden)

    @property
    def context_lengths(self) -> NDArray[np.int64]:
        """Context readings a record, (R,)."""
        return np.diff(self.context_offsets)

    def batch(self, rows: NDArray[np.integer[Any]]) -> Batch:
        """The records at `rows`, padded to the longest of them. Each must have at least one context reading."""
        import torch

        context, mask = _pad(self.context, self.context_offsets, rows)
        queries, query_mask = _pad(self.queries, self.query_offsets, rows)
        readings = self.readings

        def tensor(array: NDArray[Any], index: NDArray[np.int64], padded: NDArray[np.bool_]) -> torch.Tensor:
            return torch.from_numpy(np.where(padded, array[index], array.dtype.type(0)))

        return Batch(
            time=tensor(readings.time, context, mask),
            variable=tensor(readings.variable, context, mask).long(),
            value=tensor(readings.value, context, mask),
            mask=torch.from_numpy(mask),
            query_time=tensor(readings.time, queries, query_mask),
            query_variable=tensor(readings.variable, queries, query_mask).long(),
            query_mask=torch.from_numpy(query_mask),
            target=tensor(readings.value, queries, query_mask),
            record=torch.from_numpy(np.asarray(rows, dtype=np.int64)),
        )

    def batches(self, plan: list[NDArray[np.int64]]) -> Iterator[Batch]:
        """A batch for each entry of the plan."""
        for rows in plan:
            yield self.batch(rows)


def _positions(readings: Readings, mask: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Indices of the marked readings, and where each record's begin among them."""
    return np.flatnonzero(mask), np.concatenate([[0], np.cumsum(mask)])[readings.offsets]


def _pad(
    index: NDArray[np.int64], offsets: NDArray[np.int64], rows: NDArray[np.integer[Any]]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Indices of the rows' readings as a rectangle (R, longest), and what of it is real."""
    length = offsets[rows + 1] - offsets[rows]
    place = np.arange(max(1, int(length.max(initial=0))))
    mask = place < length[:, None]
    position = np.where(mask, offsets[rows][:, None] + place, 0)
    return (index[position] if len(index) else position), mask
