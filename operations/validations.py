"""One comparison of two Assessments by a frozen plan: made by `compare_and_gate`, made again by `atk verify`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from operations.importers._assessment_csv import read_assessment_csv
from operations.tuning import comparing, running
from operations.tuning.gate import GateQuestion, decide
from operations.tuning.ledger import alpha_of_look, next_look
from storage import contents
from storage.project import Project
from storage.projection import State
from storage.schema.assessments import Assessment, Judger
from storage.schema.batches import Batch
from storage.schema.candidates import Candidate
from storage.schema.rounds import Plan, Round
from storage.schema.validations import GateResult, Validation

Sides = tuple[comparing.SideFound, comparing.SideFound]
"""Left and right."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is compared: a candidate or the Round, its target and protected Cases, and the two Revisions."""

    mode: Literal["incremental", "final"]
    candidate: Candidate | None
    """None for the Round as a whole."""
    targets: tuple[str, ...]
    protected: tuple[str, ...]
    case_ids: tuple[str, ...]
    repeats: int
    revisions: tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Compared:
    """What a comparison came to, and on what grounds."""

    result: GateResult
    left: comparing.Table
    right: comparing.Table
    look: int
    alpha_spent: float


def of_candidate(value: Round, plan: Plan, candidate: Candidate, state: State) -> Subject:
    """Returns the comparison of a sealed candidate with its parent."""
    everyone, validations = state.all(Candidate), state.all(Validation)
    protected = _protected(value, plan, state)
    return Subject(
        mode="incremental",
        candidate=candidate,
        targets=candidate.target_case_ids,
        protected=tuple(c for c in protected if c not in candidate.target_case_ids),
        case_ids=running.incremental_cases(plan, value, everyone, validations, candidate.primary_issue_id),
        repeats=plan.incremental_repeats,
        revisions=(candidate.parent_revision_id, str(candidate.revision_id)),
    )


def of_round(value: Round, plan: Plan, state: State) -> Subject:
    """Returns the comparison of the baseline with the Round's current Revision, for the targets of what was kept."""
    kept = [c for c in state.all(Candidate) if c.id in value.accepted_candidate_ids]
    targets = dict.fromkeys(case_id for c in kept for case_id in c.target_case_ids)
    return Subject(
        mode="final",
        candidate=None,
        targets=tuple(targets),
        protected=tuple(c for c in _protected(value, plan, state) if c not in targets),
        case_ids=plan.case_ids,
        repeats=plan.final_repeats,
        revisions=(value.baseline_revision_id, value.current_revision_id),
    )


def _protected(value: Round, plan: Plan, state: State) -> tuple[str, ...]:
    fixed = running.fixed_by_accepted(value, state.all(Candidate), state.all(Validation))
    return tuple(dict.fromkeys((*plan.protection_case_ids, *fixed)))


def sides_of(subject: Subject, left_assessment_id: str, right_assessment_id: str, state: State) -> Sides:
    """Returns both sides with what is known of each.

    Raises:
        UnknownObject: There is no such Assessment, or its batch was not run here.
    """
    newer = {a.supersedes for a in state.all(Assessment)}
    followed = {b.supersedes_batch_id: b.id for b in state.all(Batch)}
    found = []
    given = (left_assessment_id, right_assessment_id)
    for name, assessment_id, revision_id in zip(("left", "right"), given, subject.revisions, strict=True):
        assessment = state.get(Assessment, assessment_id)
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
    return found[0], found[1]


def compared(project: Project, state: State, plan: Plan, subject: Subject, sides: Sides) -> Compared:
    """Reads both sides and decides by the frozen rule.

    Raises:
        StoreDamaged: An Assessment or a batch does not hold what was recorded.
    """
    left, right = (_table(project, state, side, plan, subject) for side in sides)
    look = _look(state, plan, subject)
    charged = plan.decision_rule == "statistical" and subject.mode == "incremental"
    question = GateQuestion(
        rule=plan.decision_rule,
        mode=subject.mode,
        primary_dimension=plan.primary_dimension,
        required_dimensions=plan.required_dimensions,
        left=left,
        right=right,
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
        insufficient=comparing.reservations(sides, state.get(Judger, plan.judger_id)),
    )
    return Compared(
        result=decide(question),
        left=left,
        right=right,
        look=look,
        alpha_spent=alpha_of_look(plan.alpha, look) if charged else 0.0,
    )


def _table(project: Project, state: State, side: comparing.SideFound, plan: Plan, subject: Subject) -> comparing.Table:
    rows = read_assessment_csv(contents.checked(project, state, f"assessments/{side.assessment.id}/assessment.csv"))
    records = contents.records(project, state, side.batch.id)
    dimensions = tuple(dict.fromkeys((plan.primary_dimension, *plan.required_dimensions)))
    return comparing.table(
        rows, records, dimensions, subject.case_ids, subject.repeats, timeout_is_failure=plan.timeout_is_failure
    )


def _look(state: State, plan: Plan, subject: Subject) -> int:
    plans = {r.id: r.plan for r in state.all(Round) if r.plan is not None}
    known = comparing.looks(state.all(Validation), plans)
    following = next_look(known, [plan.case_fingerprints[c] for c in subject.targets])
    return following if subject.mode == "incremental" else max(1, following - 1)
