"""Gathers what a report of a Round shows, from the sealed records alone; what may not be seen yet stays out of it."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence

from operations.confirming import TOLD
from operations.importers._assessment_csv import read_assessment_csv, unguard
from operations.reports import attempts, changes
from operations.reports.model import (
    MARKS,
    BatchShown,
    CandidateShown,
    CaseOutcome,
    Comparison,
    Decided,
    HeatCell,
    HeatColumn,
    IssueShown,
    Ledger,
    RepairShown,
    Role,
    RoundReport,
    headline_of,
)
from operations.tuning import budget, comparing
from operations.tuning.ledger import alpha_left
from storage import contents
from storage.project import Project
from storage.projection import State
from storage.schema.assessments import Assessment
from storage.schema.batches import Batch
from storage.schema.candidates import Candidate, Decision, Issue
from storage.schema.exposures import Exposure
from storage.schema.rounds import Plan, Round
from storage.schema.validations import ExternalValidation, Validation

_PLAN_SHOWN = (
    "decision_rule",
    "objective",
    "primary_dimension",
    "required_dimensions",
    "margin",
    "alpha",
    "min_fixed_cases",
    "min_primary_delta",
    "incremental_repeats",
    "final_repeats",
    "repeatability",
    "replay",
    "timeout_seconds",
    "timeout_is_failure",
    "concurrency",
    "max_retries_per_slot",
    "allowed_paths",
    "protected_paths",
    "dataset_id",
    "spec_id",
    "judger_id",
    "defaults",
)


def round_report(project: Project, state: State, value: Round) -> RoundReport:
    """Returns the report of a Round as it stands in `state`.

    Raises:
        StoreDamaged: A file that it rests on is not what was recorded.
        SealBroken: A holdout Case that may be seen is not what was sealed.
    """
    decisions = [d for d in state.all(Decision) if d.round_id == value.id]
    validations = [v for v in state.all(Validation) if v.round_id == value.id]
    comparisons = tuple(_comparison(project, state, value, v, validations, decisions) for v in reversed(validations))
    heat = _heat(project, state, value)
    shown = attempts.cases_shown(project, state, value, headline_of(comparisons))
    return RoundReport(
        project_id=state.project_id,
        round_id=value.id,
        status=value.status,
        created_at=value.created_at,
        closed_at=value.closed_at,
        branch=value.branch,
        baseline_commit=None if value.without_baseline else value.baseline_commit,
        current_commit=None if value.without_baseline else value.current_commit,
        current_revision_id=value.current_revision_id,
        journal_record=state.position.number,
        plan=_plan(value.plan),
        plan_digest=value.plan_digest,
        comparisons=comparisons,
        candidates=tuple(
            _candidate(project, candidate, state, decisions)
            for candidate in state.all(Candidate)
            if candidate.round_id == value.id
        ),
        untried=_untried(project, state, value),
        heat=heat,
        heat_case_ids=_heat_order(value.plan, heat),
        cases=shown.cases,
        ledger=_ledger(value, value.plan, state) if value.plan is not None else None,
        decided=_decided([d for d in decisions if d.candidate_id is None]),
        unseen=shown.unseen,
        repair=_repair(state, value),
    )


def _repair(state: State, value: Round) -> RepairShown | None:
    """Returns the last validation of the repair that the Round is for."""
    made = [v for v in state.all(ExternalValidation) if v.round_id == value.id]
    if value.external_fix is None or not made:
        return None
    word = value.external_fix
    return RepairShown(
        validation_id=made[-1].id,
        component=word.component_identity,
        result=made[-1].result,
        reasons=made[-1].reasons,
        batch_id=made[-1].batch_id,
        assessment_id=made[-1].assessment_id,
        at=made[-1].created_at,
        authorized=f"{word.reason} ({TOLD[word.recorded_as]})",
    )


def _plan(plan: Plan | None) -> dict[str, object]:
    if plan is None:
        return {}
    found = plan.model_dump(mode="json", include=set(_PLAN_SHOWN))
    return {name: found[name] for name in _PLAN_SHOWN if found[name] not in ([], None)}


def _decided(decisions: Sequence[Decision]) -> Decided | None:
    """Returns the last of some Decisions."""
    if not decisions:
        return None
    last = decisions[-1]
    word = last.override_authorization
    return Decided(
        decision_id=last.id,
        action=last.action,
        reason=last.reason,
        at=last.created_at,
        override=last.override,
        authorized=None if word is None else f"{word.action}: {word.reason} ({TOLD[word.recorded_as]})",
        risk=None if word is None else word.risk,
    )


def _comparison(  # noqa: PLR0913, PLR0917 - a Validation, and what surrounds it
    project: Project,
    state: State,
    value: Round,
    validation: Validation,
    all_of_round: Sequence[Validation],
    decisions: Sequence[Decision],
) -> Comparison:
    subject = (validation.candidate_id, validation.mode)
    same = [v for v in all_of_round if (v.candidate_id, v.mode) == subject]
    return Comparison(
        validation_id=validation.id,
        mode=validation.mode,
        candidate_id=validation.candidate_id,
        result=validation.result,
        reasons=validation.reasons,
        limitations=validation.limitations,
        statistics=validation.statistics,
        left_revision_id=validation.left_revision_id,
        right_revision_id=validation.right_revision_id,
        left_batch_id=validation.left_batch_id,
        right_batch_id=validation.right_batch_id,
        left_assessment_id=validation.left_assessment_id,
        right_assessment_id=validation.right_assessment_id,
        comparison_sha256=validation.comparison_sha256,
        at=validation.created_at,
        newest=same[-1].id == validation.id,
        outcomes=_outcomes(project, state, value, validation),
        decided=_decided([d for d in decisions if d.validation_id == validation.id]),
    )


def _outcomes(project: Project, state: State, value: Round, validation: Validation) -> tuple[CaseOutcome, ...]:
    """Returns the stored comparison, its primary dimension and its worst Cases first."""
    text = contents.checked(project, state, f"validations/{validation.id}/comparison.csv").decode()
    rows = list(csv.reader(io.StringIO(text)))[1:]
    roles: dict[str, Role] = {}
    if value.plan is not None:
        roles |= dict.fromkeys(value.plan.protection_case_ids, "protected")
        roles |= dict.fromkeys(value.plan.holdout_case_ids, "holdout")
    roles |= dict.fromkeys(validation.target_case_ids, "target")
    found = [
        CaseOutcome(
            case_id=unguard(case_id),
            dimension=unguard(dimension),
            role=roles.get(unguard(case_id), "other"),
            left=tuple(MARKS[letter] for letter in left),
            right=tuple(MARKS[letter] for letter in right),
        )
        for dimension, case_id, left, right in rows
    ]
    primary = validation.statistics.primary_dimension
    return tuple(sorted(found, key=lambda o: (o.dimension != primary, o.dimension, _badness(o), o.case_id)))


def _badness(outcome: CaseOutcome) -> tuple[int, float]:
    """Orders regressions by how much was lost, then what is unknown, then failures, then the rest."""
    order = {"regressed": 0, "unknown": 1, "failing": 2, "mixed": 3, "fixed": 4, "passing": 5, "not_applicable": 6}
    return order[outcome.move], outcome.difference or 0.0


def _candidate(project: Project, candidate: Candidate, state: State, decisions: Sequence[Decision]) -> CandidateShown:
    issue = state.find(Issue, candidate.primary_issue_id)
    mask = project.masker.text
    diff, left_out = changes.diff_of(project, candidate)
    return CandidateShown(
        candidate_id=candidate.id,
        status=candidate.status,
        change_kind=candidate.change_kind,
        symptom=mask(issue.symptom) if issue else "",
        hypothesis=mask(issue.hypothesis) if issue else "",
        paths=tuple(str(change["path"]) for change in candidate.changes) or candidate.declared_paths,
        sealed_commit=candidate.sealed_commit,
        diff=None if diff is None else mask(diff),
        diff_left_out=left_out,
        decided=_decided([d for d in decisions if d.candidate_id == candidate.id]),
    )


def _untried(project: Project, state: State, value: Round) -> tuple[IssueShown, ...]:
    tried = {c.primary_issue_id for c in state.all(Candidate) if c.round_id == value.id and c.status != "cancelled"}
    left = [state.get(Issue, i) for i in (value.plan.issue_ids if value.plan is not None else ()) if i not in tried]
    return tuple(IssueShown(issue_id=i.id, symptom=project.masker.text(i.symptom)) for i in left)


# ---- the heat map ------------------------------------------------------------------------------------------------


def _heat(project: Project, state: State, value: Round) -> tuple[HeatColumn, ...]:
    """Returns a column for each assessed run of the Round that the plan's judger judged, oldest first."""
    plan = value.plan
    if plan is None:
        return ()
    newer = {a.supersedes for a in state.all(Assessment)}
    followed = {b.supersedes_batch_id for b in state.all(Batch)}
    judged = {
        a.batch_id: a
        for a in state.all(Assessment)
        if a.id not in newer and a.selection is None and a.judger_digest == plan.judger_digest
    }
    columns, runs = list[HeatColumn](), Counter[str]()
    for batch in state.all(Batch):
        assessment = judged.get(batch.id)
        if batch.round_id == value.id and assessment is not None and batch.id not in followed:
            label = _label(value, batch, state)
            runs[label] += 1
            label = f"{label}, run {runs[label]}" if runs[label] > 1 else label
            columns.append(_column(project, state, plan, batch, assessment, label))
    return tuple(columns)


def _column(  # noqa: PLR0913, PLR0917 - a run and how it was judged
    project: Project, state: State, plan: Plan, batch: Batch, assessment: Assessment, label: str
) -> HeatColumn:
    rows = read_assessment_csv(contents.checked(project, state, f"assessments/{assessment.id}/assessment.csv"))
    table = comparing.table(
        rows,
        contents.records(project, state, batch.id),
        (plan.primary_dimension,),
        batch.case_ids,
        batch.repeats,
        timeout_is_failure=plan.timeout_is_failure,
    )[plan.primary_dimension]
    cells = {
        case_id: HeatCell(
            passed=marks.count("pass"),
            known=marks.count("pass") + marks.count("fail"),
            unknown=marks.count("unknown"),
        )
        for case_id, marks in table.items()
    }
    return HeatColumn(label=label, batch_id=batch.id, assessment_id=assessment.id, cells=cells)


def _label(value: Round, batch: Batch, state: State) -> str:
    """Names the content that ran: the baseline, the candidate whose Revision it is, or the Revision."""
    where = " (final)" if batch.phase == "final" else ""
    if batch.revision_id == value.baseline_revision_id:
        return f"baseline{where}"
    for candidate in state.all(Candidate):
        if candidate.revision_id == batch.revision_id:
            return f"{candidate.id}{where}"
    return f"{batch.revision_id}{where}"


def _heat_order(plan: Plan | None, heat: Sequence[HeatColumn]) -> tuple[str, ...]:
    """Returns the plan's Cases, then any other that ran."""
    known = plan.case_ids if plan is not None else ()
    return tuple(dict.fromkeys((*known, *(case_id for column in heat for case_id in column.cells))))


# ---- the ledger --------------------------------------------------------------------------------------------------


def _ledger(value: Round, plan: Plan, state: State) -> Ledger:
    batches = state.all(Batch)
    now = budget.account(value, plan, batches)
    looks = _looks(plan, state)
    return Ledger(
        executions=now.limit,
        used=now.used,
        reserve=now.reserve,
        free=now.free,
        candidates=plan.budget.candidates,
        drafted=sum(c.round_id == value.id for c in state.all(Candidate)),
        alpha=plan.alpha,
        looks=looks,
        alpha_left={case_id: alpha_left(plan.alpha, count) for case_id, count in looks.items()},
        exposures=tuple(
            e.model_dump(mode="json", include={"id", "how", "source_groups", "batch_id", "created_at"})
            for e in state.all(Exposure)
            if e.round_id == value.id
        ),
        authorizations=_authorizations(value, state),
        batches=tuple(
            BatchShown(
                batch_id=b.id,
                status=b.status,
                phase=b.phase,
                revision_id=b.revision_id,
                slots=b.slots,
                counts=b.counts,
                executions=budget.spent(b),
                totals=b.totals,
                records_sha256=b.records_sha256,
                notes=(*b.problems, *b.notes),
            )
            for b in batches
            if b.round_id == value.id
        ),
    )


def _looks(plan: Plan, state: State) -> dict[str, int]:
    """Returns the looks that were charged to Cases of this plan, whoever's they were."""
    plans = {r.id: r.plan for r in state.all(Round) if r.plan is not None}
    return comparing.looks_of(state.all(Validation), plans, plan)


def _authorizations(value: Round, state: State) -> tuple[dict[str, str], ...]:
    """Returns what was allowed out of the ordinary, by whom and how that is known."""
    found = [
        {
            "subject": d.id,
            "what": f"{d.action}, {d.override_authorization.action}",
            "reason": d.override_authorization.reason,
            "risk": d.override_authorization.risk,
            "known": TOLD[d.override_authorization.recorded_as],
        }
        for d in state.all(Decision)
        if d.round_id == value.id and d.override_authorization is not None
    ]
    found += [
        {
            "subject": b.id,
            "what": "attempts of unknown end were made again",
            "reason": b.unknown_execution_authorization.reason,
            "risk": b.unknown_execution_authorization.risk,
            "known": TOLD[b.unknown_execution_authorization.recorded_as],
        }
        for b in state.all(Batch)
        if b.round_id == value.id and b.unknown_execution_authorization is not None
    ]
    return tuple(found)
