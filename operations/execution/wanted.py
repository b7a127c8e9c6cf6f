"""What a caller asked to be run, and which batch that follows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from operations.tuning import continuing
from operations.tuning.running import Metric
from storage.errors import AtkError, NextCall
from storage.schema.batches import Batch, UnknownAuthorization
from storage.transaction import Transaction


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a caller asked to be run; None where the plan or the project decides."""

    dataset_id: str | None
    revision_id: str | None
    revision_commit: str | None
    round_id: str | None
    phase: Literal["incremental", "final"]
    case_ids: list[str] | None
    repeats: int | None
    concurrency: int | None
    timeout_seconds: float | None
    batch_timeout_seconds: int
    continue_batch_id: str | None = None
    unknown_execution_authorization: UnknownAuthorization | None = None
    retry_batch_id: str | None = None
    retry_execution_ids: tuple[str, ...] = ()
    stop_after_infra_failures: int | None = None
    spend_metric: Metric | None = None
    spend_limit: float = 0

    def following(self, old: Batch) -> Wanted:
        """Returns the run that follows `old`: the same in everything that it leaves open.

        Raises:
            DiffersFromPredecessor: A field that is given is not what `old` ran with.
        """
        same = ("dataset_id", "revision_id", "round_id", "repeats", "concurrency", "timeout_seconds", "case_ids")
        continuing.require_same(old, {field: getattr(self, field) for field in same})
        if self.phase != "incremental":
            continuing.require_same(old, {"phase": self.phase})
        return replace(
            self,
            **{field: getattr(old, field) for field in same if field != "case_ids"},
            case_ids=list(old.case_ids),
            phase=old.phase,
            revision_commit=None if old.round_id else (self.revision_commit or old.commit),
        )


@dataclass(kw_only=True, eq=False)
class ContinueOrRetry(AtkError):
    """A run follows one batch in one way."""

    message = (
        "continue_batch_id, retry_batch_id and what belongs to them do not go together as given: {problem}. Give "
        "continue_batch_id (with unknown_execution_authorization where attempts are unknown), or retry_batch_id with "
        "retry_execution_ids."
    )
    next_calls = (NextCall("get_status"),)

    problem: str


def predecessor(wanted: Wanted, tx: Transaction) -> Batch | None:
    """Returns the batch that is to be followed, if any.

    Raises:
        ContinueOrRetry: What is given does not go together.
        UnknownObject: There is no such batch.
        BatchStillRuns: It has not ended.
        AlreadyFollowed: It has a successor.
    """
    given = [b for b in (wanted.continue_batch_id, wanted.retry_batch_id) if b is not None]
    if len(given) > 1:
        raise ContinueOrRetry(problem="both batches are given")
    if wanted.retry_execution_ids and wanted.retry_batch_id is None:
        raise ContinueOrRetry(problem="retry_execution_ids is given without retry_batch_id")
    if wanted.unknown_execution_authorization is not None and wanted.continue_batch_id is None:
        raise ContinueOrRetry(problem="unknown_execution_authorization is given without continue_batch_id")
    if not given:
        return None
    old = tx.state.get(Batch, given[0])
    continuing.require_followable(old, tx.state.all(Batch))
    return old
