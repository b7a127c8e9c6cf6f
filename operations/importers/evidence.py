"""Reads a whole export, of any size, in bounded memory, into records; see `EvidenceImport`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from operations.importers._export_rows import Damage, RawRow, rows_of
from operations.importers._folders import ExportFile, Found
from operations.importers._intake import BUNDLE, UNATTACHED, Filed, Guard, Intake, Unplaced
from operations.importers._json_values import dumps
from operations.importers._results import ResultReader
from operations.importers._sorting import Sorter
from operations.importers._streams import EvidenceRefused, opened
from operations.importers._tally import Tally
from operations.importers._traces import Assembler, Settings
from storage.schema.traces import DamagedRow, SourceFile

LISTED = 100
"""Damaged rows that are named; the others are counted."""

MAX_TRACE = 256 * 1024 * 1024
"""Bytes of the rows of one trace, which is put together in memory."""

AT_ONCE = 1000
"""Scores of no trace that are read together, and rows between two reports of progress."""

ROLE_NAMES = ("trace", "observation", "score", "bundle")


@dataclass(kw_only=True, eq=False)
class TooManyDamaged(EvidenceRefused):
    """More rows cannot be read than were allowed."""

    message = (
        "{count} rows cannot be read and max_damaged is {allowed}: {places}. Nothing was stored. Correct the rows, or "
        "raise max_damaged to import the others and have these listed."
    )

    count: int
    allowed: int
    places: tuple[str, ...]


@dataclass(kw_only=True, eq=False)
class NoEvidence(EvidenceRefused):
    """There are no rows. An empty export is no result."""

    message = "{path} holds no rows, so there is nothing to import. Export again, or give another path."

    path: str


@dataclass(kw_only=True, eq=False)
class TraceTooLarge(EvidenceRefused):
    """One trace is more than is put together in memory."""

    message = (
        "The rows of trace {trace_id} are larger than {limit} bytes. Nothing was stored. Export fewer fields of it, or "
        "leave it out."
    )

    trace_id: str
    limit: int = MAX_TRACE


@dataclass(kw_only=True, eq=False)
class ImportStopped(EvidenceRefused):
    """The caller gave the import up."""

    message = "The import was stopped after {rows} rows. Nothing was stored; call again to start over."

    rows: int


def _silent(done: float, total: float | None, note: str) -> None:
    """Reports progress to nobody."""


@dataclass
class EvidenceImport:
    """One export being read. Iterate `records` once; everything else is known afterwards."""

    source: str
    found: Found
    guard: Guard
    settings: Settings
    runs: str
    """A folder that may be made for sorting; it is gone when `records` has ended."""
    results: ResultReader | None = None
    max_damaged: int = 0
    progress: Callable[[float, float | None, str], None] = _silent
    cancelled: Callable[[], bool] = lambda: False
    tally: Tally = field(default_factory=Tally)
    files: list[SourceFile] = field(default_factory=list)
    damaged: list[DamagedRow] = field(default_factory=list)
    damaged_count: int = 0
    torn: list[str] = field(default_factory=list)
    unattached: int = 0
    fields: dict[str, dict[str, int]] = field(default_factory=dict)
    row_total: int = 0
    _bytes_read: int = 0

    def records(self, loose_scores: Callable[[bytes], object]) -> Iterator[dict[str, Any]]:
        """Yields the records, without their numbers. `loose_scores` takes a line for each score of no trace.

        Raises:
            EvidenceRefused: Nothing is to be stored; the subclass says why.
        """
        made = self._results(self.results) if self.results else self._traces(loose_scores)
        for record in made:
            self.tally.counts["records"] += 1
            yield record
        if not self.row_total:
            raise NoEvidence(path=self.source)

    def warnings(self) -> list[str]:
        """Returns what the person should know, in sentences."""
        found = [*self.found.warnings, *self.torn, *self.tally.warnings()]
        if self.damaged_count:
            found.append(f"{self.damaged_count} damaged rows were left out")
        for file in self.files:
            said = self.found.row_counts.get(file.name)
            if said is not None and said != file.rows:
                found.append(f"{file.name} has {file.rows} rows and its manifest says {said}")
        return found

    @property
    def partial(self) -> bool:
        """Whether something of the export is known to be missing."""
        return self.found.partial or self.damaged_count > 0

    # -- reading -------------------------------------------------------------------------------------------------------

    def _rows(self, number: int, file: ExportFile) -> Iterator[RawRow]:
        total = sum(os.path.getsize(one.path) for one in self.found.files)
        with opened(file.path) as source:
            rows = 0
            for row in rows_of(source):
                if isinstance(row, Damage):
                    self._damage(file, row)
                    continue
                rows += 1
                self.row_total += 1
                yield row
                if rows % AT_ONCE == 0:
                    done = self._bytes_read + source.counted.count
                    self.progress(done, total, f"{self.row_total} rows read, file {number + 1}")
                    if self.cancelled():
                        raise ImportStopped(rows=self.row_total)
            source.counted.drain()
            self._bytes_read += source.counted.count
        self.files.append(
            SourceFile(
                name=file.name,
                role="row" if self.results else ROLE_NAMES[file.role],
                sha256=source.counted.sha256,
                bytes=source.counted.count,
                rows=rows,
            )
        )

    def _damage(self, file: ExportFile, row: Damage) -> None:
        where = f"line {row.line}" if row.line is not None else f"row {row.number}"
        if row.torn:
            self.torn.append(f"{file.name} {where} is an interrupted append and was left out; completeness unknown")
            return
        self.damaged_count += 1
        if len(self.damaged) < LISTED:
            one = DamagedRow(file=file.name, row=row.number, line=row.line, reason=str(self.guard.text(row.reason)))
            self.damaged.append(one)
        if self.damaged_count > self.max_damaged:
            places = tuple(
                f"{one.file} {f'line {one.line}' if one.line is not None else f'row {one.row}'} ({one.reason})"
                for one in self.damaged[-5:]
            )
            raise TooManyDamaged(count=self.damaged_count, allowed=self.max_damaged, places=places)

    def _results(self, reader: ResultReader) -> Iterator[dict[str, Any]]:
        for number, file in enumerate(self.found.files):
            for row in self._rows(number, file):
                value, _ = self.guard.masked(row.value, row.raw)
                place = {"line": row.line, "pointer": row.pointer}
                locator = {"file": file.name, "row": row.number} | {k: v for k, v in place.items() if v is not None}
                yield reader.record(value, locator, case=row.value)
        if self.row_total:
            reader.check()
        self.fields = reader.fields()
        self.tally.counts.update({name: count for name, count in reader.scores.items() if reader.counts and count})

    def _traces(self, loose_scores: Callable[[bytes], object]) -> Iterator[dict[str, Any]]:
        sorter = Sorter(self.runs)
        intake = Intake(sorter, self.guard, self.settings.mappings)
        try:
            for number, file in enumerate(self.found.files):
                self._file_rows(intake, number, file)
            assembler = Assembler(self.settings, [file.name for file in self.found.files], self.tally)
            for rows in _groups(sorter):
                record, loose = assembler.record(rows)
                self.unattached += len(loose)
                for score in loose:
                    loose_scores(dumps(score) + b"\n")
                if record is not None:
                    yield record
        finally:
            sorter.close()
        if intake.ids_only:
            self.tally.warn("a trace names its observations or scores only by id", f"{intake.ids_only} ids")
        counts = self.tally.counts
        if self.row_total:
            for shapes in assembler.shapes:
                shapes.check()
        rows_by_role = (counts["traces"], counts["observations"], counts["scores"])
        self.fields = self.tally.fields(assembler.shapes, rows_by_role)

    def _file_rows(self, intake: Intake, number: int, file: ExportFile) -> None:
        for row in self._rows(number, file):
            try:
                intake.take(number, row, file.role)
            except Unplaced as error:
                self._damage(file, Damage(row.number, row.line, str(error)))


def _groups(rows: Sorter) -> Iterator[Sequence[Filed]]:
    """Yields the rows of each trace; those of no trace some at a time.

    Raises:
        TraceTooLarge: One trace has more than is put together in memory.
    """
    for trace, group in groupby(rows, key=_trace):
        found: list[Filed] = []
        size = 0
        for row in group:
            found.append(Filed._make(row))
            size += len(row[-1])
            if trace == UNATTACHED and len(found) >= AT_ONCE:
                yield found
                found = []
            elif size > MAX_TRACE and trace != UNATTACHED:
                raise TraceTooLarge(trace_id=trace.decode("utf-8", "replace")[:80])
        if found:
            yield found


def _trace(row: tuple[Any, ...]) -> bytes:
    key: bytes = row[0]
    return key


__all__ = ["BUNDLE", "EvidenceImport", "ImportStopped", "NoEvidence", "TooManyDamaged", "TraceTooLarge"]
