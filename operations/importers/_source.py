"""What a format of exports has to say of itself, and what an import offers it; `sources` describes both together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from operations.importers._export_rows import Damage, RawRow
from operations.importers._folders import ExportFile, Found
from operations.importers._intake import Guard
from operations.importers._json_lines import Block
from operations.importers._results import Columns
from operations.importers._shares import Helper, Record
from operations.importers._streams import Opened
from operations.importers._tally import Tally
from storage.masking import Masker
from storage.schema.traces import Completeness


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a request says of how its export is to be read. A format uses what concerns it."""

    namespace: str = "default"
    adapter_profile: str | None = None
    file_roles: Mapping[str, str] = field(default_factory=dict)
    mappings: tuple[Mapping[str, str], Mapping[str, str], Mapping[str, str]] = ({}, {}, {})
    """{canonical: source} of trace, observation and score."""
    root_observation_name: str | None = None
    columns: Columns = field(default_factory=Columns)
    json_columns: tuple[str, ...] = ()


class Taken(Protocol):
    """What came of a block of lines."""

    @property
    def count(self) -> int:
        """Rows that could be read."""
        ...

    @property
    def damaged(self) -> Sequence[Damage]:
        """Rows that cannot be used."""
        ...


TakenT = TypeVar("TakenT", bound=Taken)


class Feed(Protocol):
    """What an import offers the format that reads it."""

    found: Found
    """The files, in the order in which they are read."""
    guard: Guard
    """Masks. Nothing of a row gets into a Record, a score, a warning or an error but through it."""
    tally: Tally
    """Counts, outcomes by field, and warnings."""
    helper: Helper | None
    """Another process that does some of the work, if there is one."""
    runs: str
    """A folder that a `Sorter` may make, and others named after it; the format closes each, also when it fails."""

    def rows(self, number: int) -> Iterator[RawRow]:
        """Yields the rows of `found.files[number]`: counts them, tells progress, isolates damaged ones.

        Raises:
            EvidenceRefused: More are damaged than were allowed, or the caller gave up.
        """
        ...

    def taken(self, number: int, take: Callable[[Iterator[Block]], Iterator[TakenT]]) -> Iterator[TakenT]:
        """Yields what `take` makes of the blocks of `found.files[number]`, JSON lines, and does what `rows` does.

        Raises:
            EvidenceRefused: As `rows` does.
        """
        ...

    def damage(self, number: int, row: Damage) -> None:
        """Takes a row of file `number` that was read and cannot be used.

        Raises:
            EvidenceRefused: That is one more than was allowed.
        """
        ...

    def loose(self, score: dict[str, Any]) -> None:
        """Stores a score, masked, that belongs to no Record of the import."""
        ...


class Source(Protocol):
    """One export that is read as one format. Made for an import, used once."""

    @property
    def roles(self) -> tuple[str, ...]:
        """What the rows of a file are, by `ExportFile.role`."""
        ...

    @property
    def profile(self) -> str:
        """How the export was read, as the batch names it: `by_file`, an `adapter_profile`, or the format's name."""
        ...

    def find(self, path: str) -> Found:
        """Returns the files at `path` that are read, each with its role; the others are named and left alone.

        Raises:
            EvidenceRefused: There is nothing, or nothing says what a file holds.
        """
        ...

    def rows(self, file: ExportFile, opened: Opened) -> Iterator[RawRow | Damage]:
        """Yields what the open file holds; most formats return `rows_of(opened)`."""
        ...

    def records(self, feed: Feed) -> Iterator[Record]:
        """Yields the Records, each as `ImportedRecord` takes it, without `id` and `n`, and masked.

        Raises:
            EvidenceRefused: Nothing is to be stored; the subclass says why.
        """
        ...

    def fields(self, tally: Tally) -> dict[str, dict[str, int]]:
        """Returns `<role>.<field>` → outcome → rows, once all Records were yielded."""
        ...

    def completeness(self, *, partial: bool) -> Completeness:
        """Returns what is known of whether the export is whole. `partial`: files or rows are known to be missing."""
        ...


@dataclass
class Suggestion:
    """What a sample of an export says."""

    message: str = ""
    fits: dict[str, str] = field(default_factory=dict)
    """File → what its rows are."""
    unknown: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    request: dict[str, Any] = field(default_factory=dict)
    """Arguments of the request that imports it, but `source`."""
    supply: dict[str, str] = field(default_factory=dict)
    """What only the person can say."""
    warnings: list[str] = field(default_factory=list)


@dataclass
class Sample:
    """The rows of one file that were looked at, unmasked: only their form may be told."""

    name: str
    rows: list[RawRow]
    damaged: int


@dataclass(frozen=True, kw_only=True)
class Format:
    """A kind of source. `sources.FORMATS` lists them."""

    kind: str
    """The `source_kind` of a request."""
    open: Callable[[Options], Source]
    """Makes the reading of one export; raises an EvidenceRefused for options that cannot be right."""
    role_of: Callable[[RawRow], int | None]
    """What a row is by its content, in the format's own roles; None for a row of something else."""
    suggest: Callable[[Suggestion, str, Sequence[Sample], Mapping[str, int | None], Masker], None]
    """Completes a suggestion for (path, samples, file → role that most of its rows have)."""
    endings: tuple[str, ...] = ()
    """Endings of files, such as `.eval`, that only this format reads, beside those of tables and JSON."""
    rows: Callable[[Opened], Iterator[RawRow | Damage]] | None = None
    """How such a file is sampled."""
