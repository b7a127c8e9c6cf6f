"""What an import leaves: one Record for each trace, and the batch that holds them.

Every text in here was masked before it got in. What an export does not say stays unknown, and a score from elsewhere
is evidence, never a verdict.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AwareDatetime, Field

from storage.schema.base import Digest, ObjectId, Record, Value
from storage.schema.events import EventLog, Locator
from storage.schema.evidence import Count, FieldStatus, Number

ScoreType = Literal["numeric", "boolean", "categorical", "text", "correction", "unknown"]
SubjectKind = Literal["trace", "observation", "session", "dataset_run", "unknown"]
SourceKind = Literal["langfuse", "batch_results", "otel", "inspect_ai", "codex", "claude_code"]
Completeness = Literal["unknown", "partial", "limited"]
"""`unknown`: nothing says whether the export is whole. `partial`: some of it is known to be missing or damaged.
`limited`: rows of results, without what the agent did."""


class FieldValue(Value):
    """A canonical field: what is known of it, its value, and where that came from."""

    status: FieldStatus
    value: Any = None
    source: str | None = None
    """`trace`, `observation:<id>`, or `column:<name>`; None where there is no value."""


class ExternalScore(Value):
    """A score that somebody else gave. Evidence only."""

    id: str | None
    name: str | None
    type: ScoreType
    status: FieldStatus
    value: Any = None
    """A finite number, a boolean or a text, by `type`; of an unknown type whatever the source holds."""
    subject_kind: SubjectKind
    subject_id: str | None
    trace_id: str | None = None
    comment: str | None = None
    source: str | None = None
    at: AwareDatetime | None = None
    at_text: str | None = None
    attributes: dict[str, Any] = {}
    locator: Locator


class SourceIds(Value):
    """What the source calls the trace."""

    namespace: str
    trace_id: str | None
    session_id: str | None = None
    user_id: str | None = None


class ImportedRecord(Value):
    """One trace, or one row of results."""

    id: str
    """`<batch_id>.<n>`."""
    n: Annotated[int, Field(ge=1)]
    source: SourceIds
    name: str | None = None
    case_id: str | None = None
    repeat: Annotated[int, Field(ge=1)] | None = None
    trace_row: bool
    """Whether the export has a row for the trace itself, beside its observations."""
    at: AwareDatetime | None = None
    at_text: str | None = None
    input: FieldValue
    output: FieldValue
    expected: FieldValue | None = None
    log: EventLog
    scores: tuple[ExternalScore, ...] = ()
    metrics: dict[str, Number] = {}
    """Figures that the export states: their names say the unit as the export does."""
    runtime_metadata: dict[str, Any] = {}
    tags: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """What is not known: trace_row, trace_input, trace_output, observations, parent_observations, …"""
    fidelity: dict[str, str] = {}
    """Field of the trace → its status, where that is not `value`; what is absent from the export is not listed."""
    locators: tuple[Locator, ...] = ()
    """Where the trace's own rows were read, or the first row of what belongs to it."""


class SourceFile(Value):
    """One file that was read."""

    name: str
    role: str
    sha256: Digest
    content_sha256: Digest | None = None
    """Of what a packed file holds."""
    bytes: Count
    rows: Count


class DamagedRow(Value):
    """A row that could not be read and was left out."""

    file: str
    row: Count
    line: Count | None
    reason: str


class BatchLink(Value):
    """How an import relates to an earlier one."""

    batch_id: ObjectId
    relation: Literal["supersedes", "late_scores"]
    scores: Count = 0
    """Of late scores: how many are about a trace of that batch."""


class ImportedBatch(Record):
    """The immutable evidence of one import."""

    kind: ClassVar[str] = "import"

    status: Literal["sealed"] = "sealed"
    source_kind: SourceKind
    adapter_profile: str
    source_namespace: str
    mapping_version: str | None = None
    contract_id: ObjectId | None = None
    """What the source's fields mean, where a contract of its `mapping_version` had been recorded."""
    filtered_scope: str | None = None
    """What the person says that the export was filtered by, word for word."""
    files: tuple[SourceFile, ...]
    skipped: tuple[str, ...] = ()
    """Files that were there and are not evidence."""
    fingerprint: Digest
    """Of the files' content and of everything that decides how they are read."""
    completeness: Completeness
    counts: dict[str, Count]
    fields: dict[str, dict[str, Count]]
    """`<role>.<field>` → kept, lossy, unknown, unparsable, collided → rows."""
    damaged: tuple[DamagedRow, ...] = ()
    links: tuple[BatchLink, ...] = ()
    notes: tuple[str, ...] = ()
    records_sha256: Digest
    records_bytes: Count
    scores_unattached: Count = 0
    """Scores whose trace is not in the batch; they are in `scores.jsonl`."""
    created_at: str
