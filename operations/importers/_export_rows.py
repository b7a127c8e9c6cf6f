"""Reads the rows of an export one at a time, whatever its format; what cannot be read is told with its place."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator
from itertools import chain

from operations.importers._json_lines import blocks, rows_of_block
from operations.importers._json_stream import JsonBroken, stream_rows
from operations.importers._json_values import why
from operations.importers._parquet import parquet_rows
from operations.importers._raw_rows import (
    MAX_FIELDS,
    MAX_KEY,
    Damage,
    HeaderUnusable,
    RawRow,
    TooManyColumns,
    check_names,
    separator_of,
)
from operations.importers._rows import MAX_LINE, long_cells
from operations.importers._streams import ExportFormatUnknown, Opened, format_of

__all__ = ["MAX_FIELDS", "MAX_KEY", "Damage", "HeaderUnusable", "RawRow", "TooManyColumns", "rows_of"]

AT_ONCE = 100
"""Rows of a CSV that are read together."""


def rows_of(opened: Opened) -> Iterator[RawRow | Damage]:
    """Yields the rows of an open export.

    Raises:
        EvidenceRefused: The file as a whole cannot be read; the subclass says why.
    """
    match format_of(opened.path):
        case "jsonl":
            return _jsonl(opened)
        case "json":
            return _json(opened)
        case "csv":
            return _csv(opened)
        case "parquet":
            return parquet_rows(opened)
        case _:
            raise ExportFormatUnknown(path=opened.path)


# -- JSONL -------------------------------------------------------------------------------------------------------------


def _jsonl(opened: Opened) -> Iterator[RawRow | Damage]:
    for block in blocks(opened):
        yield from rows_of_block(block)


# -- JSON --------------------------------------------------------------------------------------------------------------


def _json(opened: Opened) -> Iterator[RawRow | Damage]:
    number = 0
    try:
        for number, (pointer, value, around) in enumerate(stream_rows(opened.chunks()), 1):
            if isinstance(value, dict):
                yield RawRow(number, None, pointer, value, None, plain=False, around=around)
            else:
                yield Damage(number, None, f"{pointer or 'the document'} is not a JSON object in {{ }}")
    except JsonBroken as error:
        yield Damage(number + 1, None, error.reason, rest=True)


# -- CSV ---------------------------------------------------------------------------------------------------------------


class _Decoder:
    """Decodes UTF-8; a byte that is none becomes half a surrogate pair, so that only its row is lost."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self.escaped = False
        """Whether there was such a byte."""

    def decode(self, chunk: bytes, *, final: bool = False) -> str:
        try:
            return self._decoder.decode(chunk, final)
        except UnicodeDecodeError:
            self._decoder.errors = "surrogateescape"
            self.escaped = True
            return self._decoder.decode(chunk, final)

    def wrong(self, cells: list[str]) -> str | None:
        """Returns what is wrong with the text of a row, if anything."""
        for cell in cells if self.escaped else ():
            try:
                cell.encode()
            except UnicodeEncodeError as error:
                return f"it is not UTF-8 (byte 0x{ord(cell[error.start]) - 0xDC00:02x})"
        return None


def _text_lines(opened: Opened, decoder: _Decoder) -> Iterator[str]:
    rest = ""
    for chunk in opened.chunks():
        text = rest + decoder.decode(chunk)
        *lines, rest = text.split("\n")
        if len(rest) > MAX_LINE:
            raise ValueError(f"a line is longer than {MAX_LINE} characters")
        for line in lines:
            yield line + "\n"
    rest += decoder.decode(b"", final=True)
    if rest:
        yield rest


def _csv(opened: Opened) -> Iterator[RawRow | Damage]:
    header: list[str] | None = None
    number, line = 0, 1
    decoder = _Decoder()
    try:
        for line, cells in _cells(_text_lines(opened, decoder)):
            wrong = decoder.wrong(cells)
            if header is None:
                if wrong is not None:
                    raise HeaderUnusable(path=opened.path, reason=wrong)
                check_names(opened.path, cells)
                header = cells
            elif cells:
                number += 1
                if wrong is not None:
                    yield Damage(number, line, wrong)
                elif len(cells) == len(header):
                    yield RawRow(number, line, None, dict(zip(header, cells, strict=True)), None)
                else:
                    yield Damage(number, line, f"it has {len(cells)} cells and the header has {len(header)}")
    except (csv.Error, ValueError) as error:
        yield Damage(number + 1, line + 1, f"{why(error)}; nothing after it can be told apart", rest=True)


def _cells(lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
    """Yields each row's first line and its cells. Some are read at once, since `csv`'s limit is the whole process's."""
    header = next(lines, "")
    reader = csv.reader(chain((header,), lines), strict=True, delimiter=separator_of(header))
    wrong: Exception | None = None
    ended = False
    while not ended:
        some: list[tuple[int, list[str]]] = []
        with long_cells():
            try:
                while len(some) < AT_ONCE and not ended:
                    line = reader.line_num + 1
                    cells = next(reader, None)
                    ended = cells is None
                    some += [] if cells is None else [(line, cells)]
            except (csv.Error, ValueError) as error:
                wrong, ended = error, True
        yield from some
    if wrong is not None:
        raise wrong
