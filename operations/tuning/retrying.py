"""Which attempts may be made again because infrastructure spoiled them: never one that says something of the agent."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from operations.tuning.continuing import Attempted, Succession, linked, renamed
from storage.errors import AtkError, NextCall
from storage.schema.batches import Batch
from storage.schema.evidence import Slot

WITHOUT_PLAN = 3
"""Retries a slot may have where no plan says how many: such a run decides nothing."""


@dataclass(kw_only=True, eq=False)
class NotRetryable(AtkError):
    """An attempt is to be made again that may not be."""

    message: ClassVar[str] = (
        "{given} of {batch_id} cannot be retried: {problem}. Only attempts that infrastructure spoiled can be (status "
        "infra_error, or timeout where the plan does not count it as the agent's failure), each the last of its chain."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (
        NextCall("read_record", {"record_id": "{batch_id}", "field": "records"}),
    )

    batch_id: str
    given: str
    problem: str


@dataclass(kw_only=True, eq=False)
class RetriesUsedUp(AtkError):
    """The slot was retried as often as the plan allows."""

    message: ClassVar[str] = (
        "{record_id} is attempt {attempts} of its slot, and max_retries_per_slot is {limit}. Its outcome stays "
        "unknown. Assess the batch, or run the side anew where it did not complete."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (
        NextCall("store_assessment", {"batch_id": "{batch_id}"}, {"rows": "verdicts, or a judger that ATK runs"}),
    )

    batch_id: str
    record_id: str
    attempts: int
    limit: int


def retried(  # noqa: PLR0913 - a batch, what of it is to be tried again, and what the plan allows
    old: Batch,
    slots: Sequence[Slot],
    attempted: Collection[Attempted],
    batch_id: str,
    record_ids: Sequence[str],
    *,
    limit: int,
    timeout_is_failure: bool,
) -> Succession:
    """Returns how `batch_id` retries `record_ids` of `old`: all old Records, and one linked attempt more for each.

    Raises:
        NotRetryable: It names the first that may not be retried.
        RetriesUsedUp: A slot has had its retries.
    """
    known = {a.record_id: a for a in attempted}
    by_id = {slot.record_id: slot for slot in slots}
    if problem := _unfit(old, record_ids):
        raise NotRetryable(batch_id=old.id, given=", ".join(record_ids[:3]) or "Nothing", problem=problem)
    followed = {slot.retry_of for slot in slots}
    allowed = ("infra_error",) if timeout_is_failure else ("infra_error", "timeout")
    for record_id in record_ids:
        found = known.get(record_id)
        if found is None:
            problem = "the batch has no such Record"
        elif record_id in followed:
            problem = "it was tried again already"
        elif found.status not in allowed:
            problem = f"its status is {found.status}"
        if problem:
            raise NotRetryable(batch_id=old.id, given=record_id, problem=problem)
        used = _retries(by_id[record_id], by_id, known)
        if used >= limit:
            raise RetriesUsedUp(batch_id=old.id, record_id=record_id, attempts=used + 1, limit=limit)
    fresh = tuple(renamed(slot, batch_id) for slot in slots)
    wanted = {by_id[record_id].n for record_id in record_ids}
    due = linked([slot for slot in fresh if slot.n in wanted], batch_id, len(fresh))
    return Succession(kind="retry", slots=(*fresh, *due), due=due, carried=frozenset(a.n for a in attempted))


def _unfit(old: Batch, record_ids: Sequence[str]) -> str:
    if not record_ids:
        return "retry_execution_ids names nothing"
    if len(set(record_ids)) != len(record_ids):
        return "retry_execution_ids names one twice"
    if old.status not in {"sealed", "partial"} or old.missing_record_ids:
        return f"the batch is {old.status} and lacks Records, so it has to be continued or run anew first"
    return ""


def _retries(slot: Slot, slots: Mapping[str, Slot], known: Mapping[str, Attempted]) -> int:
    """How often the slot was retried for infrastructure's sake; attempts that ATK cancelled do not count."""
    used = 0
    while slot.retry_of is not None:
        used += known[slot.retry_of].status != "cancelled"
        slot = slots[slot.retry_of]
    return used
