"""A table of a TOML file that knows where it stands: every wrong key is an error that names file, table and key."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, overload

from levyscreen.config import MOST
from levyscreen.errors import CohortError
from levyscreen.names import printable

T = TypeVar("T")
_NEEDED: Any = object()


class Table:
    """Hands out the values of a table by key and kind; what nobody asked for by the end is a mistake."""

    def __init__(self, path: Path, name: str, data: dict[str, Any]) -> None:
        self.path, self.name, self._data = path, name, data
        self._asked: dict[str, None] = {}

    @property
    def data(self) -> dict[str, Any]:
        """The table as it is."""
        return self._data

    def error(self, key: str, what: str) -> CohortError:
        """An error about one key of this table, or about the table itself."""
        where = f"[{self.name}]" if self.name else "at the top"
        return CohortError(f"{self.path}, {printable(f'{where} {key}'.strip())}: {what}")

    def has(self, key: str) -> bool:
        """Whether the key is there."""
        self._asked[key] = None
        return key in self._data

    def keys(self, known: Sequence[str] = ()) -> tuple[str, ...]:
        """All keys, which must be among those `known` if there are any."""
        for key in self._data:
            if known and key not in known:
                raise self._unknown(key, known)
        return tuple(self._data)

    def get(self, key: str, default: Any = _NEEDED) -> Any:
        """The value as it is. Raises CohortError where it is missing and has no default."""
        if self.has(key):
            return self._data[key]
        if default is _NEEDED:
            raise self.error(key, "is missing" + self._near(key, [k for k in self._data if k not in self._asked]))
        return default

    @overload
    def text(self, key: str) -> str: ...
    @overload
    def text(self, key: str, default: T) -> str | T: ...
    def text(self, key: str, default: Any = _NEEDED) -> Any:
        """A text."""
        value = self.get(key, default)
        if value is not default and not isinstance(value, str):
            raise self.error(key, f"must be a text in quotes, not {value!r:.40}")
        return value

    @overload
    def number(self, key: str) -> float: ...
    @overload
    def number(self, key: str, default: T) -> float | T: ...
    def number(self, key: str, default: Any = _NEEDED) -> Any:
        """A number that is finite, and no larger than a model's folder takes."""
        value = self.get(key, default)
        if value is default:
            return value
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MOST:
            raise self.error(key, f"must be a finite number of at most {MOST:g}, not {value!r:.40}")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """true or false."""
        value = self.get(key, default)
        if not isinstance(value, bool):
            raise self.error(key, f"must be true or false, not {value!r:.40}")
        return value

    def texts(self, key: str, default: T) -> tuple[str, ...] | T:
        """A list of texts, or one text alone."""
        value = self.get(key, default)
        if value is default:
            return default
        found = [value] if isinstance(value, str) else value
        if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
            raise self.error(key, f"must be a list of texts in quotes, not {value!r:.40}")
        return tuple(found)

    def one_of(self, key: str, known: Sequence[str], default: str | None = None) -> str:
        """One of a few words."""
        word = self.text(key) if default is None else self.text(key, default)
        if word not in known:
            raise self.error(key, f"is {word!r:.40}, which is none of {', '.join(known)}")
        return word

    def table(self, key: str, default: Any = _NEEDED) -> Table:
        """A table in this table."""
        value = self.get(key, default)
        if not isinstance(value, dict):
            raise self.error(key, f"must be a table, not {value!r:.40}")
        return Table(self.path, f"{self.name}.{key}" if self.name else key, value)

    def tables(self, key: str) -> list[Table]:
        """A list of tables in this table; none where the key is missing."""
        value = self.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.error(key, f"must be a list of tables, not {value!r:.40}")
        return [Table(self.path, f"{self.name}.{key}", item) for item in value]

    def done(self) -> None:
        """Raises CohortError for a key that nobody asked for, with the nearest one that was."""
        for key in self._data:
            if key not in self._asked:
                raise self._unknown(key, list(self._asked))

    def _unknown(self, key: str, known: Sequence[str]) -> CohortError:
        return self.error(key, f"is no key here{self._near(key, known) or '; known are ' + ', '.join(known)}")

    @staticmethod
    def _near(key: str, known: Sequence[str]) -> str:
        near = difflib.get_close_matches(key, known, 1)
        return f"; did you mean {near[0]}?" if near else ""
