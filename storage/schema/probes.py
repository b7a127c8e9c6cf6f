"""A probe: one diagnostic question put to the target under a frozen permission, and what came of it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AwareDatetime, Field

from storage.schema.base import CaseId, Digest, ObjectId, Record, Value

MOST_SECONDS = 240
"""How long all Executions of one probe may take together: a call answers within that."""

ProbeStatus = Literal["running", "completed", "interrupted", "contaminated"]
ProbeOutcome = Literal["completed", "agent_error", "infra_error", "timeout", "cancelled"]
ProbeEnd = Literal["exited", "timeout", "stopped", "not_started"]


class ProbePermission(Value):
    """What probes may start, on what and how often. Frozen with the Round or the project that holds it."""

    id: Annotated[str, Field(min_length=1, max_length=64)]
    """The caller's own name for it, unique in its Round or project."""
    command: tuple[str, ...]
    """A template: see operations.execution.command. An argument that is `script_path` becomes a copy of the script."""
    script_path: str | None = None
    """`.atk/probes/<name>`: the script that the command starts."""
    script_sha256: Digest | None = None
    """The script as it was permitted; another one is not started."""
    case_ids: tuple[CaseId, ...] = ()
    """The Cases that may be its input; empty for any that is no holdout."""
    working_directory: str = "."
    """Where it starts, relative to the project's folder."""
    isolation_ref: Annotated[str, Field(min_length=1)]
    """Where one can see that it acts on nothing outside."""
    timeout_seconds: Annotated[float, Field(gt=0, le=MOST_SECONDS)] = 120
    """Of one Execution."""
    max_calls: Annotated[int, Field(ge=1, le=1_000)]
    """How many Executions it pays for in all."""


class ProbeSlot(Value):
    """One Execution that a probe is to make: its number and what it is given."""

    n: Annotated[int, Field(ge=1)]
    id: str
    """`<probe_id>.<n>`."""
    case_id: CaseId | None = None
    record_id: str | None = None
    """The Record that is the input, where no Case is."""
    input_sha256: Digest
    """Of the input's canonical JSON."""


class ProbeExecution(Value):
    """How one Execution of a probe went. Every text was masked before it got in."""

    status: ProbeOutcome
    end: ProbeEnd
    exit_code: int | None
    """Below 0 the number of the signal that ended it."""
    error: str | None
    """Why it could not be started."""
    started_at: AwareDatetime
    duration_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class ProbeRecord(ProbeSlot):
    """One Execution as it is stored."""

    command: tuple[str, ...]
    """As it was started, masked; long arguments are cut."""
    output: str
    """The end of stdout and stderr together, masked; bytes that are no UTF-8 are shown as U+FFFD."""
    output_bytes: Annotated[int, Field(ge=0)]
    """How much was written in all; `output` is at most the last 16 KiB of it."""
    output_replaced: Annotated[int, Field(ge=0)] = 0
    """How many U+FFFD the output holds."""
    execution: ProbeExecution


class Probe(Record):
    """One probe.

    `completed`: every Execution ended and the worktree was as before. `interrupted`: it was stopped, or its server is
    gone. `contaminated`: files of the target were not as before when it had ended.
    """

    kind: ClassVar[str] = "probe"

    status: ProbeStatus
    question: str
    round_id: ObjectId | None = None
    issue_id: ObjectId | None = None
    scope_id: ObjectId
    """The Round or the project that holds the permission and pays."""
    permission: ProbePermission
    dataset_id: ObjectId | None = None
    case_ids: tuple[CaseId, ...] = ()
    """The Cases that it looked at, those of its Records included."""
    slots: Annotated[int, Field(ge=1)]
    owner: str
    """The piece of work that it is while it runs (storage.owners)."""
    leases_worktree: bool
    """Whether nothing else may change the worktree while it runs; without Git nothing could tell."""
    commit: str | None = None
    tree: str | None = None
    surroundings_digest: Digest | None = None
    """Of the uncommitted files that it found around the commit."""
    started_at: str
    ended_at: str | None = None
    end_reason: str | None = None
    """all_done, stopped, or server_gone: it was killed or could not go on."""
    counts: dict[str, int] = {}
    """Confirmed Executions by status."""
    missing_record_ids: tuple[str, ...] = ()
    """Executions without a confirmed end; a running probe has confirmed none."""
    unknown_record_ids: tuple[str, ...] = ()
    """Those of them that had begun."""
    changed_paths: tuple[str, ...] = ()
    """What was not as before when it had ended."""
    records_sha256: Digest | None = None
    notes: tuple[str, ...] = ()

    @property
    def charged(self) -> int:
        """The Executions that its permission pays for: while it runs all that it may, afterwards those that began."""
        return self.slots if self.status == "running" else sum(self.counts.values()) + len(self.unknown_record_ids)
