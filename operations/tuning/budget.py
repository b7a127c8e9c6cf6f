"""What a Round may still spend, and what it must keep back for its final validation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from operations.tuning.lifecycle import rejecting
from storage.errors import AtkError, NextCall
from storage.schema.batches import Batch
from storage.schema.candidates import Candidate
from storage.schema.rounds import Plan, Round

USABLE = frozenset({"running", "sealed"})
"""A final side in one of these stands; any other has to be run again, and its first failure is not charged."""


@dataclass(kw_only=True, eq=False)
class BudgetExhausted(AtkError):
    """The step would spend what the Round does not have."""

    message = (
        "{round_id} has {left} of {limit} {unit} left ({used} used, {reserve} kept back for the final validation), and "
        "{step} needs {needed}. Decide what is undecided and finish the Round, or plan the next one with a larger "
        "budget."
    )
    next_calls = (
        NextCall("get_status", {"round_id": "{round_id}"}),
        NextCall("finish_round", {"round_id": "{round_id}"}, {"action": "how it ends", "reason": "why"}),
    )

    round_id: str
    step: str
    unit: str
    needed: int
    left: int
    limit: int
    used: int
    reserve: int
    candidate_id: str = ""
    """The Candidate that cannot be compared any more, or nothing where none is undecided."""

    @property
    def next(self) -> tuple[NextCall, ...]:
        """An undecided Candidate has to be decided before the Round can end."""
        if not self.candidate_id:
            return super().next
        return (rejecting(self.round_id, self.candidate_id), *super().next[:1])


@dataclass(frozen=True)
class Account:
    """Executions of a Round: its limit, what is used, what is kept back, and what is free."""

    limit: int
    used: int
    reserve: int

    @property
    def free(self) -> int:
        """Executions that an incremental run may take."""
        return max(0, self.limit - self.used - self.reserve)


def side(plan: Plan) -> int:
    """Returns the Executions of one side of the final validation."""
    return len(plan.case_ids) * plan.final_repeats


def account(value: Round, plan: Plan, batches: Iterable[Batch]) -> Account:
    """Returns what `value` has spent and must keep back.

    The reserve pays for each final side that is still to be run: the baseline's and the current revision's. It is
    worked out anew from the revisions that stand now, so that a rollback, which needs a new final side, restores it.
    """
    own = [b for b in batches if b.round_id == value.id]
    lost = _lost_sides(own) | _continued_sides(own)
    used = sum(_charged(b, own, lost) for b in own)
    done = {b.revision_id for b in own if b.phase == "final" and b.status in USABLE}
    sides = [value.baseline_revision_id, value.current_revision_id]
    if value.external_fix is not None:  # one side: nothing is compared
        missing = 0 if value.baseline_revision_id in done else 1
    elif value.baseline_revision_id == value.current_revision_id:
        missing = 2 - (1 if value.baseline_revision_id in done else 0)
    else:
        missing = sum(revision not in done for revision in sides)
    return Account(plan.budget.executions, used, missing * side(plan))


def spent(batch: Batch) -> int:
    """Returns the Executions that a batch has used: while it runs all that it may, afterwards those that began.

    Records that it carries over were made, and paid for, in the batch before.
    """
    if batch.status == "running":
        return batch.slots - batch.carried
    return sum(batch.counts.values()) + len(batch.unknown_record_ids) - batch.carried


def _charged(batch: Batch, batches: Iterable[Batch], lost: set[str]) -> int:
    """What a Round pays for a batch: a lost side only as much as its successor does not have to run again."""
    if batch.id not in lost:
        return spent(batch)
    for successor in batches:
        if successor.supersedes_batch_id == batch.id:
            return max(0, batch.slots - (successor.slots - successor.carried))
    return 0


def _lost_sides(batches: Iterable[Batch]) -> set[str]:
    """The first final batch of each revision that could not be sealed: a crash must not cost the Round its ending."""
    first: dict[str, str] = {}
    for batch in batches:
        if batch.phase == "final" and batch.status not in USABLE:
            first.setdefault(batch.revision_id, batch.id)
    return set(first.values())


def _continued_sides(batches: Sequence[Batch]) -> set[str]:
    """The first incremental batch of each revision that was cut off after something began, and was continued.

    A default budget pays for each side once. What was under way when a run was cut off is made again, and must not cost
    the Round its next candidate; what was confirmed is carried over, so that nothing can be drawn twice.
    """
    followed = {batch.supersedes_batch_id for batch in batches}
    first: dict[str, str] = {}
    for batch in batches:
        if batch.phase == "incremental" and batch.status not in USABLE and batch.id in followed and spent(batch):
            first.setdefault(batch.revision_id, batch.id)
    return set(first.values())


def cost(value: Round, plan: Plan, batches: Sequence[Batch], planned: Batch) -> int:
    """Returns by how much `planned`, a batch that is about to start, raises what the Round has used."""
    return account(value, plan, [*batches, planned]).used - account(value, plan, batches).used


def continuation(value: Round, plan: Plan, batches: Sequence[Batch], old: Batch) -> int:
    """Returns by how much it raises what the Round has used to continue `old`, which ended without being whole.

    What it confirmed is carried over; what ATK itself ended is tried again, unless a retry of it is among its slots.
    """
    whole = old.status != "contaminated"
    retried = old.slots - len(old.case_ids) * old.repeats
    again = max(0, old.counts.get("cancelled", 0) - retried) if whole else 0
    planned = {
        "id": f"{old.id}-continued",
        "status": "running",
        "supersedes_batch_id": old.id,
        "slots": old.slots + again,
        "carried": sum(old.counts.values()) if whole else 0,
    }
    return cost(value, plan, batches, old.model_copy(update=planned))


def require_executions(  # noqa: PLR0913 - what a run costs, and what pays
    value: Round, plan: Plan, batches: Iterable[Batch], needed: int, *, final: bool, step: str
) -> None:
    """Refuses a run that the budget cannot pay; an incremental one may not touch the reserve.

    Raises:
        BudgetExhausted: It says what is left and what is kept back.
    """
    now = account(value, plan, batches)
    left = now.limit - now.used if final else now.free
    if needed > left:
        raise BudgetExhausted(
            round_id=value.id, step=step, unit="Executions", needed=needed,
            left=left, limit=now.limit, used=now.used, reserve=now.reserve,
            candidate_id=value.pending_candidate_id or "",
        )  # fmt: skip


def require_candidate(value: Round, plan: Plan, candidates: Iterable[Candidate]) -> None:
    """Refuses one candidate more than the budget has. Cancelled drafts stay spent.

    Raises:
        BudgetExhausted: All candidates of the plan were drafted.
    """
    used = sum(c.round_id == value.id for c in candidates)
    if used >= plan.budget.candidates:
        raise BudgetExhausted(
            round_id=value.id, step="prepare_candidate", unit="candidates", needed=1,
            left=plan.budget.candidates - used, limit=plan.budget.candidates, used=used, reserve=0,
        )  # fmt: skip
