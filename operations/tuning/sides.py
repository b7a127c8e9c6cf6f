"""A side of a comparison is run once: what may run again, which run counts, and what is told of those that do not."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from operations.tuning.batches import is_followed
from storage.errors import AtkError, NextCall
from storage.schema.assessments import Assessment
from storage.schema.batches import Batch
from storage.schema.rounds import Round
from storage.schema.validations import Validation

_NAMED = 5
"""How many runs a sentence names."""


@dataclass(kw_only=True, eq=False)
class SideStands(AtkError):
    """The side was run and not compared yet; a second run would let somebody choose between the two."""

    message = (
        "{batch_id} is the side of {revision_id} in {round_id} already, is {status}, and was not compared yet. A side "
        "is run once for each comparison, so that nobody picks the run that suits: wait for it, assess it and compare "
        "it. Attempts that infrastructure spoiled are tried again with retry_batch_id."
    )
    next_calls = (
        NextCall("wait_for_batch", {"batch_id": "{batch_id}"}),
        NextCall("store_assessment", {"batch_id": "{batch_id}"}, {"rows": "verdicts, or a judger that ATK runs"}),
    )

    round_id: str
    revision_id: str
    batch_id: str
    status: str


@dataclass(kw_only=True, eq=False)
class SideToContinue(AtkError):
    """A run of the side ended early with attempts that say something; leaving them out would be choosing."""

    message = (
        "{batch_id} of {revision_id} ended as {status}, and what its attempts say of the agent ({seen} of them do) "
        "counts, whatever it is: finish it with continue_batch_id instead of running the side anew."
    )
    next_calls = (NextCall("run_evaluation", {"continue_batch_id": "{batch_id}"}),)

    round_id: str
    revision_id: str
    batch_id: str
    status: str
    seen: int


def runs(value: Round, revision_id: str, phase: str, batches: Sequence[Batch]) -> Iterator[Batch]:
    """Yields the runs of a side for this Round after its plan was frozen, the oldest first."""
    frozen = value.plan.frozen_after_record if value.plan else 0
    for batch in batches:
        same = (batch.round_id, batch.revision_id, batch.phase) == (value.id, revision_id, phase)
        if same and batch.started_record > frozen:
            yield batch


def require_open(  # noqa: PLR0913 - a side, what it compares, and what was run of it
    value: Round,
    revision_id: str,
    phase: str,
    due: Collection[str],
    batches: Sequence[Batch],
    *,
    compared: Collection[str],
    follows: str | None = None,
) -> None:
    """Refuses to run a side anew that stands or has to be continued. A batch may follow the one that it continues.

    A run stands until it was compared: a further one then has a further look, which is charged. One that lacks a Case,
    that infrastructure spoiled, of which nobody knows how some attempts ended, or that was contaminated, does not.

    Args:
        value: The Round.
        revision_id: What the side runs.
        phase: For which comparison.
        due: The Cases that are compared next.
        batches: All that were run, oldest first.
        compared: The batches that were sides of a Validation.
        follows: The batch that the run continues or retries.

    Raises:
        SideStands: It was run, or is running.
        SideToContinue: It ended early and says something of the agent.
    """
    for batch in runs(value, revision_id, phase, batches):
        if batch.id == follows or is_followed(batch, batches) or not set(due) <= set(batch.case_ids):
            continue
        named = {"round_id": value.id, "revision_id": revision_id, "batch_id": batch.id, "status": batch.status}
        waits = batch.status == "sealed" and batch.id not in compared and not is_spoiled(batch)
        if batch.status == "running" or waits:
            raise SideStands(**named)
        if batch.status in ("partial", "interrupted") and seen(batch) and not batch.unknown_record_ids:
            raise SideToContinue(**named, seen=seen(batch))


def sides_of(validations: Sequence[Validation]) -> frozenset[str]:
    """Returns the batches that were sides of these Validations."""
    return frozenset(batch_id for v in validations for batch_id in (v.left_batch_id, v.right_batch_id))


def is_spoiled(batch: Batch) -> bool:
    """Whether a sealed run cannot be relied on for a reason that lies outside of the agent."""
    return bool(batch.problems or batch.counts.get("infra_error"))


def seen(batch: Batch) -> int:
    """Returns how many attempts of a run say something of the agent; a timeout does to whoever looks on."""
    return sum(batch.counts.get(status, 0) for status in ("completed", "agent_error", "timeout"))


def newer(batch: Batch, compared: Collection[str], batches: Sequence[Batch], rounds: Sequence[Round]) -> str | None:
    """Returns a later run of the same side that has every compared Case and counts in place of `batch`, or None."""
    value = next((r for r in rounds if r.id == batch.round_id), None)
    later = [] if value is None else list(runs(value, batch.revision_id, batch.phase, batches))
    for other in reversed(later):
        stands = other.status in ("sealed", "running") and not is_followed(other, batches)
        if stands and set(compared) <= set(other.case_ids):
            return other.id if other.started_record > batch.started_record else None
    return None


def other_runs(batch: Batch, batches: Sequence[Batch], rounds: Sequence[Round]) -> str | None:
    """Returns a sentence about the runs of a side that `batch` does not continue, or None where there are none."""
    value = next((r for r in rounds if r.id == batch.round_id), None)
    chain = set(_back(batch.id, {b.id: b.supersedes_batch_id for b in batches}))
    known = [] if value is None else runs(value, batch.revision_id, batch.phase, batches)
    others = [f"{b.id} ({b.status})" for b in known if b.id not in chain]
    return f"Other runs of {batch.revision_id} do not count here: {_listed(others)}." if others else None


def earlier_judgements(assessment: Assessment, judged: Sequence[Assessment]) -> str | None:
    """Returns a sentence about the judgements that `assessment` took the place of, or None where there are none."""
    earlier = _back(assessment.id, {a.id: a.supersedes for a in judged})[1:]
    return f"{assessment.id} took the place of earlier judgements: {_listed(earlier)}." if earlier else None


def _back(first: str, before: dict[str, str | None]) -> list[str]:
    """Returns `first` and everything that it took the place of, the newest first."""
    found, at = [first], before.get(first)
    while at is not None:
        found.append(at)
        at = before.get(at)
    return found


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
