"""The next call, read off what is stored: what a person who knows the loop would do now."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from operations.tuning import budget, deciding, lifecycle, running
from storage.errors import NextCall
from storage.schema.assessments import Assessment
from storage.schema.batches import Batch
from storage.schema.candidates import Candidate, Issue
from storage.schema.datasets import Dataset
from storage.schema.rounds import CLOSED, Round
from storage.schema.validations import Validation

VERDICTS = {"rows": "verdicts, or a judger that ATK runs"}
ROWS = {"rows": "verdicts; none where ATK runs the judger's rule"}


def next_calls(  # noqa: PLR0913 - the stored kinds that decide it
    *,
    value: Round | None,
    datasets: Sequence[Dataset],
    batches: Sequence[Batch],
    assessments: Sequence[Assessment],
    issues: Sequence[Issue],
    candidates: Sequence[Candidate],
    validations: Sequence[Validation],
    head: str | None = None,
    closed: Collection[str] = (),
) -> list[NextCall]:
    """Returns up to three calls that lead on; `closed` names the Rounds that are over, whose batches lead nowhere."""
    if not datasets:
        return [NextCall("store_dataset", supply={"source": "a CSV or JSONL file of Cases"})]
    if waiting := _unjudged(value, [b for b in batches if b.round_id not in closed], assessments):
        return [_judge(value, waiting)]
    if value is None or value.status in CLOSED:
        if not batches:
            evaluate = {"dataset_id": datasets[-1].id, **({"revision_commit": head} if head else {})}
            return [NextCall("run_evaluation", evaluate, {} if head else {"revision_commit": "HEAD's commit"})]
        return [NextCall("create_round", {"batch_ids": [batches[-1].id]})]
    return _in_round(value, batches, assessments, issues, candidates, validations)


def _unjudged(value: Round | None, batches: Sequence[Batch], assessments: Sequence[Assessment]) -> str | None:
    """Returns the newest batch that has Records, could still count, and was not judged."""
    judged = {a.batch_id for a in assessments}
    replaced = {b.supersedes_batch_id for b in batches} | _run_anew(batches)
    frozen = value.plan if value is not None and value.status not in CLOSED else None
    for batch in reversed(batches):
        # A side has to be whole; before any plan every Record tells something.
        useful = batch.status == "sealed" if frozen else batch.status in ("sealed", "partial", "interrupted")
        counts = value is not None and batch.round_id == value.id if frozen else True
        if useful and counts and any(batch.counts.values()) and batch.id not in {*judged, *replaced}:
            return batch.id
    return None


def _run_anew(batches: Sequence[Batch]) -> set[str]:
    """Returns the batches that did not complete and whose like did later."""
    whole: set[tuple[object, ...]] = set()
    found = set()
    for batch in reversed(batches):
        like = (batch.round_id, batch.revision_id, batch.phase, batch.dataset_id, batch.case_ids, batch.repeats)
        if batch.status == "sealed":
            whole.add(like)
        elif like in whole:
            found.add(batch.id)
    return found


def _judge(value: Round | None, batch_id: str) -> NextCall:
    """The assessment of a batch: under the specification and by the judger of the plan, where one is frozen."""
    if value is None or value.plan is None or value.status in CLOSED:
        return NextCall("store_assessment", {"batch_id": batch_id}, VERDICTS)
    by_plan = {"batch_id": batch_id, "spec_id": value.plan.spec_id, "judger_id": value.plan.judger_id}
    return NextCall("store_assessment", by_plan, ROWS)


def _in_round(  # noqa: PLR0913, PLR0917 - the stored kinds that decide it
    value: Round,
    batches: Sequence[Batch],
    assessments: Sequence[Assessment],
    issues: Sequence[Issue],
    candidates: Sequence[Candidate],
    validations: Sequence[Validation],
) -> list[NextCall]:
    if value.status == "analysis_only":
        if not any(i.round_id == value.id for i in issues):
            return [NextCall("store_diagnosis", {"round_id": value.id}, {"issues": "what fails and why"})]
        return [NextCall("freeze_round", {"round_id": value.id, "preview": True})]
    pending = next((c for c in candidates if c.id == value.pending_candidate_id), None)
    if pending is not None:
        free, side = _means(value, pending.primary_issue_id, batches, candidates, validations)
        missing = sum(
            not running.stands(value, r, batches) for r in (pending.parent_revision_id, pending.revision_id or "")
        )
        if pending.status == "sealed" and missing * side > free and not deciding.of_candidate(pending, validations):
            return [lifecycle.rejecting(value.id, pending.id)]
        return _for_candidate(value, pending, batches, assessments, validations)
    if value.status == "finalizing":
        if not value.accepted_candidate_ids:
            ending = {"round_id": value.id, "action": "close_without_adoption"}
            return [NextCall("finish_round", ending, {"reason": "nothing is kept"})]
        return _for_final(value, batches, assessments, validations)
    drafted = sum(c.round_id == value.id for c in candidates)
    free, side = _means(value, None, batches, candidates, validations)
    more = value.plan is not None and drafted < value.plan.budget.candidates and side <= free
    begin = [NextCall("prepare_candidate", {"round_id": value.id}, {"primary_issue_id": "an Issue of the plan"})] * more
    if value.accepted_candidate_ids:
        return [*begin, *_for_final(value, batches, assessments, validations)]
    if not begin:
        ending = {"round_id": value.id, "action": "close_without_adoption"}
        return [NextCall("finish_round", ending, {"reason": "why it ends"})]
    if _batch(value, value.current_revision_id, "incremental", batches) is None:
        return [NextCall("run_evaluation", {"round_id": value.id, "revision_id": value.current_revision_id})]
    return begin


def _means(
    value: Round,
    issue_id: str | None,
    batches: Sequence[Batch],
    candidates: Sequence[Candidate],
    validations: Sequence[Validation],
) -> tuple[int, int]:
    """Returns the Executions that incremental runs may take, and what one side of the cheapest comparison takes."""
    if value.plan is None:
        return 0, 0
    issues = (issue_id,) if issue_id else value.plan.issue_ids
    sides = [running.incremental_side(value.plan, value, candidates, validations, i) for i in issues]
    return budget.account(value, value.plan, batches).free, min(sides, default=0)


def _for_candidate(
    value: Round,
    pending: Candidate,
    batches: Sequence[Batch],
    assessments: Sequence[Assessment],
    validations: Sequence[Validation],
) -> list[NextCall]:
    named = {"round_id": value.id, "candidate_id": pending.id}
    if pending.status == "draft":
        return [NextCall("seal_candidate", named), NextCall("cancel_draft", named, {"reason": "why"})]
    newest = deciding.of_candidate(pending, validations)
    if newest:
        action = "keep" if newest[-1].result == "pass" else "reject"
        return [NextCall("decide_candidate", {**named, "action": action}, {"reason": "why"})]
    return _compared(value, (pending.parent_revision_id, str(pending.revision_id)), "incremental", batches, assessments)


def _for_final(
    value: Round, batches: Sequence[Batch], assessments: Sequence[Assessment], validations: Sequence[Validation]
) -> list[NextCall]:
    newest = deciding.of_round(value, validations)
    if newest:
        action = "complete" if newest[-1].result == "pass" else "complete_with_override"
        return [NextCall("finish_round", {"round_id": value.id, "action": action}, {"reason": "why"})]
    return _compared(value, (value.baseline_revision_id, value.current_revision_id), "final", batches, assessments)


def _compared(
    value: Round, sides: tuple[str, str], phase: str, batches: Sequence[Batch], assessments: Sequence[Assessment]
) -> list[NextCall]:
    """Runs whichever side is missing, then compares."""
    found = []
    for revision_id in sides:
        batch = _batch(value, revision_id, phase, batches)
        if batch is None:
            return [NextCall("run_evaluation", {"round_id": value.id, "revision_id": revision_id, "phase": phase})]
        judged = [a.id for a in assessments if a.batch_id == batch.id]
        if not judged:
            return [_judge(value, batch.id)]
        found.append(judged[-1])
    both = {"round_id": value.id, "mode": phase, "left_assessment_id": found[0], "right_assessment_id": found[1]}
    return [NextCall("compare_and_gate", both)]


def _batch(value: Round, revision_id: str, phase: str, batches: Sequence[Batch]) -> Batch | None:
    """The newest batch of a side that could count: run for this Round after its plan was frozen."""
    frozen = value.plan.frozen_after_record if value.plan else 0
    for batch in reversed(batches):
        same = (batch.round_id, batch.revision_id, batch.phase) == (value.id, revision_id, phase)
        if same and batch.status in ("sealed", "running") and batch.started_record > frozen:
            return batch
    return None
