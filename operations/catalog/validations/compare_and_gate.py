"""`compare_and_gate`: compare two sides by the frozen rule."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from operations import validations
from operations.context import Context
from operations.definition import Effect, Example, Response, WriteRequest, operation, steps
from operations.tuning import comparing, lifecycle
from operations.validations import Subject
from operations.wording import counted
from storage.errors import NextCall
from storage.projection import State, UnknownObject
from storage.schema.base import ObjectId
from storage.schema.candidates import Candidate
from storage.schema.rounds import Plan, Round
from storage.schema.validations import GateResult, Validation


class CompareAndGateRequest(WriteRequest):
    round_id: ObjectId
    left_assessment_id: Annotated[ObjectId, Field(description="Of the parent (incremental) or of B0 (final).")]
    right_assessment_id: Annotated[ObjectId, Field(description="Of the candidate or of the current revision.")]
    mode: Annotated[
        Literal["incremental", "final"], Field(description="incremental: a candidate. final: the Round.")
    ] = "incremental"
    candidate_id: Annotated[ObjectId | None, Field(description="Default: the pending candidate.")] = None
    issue_id: Annotated[ObjectId | None, Field(description="Fixed by the candidate; checked when given.")] = None
    dimension: Annotated[str | None, Field(description="Fixed by the plan; checked when given.")] = None
    left_commit: Annotated[str | None, Field(description="Fixed by the Round; checked when given.")] = None
    limitations: Annotated[list[str], Field(description="What a reader should know besides.")] = []


class CompareAndGateResponse(Response):
    round_id: ObjectId
    validation_id: ObjectId
    candidate_id: ObjectId | None
    result: Annotated[str, Field(description="pass, no_effect, regression, insufficient or invalid")]
    summary: Annotated[dict[str, Any], Field(description="Reasons, counts, statistics, error budget.")]
    left_table_digest: Annotated[str, Field(description="SHA-256 of the left outcomes.")]
    right_table_digest: Annotated[str, Field(description="SHA-256 of the right outcomes.")]


@operation(
    effect=Effect.STORE,
    raises=(
        lifecycle.WrongRoundStatus,
        lifecycle.RoundWithoutBaseline,
        lifecycle.WrongCandidate,
        comparing.SidesNotComparable,
        comparing.FrozenField,
        UnknownObject,
    ),
    examples=(
        Example(
            "A candidate against its parent.",
            {
                "round_id": "round-9-t4hx",
                "left_assessment_id": "assessment-16-e0w1",
                "right_assessment_id": "assessment-18-n5tz",
            },
        ),
    ),
)
def compare_and_gate(request: CompareAndGateRequest, context: Context) -> CompareAndGateResponse:
    """Compare a candidate with its parent, or the current revision with B0, by the rule that the plan froze.

    Both sides are judged batches of this Round, run after the freeze, of exactly the Revisions compared. Answers
    pass, no_effect, regression, insufficient or invalid with statistics; an incremental look spends error budget.

    Both are judged by the frozen judger. An incremental comparison is charged to the error ledger. Comparing the
    same two assessments again returns the same Validation.
    """
    with context.transaction() as tx:
        value = tx.state.get(Round, request.round_id)
        allowed = ("optimizing",) if request.mode == "incremental" else ("optimizing", "finalizing")
        lifecycle.require_status(value, "compare_and_gate", *allowed)
        plan = lifecycle.plan_of(value, "compare_and_gate")
        subject = _subject(request, value, plan, tx.state)
        sides = validations.sides_of(subject, request.left_assessment_id, request.right_assessment_id, tx.state)
        for side in sides:
            comparing.check_side(side, value, plan, request.mode)
        left_out = _left_out(plan, subject)
        if known := _same(request, tx.state):
            return tx.commit(_response(known, value, "This comparison was made before", warnings=left_out))
        found = validations.compared(context.project, tx.state, plan, subject, sides)
        result = found.result
        with context.project.staging("validations") as staging:
            validation_id = tx.new_id("validation")
            stored = staging.write("comparison.csv", [comparing.comparison_csv(found.left, found.right)])
            tx.place(staging, f"validations/{validation_id}")
            validation = tx.put(
                Validation(
                    id=validation_id,
                    round_id=value.id,
                    mode=request.mode,
                    left_assessment_id=sides[0].assessment.id,
                    right_assessment_id=sides[1].assessment.id,
                    left_batch_id=sides[0].batch.id,
                    right_batch_id=sides[1].batch.id,
                    left_revision_id=sides[0].revision_id,
                    right_revision_id=sides[1].revision_id,
                    candidate_id=subject.candidate.id if subject.candidate else None,
                    issue_id=subject.candidate.primary_issue_id if subject.candidate else None,
                    target_case_ids=subject.targets,
                    result=result.result,
                    reasons=result.reasons,
                    limitations=(*result.limitations, *request.limitations),
                    statistics=result.statistics,
                    rule=plan.decision_rule,
                    look=found.look,
                    alpha_spent=found.alpha_spent,
                    plan_digest=str(value.plan_digest),
                    left_table_digest=comparing.table_digest(found.left),
                    right_table_digest=comparing.table_digest(found.right),
                    comparison_sha256=stored.sha256,
                    created_at=context.timestamp,
                    charged_case_ids=found.charged,
                )
            )
            return tx.commit(_response(validation, value, result.result, result, warnings=left_out))


def _subject(request: CompareAndGateRequest, value: Round, plan: Plan, state: State) -> Subject:
    """Returns what is compared; what the plan or the Round fixed cannot be chosen."""
    if request.mode == "final":
        subject = validations.of_round(value, plan, state)
        _frozen(request, "candidate_id", request.candidate_id, None)
        _frozen(request, "left_commit", request.left_commit, value.baseline_commit)
    else:
        candidate = state.get(Candidate, request.candidate_id or value.pending_candidate_id or "(none pending)")
        lifecycle.require_pending(value, candidate, "compare_and_gate", "sealed")
        subject = validations.of_candidate(value, plan, candidate, state)
        _frozen(request, "issue_id", request.issue_id, candidate.primary_issue_id)
        _frozen(request, "left_commit", request.left_commit, candidate.parent_commit)
    _frozen(request, "dimension", request.dimension, plan.primary_dimension)
    return subject


def _frozen(request: CompareAndGateRequest, field: str, given: str | None, frozen: str | None) -> None:
    if given is not None and given != frozen:
        raise comparing.FrozenField(round_id=request.round_id, field=field, given=given, frozen=frozen or "nothing")


def _same(request: CompareAndGateRequest, state: State) -> Validation | None:
    """The Validation of these very Assessments: the same question has the same answer, and costs no second look."""
    for known in state.all(Validation):
        made = (known.round_id, known.mode, known.left_assessment_id, known.right_assessment_id)
        if made == (request.round_id, request.mode, request.left_assessment_id, request.right_assessment_id):
            return known
    return None


def _left_out(plan: Plan, subject: Subject) -> list[str]:
    """Says which Cases of the plan an incremental comparison leaves to others, and why."""
    compared = set(subject.case_ids)
    left = [c for c in plan.case_ids if c not in compared]
    if not left:
        return []
    elsewhere = {c: issue for issue, ids in plan.target_case_ids_by_issue.items() for c in ids}
    named = [f"{c} ({elsewhere[c]})" if c in elsewhere else c for c in left]
    shown = ", ".join(named[:8]) + (f" and {len(named) - 8} more" if len(named) > 8 else "")  # noqa: PLR2004 - fits a line
    reason = "targets of other Issues, or not protected by the plan; the final validation compares them"
    return [f"{counted(len(left), 'Case')} of the plan left out of this comparison: {shown}: {reason}."]


def _response(
    found: Validation, value: Round, lead: str, result: GateResult | None = None, *, warnings: list[str]
) -> CompareAndGateResponse:
    summary = result.summary if result else found.summary
    decide_it = {"round_id": value.id, "validation_id": found.id}
    if found.mode == "incremental":
        decide_it["candidate_id"] = str(found.candidate_id)
        follow = (
            NextCall("decide_candidate", {**decide_it, "action": "keep"}, {"reason": "why"})
            if found.result == "pass"
            else NextCall("decide_candidate", decide_it, {"action": "reject or defer", "reason": "why"})
        )
    else:
        action = "complete" if found.result == "pass" else "complete_with_override"
        follow = NextCall("finish_round", {**decide_it, "action": action}, {"reason": "why"})
    return CompareAndGateResponse(
        message=f"{lead}: {found.id} says {found.result}. {found.reasons[0] if found.reasons else ''}".strip(),
        round_id=value.id,
        validation_id=found.id,
        candidate_id=found.candidate_id,
        result=found.result,
        summary=summary,
        left_table_digest=found.left_table_digest,
        right_table_digest=found.right_table_digest,
        warnings=warnings,
        next=steps(follow, NextCall("read_record", {"record_id": found.id})),
    )
