"""Reads a whole export, of any size, in bounded memory, into records; see `EvidenceImport`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from operations.importers._export_rows import Damage, RawRow
from operations.importers._folders import Found
from operations.importers._grouping import TraceTooLarge
from operations.importers._intake import Guard
from operations.importers._json_lines import Block, blocks
from operations.importers._json_values import dumps, printable
from operations.importers._shares import Helper, Record
from operations.importers._source import Source, TakenT
from operations.importers._streams import EvidenceRefused, Opened, opened
from operations.importers._tally import Tally
from storage.schema.traces import Completeness, DamagedRow, SourceFile

LISTED = 100
"""Damaged rows that are named; the others are counted."""

AT_ONCE = 1000
"""Rows between two reports of progress."""


@dataclass(kw_only=True, eq=False)
class TooManyDamaged(EvidenceRefused):
    """More rows cannot be read than were allowed."""

    message = (
        "{rows} cannot be read and max_damaged is {allowed}: {places}. Nothing was stored. Correct the rows, or "
        "raise max_damaged to import the others and have these listed."
    )

    count: int
    rows: str
    allowed: int
    places: tuple[str, ...]


@dataclass(kw_only=True, eq=False)
class NoEvidence(EvidenceRefused):
    """There are no rows. An empty export is no result."""

    message = "{path} holds {held}, so there is nothing to import. Export again, or give another path."

    path: str
    held: str = "no rows"


@dataclass(kw_only=True, eq=False)
class ImportStopped(EvidenceRefused):
    """The caller gave the import up."""

    message = "The import was stopped at row {rows}. Nothing was stored; call again to start over."

    rows: int


def _counted(count: int, noun: str) -> str:
    return f"1 {noun} was" if count == 1 else f"{count} {noun}s were"


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0  # it is gone; opening it will say so


def _silent(done: float, total: float | None, note: str) -> None:
    """Reports progress to nobody."""


@dataclass
class EvidenceImport:
    """One export being read by its format, to which it is the `Feed`. Iterate `records` once, then ask the rest."""

    path: str
    source: Source
    found: Found
    guard: Guard
    runs: str
    """A folder that may be made for sorting; it is gone when `records` has ended."""
    max_damaged: int = 0
    progress: Callable[[float, float | None, str], None] = _silent
    cancelled: Callable[[], bool] = lambda: False
    helper: Helper | None = None
    """Does some of the work, for a format that can share it. With one, a Record may come as its JSON."""
    tally: Tally = field(default_factory=Tally)
    files: list[SourceFile] = field(default_factory=list)
    damaged: list[DamagedRow] = field(default_factory=list)
    damaged_count: int = 0
    torn: list[str] = field(default_factory=list)
    unattached: int = 0
    fields: dict[str, dict[str, int]] = field(default_factory=dict)
    contract_id: str | None = None
    """The contract of the source that the records are held to."""
    row_total: int = 0
    _bytes_read: int = 0
    _bytes_total: int = 0
    _loose_scores: Callable[[bytes], object] = lambda _: None

    def __post_init__(self) -> None:
        """Masks the names of the files, which stand in every locator."""
        self._bytes_total = sum(_size(one.path) for one in self.found.files)
        self.found.files = [replace(file, name=self._shown(file.name)) for file in self.found.files]
        self.found.row_counts = {self._shown(name): rows for name, rows in self.found.row_counts.items()}
        self.found.skipped = [printable(name) for name in self.found.skipped]

    def _shown(self, text: str) -> str:
        return str(self.guard.text(printable(text)))

    def records(self, loose_scores: Callable[[bytes], object]) -> Iterator[Record]:
        """Yields the records, without their numbers. `loose_scores` takes a line for each score of no trace.

        Raises:
            EvidenceRefused: Nothing is to be stored; the subclass says why.
        """
        self._loose_scores = loose_scores
        for record in self.source.records(self):
            self.tally.counts["records"] += 1
            yield record
        if not self.row_total:
            reason = "no row that can be read" if self.damaged_count else "no rows"
            raise NoEvidence(path=self.path, held=reason)
        self.fields = self.source.fields(self.tally)

    def warnings(self) -> list[str]:
        """Returns what the person should know, in sentences."""
        found = [*self.found.warnings, *self.torn, *self.tally.warnings()]
        if self.damaged_count:
            found.append(f"{_counted(self.damaged_count, 'damaged row')} left out")
        for file in self.files:
            said = self.found.row_counts.get(file.name)
            if said is not None and said != file.rows:
                found.append(f"{file.name} has {file.rows} rows and its manifest says {said}")
        known: dict[tuple[str, str], str] = {}
        twice = [(file.name, known.setdefault((file.role, file.sha256), file.name)) for file in self.files if file.rows]
        found += [
            f"{name} has the same content as {first}: it was read twice" for name, first in twice if name != first
        ]
        return [printable(one) for one in found]

    @property
    def completeness(self) -> Completeness:
        """What is known of whether the export is whole."""
        return self.source.completeness(partial=self.found.partial or self.damaged_count > 0)

    # -- what the format is offered; see `_source.Feed` ----------------------------------------------------------------

    def rows(self, number: int) -> Iterator[RawRow]:
        """Yields the rows of a file.

        Raises:
            TooManyDamaged: More cannot be read than were allowed.
            ImportStopped: The caller gave up.
        """
        with self._reading(number) as (opening, read):
            for row in self.source.rows(self.found.files[number], opening):
                if isinstance(row, Damage):
                    self.damage(number, row)
                    continue
                read(1)
                yield row

    def taken(self, number: int, take: Callable[[Iterator[Block]], Iterator[TakenT]]) -> Iterator[TakenT]:
        """Yields what `take` makes of the blocks of a file of JSON lines.

        Raises:
            TooManyDamaged: More rows cannot be read than were allowed.
            ImportStopped: The caller gave up.
        """
        with self._reading(number) as (opening, read):
            for some in take(blocks(opening)):
                for row in some.damaged:
                    self.damage(number, row)
                yield some
                read(some.count)

    @contextmanager
    def _reading(self, number: int) -> Iterator[tuple[Opened, Callable[[int], None]]]:
        """Opens a file, and gives what is told of rows that were read; at the end it is put on record."""
        file = self.found.files[number]
        rows = told = 0

        def read(count: int) -> None:
            nonlocal rows, told
            rows += count
            self.row_total += count
            if rows - told >= AT_ONCE:
                told = rows
                done = self._bytes_read + opening.counted.count
                self.progress(done, self._bytes_total, f"{self.row_total} rows read, file {number + 1}")
                if self.cancelled():
                    raise ImportStopped(rows=self.row_total)

        with opened(file.path) as opening:
            before = opening.counted.stamp
            yield opening, read
            opening.counted.drain()
            if opening.counted.stamp != before:
                self.torn.append(f"{file.name} was written to while it was read; its digest is of what was read")
            self._bytes_read += opening.counted.count
        self.files.append(
            SourceFile(
                name=file.name,
                role=self.source.roles[file.role],
                sha256=opening.counted.sha256,
                content_sha256=opening.content_sha256,
                bytes=opening.counted.count,
                rows=rows,
            )
        )

    def damage(self, number: int, row: Damage) -> None:
        """Takes a row that cannot be used.

        Raises:
            TooManyDamaged: That is one more than was allowed.
        """
        name = self.found.files[number].name
        where = f"line {row.line}" if row.line is not None else f"row {row.number}"
        if row.torn:
            self.torn.append(f"{name} {where} is an interrupted append and was left out; completeness unknown")
            return
        self.damaged_count += 1
        if row.rest:
            self.torn.append(f"{name} could not be read from {where} on: the batch lacks all that follows there")
        if len(self.damaged) < LISTED:
            one = DamagedRow(file=name, row=row.number, line=row.line, reason=self._shown(row.reason))
            self.damaged.append(one)
        if self.damaged_count > self.max_damaged:
            places = tuple(
                f"{one.file} {f'line {one.line}' if one.line is not None else f'row {one.row}'} ({one.reason})"
                for one in self.damaged[-5:]
            )
            rows = f"{self.damaged_count} row" + ("" if self.damaged_count == 1 else "s")
            raise TooManyDamaged(count=self.damaged_count, rows=rows, allowed=self.max_damaged, places=places)

    def loose(self, score: dict[str, Any]) -> None:
        """Takes a score of no Record."""
        self.unattached += 1
        line = dumps(score)
        if self.guard.second_look is not None:
            line = self.guard.second_look.text(line.decode()).encode()
        self._loose_scores(line + b"\n")


__all__ = ["EvidenceImport", "ImportStopped", "NoEvidence", "TooManyDamaged", "TraceTooLarge"]
