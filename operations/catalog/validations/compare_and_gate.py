"""`compare_and_gate`: compare two sides by the frozen rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from operations.context import Context
from operations.definition import Effect, Example, Response, WriteRequest, operation, steps
from operations.importers._assessment_csv import read_assessment_csv
from operations.reading import counted
from operations.tuning import comparing, lifecycle, running
from operations.tuning.gate import GateQuestion, decide
from operations.tuning.ledger import alpha_of_look, next_look
from storage import contents
from storage.errors import NextCall
from storage.projection import State, UnknownObject
from storage.schema.assessments import Assessment, Judger
from storage.schema.base import ObjectId
from storage.schema.batches import Batch
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


@operation(
    effect=Effect.STORE,
    raises=(
        lifecycle.WrongRoundStatus,
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

    Both sides are batches of this Round, run after the plan was frozen, of exactly the Revisions compared, judged by
    the frozen judger. Returns pass, no_effect, regression, insufficient or invalid with the statistics beside it, and
    charges an incremental comparison to the error ledger. Comparing the same two assessments again returns the same
    Validation.
    """
    with context.transaction() as tx:
        value = tx.state.get(Round, request.round_id)
        allowed = ("optimizing",) if request.mode == "incremental" else ("optimizing", "finalizing")
        lifecycle.require_status(value, "compare_and_gate", *allowed)
        plan = lifecycle.plan_of(value, "compare_and_gate")
        subject = _subject(request, value, plan, tx.state)
        sides = _sides(request, subject, tx.state)
        for side in sides:
            comparing.check_side(side, value, plan, request.mode)
        left_out = _left_out(plan, subject)
        if known := _same(request, tx.state):
            return tx.commit(_response(known, value, "This comparison was made before", warnings=left_out))
        tables = [_table(context, tx.state, side, plan, subject) for side in sides]
        look = _look(tx.state, plan, subject, request.mode)
        result = decide(_question(plan, subject, tables, look, sides, tx.state.get(Judger, plan.judger_id)))
        with context.project.staging("validations") as staging:
            validation_id = tx.new_id("validation")
            stored = staging.write("comparison.csv", [comparing.comparison_csv(*tables)])
            tx.place(staging, f"validations/{validation_id}")
            charged = plan.decision_rule == "statistical" and request.mode == "incremental"
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
                    look=look,
                    alpha_spent=alpha_of_look(plan.alpha, look) if charged else 0.0,
                    plan_digest=str(value.plan_digest),
                    left_table_digest=comparing.table_digest(tables[0]),
                    right_table_digest=comparing.table_digest(tables[1]),
                    comparison_sha256=stored.sha256,
                    created_at=context.timestamp,
                )
            )
            return tx.commit(_response(validation, value, result.result, result, warnings=left_out))


@dataclass(frozen=True, kw_only=True)
class _Subject:
    """What is compared: a candidate or the Round, its target and expected Cases, and the two Revisions."""

    candidate: Candidate | None
    targets: tuple[str, ...]
    protected: tuple[str, ...]
    case_ids: tuple[str, ...]
    repeats: int
    revisions: tuple[str, str]


def _subject(request: CompareAndGateRequest, value: Round, plan: Plan, state: State) -> _Subject:
    everyone, validations = state.all(Candidate), state.all(Validation)
    fixed = running.fixed_by_accepted(value, everyone, validations)
    protected = tuple(dict.fromkeys((*plan.protection_case_ids, *fixed)))
    if request.mode == "final":
        _frozen(request, "candidate_id", request.candidate_id, None)
        kept = [c for c in everyone if c.id in value.accepted_candidate_ids]
        targets = dict.fromkeys(case_id for c in kept for case_id in c.target_case_ids)
        subject = _Subject(
            candidate=None,
            targets=tuple(targets),
            protected=tuple(c for c in protected if c not in targets),
            case_ids=plan.case_ids,
            repeats=plan.final_repeats,
            revisions=(value.baseline_revision_id, value.current_revision_id),
        )
        _frozen(request, "left_commit", request.left_commit, value.baseline_commit)
    else:
        candidate = state.get(Candidate, request.candidate_id or value.pending_candidate_id or "(none pending)")
        lifecycle.require_pending(value, candidate, "compare_and_gate", "sealed")
        subject = _Subject(
            candidate=candidate,
            targets=candidate.target_case_ids,
            protected=tuple(c for c in protected if c not in candidate.target_case_ids),
            case_ids=running.incremental_cases(plan, value, everyone, validations, candidate.primary_issue_id),
            repeats=plan.incremental_repeats,
            revisions=(candidate.parent_revision_id, str(candidate.revision_id)),
        )
        _frozen(request, "issue_id", request.issue_id, candidate.primary_issue_id)
        _frozen(request, "left_commit", request.left_commit, candidate.parent_commit)
    _frozen(request, "dimension", request.dimension, plan.primary_dimension)
    return subject


def _frozen(request: CompareAndGateRequest, field: str, given: str | None, frozen: str | None) -> None:
    if given is not None and given != frozen:
        raise comparing.FrozenField(round_id=request.round_id, field=field, given=given, frozen=frozen or "nothing")


def _sides(request: CompareAndGateRequest, subject: _Subject, state: State) -> list[comparing.SideFound]:
    found = []
    given = (request.left_assessment_id, request.right_assessment_id)
    for name, assessment_id, revision_id in zip(("left", "right"), given, subject.revisions, strict=True):
        assessment = state.get(Assessment, assessment_id)
        newer = {a.supersedes for a in state.all(Assessment)}
        followed = {b.supersedes_batch_id: b.id for b in state.all(Batch)}
        found.append(
            comparing.SideFound(
                name=name,
                revision_id=revision_id,
                batch=state.get(Batch, assessment.batch_id),
                assessment=assessment,
                current=assessment.id not in newer,
                successor_id=followed.get(assessment.batch_id),
            )
        )
    return found


def _same(request: CompareAndGateRequest, state: State) -> Validation | None:
    """The Validation of these very Assessments: the same question has the same answer, and costs no second look."""
    for known in state.all(Validation):
        made = (known.round_id, known.mode, known.left_assessment_id, known.right_assessment_id)
        if made == (request.round_id, request.mode, request.left_assessment_id, request.right_assessment_id):
            return known
    return None


def _table(context: Context, state: State, side: comparing.SideFound, plan: Plan, subject: _Subject) -> comparing.Table:
    rows = read_assessment_csv(
        contents.checked(context.project, state, f"assessments/{side.assessment.id}/assessment.csv")
    )
    records = contents.records(context.project, state, side.batch.id)
    dimensions = tuple(dict.fromkeys((plan.primary_dimension, *plan.required_dimensions)))
    return comparing.table(
        rows, records, dimensions, subject.case_ids, subject.repeats, timeout_is_failure=plan.timeout_is_failure
    )


def _look(state: State, plan: Plan, subject: _Subject, mode: str) -> int:
    plans = {r.id: r.plan for r in state.all(Round) if r.plan is not None}
    known = comparing.looks(state.all(Validation), plans)
    following = next_look(known, [plan.case_fingerprints[c] for c in subject.targets])
    return following if mode == "incremental" else max(1, following - 1)


def _question(  # noqa: PLR0913, PLR0917 - what a result depends on
    plan: Plan,
    subject: _Subject,
    tables: Sequence[comparing.Table],
    look: int,
    sides: Sequence[comparing.SideFound],
    judger: Judger,
) -> GateQuestion:
    return GateQuestion(
        rule=plan.decision_rule,
        mode="incremental" if subject.candidate else "final",
        primary_dimension=plan.primary_dimension,
        required_dimensions=plan.required_dimensions,
        left=tables[0],
        right=tables[1],
        case_ids=subject.case_ids,
        repeats=subject.repeats,
        target_case_ids=subject.targets,
        protected_case_ids=subject.protected,
        source_groups=plan.source_groups,
        margin=plan.margin,
        alpha=plan.alpha,
        look=look,
        min_fixed_cases=plan.min_fixed_cases,
        min_primary_delta=plan.min_primary_delta,
        insufficient=comparing.reservations(sides, judger),
    )


def _left_out(plan: Plan, subject: _Subject) -> list[str]:
    """Says which Cases of the plan an incremental comparison leaves to others, and why."""
    left = [c for c in plan.case_ids if c not in subject.case_ids]
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
        warnings=warnings,
        next=steps(follow, NextCall("read_record", {"record_id": found.id})),
    )
