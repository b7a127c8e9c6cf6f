"""Opens a table of rows by its name: CSV, JSONL, Parquet, or a JSON document that is an array of objects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from operations.importers._cells import has_not_finite
from operations.importers._json_stream import JsonBroken, stream_rows
from operations.importers._parquet import parquet_rows
from operations.importers._raw_rows import Damage
from operations.importers._rows import (
    LastRowTorn,
    Row,
    RowMalformed,
    RowReader,
    SourceFormatUnknown,
    SourceHasNoRows,
    SourceRefused,
)
from operations.importers._streams import EvidenceRefused, Opened, opened

FORMATS = (".csv", ".jsonl", ".json", ".parquet")


@dataclass(kw_only=True, eq=False)
class TableUnreadable(SourceRefused):
    """A file as a whole is not what its name says, or cannot be read here."""

    message = "{problem} Give another file than {path}: it can be CSV in UTF-8, JSON, JSON Lines or Parquet."

    problem: str


class Table(Protocol):
    """Rows to be read once; `columns` grow while they are, and `sha256` is known afterwards."""

    path: str
    is_csv: bool
    """Whether cells are text as it is."""
    columns: list[str]
    sha256: str

    def __iter__(self) -> Iterator[Row]: ...


def open_table(path: str) -> Table:
    """Returns the rows of a file; it is opened when iteration begins.

    Raises:
        SourceFormatUnknown: Its name ends in none of `FORMATS`.
    """
    name = path.lower()
    if not name.endswith(FORMATS):
        raise SourceFormatUnknown(path=path, formats=FORMATS)
    return RowReader(path) if name.endswith((".csv", ".jsonl")) else ValueTable(path)


class ValueTable:
    """The rows of a `.json` file (the objects of its array, or of the array `data` of a page) or a `.parquet` one."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_csv = False
        self.columns: list[str] = []
        self.sha256 = ""

    def __iter__(self) -> Iterator[Row]:
        """Yields the rows, holding few at a time.

        Raises:
            SourceRefused: The file or a row cannot be read; the subclass says what is wrong.
        """
        number, known = 0, set[str]()
        with opened(self.path) as source:
            read = self._json if self.path.lower().endswith(".json") else self._parquet
            try:
                for number, value in enumerate(read(source), 1):
                    if has_not_finite(value):
                        reason = "a value in it is NaN, infinite, too large, or bytes that are no text"
                        raise RowMalformed(path=self.path, row=number, reason=reason)
                    self.columns += [name for name in value if name not in known]
                    known.update(value)
                    yield Row(number, value)
            except EvidenceRefused as error:
                raise TableUnreadable(path=self.path, problem=str(error)) from None
            source.counted.drain()
        self.sha256 = source.counted.sha256
        if not number:
            raise SourceHasNoRows(path=self.path)

    def _json(self, source: Opened) -> Iterator[dict[str, Any]]:
        number = 0
        try:
            for number, (pointer, value, _) in enumerate(stream_rows(source.chunks()), 1):
                if not isinstance(value, dict):
                    reason = f"{pointer or 'the document'} is not a JSON object in {{ }}"
                    raise RowMalformed(path=self.path, row=number, reason=reason)
                yield value
        except JsonBroken as error:
            kind = LastRowTorn if "end of the file" in error.reason else RowMalformed
            raise kind(path=self.path, row=number + 1, reason=error.reason) from None

    def _parquet(self, source: Opened) -> Iterator[dict[str, Any]]:
        for row in parquet_rows(source):
            if isinstance(row, Damage):
                raise RowMalformed(path=self.path, row=row.number, reason=row.reason)
            yield row.value
