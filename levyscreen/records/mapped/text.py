"""The text of a table as a stream of lines in UTF-8, and which quoted fields may hold rows of their own.

Before the first quote of a text every line is a row, and is read as one. From that quote on a field may go on over
lines, and where a closing quote is missing it holds the rows after it: what follows it would be taken from another
row, which may be another patient's.
"""

from __future__ import annotations

import codecs
import io
import re
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from levyscreen.records.quoting import Bounded

QUOTE = b'"'
MOST_BYTES = 4 << 20  # of a row, and of what is read at once
_CHUNK = 1 << 20
_BOM = codecs.BOM_UTF8
LINE_END = re.compile(rb"\r\n|\r|\n")
_AS_IT_IS = ("utf-8", "utf-8-sig", "ascii")  # what Arrow reads


@dataclass(frozen=True)
class Form:
    """How the text of a table is written."""

    header: tuple[str, ...] | None = None  # of a text that has none
    delimiter: str | None = None  # by default by the file's ending
    quote: bool | None = None  # whether " quotes a field; None: yes, but a field that may hold rows is refused
    encoding: str = "utf-8"
    skip: int = 0  # lines above the header
    sheet: str | None = None  # of a workbook; the first one without


class Lines(io.RawIOBase):
    """A stream of bytes in UTF-8 that counts the lines with something in them, as rows of a text would be.

    It may stop before the line of the first quote, to go on when told so. Holds a few chunks at a time. Raises
    ValueError for bytes that are not of the encoding, and Bounded for more than MOST_BYTES of one line before a quote,
    or of empty lines one after the other.
    """

    def __init__(self, stream: BinaryIO, encoding: str) -> None:
        self.count = self._empty = 0
        plain = codecs.lookup(encoding).name in _AS_IT_IS
        self._decoder = None if plain else codecs.getincrementaldecoder(encoding)()
        self._stream, self._last = stream, b"\n"
        self._ready, self._tail = bytearray(), b""  # to be handed out; the beginning of a line that may have a quote
        self._looking = self._stopped = self._ended = False
        self._fill()
        if self._ready.startswith(_BOM):
            del self._ready[: len(_BOM)]

    def readable(self) -> bool:  # noqa: D102
        return True

    def skip(self, lines: int) -> None:
        """Leave out and do not count the next lines, empty ones among them."""
        start = 0
        while lines:
            end = LINE_END.search(self._ready, start)
            if end is None and not self._fill():
                start, lines = len(self._ready), 0
            elif end is not None:
                start, lines = end.end(), lines - 1
        del self._ready[:start]

    def stop_at_a_quote(self) -> None:
        """From here on, end before the line in which the next quote stands."""
        self._looking, waiting = True, bytes(self._ready)
        self._ready.clear()
        self._look(waiting)

    def go_on(self) -> None:
        """Look for no quote any more."""
        self._looking = self._stopped = False
        self._ready += self._tail
        self._tail = b""

    def more(self) -> bool:
        """Whether anything follows."""
        while not self._ready and self._fill():
            pass
        return bool(self._ready)

    def read(self, size: int = -1, /) -> bytes:
        """As many bytes as asked for, unless it ends: Arrow takes a row for too long that spans two short blocks."""
        while (size < 0 or len(self._ready) < size) and self._fill():
            pass
        size = len(self._ready) if size < 0 else size
        data = bytes(self._ready[:size])
        del self._ready[:size]
        byte = np.frombuffer(self._last + data, np.uint8)
        ends = (byte == 10) | (byte == 13)
        self.count += int((ends[:-1] & ~ends[1:]).sum())  # a line begins
        self._last = data[-1:] or self._last
        return data

    def _fill(self) -> bool:
        """One chunk more to be handed out; False at the end, and before a quote that was looked for."""
        if self._stopped or self._ended:
            return False
        data = self._stream.read(_CHUNK)
        self._ended = not data
        if self._decoder is not None:
            data = self._decoder.decode(data, self._ended).encode()
        self._empty = 0 if data.strip(b"\r\n") else self._empty + len(data)
        if self._empty > MOST_BYTES:
            raise Bounded(f"it has more than {MOST_BYTES >> 20} MB of empty lines one after the other")
        if self._looking:
            self._look(data)
        else:
            self._ready += data
        return not self._ended or bool(data)

    def _look(self, data: bytes) -> None:
        """Hand out whole lines, up to that of the first quote."""
        quote = data.find(QUOTE)
        self._stopped = quote >= 0
        data = self._tail + data
        stop = len(self._tail) + quote if self._stopped else len(data)
        end = (
            len(data) if self._ended and not self._stopped else 1 + max(data.rfind(e, 0, stop) for e in (b"\n", b"\r"))
        )
        self._ready += data[:end]
        self._tail = data[end:]
        if len(self._tail) > MOST_BYTES + _CHUNK:
            raise Bounded(f"a line is longer than {MOST_BYTES >> 20} MB")


# Fields of several lines --------------------------------------------------------------------------------------------


def of_several_lines(column: pa.Array) -> NDArray[np.int64]:
    """Positions of the texts of a column, as Arrow's CSV reader gives it, that hold a line break; in order."""
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    if data is None or not len(bounds) or bounds[0] == bounds[-1]:
        return np.empty(0, np.int64)
    byte = np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]
    breaks = np.flatnonzero((byte == 10) | (byte == 13)) + bounds[0]
    return np.unique(np.searchsorted(bounds, breaks, "right") - 1)


def lines_of(field: bytes) -> list[bytes]:
    """The lines of a field."""
    return LINE_END.split(field)


def may_hold_rows(lines: list[bytes], place: int, fields: int, delimiter: bytes) -> bool:
    """Whether the field of these lines, at this place in a row of so many fields, may have swallowed other rows.

    That is so where one of the lines that the row stands in has as many delimiters as a row: the first, after the
    fields before; the last, before the fields after; or one between. Of a first field the last line always has, and of
    a last field the first; but what stands after or before them is then of one line, and so of one patient.
    """
    first, *between, last = (line.count(delimiter) for line in lines)
    most = fields - 1
    return (
        (place < most and first >= most - place)
        or any(count >= most for count in between)
        or (place > 0 and last >= place)
    )
