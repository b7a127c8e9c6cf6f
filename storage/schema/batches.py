"""A batch: immutable evidence of one run."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from storage.schema.base import Digest, ObjectId, Record

BatchStatus = Literal["running", "sealed", "partial", "interrupted", "contaminated"]
Phase = Literal["incremental", "final"]


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
