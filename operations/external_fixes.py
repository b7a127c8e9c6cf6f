"""Rounds that validate a repair made outside the project: opened on a person's word, judged, and judged again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from operations.confirming import Question, confirmed, grounds, quoted
from operations.context import Context
from operations.importers._assessment_csv import read_assessment_csv
from operations.tuning import comparing, external_fix, lifecycle, loading
from operations.tuning.external_fix import ExternalFixRefused
from operations.tuning.identity import runner_digest
from storage import contents
from storage.frames import canonical, digest
from storage.project import Project
from storage.projection import State
from storage.schema.assessments import Assessment, Judger
from storage.schema.batches import Batch
from storage.schema.candidates import Decision, Issue
from storage.schema.projects import Project as ProjectRecord
from storage.schema.rounds import CLOSED, ExternalFix, Plan, Round
from storage.schema.validations import ExternalValidation, Result
from storage.transaction import Transaction

LOADING_PROVED = 2
"""The first rule version by which a repair has to prove what it loaded, as every other comparison does."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the caller says of the repair, and the person's word for its validation."""

    identity: str
    previous_round_id: str | None
    reason: str | None
    risk: str | None


def opened(asked: Asked, context: Context, tx: Transaction, value: Round) -> Round:
    """Returns a new Round as one that validates a repair: its plan is frozen from the previous Round's, at once.

    Raises:
        ExternalFixRefused: There is nothing that was handed over, or the person's word is missing.
        NeedsConfirmation: The person has to be asked.
    """
    if asked.previous_round_id is None:
        raise ExternalFixRefused(identity=asked.identity, problem="previous_round_id is missing")
    if not asked.reason or not asked.risk:
        raise ExternalFixRefused(identity=asked.identity, problem="external_fix_authorization is missing")
    previous = tx.state.get(Round, asked.previous_round_id)
    if previous.status not in CLOSED or previous.plan is None:
        raise ExternalFixRefused(identity=asked.identity, problem=f"{previous.id} is {previous.status}, without a plan")
    issues = external_fix.handoffs(previous, tx.state.all(Issue), asked.identity)
    project = tx.state.all(ProjectRecord)[0]
    plan = external_fix.permission(
        previous.plan,
        issues,
        run_config_digest=project.run_config_digest,
        runner_digest=runner_digest(project),
        at=tx.state.position.number,
    )
    how = confirmed(_question(asked, value, plan), context, tx)
    fix = ExternalFix(component_identity=asked.identity, reason=asked.reason, risk=asked.risk, recorded_as=how)
    return lifecycle.changed(
        value,
        status="finalizing",
        external_fix=fix,
        plan=plan,
        plan_digest=digest(canonical(plan.model_dump(mode="json"))),
        issue_ids=plan.issue_ids,
    )


def _question(asked: Asked, value: Round, plan: Plan) -> Question:
    return Question(
        operation="create_round",
        subject=str(asked.previous_round_id),
        text=(
            f"Run the agent at {value.baseline_commit[:12]} on {len(plan.case_ids)} Cases, {plan.final_repeats} times "
            f"each, to see whether {quoted(asked.identity)} repaired {', '.join(plan.issue_ids)}? "
            f"{grounds(asked.reason, asked.risk)}"
        ),
        facts={
            "action": "validate_external_fix",
            "identity": asked.identity,
            "commit": value.baseline_commit,
            "case_fingerprints": plan.case_fingerprints,
            "repeats": plan.final_repeats,
            "required_dimensions": list(plan.required_dimensions),
            "reason": asked.reason,
            "risk": asked.risk,
        },
    )


@dataclass(frozen=True, kw_only=True)
class Found:
    """What the baseline's final run says of the repair."""

    batch_id: str
    result: Result
    reasons: tuple[str, ...]
    table_digest: str


def found(project: Project, state: State, value: Round, assessment_id: str) -> Found:
    """Judges the baseline by the frozen permission: every Case, every repeat, every required dimension.

    Raises:
        NoExternalFix: The Round has no such permission.
        SidesNotComparable: The Assessment is not of the baseline's final run under the frozen judge.
        UnknownObject: There is no such Assessment.
    """
    plan = value.plan
    if value.external_fix is None or plan is None:
        raise external_fix.NoExternalFix(round_id=value.id)
    assessment = state.get(Assessment, assessment_id)
    side = comparing.SideFound(
        name="right",
        revision_id=value.baseline_revision_id,
        batch=state.get(Batch, assessment.batch_id),
        assessment=assessment,
        current=all(a.supersedes != assessment.id for a in state.all(Assessment)),
        successor_id=next((b.id for b in state.all(Batch) if b.supersedes_batch_id == assessment.batch_id), None),
    )
    comparing.check_side(side, value, plan, "final")
    records = contents.records(project, state, side.batch.id)
    table = comparing.table(
        read_assessment_csv(contents.checked(project, state, f"assessments/{assessment.id}/assessment.csv")),
        records,
        tuple(dict.fromkeys((plan.primary_dimension, *plan.required_dimensions))),
        plan.case_ids,
        plan.final_repeats,
        timeout_is_failure=plan.timeout_is_failure,
    )
    reservations = comparing.reservations([side], state.get(Judger, plan.judger_id))
    if plan.rule_version >= LOADING_PROVED:
        required, compared = plan.required_loaded_component_ids, frozenset(plan.case_ids)
        reservations += loading.unproven(side.batch, records, required, compared)
    result, reasons = external_fix.judged(table, plan, reservations)
    return Found(batch_id=side.batch.id, result=result, reasons=reasons, table_digest=comparing.table_digest(table))


def newest(state: State, value: Round) -> ExternalValidation | None:
    """Returns the validation of the repair that counts: the newest of the Round."""
    own = [v for v in state.all(ExternalValidation) if v.round_id == value.id]
    return own[-1] if own else None


def made_again(project: Project, before: State, known: ExternalValidation) -> Iterator[str]:
    """Yields what a stored validation says that it does not come to when it is made again from the stored bytes."""
    again = found(project, before, before.get(Round, known.round_id), known.assessment_id)
    for name in ("batch_id", "result", "reasons", "table_digest"):
        if getattr(known, name) != getattr(again, name):
            yield f"says {name} {getattr(known, name)}; made again it is {getattr(again, name)}"


def unfounded(before: State, known: Decision) -> str | None:
    """Returns why a Decision to complete an external fix rests on nothing, or None."""
    value = before.find(Round, known.round_id)
    last = newest(before, value) if value is not None else None
    if last is None or (last.id, last.result) != (known.validation_id, known.validation_result):
        return f"rests on {known.validation_id}; the newest validation of the repair was {last and last.id}"
    return None if last.result == "pass" else f"is {known.action} although {last.id} is {last.result}"
