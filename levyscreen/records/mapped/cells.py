"""Columns of somebody's table as labels and numbers; each distinct text is judged once, by the grammar."""

from __future__ import annotations

import decimal
import math
import re
import uuid
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from levyscreen.errors import CohortError
from levyscreen.records import quoting
from levyscreen.records.grammar import BLANKS, FINE, judge_value
from levyscreen.types import LineClass

# How tables write that there is nothing; \N is that of databases, #N/A of spreadsheets.
EMPTY = frozenset({"", "na", "nan", "nat", "null", "(null)", "none", "<na>", "n/a", "#n/a", "\\n", "."})
_EXACT = {16: 1 << 11, 32: 1 << 24, 64: 1 << 53}  # bits of a float: from here on it skips whole numbers
_ROUNDED = re.compile(r"[+-]?[0-9](?:[.,][0-9]+[eE]\+?|[eE]\+)[0-9]+")  # 1.23E+17 of Excel, 1e+05 of R
_WHOLE_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)\.0")
THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}[,.][0-9]{3}")  # 12,000 is more likely twelve thousand
_PLAIN = {sign: rf"^-?[0-9]{{1,15}}(?:{re.escape(sign)}[0-9]{{1,15}})?$" for sign in (".", ",")}
_SWAPPED = str.maketrans(",.", ".,")


class Words(NamedTuple):
    """A column by its distinct texts: `words[which[i]]` is that of row i, blanks around it cut off; "" for none."""

    which: NDArray[np.int64]  # (N,)
    words: list[str]


class Numbers(NamedTuple):
    """A column as numbers, (N,) each."""

    value: NDArray[np.float64]
    refusal: NDArray[np.uint8]  # LineClass; FINE where it is a finite number
    empty: NDArray[np.bool_]  # whether nothing is there, which a wide table writes for "not measured"


def words(column: pa.Array) -> Words:
    """Labels, codes or categories; whole numbers lose what a float adds to them, so that 7 and 7.0 are one.

    Raises CohortError for a column of lists or the like.
    """
    if pt.is_nested(column.type):
        raise CohortError(
            f"a column holds {quoting.kind(column.type)}, neither numbers nor texts: name another in [columns]"
        )
    coded = column if pt.is_dictionary(column.type) else column.dictionary_encode()
    if pt.is_fixed_size_binary(coded.dictionary.type):
        texts = [_hexadecimal(value) for value in coded.dictionary.to_pylist()]
    elif not pt.is_large_string(coded.dictionary.type) and not pt.is_string(coded.dictionary.type):
        texts = [_label(value) for value in _plain(coded.dictionary)]
    else:
        texts = [(text or "").strip(BLANKS) for text in coded.dictionary.to_pylist()]
    which = coded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False).astype(np.int64)
    return Words(which, [*texts, ""])


def _plain(column: pa.Array) -> list[Any]:
    """Python's values; of times beyond its calendar the numbers that stand for them."""
    try:
        found: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        found = column.view(pa.int32() if column.type.bit_width == 32 else pa.int64()).to_pylist()
    return found


def _hexadecimal(value: bytes | None) -> str:
    """16 bytes as the UUID that they most likely are."""
    if value is None:
        return ""
    return str(uuid.UUID(bytes=value)) if len(value) == 16 else value.hex()


def _label(value: Any) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, float | decimal.Decimal) and math.isfinite(value) and value == int(value):
        return str(int(value))
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def ids(column: pa.Array, name: str) -> Words:
    """Labels of records or subjects: 7.0 is 7 in text too, where pandas had made a float of it, and NA is none.

    Raises CohortError where they are numbers that a float has rounded, and so may be those of several.
    """
    found = words(column)
    refuse_rounded(column, name, found)
    return Words(found.which, [_id(word) for word in found.words])


def _id(word: str) -> str:
    if word.lower() in EMPTY:
        return ""
    return word[:-2] if _WHOLE_FLOAT.fullmatch(word) else word


def refuse_rounded(column: pa.Array, name: str, labels: Words) -> None:
    """Raises CohortError where a column of labels holds floats from the size on at which they skip whole numbers."""
    values = column.dictionary if pt.is_dictionary(column.type) else column
    kind = values.type
    if pt.is_floating(kind):
        limit, found = _EXACT[kind.bit_width], np.abs(values.to_numpy(zero_copy_only=False))
        if (found[np.isfinite(found)] >= limit).any():
            raise _rounded(
                name, f"floats of {kind.bit_width} bits, which cannot tell whole numbers from {limit:,} on apart"
            )
    elif is_text(kind) and any(_ROUNDED.fullmatch(word) or _is_long_float(word) for word in labels.words):
        raise _rounded(name, "numbers that a program has rounded, such as 1.23E+17 or 9007199254740993.0")


def _is_long_float(word: str) -> bool:
    return bool(_WHOLE_FLOAT.fullmatch(word)) and abs(int(word[:-2])) >= _EXACT[64]


def _rounded(name: str, what: str) -> CohortError:
    return CohortError(
        f"column {name!r} holds {what}: two ids may have become one; export the ids as whole numbers or as text"
    )


def numbers(column: pa.Array, name: str, decimal: str = ".") -> Numbers:
    """Values; `decimal` is "." or "," and of texts. Raises CohortError for a column of neither numbers nor texts.

    The error calls the column by `name`, which is the mapping's word for it, never the file's own.
    """
    kind = column.type
    if is_text(kind):
        return _judged(words(column), decimal)
    if pt.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif not is_number(kind):
        raise CohortError(
            f"the column {name} holds {quoting.kind(kind)}, neither numbers nor texts: name another, or ignore it"
        )
    value = (
        exact_decimals(column)
        if pt.is_float32(kind)
        else column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    )
    null = column.is_null().to_numpy(zero_copy_only=False)
    refusal = np.where(np.isfinite(value), FINE, LineClass.NOT_FINITE).astype(np.uint8)
    refusal[null] = LineClass.NOT_A_NUMBER
    return Numbers(np.where(refusal == FINE, value, 0.0) + 0.0, refusal, null | np.isnan(value))


def can_be_numbers(kind: pa.DataType) -> bool:
    """Whether `numbers` takes a column of this type."""
    return is_text(kind) or bool(pt.is_boolean(kind)) or is_number(kind)


def is_number(kind: pa.DataType) -> bool:
    """Whether a column of this type holds numbers, or nothing."""
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind) or pt.is_null(kind))


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds texts."""
    return bool(pt.is_dictionary(kind) or pt.is_string(kind) or pt.is_large_string(kind))


def _judged(found: Words, decimal: str) -> Numbers:
    """Plain decimal numbers at once, whatever else may be a number one by one."""
    texts = pa.array(found.words, pa.large_string())
    plain = pc.match_substring_regex(texts, _PLAIN[decimal]).to_numpy(zero_copy_only=False)
    pointed = pc.replace_substring(texts.filter(pa.array(plain)), ",", ".")
    value = np.zeros(len(texts))
    value[plain] = pc.cast(pointed, pa.float64()).to_numpy(zero_copy_only=False) + 0.0
    refusal = np.full(len(texts), FINE, np.uint8)
    empty = np.zeros(len(texts), bool)
    for i in np.flatnonzero(~plain).tolist():
        value[i], refusal[i] = judge(found.words[i], decimal)
        empty[i] = found.words[i].lower() in EMPTY
    return Numbers(value[found.which], refusal[found.which], empty[found.which])


def judge(word: str, decimal: str) -> tuple[float, LineClass]:
    """With a decimal comma a point is no part of a number: 1.234 may be a thousand or one."""
    return judge_value(word if decimal == "." else word.translate(_SWAPPED))


def has_other_decimal(column: pa.Array, decimal: str) -> NDArray[np.bool_]:
    """Which values are texts that would be numbers if the decimal sign were the other one, (N,)."""
    if not is_text(column.type):
        return np.zeros(len(column), bool)
    found = words(column)
    other = "." if decimal == "," else ","
    looks = [other in word and not THOUSANDS.fullmatch(word) and judge(word, other)[1] == FINE for word in found.words]
    return np.array(looks)[found.which]


def pointed(column: pa.Array) -> pa.Array:
    """A column whose texts that are numbers with a decimal comma have a point instead."""
    if not is_text(column.type):
        return column
    found = words(column)
    swapped = [word.replace(",", ".") if "," in word and judge(word, ",")[1] == FINE else word for word in found.words]
    return pa.array(swapped, pa.string()).take(pa.array(found.which))


def exact_decimals(column: pa.Array) -> NDArray[np.float64]:
    """A float32 as the shortest decimal number that is that float32: 36.6, which was written, and not 36.599998."""
    coded = column.dictionary_encode()
    distinct = coded.dictionary.to_numpy(zero_copy_only=False)
    exact = np.append(distinct.astype(str).astype(np.float64), np.nan)
    return exact[coded.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False)]
