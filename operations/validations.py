"""One comparison of two Assessments by a frozen plan: made by `compare_and_gate`, made again by `atk verify`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from operations.importers._assessment_csv import read_assessment_csv
from operations.tuning import comparing, judging, loading, metrics, running
from operations.tuning import sides as running_sides
from operations.tuning.comparison import Outcome
from operations.tuning.gate import GateQuestion, decide
from operations.tuning.ledger import alpha_of_look, next_look
from operations.tuning.questions import Efficiency
from storage import contents
from storage.project import Project
from storage.projection import State
from storage.schema.assessments import Assessment, Judger
from storage.schema.batches import Batch
from storage.schema.candidates import Candidate
from storage.schema.evidence import EvidenceRecord
from storage.schema.rounds import Plan, Round
from storage.schema.validations import GateResult, Validation

HOLDOUT_PROTECTED = 2
"""The first rule version by which holdout Cases are protected in the final validation."""

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
    screening: tuple[str, ...] = ()
    """Targets that only screen."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """What a comparison came to, and on what grounds."""

    result: GateResult
    left: comparing.Table
    right: comparing.Table
    look: int
    alpha_spent: float
    charged: tuple[str, ...]
    """The Cases that this look is charged to."""


def of_candidate(value: Round, plan: Plan, candidate: Candidate, state: State) -> Subject:
    """Returns the comparison of a sealed candidate with its parent."""
    everyone, validations = state.all(Candidate), state.all(Validation)
    protected, targets = _protected(value, plan, state), set(candidate.target_case_ids)
    return Subject(
        mode="incremental",
        candidate=candidate,
        targets=candidate.target_case_ids,
        protected=tuple(c for c in protected if c not in targets),
        case_ids=running.incremental_cases(plan, value, everyone, validations, candidate.primary_issue_id),
        repeats=plan.incremental_repeats,
        revisions=(candidate.parent_revision_id, str(candidate.revision_id)),
        screening=plan.screening_case_ids_by_issue.get(candidate.primary_issue_id, ()),
    )


def of_round(value: Round, plan: Plan, state: State) -> Subject:
    """Returns the comparison of the baseline with the Round's current Revision, for the targets of what was kept."""
    kept = [c for c in state.all(Candidate) if c.id in value.accepted_candidate_ids]
    targets = dict.fromkeys(case_id for c in kept for case_id in c.target_case_ids)
    return Subject(
        mode="final",
        candidate=None,
        targets=tuple(targets),
        protected=tuple(c for c in _protected(value, plan, state, final=True) if c not in targets),
        case_ids=plan.case_ids,
        repeats=plan.final_repeats,
        revisions=(value.baseline_revision_id, value.current_revision_id),
    )


def _protected(value: Round, plan: Plan, state: State, *, final: bool = False) -> tuple[str, ...]:
    """Returns the Cases that must not get worse; none stands for all that are compared.

    In the final validation holdout Cases are among them: nothing was tuned on them, and harm there is harm.
    """
    fixed = running.fixed_by_accepted(value, state.all(Candidate), state.all(Validation))
    if plan.rule_version < HOLDOUT_PROTECTED:
        return tuple(dict.fromkeys((*plan.protection_case_ids, *fixed)))
    if not plan.protection_case_ids:
        return ()
    unseen = plan.holdout_case_ids if final else ()
    return tuple(dict.fromkeys((*plan.protection_case_ids, *fixed, *unseen)))


def baseline_outcomes(
    project: Project, state: State, value: Round, plan: Plan
) -> tuple[str, dict[str, tuple[Outcome, ...]]] | None:
    """Returns B0's batch with the most repeats of this dataset, as judged by the plan's judger, and its outcomes.

    They say how noisy the agent is and decide nothing: that batch is no side of a comparison. None where there is none.
    """
    assessments = {a.batch_id: a for a in state.all(Assessment) if _judged_as(a, plan)}
    newer = {a.supersedes for a in state.all(Assessment)}
    followed = {b.supersedes_batch_id for b in state.all(Batch)}
    own = [
        b
        for b in state.all(Batch)
        if b.id in assessments and b.id not in followed and b.status == "sealed" and _of_baseline(b, value, plan)
    ]
    best = max(own, key=lambda b: (b.repeats, b.started_record), default=None)
    if best is None or assessments[best.id].id in newer:
        return None
    rows = read_assessment_csv(
        contents.checked(project, state, f"assessments/{assessments[best.id].id}/assessment.csv")
    )
    seen = set(best.case_ids) - set(plan.holdout_case_ids)
    usual = [c for c in plan.case_ids if c in seen]
    found = comparing.table(
        rows,
        contents.records(project, state, best.id),
        (plan.primary_dimension,),
        usual,
        best.repeats,
        timeout_is_failure=plan.timeout_is_failure,
    )
    return best.id, found[plan.primary_dimension]


def _judged_as(assessment: Assessment, plan: Plan) -> bool:
    same = (assessment.spec_digest, assessment.judger_digest) == (plan.spec_digest, plan.judger_digest)
    return same and assessment.selection is None


def _of_baseline(batch: Batch, value: Round, plan: Plan) -> bool:
    same_content = batch.revision_id == value.baseline_revision_id or batch.commit == value.baseline_commit
    same_run = (batch.run_config_digest, batch.runner_digest) == (plan.run_config_digest, plan.runner_digest)
    return same_content and same_run and batch.dataset_id == plan.dataset_id


def sides_of(subject: Subject, left_assessment_id: str, right_assessment_id: str, state: State) -> Sides:
    """Returns both sides with what is known of each.

    Raises:
        UnknownObject: There is no such Assessment, or its batch was not run here.
    """
    batches, judged, rounds = state.all(Batch), state.all(Assessment), state.all(Round)
    newer = {a.supersedes for a in judged}
    followed = {b.supersedes_batch_id: b.id for b in batches}
    found = []
    given = (left_assessment_id, right_assessment_id)
    for name, assessment_id, revision_id in zip(("left", "right"), given, subject.revisions, strict=True):
        assessment = state.get(Assessment, assessment_id)
        batch = state.get(Batch, assessment.batch_id)
        remarks = (
            running_sides.other_runs(batch, batches, rounds),
            running_sides.earlier_judgements(assessment, judged),
        )
        found.append(
            comparing.SideFound(
                name=name,
                revision_id=revision_id,
                batch=batch,
                assessment=assessment,
                current=assessment.id not in newer,
                successor_id=followed.get(batch.id),
                newer_id=running_sides.newer(batch, subject.case_ids, batches, rounds),
                remarks=tuple(f"{name}: {said}" for said in remarks if said),
            )
        )
    return found[0], found[1]


def compared(project: Project, state: State, plan: Plan, subject: Subject, sides: Sides) -> Compared:
    """Reads both sides and decides by the frozen rule.

    Raises:
        StoreDamaged: An Assessment or a batch does not hold what was recorded.
    """
    names = "left", "right"
    records = {name: contents.records(project, state, side.batch.id) for name, side in zip(names, sides, strict=True)}
    left, right = (
        _table(project, state, side, records[name], plan, subject) for name, side in zip(names, sides, strict=True)
    )
    measured = _measured(plan, subject, records["left"], records["right"])
    question = GateQuestion(
        rule=plan.decision_rule,
        rule_version=plan.rule_version,
        mode=subject.mode,
        primary_dimension=plan.primary_dimension,
        required_dimensions=plan.required_dimensions,
        left=left,
        right=right,
        case_ids=subject.case_ids,
        repeats=subject.repeats,
        target_case_ids=subject.targets,
        protected_case_ids=subject.protected,
        screening_case_ids=subject.screening,
        source_groups=plan.source_groups,
        margin=plan.margin,
        alpha=plan.alpha,
        min_fixed_cases=plan.min_fixed_cases,
        min_primary_delta=plan.min_primary_delta,
        measured=measured,
        efficiency=_efficiency(plan, measured),
        insufficient=(
            *comparing.reservations(sides, state.get(Judger, plan.judger_id)),
            *(
                f"{side.name}: {problem}"
                for side in sides
                for problem in loading.unproven(
                    side.batch, records[side.name], plan.required_loaded_component_ids, frozenset(subject.case_ids)
                )
            ),
        ),
    )
    look = _look(state, plan, subject, question.claimed_case_ids)
    result = decide(replace(question, look=look))
    charged = question.charged and not result.screened_out
    judger = state.get(Judger, plan.judger_id)
    blind = judging.blindness([side.assessment for side in sides], judger)
    known = (*(said for side in sides for said in side.remarks), *blind, *judging.remarks(judger))
    return Compared(
        result=result.model_copy(update={"limitations": (*result.limitations, *known)}),
        left=left,
        right=right,
        look=look,
        alpha_spent=alpha_of_look(plan.alpha, look) if charged else 0.0,
        charged=question.claimed_case_ids if charged else (),
    )


def _measured(
    plan: Plan, subject: Subject, left: list[EvidenceRecord], right: list[EvidenceRecord]
) -> tuple[metrics.Measured, ...]:
    """Returns both sides of each metric that the plan limits or wants to see fall."""
    found = []
    for name in dict.fromkeys((*plan.metric_limits, *([plan.efficiency_metric] if plan.efficiency_metric else []))):
        source = plan.metric_sources.get(name, "")
        before, after = (metrics.spent(side, name, source, subject.case_ids, subject.repeats) for side in (left, right))
        limit = plan.metric_limits.get(name)
        found.append(metrics.Measured(metric=name, source=source, left=before, right=after, limit=limit))
    return tuple(found)


def _efficiency(plan: Plan, measured: tuple[metrics.Measured, ...]) -> Efficiency | None:
    if plan.objective != "efficiency" or plan.efficiency_metric is None:
        return None
    one = {m.metric: m for m in measured}[plan.efficiency_metric]
    return Efficiency(one.metric, one.left, one.right, plan.min_efficiency_delta)


def _table(  # noqa: PLR0913, PLR0917 - one side, and how it is read
    project: Project,
    state: State,
    side: comparing.SideFound,
    records: list[EvidenceRecord],
    plan: Plan,
    subject: Subject,
) -> comparing.Table:
    rows = read_assessment_csv(contents.checked(project, state, f"assessments/{side.assessment.id}/assessment.csv"))
    dimensions = tuple(dict.fromkeys((plan.primary_dimension, *plan.required_dimensions)))
    return comparing.table(
        rows, records, dimensions, subject.case_ids, subject.repeats, timeout_is_failure=plan.timeout_is_failure
    )


def _look(state: State, plan: Plan, subject: Subject, claimed: tuple[str, ...]) -> int:
    plans = {r.id: r.plan for r in state.all(Round) if r.plan is not None}
    known = comparing.looks(state.all(Validation), plans)
    following = next_look(known, [key for c in claimed for key in comparing.keys_of(plan, c)])
    return following if subject.mode == "incremental" else max(1, following - 1)
