"""A row as it was read from an export, and a row that could not be."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from operations.importers._streams import EvidenceRefused

MAX_KEY = 1024
"""Characters of a field's name in a row."""

MAX_FIELDS = 5_000
"""Fields of one row, and columns of a table."""

_QUOTED = re.compile(r'"[^"]*"?')


@dataclass(kw_only=True, eq=False)
class TooManyColumns(EvidenceRefused):
    """A table is wider than any export's."""

    message = "{path} has more than {limit} columns. Nothing was stored. Export only the fields that are needed."

    path: str
    limit: int = MAX_FIELDS


@dataclass(kw_only=True, eq=False)
class HeaderUnusable(EvidenceRefused):
    """A table does not name its columns as it has to."""

    message = (
        "The header of {path} cannot be used: {reason}. Nothing was stored. Give each column a name of its own, and "
        "save the file as UTF-8."
    )

    path: str
    reason: str


@dataclass(slots=True)  # frozen ones take several times as long to make
class RawRow:
    """A row as it was read. `raw` is its JSON where the file holds that as one line."""

    number: int
    line: int | None
    pointer: str | None
    value: dict[str, Any]
    raw: bytes | None = None
    plain: bool = True
    """Whether the fast parser gave the value: then every number in it is one."""
    around: dict[str, Any] | None = None
    """The members of the document that came before the array in which the row stands."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A row that could not be read.

    `torn`: the file ends inside it, as an interrupted append leaves it. `rest`: nothing that follows could be read.
    """

    number: int
    line: int | None
    reason: str
    torn: bool = False
    rest: bool = False


def separator_of(header: str) -> str:
    """Returns what parts the cells of a table: a comma, or a semicolon or a tab where its first line has no comma."""
    bare = _QUOTED.sub("", header)
    return next((mark for mark in (",", ";", "\t") if mark in bare), ",")


def check_names(path: str, names: list[str]) -> None:
    """Says whether the columns of a table can be told apart.

    Raises:
        TooManyColumns: There are too many.
        HeaderUnusable: A name is too long, or is there twice.
    """
    if len(names) > MAX_FIELDS:
        raise TooManyColumns(path=path)
    if long := [name for name in names if len(name) > MAX_KEY]:
        raise HeaderUnusable(path=path, reason=f"a column's name is {len(long[0])} characters long")
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise HeaderUnusable(path=path, reason=f"it names {twice[:80]!r} more than once")
