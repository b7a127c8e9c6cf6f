"""`store_assessment`: keep verdicts about a batch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from operations import judges
from operations.context import Context
from operations.definition import Effect, Example, Model, Response, WriteRequest, operation, steps
from operations.discovery import find
from operations.importers import stored
from operations.importers._assessment_csv import write_assessment_csv
from operations.importers._rows import SourceRefused, read_by
from operations.importers.verdicts import VerdictsRefused, expand_rows, read_rows_file
from operations.judges._judge import Evidence, Judge, RuleSettings
from operations.reading import counted
from operations.tuning import judging
from operations.tuning.batches import find_batch, has_records
from storage import contents
from storage.errors import NextCall
from storage.holdout import UNTOLD, HoldoutStaysUnseen, cases_for_work, records_for_work, require_opened
from storage.projection import State, UnknownObject
from storage.schema.assessments import Assessment, EvaluationSpec, Judger, VerdictRow
from storage.schema.base import ObjectId
from storage.schema.batches import Batch
from storage.schema.rounds import ACTIVE, Round
from storage.schema.traces import ImportedBatch
from storage.sealing import HoldoutKeyMissing


class SpecGiven(Model):
    version: Annotated[str, Field(min_length=1)] = "1"
    boundary: Annotated[str, Field(description="What belongs to the target and what does not.")] = "the whole agent"
    dimensions: Annotated[list[str], Field(min_length=1, max_length=20, description="The first is the primary one.")]
    dimension_rules: Annotated[dict[str, str], Field(description="Dimension → the rule by which it passes.")]
    denominator_rule: Annotated[str, Field(description="Which Records count.")] = "every slot of the plan"


class CalibrationGiven(Model):
    source_ref: Annotated[str, Field(min_length=1, description="Where the right answer is from.")]
    expected: Literal["pass", "fail"]
    observed: Literal["pass", "fail", "unknown", "not_applicable"]


class JudgerGiven(Model):
    version: Annotated[str, Field(min_length=1)] = "1"
    method: Annotated[
        Literal["client", "exact", "contains"],
        Field(description="client: you send rows. exact, contains: ATK compares the output with the expected answer."),
    ] = "client"
    readiness: Literal["calibrated", "uncalibrated"] = "uncalibrated"
    dimension: Annotated[str | None, Field(description="What a rule judges. Default: the first dimension.")] = None
    settings: Annotated[dict[str, Any], Field(description="Of a rule: ignore_case, strip, json_field.")] = {}
    calibration_examples: list[CalibrationGiven] = []


class RowGiven(Model):
    record_id: ObjectId
    verdict: Literal["pass", "fail", "unknown", "not_applicable"]
    dimension: Annotated[str | None, Field(description="Needed where there are several.")] = None
    reason: str = ""
    validity: Literal["valid", "invalid", "unknown"] | None = None
    validity_reason: str = ""
    score: float | None = None
    evidence_refs: Annotated[list[dict[str, str]] | None, Field(description="Default: the Record itself.")] = None


class StoreAssessmentRequest(WriteRequest):
    batch_id: ObjectId
    spec_id: Annotated[ObjectId | None, Field(description="A specification stored before.")] = None
    evaluation_spec: Annotated[SpecGiven | None, Field(description="A specification, whole.")] = None
    judger_id: Annotated[ObjectId | None, Field(description="A judger stored before.")] = None
    judger: Annotated[JudgerGiven | None, Field(description="A judger, whole.")] = None
    rows: Annotated[
        list[RowGiven], Field(max_length=5000, description="One a Record and dimension. None for a rule's dimension.")
    ] = []
    rows_file: Annotated[str | None, Field(description="Instead of rows: a .csv or .jsonl file in the project.")] = None
    supersede_reason: Annotated[
        str | None, Field(min_length=1, description="Why the batch is judged again by this judger.")
    ] = None


class StoreAssessmentResponse(Response):
    assessment_id: ObjectId
    batch_id: ObjectId
    spec_id: ObjectId
    judger_id: ObjectId
    round_id: ObjectId | None
    row_count: int
    counts: Annotated[dict[str, dict[str, int]], Field(description="Dimension → verdict → how many Records.")]
    failed_case_ids: Annotated[dict[str, list[str]], Field(description="Dimension → Cases that failed; the first 20.")]
    supersedes: str | None
    csv_sha256: str


@operation(
    effect=Effect.STORE,
    raises=(
        judging.JudgementUnspecified,
        judging.JudgementInvalid,
        judging.AssessmentStands,
        judging.BatchNotReadable,
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

    Specification and judger are stored once and named by id afterwards. Rows are short: record_id, verdict, reason;
    validity, evidence and judger have defaults. Coverage is complete or the assessment is refused. A batch has one
    current assessment by a judger; another one needs supersede_reason.
    """
    names = _imported(request.batch_id, context)
    with context.transaction() as tx:
        batch, judged = _judged(request.batch_id, tx.state, context, names)
        _require_named(request, tx.state)
        spec = _spec(request, tx.state, tx.new_id("spec"))
        judger = _judger(request, tx.state, tx.new_id("judger"))
        if judger.method == "client" and isinstance(batch, Batch):
            later = "Judge it then, or name a judger that is a rule: that one may judge it now, unseen."
            require_opened(tx.state, batch, subject=f"Some of {batch.id}", instead=later)
        for stored in (spec, judger):
            if stored.id not in tx.state.objects.get(stored.kind, {}):
                tx.put(stored)
        standing = judging.current(tx.state.all(Assessment), batch.id, judger.digest, spec.digest)
        if standing is not None and not (request.supersede_reason or "").strip():
            raise judging.AssessmentStands(batch_id=batch.id, judger_id=judger.id, assessment_id=standing.id)
        given = [*_client_rows(request, context), *_rule_rows(context, tx.state, batch, spec, judger)]
        rows = expand_rows(given, list(judged.case_ids), spec.dimensions, batch.id, judger.method)
        masked = [VerdictRow.model_validate(context.project.masker.value(r.model_dump(mode="json"))) for r in rows]
        with context.project.staging("assessments") as staging:
            assessment_id = tx.new_id("assessment")
            written = staging.write("assessment.csv", [write_assessment_csv(masked)])
            tx.place(staging, f"assessments/{assessment_id}")
            assessment = tx.put(
                Assessment(
                    id=assessment_id,
                    batch_id=batch.id,
                    spec_id=spec.id,
                    spec_digest=spec.digest,
                    judger_id=judger.id,
                    judger_digest=judger.digest,
                    judger_readiness=judger.readiness,
                    csv_sha256=written.sha256,
                    row_count=len(rows),
                    counts=_counts(rows),
                    supersedes=standing.id if standing else None,
                    supersede_reason=request.supersede_reason if standing else None,
                    created_at=context.timestamp,
                )
            )
            return tx.commit(_response(assessment, judged, rows, tx.state))


@dataclass(frozen=True)
class _Judged:
    """What a verdict may be about: the Records of a batch, in order, each with the Case or trace that it is of."""

    batch: Batch | ImportedBatch
    case_ids: Mapping[str, str]

    @property
    def round_id(self) -> str | None:
        return self.batch.round_id if isinstance(self.batch, Batch) else None


def _imported(batch_id: str, context: Context) -> dict[str, str]:
    """Returns what the Records of an import are of; empty for a run. Asked before the lock: there may be many."""
    state = context.project.state()
    batch = find_batch(state, batch_id)
    lines = stored.records(context.project, state, batch_id) if isinstance(batch, ImportedBatch) else ()
    return {r["id"]: str(r.get("case_id") or r["source"]["trace_id"] or r["id"]) for r in lines}


def _judged(
    batch_id: str, state: State, context: Context, names: dict[str, str]
) -> tuple[Batch | ImportedBatch, _Judged]:
    batch = find_batch(state, batch_id)
    if not has_records(batch):
        made = 0 if isinstance(batch, ImportedBatch) else sum(batch.counts.values())
        raise judging.BatchNotReadable(batch_id=batch.id, status=batch.status, records=made)
    if isinstance(batch, ImportedBatch):
        return batch, _Judged(batch, names)
    return batch, _Judged(batch, {r.id: r.case_id for r in contents.records(context.project, state, batch_id)})


def _require_named(request: StoreAssessmentRequest, state: State) -> None:
    missing: dict[str, list[str]] = {}
    if request.spec_id and request.evaluation_spec is None:
        state.get(EvaluationSpec, request.spec_id)
    if request.evaluation_spec is None and not request.spec_id:
        missing["evaluation_spec"] = [s.id for s in state.all(EvaluationSpec)[-3:]]
    if request.judger is None and not request.judger_id:
        missing["judger"] = [j.id for j in state.all(Judger)[-3:]]
    if missing:
        raise judging.JudgementUnspecified.of(request.batch_id, missing)


def _spec(request: StoreAssessmentRequest, state: State, new_id: str) -> EvaluationSpec:
    known = state.all(EvaluationSpec)
    if request.evaluation_spec is not None:
        return judging.spec_from(request.evaluation_spec.model_dump(mode="json"), new_id, request.batch_id, known)
    return state.get(EvaluationSpec, str(request.spec_id))


def _judger(request: StoreAssessmentRequest, state: State, new_id: str) -> Judger:
    known = state.all(Judger)
    if request.judger is not None:
        _check_settings(request, request.judger)
        return judging.judger_from(request.judger.model_dump(mode="json"), new_id, request.batch_id, known)
    return state.get(Judger, str(request.judger_id))


def _check_settings(request: StoreAssessmentRequest, judger: JudgerGiven) -> None:
    if judger.method == "client":
        return
    try:
        RuleSettings.model_validate(judger.settings)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        problem = f"settings.{'.'.join(str(p) for p in first['loc'])}: {first['msg']}; a rule has {_settings()}"
        raise judging.JudgementInvalid(batch_id=request.batch_id, field="judger", problem=problem) from None


def _settings() -> str:
    return ", ".join(RuleSettings.model_fields)


def _client_rows(request: StoreAssessmentRequest, context: Context) -> list[dict[str, Any]]:
    rows = [row.model_dump(mode="json", exclude_none=True) for row in request.rows]
    if request.rows_file:
        with read_by("store_assessment"):
            rows += read_rows_file(os.path.join(context.root, os.path.expanduser(request.rows_file)))
    return rows


def _rule_rows(
    context: Context,
    state: State,
    batch: Batch | ImportedBatch,
    spec: EvaluationSpec,
    judger: Judger,
) -> list[dict[str, Any]]:
    """Runs the judger's rule over every Record; no rows for a judger that is the client."""
    if judger.method == "client":
        return []
    if isinstance(batch, ImportedBatch):
        problem = f"the rule {judger.method} compares with the Cases of a dataset, and an import has none; send rows"
        raise judging.JudgementInvalid(batch_id=batch.id, field="judger", problem=problem)
    records = records_for_work(context.project, contents.records(context.project, state, batch.id))
    rule: Judge = find(judges, Judge)[judger.method]
    ran = (c for c in contents.cases(context.project, state, batch.dataset_id) if c.id in batch.case_ids)
    cases = {c.id: c for c in cases_for_work(context.project, ran)}
    value = state.find(Round, batch.round_id)
    late = bool(value and value.plan and value.plan.timeout_is_failure)
    settings, masker = RuleSettings.model_validate(judger.settings), context.project.masker
    rows = []
    for record in records:
        case = cases[record.case_id]
        evidence = Evidence(
            expected=case.expected,
            expected_present=case.expected_present,
            output=record.output,
            output_truncated=record.execution.stdout_truncated,
            status=record.execution.status,
        )
        found = rule.judge(evidence, masker, settings, timeout_is_failure=late)
        if case.usage == "holdout":
            found = replace(found, reason=UNTOLD)
        rows.append(
            {
                "record_id": record.id,
                "dimension": judger.dimension or spec.dimensions[0],
                "verdict": found.verdict,
                "reason": found.reason,
                "validity": found.validity,
                "validity_reason": found.reason if found.validity != "valid" else "",
            }
        )
    return rows


def _counts(rows: Sequence[VerdictRow]) -> dict[str, dict[Any, int]]:
    counts: dict[str, dict[Any, int]] = {}
    for row in rows:
        own = counts.setdefault(row.dimension, {})
        own[row.verdict] = own.get(row.verdict, 0) + 1
    return counts


def _fitting(ids: list[str], room: int) -> list[str]:
    """The first ids that take at most `room` characters."""
    shown: list[str] = []
    for name in ids:
        room -= len(name) + 3
        if room < 0:
            break
        shown.append(name)
    return shown


def _to_round(batch: Batch | ImportedBatch, found: Assessment, state: State) -> NextCall:
    """What evidence from outside of Rounds leads to."""
    rounds = state.all(Round)
    if any(r.status in ACTIVE for r in rounds):
        return NextCall("get_status")
    if opened := [r for r in rounds if r.status == "analysis_only"]:
        return NextCall("store_diagnosis", {"round_id": opened[-1].id}, {"issues": "what fails and why"})
    return NextCall("create_round", {"batch_ids": [batch.id], "assessment_ids": [found.id]})


def _response(found: Assessment, judged: _Judged, rows: Sequence[VerdictRow], state: State) -> StoreAssessmentResponse:
    batch, cases = judged.batch, judged.case_ids
    failed: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.verdict == "fail":
            failed.setdefault(row.dimension, {})[cases[row.record_id]] = None
    calls = [NextCall("read_record", {"record_id": found.id, "field": "rows"})]
    if judged.round_id is None:
        calls = [_to_round(batch, found, state), *calls]
    else:
        calls = [NextCall("get_status", {"round_id": judged.round_id}), *calls]
    return StoreAssessmentResponse(
        message=f"{found.id} holds {counted(found.row_count, 'verdict')} about {batch.id}.",
        warnings=[f"{batch.id} is {batch.status}; a comparison needs sealed batches."]
        if batch.status != "sealed"
        else [],
        assessment_id=found.id,
        batch_id=batch.id,
        spec_id=found.spec_id,
        judger_id=found.judger_id,
        round_id=judged.round_id,
        row_count=found.row_count,
        counts={d: {str(k): n for k, n in c.items()} for d, c in found.counts.items()},
        failed_case_ids={d: _fitting(list(ids)[:20], 3000 // len(failed)) for d, ids in failed.items()},
        supersedes=found.supersedes,
        csv_sha256=found.csv_sha256,
        next=steps(*calls),
    )
