"""A batch: immutable evidence of one run."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from storage.schema.approvals import HowConfirmed
from storage.schema.base import Digest, ObjectId, Record, Value

BatchStatus = Literal["running", "sealed", "partial", "interrupted", "contaminated"]
Phase = Literal["incremental", "final"]


class UnknownAuthorization(Value):
    """A person's word that attempts of unknown end may be made again."""

    source: Literal["user"]
    batch_id: ObjectId
    record_ids: tuple[str, ...]
    reason: str
    risk: str
    recorded_as: HowConfirmed = "reported_by_client"


class Spending(Value):
    """What a run may spend of one metric, and how far the figures can be trusted."""

    metric: Literal["cost", "tool_calls", "duration_seconds"]
    limit: float
    source: str
    """Who measures it."""
    trust: Literal["independent", "self_reported"]


class Batch(Record):
    """One run of one Revision over Cases and repeats.

    `sealed`: every slot has a confirmed Execution and the content was the Revision's before and after.
    `partial`: the run ended with slots missing or failed by infrastructure. `interrupted`: it was stopped or its
    server died. `contaminated`: the content was not the Revision's any more when the run had ended.
    """

    kind: ClassVar[str] = "batch"

    status: BatchStatus
    purpose: Literal["evaluation"] = "evaluation"
    phase: Phase
    dataset_id: ObjectId
    round_id: ObjectId | None
    revision_id: ObjectId
    commit: str
    tree: str
    case_ids: tuple[str, ...]
    repeats: int
    slots: int
    concurrency: int
    timeout_seconds: float
    run_config_digest: Digest
    runner_digest: Digest
    started_at: str
    started_record: int
    ended_at: str | None = None
    end_reason: str | None = None
    counts: dict[str, int] = {}
    missing_record_ids: tuple[str, ...] = ()
    unknown_record_ids: tuple[str, ...] = ()
    records_sha256: Digest | None = None
    records_bytes: int | None = None
    notes: tuple[str, ...] = ()
    environment: dict[str, Any] = {}
    """What ran: interpreter, platform, Git, and the names of declared variables."""
    supersedes_batch_id: ObjectId | None = None
    """The batch that this one continues or retries. A batch has one successor at most."""
    continuation_kind: Literal["continue", "retry"] | None = None
    carried: int = 0
    """How many of its Records are the predecessor's: they were made, and paid for, there."""
    unknown_execution_authorization: UnknownAuthorization | None = None
    stop_after_infra_failures: int | None = None
    spend_limit: Spending | None = None
    totals: dict[str, float] = {}
    """Metric → its sum over all attempts that reported it, retried and carried ones included."""
    reported: dict[str, int] = {}
    """Metric → how many attempts reported it."""
    components: tuple[dict[str, Any], ...] = ()
    """Each component as it was observed before the run: version, expected_version, issue, sha256."""
    holdout_case_ids: tuple[str, ...] = ()
    """Those of `case_ids` that are holdout: what they and their attempts hold stays encrypted."""
    problems: tuple[str, ...] = ()
    """What was wrong with the runtime before and after alike."""
