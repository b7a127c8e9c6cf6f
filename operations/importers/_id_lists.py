"""Reads the user's own list of ids, such as the traces of forty complaints, from a call or a file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from operations.importers._rows import MAX_LINE, SourceHasNoRows, SourceNotUtf8, SourceRefused, open_regular
from operations.importers._tables import open_table
from storage.masking import Masker
from storage.schema.selections import IdSource

USUAL = {"trace": ("trace_id", "traceId"), "session": ("session_id", "sessionId"), "user": ("user_id", "userId")}
"""What a column of ids is usually called."""

DEFAULT_KINDS = ("trace", "session", "record")


@dataclass(kw_only=True, eq=False)
class IdsColumnMissing(SourceRefused):
    """It is not known which column of a file holds the ids."""

    message = (
        "{path} has no column {column!r} to read ids from. Its columns are {columns}. Give ids_column one of them."
    )

    column: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Ids:
    """Ids as the store has them, masked, and where they came from."""

    ids: frozenset[str]
    source_name: str | None = None
    column: str | None = None
    sha256: str = ""

    def source(self, unmatched: int) -> IdSource:
        """Returns what a selection keeps of the list."""
        return IdSource(
            source_name=self.source_name,
            column=self.column,
            sha256=self.sha256,
            given=len(self.ids),
            unmatched=unmatched,
        )


def given_ids(ids: Sequence[str], masker: Masker) -> Ids:
    """Returns ids that were given in a call; blank ones are none."""
    kept = frozenset(str(masker.text(one.strip())) for one in ids if one.strip())
    digest = hashlib.sha256("".join(f"{one}\n" for one in sorted(kept)).encode("utf-8", "surrogatepass"))
    return Ids(kept, sha256=digest.hexdigest())


def asked_ids(
    ids: Sequence[str], path: str | None, column: str | None, kinds: Sequence[str], masker: Masker
) -> Ids | None:
    """Returns the ids of a call, those of a file, or both together; None where neither is given.

    Raises:
        SourceRefused: The file cannot be read; the subclass says why.
    """
    if path is None:
        return given_ids(ids, masker) if ids else None
    found = ids_of(path, column, kinds, masker)
    return replace(found, ids=found.ids | given_ids(ids, masker).ids)


def ids_of(path: str, column: str | None, kinds: Sequence[str], masker: Masker) -> Ids:
    """Returns the ids in a file: a column of a table, or the lines of a `.txt` file.

    Raises:
        IdsColumnMissing: The table has no column of that name, or several and none of them is usual.
        SourceRefused: The file cannot be read; the subclass says why.
    """
    if path.lower().endswith(".txt"):
        return _lines_of(path, masker)
    table = open_table(path)
    found: set[str] = set()
    chosen = column
    for row in table:
        chosen = chosen or _usual(list(row.values), kinds)
        if chosen is None or (table.is_csv and chosen not in row.values):
            raise IdsColumnMissing(path=path, column=column or "trace_id", columns=tuple(row.values))
        if text := _text(row.values.get(chosen)):
            found.add(str(masker.text(text)))
    if chosen not in table.columns:
        raise IdsColumnMissing(path=path, column=str(chosen), columns=tuple(table.columns))
    if not found:
        raise SourceHasNoRows(path=path)
    return Ids(frozenset(found), os.path.basename(path), chosen, table.sha256)


def _lines_of(path: str, masker: Masker) -> Ids:
    found: set[str] = set()
    hashed = hashlib.sha256()
    offset = 0
    with open_regular(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE), b""), 1):
            hashed.update(line)
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            except UnicodeDecodeError as error:
                place = offset + error.start
                byte = f"0x{line[error.start]:02x}"
                raise SourceNotUtf8(path=path, row=number, offset=place, byte=byte) from None
            offset += len(line)
            if text:
                found.add(str(masker.text(text)))
    if not found:
        raise SourceHasNoRows(path=path)
    return Ids(frozenset(found), os.path.basename(path), None, hashed.hexdigest())


def _usual(columns: Sequence[str], kinds: Sequence[str]) -> str | None:
    """Returns the only column, or the one that has the usual name of what is looked for."""
    if len(columns) == 1:
        return columns[0]
    names = [name for kind in kinds for name in (*USUAL.get(kind, ()), f"{kind}_id")]
    return next((name for name in names if name in columns), None)


def _text(value: Any) -> str:  # noqa: ANN401 - any JSON
    return value.strip() if isinstance(value, str) else "" if value is None or isinstance(value, bool) else str(value)
