"""What is known about one attempt at a Case: the slot it was for, how its process ended, and what it left.

Every text in here was masked before it got in. What was not measured or not exported is None, never zero.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field

from storage.schema.base import CaseId, ObjectId, Value

ExecutionStatus = Literal["completed", "agent_error", "infra_error", "timeout", "cancelled", "unknown"]
"""What an Execution says. Only `completed` and `agent_error` say something about the agent."""

ExecutionEnd = Literal["exited", "timeout", "cancelled", "server_gone", "not_started"]
"""What ended the process: itself, or the supervisor for a reason. Only `exited` makes an exit code the agent's own."""

FieldStatus = Literal["value", "empty", "null", "not_exported", "unparsable", "collided"]
"""What is known of a field: that it has a value, or why it has none."""

Count = Annotated[int, Field(ge=0)]
Number = Annotated[float, Field(allow_inf_nan=False)]


class Slot(Value):
    """One Case at one repeat: what a run has to attempt, and the Record that the attempt will become."""

    n: Count
    """The number of the Record in its batch, fixed when the run is planned."""
    record_id: ObjectId
    """`<batch_id>.<n>`."""
    case_id: CaseId
    case_fingerprint: str
    repeat: Annotated[int, Field(ge=1)]
    """Which repeat of its Case, from 1."""
    retry_of: ObjectId | None = None
    """The Record of the attempt that this one tries again. That one stays."""


class Execution(Value):
    """How one attempt went."""

    status: ExecutionStatus
    exit_code: int | None
    """What the agent's process returned; None when a signal ended it or it never ran."""
    signal: int | None
    """The signal that ended the agent's process."""
    end: ExecutionEnd
    error: str | None
    """Why ATK could not run the attempt, in words, masked."""
    started_at: AwareDatetime
    ended_at: AwareDatetime
    duration_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """From the start of the process to the end of the last process that it left, on a monotonic clock."""
    leftovers_killed: Count
    """Processes that the agent left running and that ATK ended."""
    stdout_bytes: Count
    """Bytes of what the agent wrote, up to the plan's `max_output_bytes`; the Record may have less."""
    stderr_bytes: Count
    stdout_truncated: bool
    """Whether the Record's output is less than what the agent wrote or wanted to write."""
    stderr_truncated: bool
    retry_of: ObjectId | None = None


class EvidenceRecord(Value):
    """One attempt at a slot, as it is stored in its batch."""

    id: ObjectId
    n: Count
    case_id: CaseId
    case_fingerprint: str
    repeat: Annotated[int, Field(ge=1)]
    output: str | None
    """The agent's stdout as UTF-8, masked, up to the plan's `stored_output_bytes`."""
    output_status: FieldStatus
    output_replaced_bytes: Count = 0
    """Bytes of the output that are not UTF-8; each is shown as U+FFFD."""
    stderr_tail: str = ""
    """The end of the agent's stderr, masked."""
    loading_evidence: tuple[dict[str, Any], ...] | None = None
    """The events of the agent's `loading.json`: which components it says that it loaded."""
    events: tuple[dict[str, Any], ...] = ()
    """What the agent wrote to its events file, masked: one JSON object to a line, bounded."""
    metrics: dict[str, Number] = Field(default_factory=dict)
    metric_sources: dict[str, str] = Field(default_factory=dict)
    """Who measured each metric: `supervisor`, the collector that was named with it, or `agent_sidecar`: nobody but the
    agent, which is diagnostic only."""
    notes: tuple[str, ...] = ()
    """What was unusual about the attempt, in sentences."""
    carried_from: ObjectId | None = None
    """The Record of an earlier batch that this one is, where its batch continues or retries that one."""
    execution: Execution
    sealed: str | None = None
    """Of an attempt at a holdout Case: its output, stderr, loading evidence, events and error, encrypted; they are
    empty here."""
