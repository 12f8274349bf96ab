"""Columns that some files of a table lack: of chunks of one export, those in which nobody had a unit, say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from levyscreen.records.mapped.tables import TableReader


class Lacking:
    """Which files lack which columns, of those that they may."""

    def __init__(self) -> None:
        self._files = 0
        self._first: dict[str, TableReader] = {}
        self._count: dict[str, int] = {}

    def of(self, reader: TableReader, names: Sequence[str]) -> list[str]:
        """Which of these columns a further file lacks."""
        self._files += 1
        lacking = [name for name in dict.fromkeys(names) if name not in reader.places]
        for name in lacking:
            self._first.setdefault(name, reader)
            self._count[name] = self._count.get(name, 0) + 1
        return lacking

    def refuse(self) -> None:
        """Raises CohortError for a column that all files lack."""
        for name, count in self._count.items():
            if count == self._files:
                self._first[name].require([name])

    def notes(self) -> Iterator[str]:
        """How many files lack what, in sentences."""
        for name, count in self._count.items():
            first = self._first[name].file.name
            yield (
                f"{count:,} of {self._files:,} files lack the column {name!r:.80}, the first is {first}: nothing is in "
                "it there"
            )
