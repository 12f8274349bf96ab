"""What happens to a file between the ward and the reader: seeded damage to bytes and lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Draw = np.random.Generator
Mutation = Callable[[Draw, bytes, bytes], bytes]  # of a file, another one of the same kind beside it

# What foreign tools write, and what has broken readers elsewhere.
MORSELS = (
    *(b"\x00", b"\r", b"\n", b"\r\n", b",", b'"', b"\xff", b"\xef\xbb\xbf", b"\xc2\x85", b"\xe2\x80\xa8", b"\x1b[31m"),
    *(b"nan", b"inf", b"1e400", b"-1", b"7_3", b"0x1F", b"\xd9\xa3", b"1.25e+04", b"48:00", b"48:01", b"120:00"),
    *(b"00:00,RecordID,132547\n", b"00:07,HR,73\n", b"00:07,,1\n", b"\n\n", b" \t\n", b"Time,Parameter,Value\n"),
    *(b"x" * 70_000, b"=1+1", b"00:07,pH,735\n", b"00:07,Weight,-1\n", b"-0.0", b"9" * 400),
)


def span(draw: Draw, data: bytes, most: int = 400) -> tuple[int, int]:
    """A place in `data`, and another one at most so many bytes after it."""
    start = int(draw.integers(len(data) + 1))
    return start, min(len(data), start + int(draw.integers(1, most)))


def flip(draw: Draw, data: bytes, other: bytes) -> bytes:
    """A few bits."""
    changed = bytearray(data)
    for place in draw.integers(len(data), size=int(draw.integers(1, 6))) if data else ():
        changed[place] ^= 1 << int(draw.integers(8))
    return bytes(changed)


def delete(draw: Draw, data: bytes, other: bytes) -> bytes:
    """Some bytes are gone."""
    start, stop = span(draw, data)
    return data[:start] + data[stop:]


def insert(draw: Draw, data: bytes, other: bytes) -> bytes:
    """A morsel, a few times."""
    morsel = MORSELS[int(draw.integers(len(MORSELS)))]
    for _ in range(int(draw.integers(1, 5))):
        place = int(draw.integers(len(data) + 1))
        data = data[:place] + morsel + data[place:]
    return data


def replace(draw: Draw, data: bytes, other: bytes) -> bytes:
    """One field gives way to a morsel."""
    fields = data.split(b",")
    fields[int(draw.integers(len(fields)))] = MORSELS[int(draw.integers(len(MORSELS)))]
    return b",".join(fields)


def swap(draw: Draw, data: bytes, other: bytes) -> bytes:
    """Two lines change places, be one of them the header."""
    lines = data.split(b"\n")
    one, two = draw.integers(len(lines), size=2)
    lines[one], lines[two] = lines[two], lines[one]
    return b"\n".join(lines)


def splice(draw: Draw, data: bytes, other: bytes) -> bytes:
    """The beginning of one file, the end of another."""
    return data[: span(draw, data)[0]] + other[span(draw, other)[0] :]


def cut(draw: Draw, data: bytes, other: bytes) -> bytes:
    """The end is gone."""
    return data[: span(draw, data)[0]]


def double(draw: Draw, data: bytes, other: bytes) -> bytes:
    """A block stands there again, up to twenty times."""
    start, stop = span(draw, data, 4000)
    return data[:stop] + data[start:stop] * int(draw.integers(1, 20)) + data[stop:]


def recode(draw: Draw, data: bytes, other: bytes) -> bytes:
    """The same text in another encoding, or with other line ends."""
    text = data.decode(errors="replace")
    return [
        text.encode("utf-16"),
        text.encode("utf-8-sig"),
        text.replace("a", "ä").encode("latin-1", "replace"),
        text.replace("\n", "\r\n").encode(),
        text.replace("\n", "\r").encode(),
        text.replace(",", ";").encode(),
        text.replace(",", '","').encode(),
    ][int(draw.integers(7))]


ALL: Sequence[Mutation] = (flip, delete, insert, replace, swap, splice, cut, double, recode)


def mutated(draw: Draw, data: bytes, other: bytes, most: int = 3) -> bytes:
    """One to `most` of these, one after the other."""
    for _ in range(int(draw.integers(1, most + 1))):
        data = ALL[int(draw.integers(len(ALL)))](draw, data, other)
    return data
