"""Opens a table of rows by its name: CSV, JSONL, or a JSON document that is an array of objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from operations.importers._cells import has_not_finite
from operations.importers._json_stream import JsonBroken, stream_rows
from operations.importers._rows import LastRowTorn, Row, RowMalformed, RowReader, SourceFormatUnknown, SourceHasNoRows
from operations.importers._streams import opened

FORMATS = (".csv", ".jsonl", ".json")


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
    return JsonTable(path) if name.endswith(".json") else RowReader(path)


class JsonTable:
    """The rows of a `.json` file: the objects of its array, or of the array `data` of a page."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_csv = False
        self.columns: list[str] = []
        self.sha256 = ""

    def __iter__(self) -> Iterator[Row]:
        """Yields the rows, holding one at a time.

        Raises:
            SourceRefused: The file or a row cannot be read; the subclass says what is wrong.
        """
        number, known = 0, set[str]()
        with opened(self.path) as source:
            try:
                for number, (pointer, value, _) in enumerate(stream_rows(source.chunks()), 1):
                    row = self._object(value, number, pointer)
                    self.columns += [name for name in row if name not in known]
                    known.update(row)
                    yield Row(number, row)
            except JsonBroken as error:
                kind = LastRowTorn if "end of the file" in error.reason else RowMalformed
                raise kind(path=self.path, row=number + 1, reason=error.reason) from None
            source.counted.drain()
        self.sha256 = source.counted.sha256
        if not number:
            raise SourceHasNoRows(path=self.path)

    def _object(self, value: Any, number: int, pointer: str) -> dict[str, Any]:  # noqa: ANN401 - any JSON
        if not isinstance(value, dict):
            reason = f"{pointer or 'the document'} is not a JSON object in {{ }}"
            raise RowMalformed(path=self.path, row=number, reason=reason)
        if has_not_finite(value):
            raise RowMalformed(path=self.path, row=number, reason="a number in it is NaN, infinite or too large")
        return value
