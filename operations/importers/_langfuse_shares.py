"""The two kinds of share that the work on a Langfuse export has: taking lines in, and putting traces together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from operations.importers._intake import Filed, Guard, Intake, Unplaced
from operations.importers._json_lines import Block, rows_of_block
from operations.importers._json_values import dumps, loads
from operations.importers._raw_rows import Damage, RawRow
from operations.importers._sorting import Row
from operations.importers._tally import Tally
from operations.importers._traces import Assembler, Settings
from storage.masking import Masker

TAKE, ASSEMBLE = "take", "assemble"
"""What the kinds of share are called."""

TOGETHER = 160 * 1024
"""Bytes of the rows of traces that are put together in one share."""

_FILE, _BLOCK = 1 << 52, 1 << 32
"""What is filed of a file, and of a block of it, is numbered from a multiple of these on."""


class Lines(NamedTuple):
    """Lines of a file that are to be taken in."""

    file: int
    role: int
    number: int
    """Orders what is filed: everything before has a lower one."""
    block: tuple[Any, ...]
    """As `Block` takes it."""


@dataclass(slots=True)
class Taken:
    """What came of lines: rows for a `Sorter`, and those that cannot be used."""

    rows: list[Row]
    size: int
    """Bytes of the rows' payloads."""
    count: int
    """Rows that could be read."""
    damaged: list[Damage]
    ids_only: int

    def said(self) -> tuple[Any, ...]:
        """Returns it as `marshal` takes it."""
        damaged = [(one.number, one.line, one.reason, one.torn) for one in self.damaged]
        return self.rows, self.size, self.count, damaged, self.ids_only

    @classmethod
    def received(cls, said: tuple[Any, ...]) -> Self:
        """Makes it of what another process said."""
        rows, size, count, damaged, ids_only = said
        return cls(rows, size, count, [Damage(*one) for one in damaged], ids_only)


@dataclass(slots=True)
class Assembled:
    """What came of the rows of some traces."""

    records: Sequence[dict[str, Any] | bytes]
    """Without their numbers; those that another process made come as JSON."""
    loose: list[dict[str, Any]]
    """Scores of no Record."""
    tally: tuple[Any, ...]
    shapes: list[tuple[int, tuple[str, ...], int]]
    """(role, names, rows) of each shape."""

    def said(self) -> tuple[Any, ...]:
        """Returns it as `marshal` takes it."""
        records = [one if isinstance(one, bytes) else dumps(one) for one in self.records]
        return records, [dumps(one) for one in self.loose], self.tally, self.shapes

    @classmethod
    def received(cls, said: tuple[Any, ...]) -> Self:
        """Makes it of what another process said."""
        records, loose, tally, shapes = said
        return cls(records, [loads(one) for one in loose], tally, shapes)


class Shares:
    """Does both kinds. One serves a whole import."""

    def __init__(self, guard: Guard, settings: Settings, files: Sequence[str]) -> None:
        """`files` are the names that locators show, by number."""
        self._settings = settings
        self._files = files
        self._rows: list[Row] = []
        self.intake = Intake(lambda row: self._rows.append(row), guard, settings.mappings)  # noqa: PLW0108 - it changes

    def take(self, share: Lines) -> Taken:
        """Reads lines, masks each row, and files it under its trace.

        Raises:
            AtkError: The project's patterns take too long.
        """
        rows: list[Row] = []
        self._rows = rows
        intake, file, role = self.intake, share.file, share.role
        intake.number, before = share.number, intake.ids_only
        damaged: list[Damage] = []
        count = 0
        for row in rows_of_block(Block(*share.block)):
            if isinstance(row, Damage):
                damaged.append(row)
                continue
            count += 1
            try:
                intake.take(file, row, role)
            except Unplaced as error:
                damaged.append(Damage(row.number, row.line, str(error)))
        return Taken(rows, sum(len(row[-1]) for row in rows), count, damaged, intake.ids_only - before)

    def take_row(self, file: int, row: RawRow, role: int) -> Taken:
        """Masks one row that was read already, and files it under its trace.

        Raises:
            Unplaced: The row names no trace.
        """
        rows: list[Row] = []
        self._rows = rows
        intake = self.intake
        intake.number, before = max(intake.number, file * _FILE), intake.ids_only
        intake.take(file, row, role)
        return Taken(rows, sum(len(one[-1]) for one in rows), 1, [], intake.ids_only - before)

    def assemble(self, share: tuple[list[Row], ...]) -> Assembled:
        """Makes the records of groups of rows, each of one trace.

        Raises:
            EvidenceRefused: Rows say different things about the same, or are no rows of an export.
        """
        tally = Tally()
        assembler = Assembler(self._settings, self._files, tally)
        records: list[dict[str, Any] | bytes] = []
        loose: list[dict[str, Any]] = []
        for rows in share:
            record, scores = assembler.record([Filed._make(row) for row in rows])
            loose += scores
            if record is not None:
                records.append(record)
        found = [(role, *one) for role, shapes in enumerate(assembler.shapes) for one in shapes.counted()]
        return Assembled(records, loose, tally.said(), found)


def lines(file: int, role: int, found: Iterable[Block]) -> Iterator[Lines]:
    """Yields a share for each block of a file."""
    for place, block in enumerate(found):
        yield Lines(file, role, file * _FILE + place * _BLOCK, tuple(block))


def some_groups(found: Iterable[list[Row]]) -> Iterator[tuple[list[Row], ...]]:
    """Yields groups of rows, as many together as make a share."""
    together: list[list[Row]] = []
    size = 0
    for rows in found:
        together.append(rows)
        size += sum(len(row[-1]) for row in rows)
        if size >= TOGETHER:
            yield tuple(together)
            together, size = [], 0
    if together:
        yield tuple(together)


@dataclass(frozen=True)
class Setup:
    """What another process has to know to do shares; it goes through `marshal` as the fields of a tuple."""

    mask_key: bytes
    redact_keys: tuple[str, ...]
    namespace: str
    mappings: tuple[dict[str, str], ...]
    json_columns: tuple[str, ...]
    root_observation_name: str | None
    files: tuple[str, ...]

    @classmethod
    def of(cls, settings: Settings, files: tuple[str, ...], mask_key: bytes, redact_keys: tuple[str, ...]) -> Self:
        """Gathers it."""
        return cls(
            mask_key=mask_key,
            redact_keys=redact_keys,
            namespace=str(settings.namespace),
            mappings=tuple(dict(mapping) for mapping in settings.mappings),
            json_columns=tuple(settings.json_columns),
            root_observation_name=settings.root_observation_name,
            files=files,
        )

    def shares(self) -> Shares:
        """Returns what does them."""
        trace, observation, score = self.mappings
        settings = Settings(
            namespace=self.namespace,
            mappings=(trace, observation, score),
            json_columns=self.json_columns,
            root_observation_name=self.root_observation_name,
        )
        return Shares(Guard(Masker(self.mask_key, self.redact_keys)), settings, self.files)
