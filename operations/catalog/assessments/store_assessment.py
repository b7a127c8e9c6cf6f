"""`store_assessment`: keep verdicts about a batch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from operations.assessing import deals, rules, storing, telling
from operations.assessing.requests import JudgerGiven, RestGiven, RowGiven, SpecGiven
from operations.assessing.subjects import Subject, subject_of
from operations.context import Context
from operations.definition import Effect, Example, Reason, Response, WriteRequest, operation, steps
from operations.execution import command_judging
from operations.execution.adapters.variables import EnvFileUnusable, VariablesMissing, variables
from operations.execution.permitting import ProbeScriptChanged, script_of
from operations.importers._rows import SourceRefused, read_by
from operations.importers.batches import BatchOrSelection, selection_of
from operations.importers.verdicts import VerdictsRefused, expand_rows, read_rows_file
from operations.judges._linear import JudgeEngineMissing
from operations.tuning import judging
from operations.tuning.probing import ProbeNotPermitted
from operations.wording import counted
from storage.errors import NextCall
from storage.holdout import HoldoutStaysUnseen, require_opened
from storage.projection import State, UnknownObject
from storage.schema.assessments import Assessment, Deal, EvaluationSpec, Judger, Rest, VerdictRow
from storage.schema.base import ObjectId
from storage.schema.batches import Batch
from storage.schema.projects import Project as ProjectRecord
from storage.schema.rounds import Round
from storage.schema.traces import ImportedBatch
from storage.sealing import HoldoutKeyMissing


class StoreAssessmentRequest(WriteRequest):
    batch_id: Annotated[ObjectId | None, Field(description="The batch, run or imported.")] = None
    selection_id: Annotated[ObjectId | None, Field(description="Or some of its Records; never compared.")] = None
    deal_id: Annotated[ObjectId | None, Field(description="Or what next_judgements dealt: both sides at once.")] = None
    spec_id: Annotated[ObjectId | None, Field(description="A specification stored before.")] = None
    evaluation_spec: Annotated[SpecGiven | None, Field(description="A specification, whole.")] = None
    judger_id: Annotated[ObjectId | None, Field(description="A judger stored before.")] = None
    judger: Annotated[JudgerGiven | None, Field(description="A judger, whole.")] = None
    rows: Annotated[
        list[RowGiven], Field(max_length=5000, description="One a Record and dimension. None for a rule's dimension.")
    ] = []
    rows_file: Annotated[str | None, Field(description="Instead of rows: a .csv or .jsonl file in the project.")] = None
    rest: Annotated[
        RestGiven | None, Field(description="The verdict on all that no row is about. Unknown to a comparison.")
    ] = None
    supersede_reason: Annotated[Reason | None, Field(description="Why the batch is judged again by this judger.")] = (
        None
    )
    missing_from: Annotated[int, Field(ge=0, description="Missing verdicts that a refusal lists begin here.")] = 0


class StoreAssessmentResponse(Response):
    assessment_id: Annotated[ObjectId | None, Field(description="null for a deal.")] = None
    left_assessment_id: Annotated[ObjectId | None, Field(description="Of a deal, as the right one.")] = None
    right_assessment_id: ObjectId | None = None
    batch_id: ObjectId | None = None
    selection_id: ObjectId | None = None
    deal_id: ObjectId | None = None
    spec_id: ObjectId
    judger_id: ObjectId
    round_id: ObjectId | None
    row_count: int
    counts: Annotated[dict[str, dict[str, int]], Field(description="Dimension → verdict → how many Records.")]
    failed_case_ids: Annotated[dict[str, list[str]], Field(description="Dimension → Cases that failed; the first 20.")]
    defaulted: Annotated[dict[str, int], Field(description="Dimension → verdicts that are the rest's.")] = {}
    supersedes: str | None
    csv_sha256: str | None = None


@operation(
    effect=Effect.STORE,
    raises=(
        judging.JudgementUnspecified,
        judging.JudgementInvalid,
        judging.AssessmentStands,
        judging.BatchNotReadable,
        judging.JudgedTogether,
        judging.DealJudged,
        BatchOrSelection,
        JudgeEngineMissing,
        ProbeNotPermitted,
        ProbeScriptChanged,
        EnvFileUnusable,
        VariablesMissing,
        HoldoutStaysUnseen,
        HoldoutKeyMissing,
        VerdictsRefused,
        SourceRefused,
        UnknownObject,
    ),
    examples=(
        Example(
            "ATK compares outputs with expected answers.",
            {
                "batch_id": "batch-14-m3qa",
                "evaluation_spec": {
                    "dimensions": ["correct"],
                    "dimension_rules": {"correct": "the output is the expected queue"},
                },
                "judger": {"method": "exact"},
            },
        ),
        Example(
            "Your own verdicts, under a specification and judger stored before.",
            {
                "batch_id": "batch-14-m3qa",
                "spec_id": "spec-5-2mzr",
                "judger_id": "judger-5-d8xw",
                "rows": [{"record_id": "batch-14-m3qa.1", "verdict": "fail", "reason": "names the wrong queue"}],
            },
        ),
    ),
)
def store_assessment(request: StoreAssessmentRequest, context: Context) -> StoreAssessmentResponse:
    """Store verdicts about a batch: one for each Record and dimension, yours or those of a rule that ATK runs.

    Specification and judger are stored once and named by id afterwards. Coverage is complete or the assessment is
    refused. Judging a batch again needs supersede_reason.

    Rows are short: record_id, verdict, reason; validity, evidence and judger have defaults. A batch has one
    current assessment by a judger. A selection's assessment is never compared. With deal_id the rows are about
    dealt items, and both sides get their assessment together.
    """
    if request.deal_id is not None:
        return _of_deal(request, request.deal_id, context)
    request = _as_planned(request, context.project.state())
    early = _early(request, context)
    with context.transaction() as tx, context.project.staging("assessments") as staging:
        selection = selection_of(tx.state, request.batch_id, request.selection_id)
        batch_id = selection.batch_id if selection else str(request.batch_id)
        subject = early.subject if early else subject_of(context.project, tx.state, batch_id, selection)
        spec = _spec(request, batch_id, tx.state, tx.new_id("spec"))
        judger = _judger(request, batch_id, tx.state, tx.new_id("judger"))
        rules.require_usable(context.project, judger, batch_id)
        if judger.method == "client" and isinstance(subject.batch, Batch):
            later = "Judge it then, or name a judger that is a rule: that one may judge it now, unseen."
            require_opened(tx.state, subject.batch, subject=f"Some of {batch_id}", instead=later)
        for stored in (spec, judger):
            if stored.id not in tx.state.objects.get(stored.kind, {}):
                tx.put(stored)
        standing = storing.standing_one(tx.state, subject, spec, judger, request.supersede_reason)
        dimension = judger.dimension or spec.dimensions[0]
        ruled = early.rows if early else [*rules.rows_of(context.project, tx.state, subject, judger, dimension)]
        rows = _whole([*_client_rows(request, context), *ruled], list(subject.names), spec, batch_id, judger, request)
        found = storing.put(
            tx, staging, subject, rows, spec=spec, judger=judger, standing=standing, made=_made(request, context)
        )
        lacking = rules.without_expected(subject, judger, ruled)
        return tx.commit(_response(found, subject, rows, tx.state, lacking))


@dataclass(frozen=True)
class _Early:
    """What an import holds and what a rule says of it: found before the lock is taken, for there may be much."""

    subject: Subject
    rows: list[rules.Row]


def _early(request: StoreAssessmentRequest, context: Context) -> _Early | None:
    project, state = context.project, context.project.state()
    selection = selection_of(state, request.batch_id, request.selection_id)
    batch_id = selection.batch_id if selection else str(request.batch_id)
    if state.find(ImportedBatch, batch_id) is None and _method(request, state) != "command":
        return None
    subject = subject_of(project, state, batch_id, selection)
    spec = _spec(request, batch_id, state, "spec-0-none")
    judger = _judger(request, batch_id, state, "judger-0-none")
    rules.require_usable(project, judger, batch_id)
    dimension = judger.dimension or spec.dimensions[0]
    storing.standing_one(state, subject, spec, judger, request.supersede_reason)
    if judger.method == "command":
        return _Early(subject, _commanded(context, state, subject, judger, dimension))
    return _Early(subject, list(rules.rows_of(project, state, subject, judger, dimension)))


def _method(request: StoreAssessmentRequest, state: State) -> str:
    known = state.find(Judger, request.judger_id)
    return request.judger.method if request.judger else known.method if known else "client"


def _commanded(context: Context, state: State, subject: Subject, judger: Judger, dimension: str) -> list[rules.Row]:
    """Starts the judger's command for each Record."""
    permission = command_judging.permission_of(judger.settings, state, subject.batch.id)
    command_judging.require_payable(permission, list(subject.names.values()), subject.batch.id)
    judge = command_judging.CommandJudge(
        permission=permission,
        script=script_of(permission, context.root),
        environment=variables(state.all(ProjectRecord)[0], context.root),
        working_directory=os.path.join(context.root, permission.working_directory),
    )
    found = command_judging.judgements(
        context.project,
        judge,
        rules.evidence_of(context.project, state, subject),
        subject.batch.id,
        timeout_is_failure=rules.timeout_is_failure(state, subject),
        cancelled=context.cancelled,
    )
    return [rules.row(subject, record_id, dimension, judgement) for record_id, judgement in found]


def _of_deal(request: StoreAssessmentRequest, deal_id: str, context: Context) -> StoreAssessmentResponse:
    """Stores both sides' Assessments from the verdicts on what was dealt."""
    project = context.project
    with context.transaction() as tx, project.staging("assessments") as one, project.staging("assessments") as other:
        deal = tx.state.get(Deal, deal_id)
        _require_alone(request, deal)
        spec, judger = tx.state.get(EvaluationSpec, deal.spec_id), tx.state.get(Judger, deal.judger_id)
        dealt = deals.read(project, tx.state, deal)
        tokens = [item.token(deal.id) for item in dealt.items]
        given = _whole(_client_rows(request, context), tokens, spec, deal.id, judger, request)
        verdicts = deals.Verdicts(deal, dealt, given, timeout_is_failure=deals.is_timeout_failure(tx.state, deal))
        made = {**_made(request, context), "deal_id": deal.id}
        stored = []
        for batch_id, staging in ((deal.left_batch_id, one), (deal.right_batch_id, other)):
            subject = subject_of(project, tx.state, batch_id)
            standing = storing.standing_one(tx.state, subject, spec, judger, request.supersede_reason)
            side = verdicts.rows(subject.records, spec.dimensions)
            rows = expand_rows(side, list(subject.names), spec.dimensions, batch_id, judger.method)
            found = storing.put(tx, staging, subject, rows, spec=spec, judger=judger, standing=standing, made=made)
            stored.append(_response(found, subject, rows, tx.state))
        tx.put(deal.model_copy(update={"assessment_ids": tuple(str(each.assessment_id) for each in stored)}))
        return tx.commit(_both(deal, stored))


def _require_alone(request: StoreAssessmentRequest, deal: Deal) -> None:
    if deal.assessment_ids:
        raise judging.DealJudged(deal_id=deal.id, round_id=deal.round_id, assessment_ids=list(deal.assessment_ids))
    problem = None
    if request.batch_id is not None or request.selection_id is not None:
        problem = f"{deal.id} is of both sides' batches, and another one is named beside it"
    elif request.evaluation_spec is not None or request.judger is not None:
        problem = f"{deal.id} is judged under {deal.spec_id} by {deal.judger_id}, and another is given whole"
    elif request.spec_id not in (None, deal.spec_id) or request.judger_id not in (None, deal.judger_id):
        problem = f"{deal.id} is judged under {deal.spec_id} by {deal.judger_id}, and another is named"
    elif request.rest is not None:
        problem = f"{deal.id} is of a comparison, which takes the verdict of a rest for unknown, and rest is given"
    if problem:
        raise judging.JudgedTogether(problem=problem)


def _made(request: StoreAssessmentRequest, context: Context) -> dict[str, Any]:
    return {
        "supersede_reason": request.supersede_reason,
        "rest": _rest(request),
        "created_at": context.timestamp,
    }


def _whole(  # noqa: PLR0913, PLR0917 - what is judged, by whom, and how it was asked
    rows: Iterable[Mapping[str, Any]],
    ids: Sequence[str],
    spec: EvaluationSpec,
    batch_id: str,
    judger: Judger,
    request: StoreAssessmentRequest,
) -> list[VerdictRow]:
    return expand_rows(
        rows,
        ids,
        spec.dimensions,
        batch_id,
        judger.method,
        exempt=spec.not_applicable_rules,
        missing_from=request.missing_from,
        rest=_rest(request),
    )


def _rest(request: StoreAssessmentRequest) -> Rest | None:
    return None if request.rest is None else Rest(**request.rest.model_dump())


def _as_planned(request: StoreAssessmentRequest, state: State) -> StoreAssessmentRequest:
    """Returns the request with what it leaves out as the plan has it by which the batch was run."""
    batch = state.find(Batch, request.batch_id)
    run_for = state.find(Round, batch.round_id) if batch is not None else None
    if run_for is None or run_for.plan is None:
        return request
    planned: dict[str, Any] = {}
    if request.spec_id is None and request.evaluation_spec is None:
        planned["spec_id"] = run_for.plan.spec_id
    if request.judger_id is None and request.judger is None:
        planned["judger_id"] = run_for.plan.judger_id
    return request.model_copy(update=planned)


def _spec(request: StoreAssessmentRequest, batch_id: str, state: State, new_id: str) -> EvaluationSpec:
    _require_named(request, batch_id, state)
    known = state.all(EvaluationSpec)
    if request.evaluation_spec is not None:
        return judging.spec_from(request.evaluation_spec.model_dump(mode="json"), new_id, batch_id, known)
    return state.get(EvaluationSpec, str(request.spec_id))


def _require_named(request: StoreAssessmentRequest, batch_id: str, state: State) -> None:
    missing: dict[str, list[str]] = {}
    if request.spec_id and request.evaluation_spec is None:
        state.get(EvaluationSpec, request.spec_id)
    if request.evaluation_spec is None and not request.spec_id:
        missing["evaluation_spec"] = [s.id for s in state.all(EvaluationSpec)[-3:]]
    if request.judger is None and not request.judger_id:
        missing["judger"] = [j.id for j in state.all(Judger)[-3:]]
    if missing:
        raise judging.JudgementUnspecified.of(batch_id, missing)


def _judger(request: StoreAssessmentRequest, batch_id: str, state: State, new_id: str) -> Judger:
    known = state.all(Judger)
    if request.judger is not None:
        given = request.judger.model_dump(mode="json")
        if given["method"] == "command":
            given["settings"] = command_judging.pinned(given["settings"], state, batch_id)
        return judging.judger_from(given, new_id, batch_id, known)
    return state.get(Judger, str(request.judger_id))


def _client_rows(request: StoreAssessmentRequest, context: Context) -> list[dict[str, Any]]:
    rows = [row.model_dump(mode="json", exclude_none=True) for row in request.rows]
    if request.rows_file:
        with read_by("store_assessment"):
            rows += read_rows_file(os.path.join(context.root, os.path.expanduser(request.rows_file)))
    return rows


def _response(
    found: Assessment, judged: Subject, rows: Sequence[VerdictRow], state: State, warnings: Sequence[str] = ()
) -> StoreAssessmentResponse:
    batch, cases = judged.batch, judged.names
    failed: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.verdict == "fail":
            failed.setdefault(row.dimension, {})[cases[row.record_id]] = None
    calls = [NextCall("read_record", {"record_id": found.id, "field": "rows"})]
    if judged.round_id is None:
        calls = [telling.to_round(batch, found, state), *calls]
    else:
        calls = [NextCall("get_status", {"round_id": judged.round_id}), *calls]
    return StoreAssessmentResponse(
        message=f"{found.id} holds {counted(found.row_count, 'verdict')} about {batch.id}.",
        warnings=[*warnings, *telling.reservations(found, batch)],
        assessment_id=found.id,
        batch_id=batch.id,
        selection_id=judged.selection.id if judged.selection else None,
        spec_id=found.spec_id,
        judger_id=found.judger_id,
        round_id=judged.round_id,
        row_count=found.row_count,
        counts={d: {str(k): n for k, n in c.items()} for d, c in found.counts.items()},
        failed_case_ids={d: telling.fitting(list(ids)[:20], 3000 // len(failed)) for d, ids in failed.items()},
        defaulted=found.defaulted,
        supersedes=found.supersedes,
        csv_sha256=found.csv_sha256,
        next=steps(*calls),
    )


def _both(deal: Deal, sides: Sequence[StoreAssessmentResponse]) -> StoreAssessmentResponse:
    """Both sides in one answer, their counts added up: which of them did better is for the comparison to say."""
    counts: dict[str, dict[str, int]] = {}
    for side in sides:
        for dimension, own in side.counts.items():
            total = counts.setdefault(dimension, {})
            for verdict, count in own.items():
                total[verdict] = total.get(verdict, 0) + count
    left, right = (str(side.assessment_id) for side in sides)
    both = {"round_id": deal.round_id, "mode": deal.mode, "left_assessment_id": left, "right_assessment_id": right}
    return StoreAssessmentResponse(
        message=f"{counted(deal.item_count, 'dealt item')} judged: {left} and {right} hold the verdicts of both sides.",
        warnings=list(dict.fromkeys(warning for side in sides for warning in side.warnings)),
        left_assessment_id=left,
        right_assessment_id=right,
        deal_id=deal.id,
        spec_id=deal.spec_id,
        judger_id=deal.judger_id,
        round_id=deal.round_id,
        row_count=sum(side.row_count for side in sides),
        counts=counts,
        failed_case_ids={},
        supersedes=None,
        next=steps(NextCall("compare_and_gate", both), NextCall("read_record", {"record_id": left, "field": "rows"})),
    )
