"""A dataset: an immutable set of Cases, and what one Case holds."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from storage.schema.base import CaseId, Digest, ObjectId, Record, Value
from storage.schema.events import Locator

Usage = Literal["optimization", "protection", "holdout"]
"""What a Case may be used for: to find a change, to guard against harm, or to judge blindly at the end."""


class Attachment(Value):
    """A file that belongs to a Case's input."""

    path: str
    """Relative to the project's folder, in which it always lies."""
    sha256: Digest
    bytes: Annotated[int, Field(ge=0)]
    """Size in bytes."""


class CaseSource(Value):
    """Where a Case was read."""

    path: str
    """The source file's name, without its folders."""
    row: Annotated[int, Field(ge=1)]
    """The row of data, from 1: a CSV's header is not counted, nor is a blank line of JSONL."""


class CaseOrigin(Value):
    """The Record that a Case was made of."""

    batch_id: ObjectId
    record_id: ObjectId
    namespace: str | None = None
    """What the person calls the system that the ids are from; None for a run of ATK's own."""
    trace_id: str | None = None
    session_id: str | None = None
    locator: Locator | None = None
    """Where the import read it."""
    group_by: Literal["session", "user", "trace"] | None = None
    """What the Case's source group is; None where it has none, or has that of the Case that was run."""
    input_masked: bool = False
    """Whether the input holds a mask, so that the agent will not see what the user's agent saw."""
    expected_from: str | None = None
    """`record` for an expected answer that came with the Record, `score:<name>` for a correction."""
    expected_verified: bool | None = None
    """False for an expected answer that somebody suggested and nobody checked."""
    exposed_by: tuple[ObjectId, ...] = ()
    """The client's Assessments and the Issues that looked at the Record. Mere reading leaves no record, so an empty
    list does not say that the Record is unseen."""


class Case(Value):
    """One task: an input, perhaps an expected answer, and what it may be used for.

    Inputs are kept as they are, because the agent needs them; they are masked in answers.
    """

    id: CaseId
    input: Any
    """Any JSON value, kept as it was given, even half a surrogate pair."""
    expected_present: bool
    """Whether there is an expected answer. An expected answer may itself be null."""
    expected: Any
    usage: Usage
    source_group_id: str | None
    """Cases of one group stem from one source and are never split between holdout and other usage."""
    initial_conditions: Any
    attachments: tuple[Attachment, ...]
    source: CaseSource
    fingerprint: Digest
    """Identity of the content: the digest of everything but `source` and `origin`, with attachments by name and
    digest."""
    origin: CaseOrigin | None = None
    """The Record that it was made of, where it was."""
    sealed: str | None = None
    """Of a holdout Case: `input`, `expected`, `initial_conditions` and `attachments`, encrypted; they are empty here.
    Its `fingerprint` is keyed, and a Case without a source group has a keyed one of its input."""
    sealed_attachments: tuple[Digest, ...] = ()
    """The names under which the dataset keeps its attachments, encrypted."""


class SplitMade(Value):
    """How usages were given to Cases whose source gave none."""

    protection: Annotated[float, Field(ge=0, lt=1)]
    """The share of protected Cases that was asked for."""
    holdout: Annotated[float, Field(ge=0, lt=1)] = 0
    """The share of holdout Cases that was asked for."""
    seed: int
    group_counts: dict[str, Annotated[int, Field(ge=0)]]


class Dataset(Record):
    """An immutable set of Cases, read from one source file or made of Records."""

    kind: ClassVar[str] = "dataset"

    source_name: str
    """The source file's name, without its folders; of Records, the id of their batch or selection."""
    source_sha256: Digest
    cases_sha256: Digest
    """Digest of `cases.jsonl`."""
    case_count: Annotated[int, Field(ge=1)]
    usage_counts: dict[Usage, int]
    mapping: dict[str, str]
    """Which column each field of a Case was read from."""
    created_at: str
    """UTC, ISO 8601."""
    attachment_bytes: Annotated[int, Field(ge=0)] = 0
    """Size of all attachments in bytes."""
    kept_attachments: Annotated[int, Field(ge=0)] = 0
    """How many different files its folder `attachments/` keeps, each named by its SHA-256. 0 also for a dataset whose
    attachments were only referred to: an attempt then reads them where the project has them."""
    batch_id: ObjectId | None = None
    """The batch whose Records became Cases."""
    selection_id: ObjectId | None = None
    split: SplitMade | None = None
