"""`store_diagnosis`: keep what fails and why."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from operations.context import Context
from operations.definition import Effect, Example, Model, NextStep, Reason, Response, WriteRequest, operation, steps
from operations.importers import failures
from operations.importers import stored as imports
from operations.tuning import diagnosis, lifecycle
from operations.tuning.batches import has_records
from operations.wording import counted
from storage import contents
from storage.errors import NextCall
from storage.projection import State, UnknownObject
from storage.schema.base import ObjectId
from storage.schema.batches import Batch
from storage.schema.candidates import Check, EvidenceRef, Issue
from storage.schema.datasets import Dataset
from storage.schema.probes import Probe
from storage.schema.rounds import Round
from storage.schema.traces import ImportedBatch
from storage.schema.validations import Validation
from storage.transaction import Transaction


class Reference(Model):
    batch_id: ObjectId
    evidence_id: Annotated[str, Field(description="A Record's id or a finding_id; a probe counts as a batch.")]


class CheckGiven(Model):
    description: Reason
    status: Literal["not_run", "completed", "failed", "inconclusive"]
    expected: str = ""
    actual: str = ""
    reason: str = ""
    evidence_refs: list[Reference] = []


class IssueGiven(Model):
    id: Annotated[
        str, Field(min_length=1, max_length=64, description="Your own name for it; the same name revises it.")
    ]
    symptom: Reason
    hypothesis: Reason
    case_ids: Annotated[list[str], Field(min_length=1, description="Cases that show it; they become the targets.")]
    evidence_refs: list[Reference] = []
    competing_explanations: list[str] = []
    competing_explanations_addressed: str = ""
    checks: list[CheckGiven] = []
    mechanism_evidence_refs: list[Reference] = []
    intervention_validation_refs: list[ObjectId] = []
    root_cause_status: Literal["hypothesis", "supported", "intervention_supported", "inconclusive"] = "hypothesis"
    intervention_layer: Literal[
        "skill", "prompt", "agent_code", "tool", "retrieval", "runtime", "dataset_or_judge", "unknown"
    ] = "unknown"
    responsible_component: str | None = None
    priority: str = "normal"
    disposition: Annotated[
        Literal["local_candidate", "external_handoff", "judge_revision", "needs_evidence", "no_action"],
        Field(description="What is to be done about it."),
    ] = "local_candidate"
    handoff: Annotated[dict[str, Any] | None, Field(description="trigger_input, expected, actual.")] = None
    resolution: str = "open"
    next_action: str = "try a candidate"


class StoreDiagnosisRequest(WriteRequest):
    round_id: ObjectId
    issues: Annotated[list[IssueGiven], Field(min_length=1, max_length=50, description="All are stored, or none.")]


class StoreDiagnosisResponse(Response):
    round_id: ObjectId
    issue_id: Annotated[ObjectId, Field(description="The first of the Issues.")]
    issue_ids: Annotated[dict[str, str], Field(description="Your name → the Issue's id.")]


@operation(
    effect=Effect.STORE,
    raises=(diagnosis.DiagnosisRefused, UnknownObject, lifecycle.WrongRoundStatus),
    examples=(
        Example(
            "One Issue, seen in two Cases.",
            {
                "round_id": "round-9-t4hx",
                "issues": [
                    {
                        "id": "refunds-as-billing",
                        "symptom": "Refund requests are filed under billing.",
                        "hypothesis": "The prompt does not name refunds.",
                        "case_ids": ["refund-1", "refund-2"],
                        "evidence_refs": [{"batch_id": "batch-4-k3x9", "evidence_id": "batch-4-k3x9.3"}],
                        "intervention_layer": "prompt",
                    }
                ],
            },
        ),
    ),
)
def store_diagnosis(request: StoreDiagnosisRequest, context: Context) -> StoreDiagnosisResponse:
    """Store Issues of a Round: symptom, hypothesis, evidence, and what to do about each.

    All are stored together or none is; the same name makes a new revision. A claim about a cause names its
    evidence.

    Evidence is checked to exist.
    """
    known = _known_cases(request, context)
    unsupported = failures.problems(context.project, context.project.state(), _cited_findings(request))
    with context.transaction() as tx:
        value = tx.state.get(Round, request.round_id)
        lifecycle.require_awake(value, "store_diagnosis")
        earlier = {i.name: i for i in tx.state.all(Issue) if i.round_id == value.id}
        ran: list[Batch | Probe] = [*tx.state.all(Batch), *tx.state.all(Probe)]
        cited = {b.id: b for b in [*ran, *tx.state.all(ImportedBatch)]}
        validations = {v.id: v for v in tx.state.all(Validation)}
        names = [given.id for given in request.issues]
        if len(set(names)) != len(names):
            raise diagnosis.DiagnosisRefused(
                round_id=value.id, issue=names[0], field="id", problem="has to differ between the Issues of a call"
            )
        of_runs = {case_id for batch in ran for case_id in batch.case_ids}
        stored: dict[str, str] = {}
        for given in request.issues:
            issue = _issue(given, value, earlier.get(given.id), tx, context)
            if not of_runs.issuperset(issue.case_ids):
                diagnosis.require_known_cases(issue, known)
            diagnosis.check(issue, cited, validations)
            diagnosis.require_findings(issue, unsupported)
            tx.put(issue)
            stored[given.id] = issue.id
        frozen = value.plan is not None
        return tx.commit(
            StoreDiagnosisResponse(
                message=f"{counted(len(stored), 'Issue')} stored for {value.id}.",
                warnings=["The plan is frozen: new Issues and targets count in a later Round."] if frozen else [],
                round_id=value.id,
                issue_id=next(iter(stored.values())),
                issue_ids=stored,
                next=_leads_on(value),
            )
        )


def _known_cases(request: StoreDiagnosisRequest, context: Context) -> dict[str, None]:
    """Returns those names of the request that a Case or an imported trace has, and where some have none, close ones.

    It may take long where much was imported, and what is stored stays as it is: so it is asked before the lock.
    """
    project, state = context.project, context.project.state()
    wanted = {name for given in request.issues for name in given.case_ids}
    wanted -= {case_id for batch in state.all(Batch) for case_id in batch.case_ids}
    if not wanted:
        return {}
    known = {c.id: None for d in state.all(Dataset) for c in contents.cases(project, state, d.id)}
    wanted -= known.keys()
    for batch in _cited_first(request, state):
        for record in imports.records(project, state, batch.id) if wanted else ():
            for name in filter(None, (record.get("case_id"), record["source"]["trace_id"], record["id"])):
                if str(name) in wanted or len(known) < diagnosis.CLOSEST_AMONG:
                    known[str(name)] = None
                    wanted.discard(str(name))
            if not wanted:
                break
    return known


def _cited_findings(request: StoreDiagnosisRequest) -> list[tuple[str, str, str]]:
    """Returns batch, Record and finding of each finding that is cited; looked at before the lock, as evidence stays."""
    references = [
        reference
        for given in request.issues
        for refs in (given.evidence_refs, given.mechanism_evidence_refs, *(c.evidence_refs for c in given.checks))
        for reference in refs
    ]
    named = [(r.batch_id, *failures.split(r.evidence_id)) for r in references]
    return [(batch_id, record_id, finding) for batch_id, record_id, finding in named if finding is not None]


def _cited_first(request: StoreDiagnosisRequest, state: State) -> list[ImportedBatch]:
    cited = {reference.batch_id for given in request.issues for reference in given.evidence_refs}
    held = [batch for batch in state.all(ImportedBatch) if has_records(batch)]
    return [*(b for b in held if b.id in cited), *(b for b in reversed(held) if b.id not in cited)]


def _leads_on(value: Round) -> list[NextStep]:
    if value.without_baseline:
        ending = {"round_id": value.id, "action": "close_without_adoption"}
        return steps(NextCall("finish_round", ending, {"reason": "why it ends"}))
    if value.plan is not None:
        return steps(NextCall("get_status", {"round_id": value.id}))
    return steps(NextCall("freeze_round", {"round_id": value.id, "preview": True}))


def _issue(given: IssueGiven, value: Round, earlier: Issue | None, tx: Transaction, context: Context) -> Issue:
    return Issue(
        symptom=given.symptom,
        hypothesis=given.hypothesis,
        competing_explanations=tuple(given.competing_explanations),
        competing_explanations_addressed=given.competing_explanations_addressed,
        intervention_validation_refs=tuple(given.intervention_validation_refs),
        root_cause_status=given.root_cause_status,
        intervention_layer=given.intervention_layer,
        responsible_component=given.responsible_component,
        case_ids=tuple(given.case_ids),
        priority=given.priority,
        disposition=given.disposition,
        handoff=given.handoff,
        resolution=given.resolution,
        next_action=given.next_action,
        id=earlier.id if earlier else tx.new_id("issue"),
        name=given.id,
        round_id=value.id,
        revision=earlier.revision + 1 if earlier else 1,
        created_at=context.timestamp,
        checks=tuple(
            Check(**{**c.model_dump(exclude={"evidence_refs"}), "evidence_refs": _references(c.evidence_refs)})
            for c in given.checks
        ),
        evidence_refs=_references(given.evidence_refs),
        mechanism_evidence_refs=_references(given.mechanism_evidence_refs),
    )


def _references(given: list[Reference]) -> tuple[EvidenceRef, ...]:
    named = [(r.batch_id, *failures.split(r.evidence_id)) for r in given]
    return tuple(EvidenceRef(batch_id=of, evidence_id=record_id, finding=finding) for of, record_id, finding in named)
