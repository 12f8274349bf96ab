"""The grammar of a record file: what a time, a parameter and a value may look like, and what a line that fails is.

Each function judges one field as text. The fast reader calls them once for each distinct text of a batch of files, the
careful reader once for each line; the verdict is the same function's either way.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from levyscreen.errors import RecordError
from levyscreen.types import LineClass
from levyscreen.variables import DESCRIPTORS, VariableSet

GRAMMAR_VERSION = 2  # changes what is cached, and no fingerprint: models know the cohorts that they were made of
HEADER = (b"Time", b"Parameter", b"Value")
BLANKS = " \t"  # what may surround a field; str.strip() alone would also take 20 exotic kinds of space
_BYTE_BLANKS = BLANKS.encode()

# One to three digits of hours, and seconds where there are some; [0-9] because \d also takes Arabic digits.
_TIME = re.compile(r"([0-9]{1,3}):([0-5][0-9])(?::([0-5][0-9]))?")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)

FINE = LineClass.READING  # no objection to a field


class Line(NamedTuple):
    """One data line: `number` 1 is the header; `code` as in `parameter_codes`; `refusal` FINE where all fields are."""

    number: int
    minutes: float
    code: int
    value: float
    refusal: LineClass


def parameter_codes(variables: VariableSet) -> dict[str, int]:
    """Each known name's code: a variable's index, and after the last of them the descriptors."""
    return {name: code for code, name in enumerate((*variables.names, *DESCRIPTORS))}


def judge_time(text: str, horizon_hours: float) -> tuple[float, LineClass]:
    """Minutes since admission of `HH:MM`, also written `H:MM` or `HH:MM:SS`."""
    match = _TIME.fullmatch(text.strip(BLANKS))
    if match is None:
        return 0, LineClass.BAD_TIME
    minutes = int(match[1]) * 60 + int(match[2]) + int(match[3] or 0) / 60
    return (minutes, FINE) if minutes <= horizon_hours * 60 else (0, LineClass.OUTSIDE_STAY)


def judge_parameter(text: str, codes: Mapping[str, int]) -> tuple[int, LineClass]:
    """Code of a known name."""
    name = text.strip(BLANKS)
    if name in codes:
        return codes[name], FINE
    return 0, LineClass.UNKNOWN_PARAMETER if name else LineClass.BLANK_PARAMETER


def judge_value(text: str) -> tuple[float, LineClass]:
    """A finite number in any notation of a float; not what Python's `float` takes besides, as 7_3."""
    number = text.strip(BLANKS)
    if _NUMBER.fullmatch(number):
        value = float(number) + 0.0  # -0.0 becomes 0.0: they are equal, and would make the order of rows ambiguous
        return (value, FINE) if math.isfinite(value) else (0.0, LineClass.NOT_FINITE)
    return 0.0, LineClass.NOT_FINITE if _NOT_FINITE.fullmatch(number) else LineClass.NOT_A_NUMBER


def body_of(data: bytes) -> bytes:
    """The data lines of a record file, each ended by one newline, whatever the system that wrote it.

    Raises RecordError if the file is empty, not UTF-8, or does not start with the header.
    """
    if not data.isascii():
        data = _checked_utf8(data)
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    header, _, body = data.partition(b"\n")
    if tuple(field.strip(_BYTE_BLANKS) for field in header.split(b",")) != HEADER:
        raise RecordError("the first line is not Time,Parameter,Value" if data.strip() else "the file is empty")
    body = body.rstrip(b"\n" + _BYTE_BLANKS)
    return body + b"\n" if body else b""


def _checked_utf8(data: bytes) -> bytes:
    try:
        data.decode()
    except UnicodeDecodeError:
        raise RecordError("not UTF-8 text") from None
    return data.removeprefix(b"\xef\xbb\xbf")


def lines_of(body: bytes, codes: Mapping[str, int], horizon_hours: float) -> Iterator[Line]:
    """Every data line of a body, one by one; a line of blanks is none."""
    for number, line in enumerate(io.BytesIO(body), start=2):  # lazily: a file may be nothing but newlines
        text = line.decode().removesuffix("\n")
        if text.strip(BLANKS):
            yield _judge_line(number, text.split(","), codes, horizon_hours)


def _judge_line(number: int, fields: list[str], codes: Mapping[str, int], horizon_hours: float) -> Line:
    if len(fields) != 3:
        return Line(number, 0, 0, 0.0, LineClass.MALFORMED)
    minutes, bad_time = judge_time(fields[0], horizon_hours)
    code, bad_parameter = judge_parameter(fields[1], codes)
    value, bad_value = judge_value(fields[2])
    return Line(number, minutes, code, value, LineClass(bad_time or bad_parameter or bad_value))
