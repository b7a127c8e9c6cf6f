"""Gathers what a report of an Assessment shows: each Record that was judged, what it said, and why it was judged so."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from operations.importers import stored
from operations.importers._assessment_csv import read_assessment_csv
from operations.reports.attempts import as_text, attempt, cut
from operations.reports.model import AssessmentReport, AttemptShown, JudgedShown
from storage import contents
from storage.holdout import Showing
from storage.project import Project
from storage.projection import State
from storage.schema.assessments import Assessment, EvaluationSpec, Judger, VerdictRow
from storage.schema.batches import Batch

_ORDER = {"fail": 0, "unknown": 1, "not_applicable": 2, "pass": 3}


def assessment_report(project: Project, state: State, value: Assessment) -> AssessmentReport:
    """Returns the report of an Assessment.

    Raises:
        StoreDamaged: A file that it rests on is not what was recorded.
        SealBroken: A holdout Case that may be seen is not what was sealed.
    """
    spec, judger = state.get(EvaluationSpec, value.spec_id), state.get(Judger, value.judger_id)
    verdicts: dict[str, list[VerdictRow]] = defaultdict(list)
    for row in read_assessment_csv(contents.checked(project, state, f"assessments/{value.id}/assessment.csv")):
        verdicts[row.record_id].append(row)
    judged = list(_judged(project, state, value, verdicts))
    return AssessmentReport(
        project_id=state.project_id,
        assessment_id=value.id,
        batch_id=value.batch_id,
        spec_id=spec.id,
        judger=f"{judger.id} ({judger.method}, {judger.readiness})",
        boundary=spec.boundary,
        rules=spec.dimension_rules,
        counts={dimension: {str(k): n for k, n in found.items()} for dimension, found in value.counts.items()},
        whole=value.selection is None,
        supersedes=value.supersedes,
        supersede_reason=value.supersede_reason,
        superseded_by=next((a.id for a in state.all(Assessment) if a.supersedes == value.id), None),
        created_at=value.created_at,
        csv_sha256=value.csv_sha256,
        journal_record=state.position.number,
        judged=tuple(sorted(judged, key=_badness)),
    )


def _badness(one: JudgedShown) -> tuple[int, str, int]:
    worst = min((_ORDER[v.verdict] for v in one.attempt.verdicts), default=0)
    return worst, one.subject, one.attempt.repeat


def _judged(
    project: Project, state: State, value: Assessment, verdicts: dict[str, list[VerdictRow]]
) -> Iterator[JudgedShown]:
    batch = state.find(Batch, value.batch_id)
    if batch is None:
        yield from _imported(project, state, value, verdicts)
        return
    showing = Showing(project, state)
    cases = {}
    for line in contents.lines(project, state, f"datasets/{batch.dataset_id}/cases.jsonl"):
        case = project.masker.value(showing.case(json.loads(line)))
        cases[case["id"]] = case
    for raw in contents.raw_records(project, state, batch.id):
        if raw["id"] in verdicts:
            record = showing.record(raw)
            case = cases.get(record["case_id"], {})
            yield JudgedShown(
                attempt=attempt(record, verdicts[record["id"]]),
                subject=record["case_id"],
                input=case["sealed"] if "sealed" in case else cut(as_text(case.get("input")))[0],
                expected=cut(as_text(case["expected"]))[0] if case.get("expected_present") else None,
            )


def _imported(
    project: Project, state: State, value: Assessment, verdicts: dict[str, list[VerdictRow]]
) -> Iterator[JudgedShown]:
    for record in stored.records(project, state, value.batch_id):
        if record["id"] in verdicts:
            yield JudgedShown(
                attempt=_attempt(record, verdicts[record["id"]]),
                subject=str(record.get("case_id") or record["source"]["trace_id"] or record["id"]),
                input=_field(record.get("input")),
                expected=_field(record.get("expected")),
            )


def _attempt(record: dict[str, Any], rows: list[VerdictRow]) -> AttemptShown:
    """Returns an imported Record as an attempt is shown: how it ended, where its log says so."""
    log = record.get("log") or {}
    as_run = {
        "id": record["id"],
        "repeat": record.get("repeat") or 1,
        "output": _field(record.get("output"), whole=True),
        "events": log.get("events", ()),
        "execution": {"status": log.get("state", "unknown"), "duration_seconds": 0.0},
    }
    return attempt(as_run, rows)


def _field(found: dict[str, Any] | None, *, whole: bool = False) -> str | None:
    """Returns the text of a canonical field, or None where the export has no value."""
    if not found or found.get("value") is None:
        return None
    text = as_text(found["value"])
    return text if whole else cut(text)[0]
