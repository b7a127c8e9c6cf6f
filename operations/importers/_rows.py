"""Reads the rows of a CSV or JSONL file as they are: no type is guessed, nothing is skipped in silence."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import os
import re
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar

from storage.errors import AtkError, NextCall

MAX_DEPTH = 100
"""Objects and arrays inside one another in one row of JSON."""

MAX_LINE = 64 * 1024 * 1024
"""Bytes in one line."""

_BOM = b"\xef\xbb\xbf"
_FIELD_LIMIT = threading.Lock()
"""Held while `csv`'s limit, which is one for the whole process, is raised."""


@dataclass(kw_only=True, eq=False)
class SourceRefused(AtkError):
    """Base of what is wrong with a file that was given."""

    next_calls: ClassVar[tuple[NextCall, ...]] = (
        NextCall("store_dataset", supply={"source": "a file that can be read whole"}),
        NextCall("store_assessment", supply={"rows": "rows that can be read whole"}),
        NextCall(
            "import_evidence",
            {"dry_run": True},
            {"source": "a file that can be read whole", "source_kind": "what it is"},
        ),
        NextCall("find_records", supply={"ids_file": "a file that can be read whole"}),
    )

    path: str
    read_by: str = ""
    """The operation that was to read the file, where only one was."""

    @property
    def next(self) -> tuple[NextCall, ...]:
        """The call that was made, with another file; every one that reads files where that is not known."""
        return tuple(call for call in super().next if self.read_by in ("", call.tool)) or super().next


@contextmanager
def read_by(tool: str) -> Iterator[None]:
    """Lets what is wrong with a file lead back to the operation that was to read it."""
    try:
        yield
    except SourceRefused as error:
        error.read_by = tool
        raise


@dataclass(kw_only=True, eq=False)
class SourceNotRegular(SourceRefused):
    """Only a regular file is read: a device, a pipe or a folder could hang or never end."""

    message = "{path} cannot be read: it {reason}. Give a regular file."

    reason: str


@dataclass(kw_only=True, eq=False)
class SourceFormatUnknown(SourceRefused):
    """The file's name does not say that it is in a format that is read."""

    message = (
        "{path} is in no format that is read here: {formats}. Save it as CSV in UTF-8, or with one JSON object to a "
        "line as .jsonl."
    )

    formats: tuple[str, ...] = (".csv", ".jsonl")


@dataclass(kw_only=True, eq=False)
class SourceHasNoRows(SourceRefused):
    """An empty file is not an empty result."""

    message = "{path} has no rows, so there is nothing to store. Give a file with at least one row."


@dataclass(kw_only=True, eq=False)
class SourceNotUtf8(SourceRefused):
    """The bytes are not UTF-8, and no other encoding is guessed."""

    message = "{path} is not UTF-8: byte {offset} ({byte}) in row {row} cannot be read. Save the file as UTF-8."

    row: int
    offset: int
    byte: str


@dataclass(kw_only=True, eq=False)
class SourceHasNul(SourceRefused):
    """A NUL byte is in no text."""

    message = "{path} has a NUL byte at byte {offset}, in row {row}. Take it out, or save the file as UTF-8 text."

    row: int
    offset: int


@dataclass(kw_only=True, eq=False)
class RowTooLong(SourceRefused):
    """One line is longer than is read at once."""

    message = "Row {row} of {path} is longer than {limit} bytes. Put large content into attachments."

    row: int
    limit: int = MAX_LINE


@dataclass(kw_only=True, eq=False)
class RowMalformed(SourceRefused):
    """A row cannot be read, so none of the file is taken."""

    message = (
        "Row {row} of {path} cannot be read: {reason}. Nothing was stored. Correct the row and give the file again."
    )

    row: int
    reason: str


@dataclass(kw_only=True, eq=False)
class LastRowTorn(SourceRefused):
    """The file ends inside a row, as an export does that was cut short."""

    message = "{path} ends inside row {row}: {reason}. The file was cut short. Nothing was stored; export it again."

    row: int
    reason: str


@dataclass(kw_only=True, eq=False)
class RowTooDeep(SourceRefused):
    """A row's JSON is nested deeper than is read."""

    message = "Row {row} of {path} nests objects and arrays deeper than {limit}. Flatten it."

    row: int
    limit: int = MAX_DEPTH


@dataclass(frozen=True)
class Row:
    """One row of data: its number from 1, not counting a header or blank lines, and its values by column."""

    number: int
    values: dict[str, Any]


@contextmanager
def long_cells() -> Iterator[None]:
    """Lets `csv` read cells as long as a line may be, and puts its limit back."""
    with _FIELD_LIMIT:
        before = csv.field_size_limit(MAX_LINE)
        try:
            yield
        finally:
            csv.field_size_limit(before)


_HOLLOW_RATIO = 200
_HOLLOW = f"is a sparse file: less than a {_HOLLOW_RATIO}th of it is on the disk, which is so of no export"


def open_regular(path: str) -> BinaryIO:
    """Opens a regular file for reading; a link is followed once, and nothing that could block is opened.

    Raises:
        SourceNotRegular: There is no regular file at `path`, or it may not be read.
    """
    try:
        fd = os.open(os.path.realpath(path), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SourceNotRegular(path=path, reason=f"cannot be opened ({reason})") from None
    about = os.fstat(fd)
    wrong = "is not a regular file" if not stat.S_ISREG(about.st_mode) else _HOLLOW if _is_hollow(about) else None
    if wrong:
        os.close(fd)
        raise SourceNotRegular(path=path, reason=wrong)
    return os.fdopen(fd, "rb")


def _is_hollow(about: os.stat_result) -> bool:
    """Whether a file is a hole: it would be read for minutes, and holds nothing."""
    return about.st_size > MAX_LINE and about.st_blocks * 512 * _HOLLOW_RATIO < about.st_size


class RowReader:
    """The rows of one `.csv` or `.jsonl` file. Iterate once; then `sha256` is that of the bytes that were read.

    CSV is UTF-8 with a header, with or without a BOM; cells are text as it is, line ends inside them too. JSONL is
    split at line feeds only; blank lines, CRLF, a BOM and a missing last line feed are accepted.
    """

    def __init__(self, path: str) -> None:
        """Checks the file's name; the file is opened when iteration begins.

        Raises:
            SourceFormatUnknown: The name ends in neither `.csv` nor `.jsonl`.
        """
        self.path = path
        self.name = os.path.basename(path)
        self.is_csv = self.name.lower().endswith(".csv")
        if not self.is_csv and not self.name.lower().endswith(".jsonl"):
            raise SourceFormatUnknown(path=path)
        self.columns: list[str] = []
        """The columns so far, in the order they were met."""
        self.sha256 = ""
        self._row = 1

    def __iter__(self) -> Iterator[Row]:
        """Yields the rows.

        Raises:
            SourceRefused: The file or a row cannot be read; the subclass says what is wrong.
        """
        hashed = hashlib.sha256()
        with open_regular(self.path) as file:
            lines = self._lines(file, hashed)
            for row in self._csv(lines) if self.is_csv else self._jsonl(lines):
                self._row = row.number + 1
                yield row
        self.sha256 = hashed.hexdigest()
        if self._row == 1:
            raise SourceHasNoRows(path=self.path)

    def _lines(self, file: BinaryIO, hashed: Any) -> Iterator[str]:  # noqa: ANN401 - hashlib has no type for a hash
        offset = 0
        while line := file.readline(MAX_LINE + 1):
            hashed.update(line)
            if (nul := line.find(b"\0")) >= 0:
                raise SourceHasNul(path=self.path, row=self._row, offset=offset + nul)
            if len(line) > MAX_LINE:
                raise RowTooLong(path=self.path, row=self._row)
            skip = len(_BOM) if offset == 0 and line.startswith(_BOM) else 0
            try:
                yield line[skip:].decode("utf-8")
            except UnicodeDecodeError as error:
                at = skip + error.start
                raise SourceNotUtf8(
                    path=self.path, row=self._row, offset=offset + at, byte=f"0x{line[at]:02x}"
                ) from None
            offset += len(line)

    # -- CSV -----------------------------------------------------------------------------------------------------------

    def _csv(self, lines: Iterator[str]) -> Iterator[Row]:
        reader = csv.reader(lines, strict=True)
        header = self._csv_row(reader)
        if header is None:
            return
        self.columns = header
        named = [name for name in header if name]
        if twice := sorted({name for name in named if named.count(name) > 1}):
            raise RowMalformed(path=self.path, row=1, reason=f"the header names {', '.join(twice)} more than once")
        number = 0
        while (cells := self._csv_row(reader)) is not None:
            if not cells:
                continue
            number += 1
            if len(cells) != len(header):
                raise RowMalformed(
                    path=self.path, row=number, reason=f"it has {len(cells)} cells and the header has {len(header)}"
                )
            yield Row(number, {name: cell for name, cell in zip(header, cells, strict=True) if name})

    def _csv_row(self, reader: Any) -> list[str] | None:  # noqa: ANN401 - csv's reader has no public type
        try:
            with long_cells():
                row: list[str] | None = next(reader, None)
        except csv.Error as error:
            kind = LastRowTorn if "unexpected end of data" in str(error) else RowMalformed
            raise kind(path=self.path, row=self._row, reason=str(error)) from None
        return row

    # -- JSONL ---------------------------------------------------------------------------------------------------------

    def _jsonl(self, lines: Iterator[str]) -> Iterator[Row]:
        number, known = 0, set[str]()
        for line in lines:
            if not line.strip(" \t\r\n"):
                continue
            number += 1
            value = self._object(line, number)
            self.columns += [name for name in value if name not in known]
            known.update(value)
            yield Row(number, value)

    def _object(self, line: str, number: int) -> dict[str, Any]:
        try:
            value = strict_json(line)
        except JsonTooDeep:
            raise RowTooDeep(path=self.path, row=number) from None
        except json.JSONDecodeError as error:
            kind = RowMalformed if line.endswith("\n") else LastRowTorn
            raise kind(
                path=self.path, row=number, reason=f"it is not JSON ({error.msg}, column {error.colno})"
            ) from None
        except ValueError as error:
            raise RowMalformed(path=self.path, row=number, reason=str(error)) from None
        if not isinstance(value, dict):
            raise RowMalformed(path=self.path, row=number, reason="it is not a JSON object in { }")
        return value


class JsonTooDeep(ValueError):
    """JSON is nested deeper than `MAX_DEPTH`."""


def strict_json(text: str) -> Any:  # noqa: ANN401 - JSON
    """Returns the value of JSON text that means the same to every reader.

    Raises:
        json.JSONDecodeError: The text is not JSON.
        JsonTooDeep: It nests deeper than `MAX_DEPTH`.
        ValueError: An object has one key twice, or a number is NaN, infinite or beyond what is read.
    """
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        raise JsonTooDeep
    return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)


def _depth(text: str) -> int:
    """Returns how deep brackets outside strings nest, as far as is needed to see that it is too deep."""
    depth = deepest = 0
    for token in re.finditer(r'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', text, re.DOTALL):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token.group(), 0)
        deepest = max(deepest, depth)
        if deepest > MAX_DEPTH:
            break
    return deepest


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has the key {twice[:80]!r} more than once")
    return value


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:40]} is beyond what can be stored")
    return value


def shown(value: object) -> str:
    """Returns a value as an error shows it: on one line, cut."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."  # noqa: PLR2004 - an error is one line
