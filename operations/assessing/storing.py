"""Puts one Assessment into the store: its CSV and its record, current for its batch and judger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from operations.assessing.subjects import Subject
from operations.importers._assessment_csv import write_assessment_csv
from operations.tuning import judging
from storage.projection import State
from storage.schema.assessments import DEFAULTED, Assessment, EvaluationSpec, Judger, VerdictRow
from storage.transaction import Staging, Transaction

Made = Mapping[str, Any]
"""Fields of an Assessment that the call decides: supersede_reason, rest, deal_id, created_at."""


def standing_one(
    state: State, subject: Subject, spec: EvaluationSpec, judger: Judger, reason: str | None
) -> Assessment | None:
    """Returns the Assessment that the new one supersedes, or None.

    Raises:
        AssessmentStands: There is one, and no reason to judge again.
    """
    selected = subject.selection.id if subject.selection else None
    found = judging.current(state.all(Assessment), subject.batch.id, judger.digest, spec.digest, selected)
    if found is not None and not (reason or "").strip():
        raise judging.AssessmentStands(batch_id=subject.batch.id, judger_id=judger.id, assessment_id=found.id)
    return found


def put(  # noqa: PLR0913 - an Assessment has that many sides
    tx: Transaction,
    staging: Staging,
    subject: Subject,
    rows: Sequence[VerdictRow],
    *,
    spec: EvaluationSpec,
    judger: Judger,
    standing: Assessment | None,
    made: Made,
) -> Assessment:
    """Stages the rows, masked, and adds the Assessment to what will be committed. Returns it."""
    masker = tx.project.masker
    masked = [VerdictRow.model_validate(masker.value(row.model_dump(mode="json"))) for row in rows]
    assessment_id = tx.new_id("assessment")
    written = staging.write("assessment.csv", [write_assessment_csv(masked)])
    tx.place(staging, f"assessments/{assessment_id}")
    return tx.put(
        Assessment(
            id=assessment_id,
            batch_id=subject.batch.id,
            spec_id=spec.id,
            spec_digest=spec.digest,
            judger_id=judger.id,
            judger_digest=judger.digest,
            judger_readiness=judger.readiness,
            csv_sha256=written.sha256,
            row_count=len(rows),
            counts=_counts(rows),
            defaulted=defaulted(rows),
            selection=subject.judged_selection,
            supersedes=standing.id if standing else None,
            **{
                **made,
                "supersede_reason": made.get("supersede_reason") if standing else None,
                "rest": made.get("rest") if defaulted(rows) else None,
            },
        )
    )


def defaulted(rows: Sequence[VerdictRow]) -> dict[str, int]:
    """Returns how many verdicts of each dimension nobody gave."""
    return dict(Counter(row.dimension for row in rows if row.judger_kind == DEFAULTED))


def _counts(rows: Sequence[VerdictRow]) -> dict[str, dict[Any, int]]:
    counts: dict[str, dict[Any, int]] = {}
    for row in rows:
        own = counts.setdefault(row.dimension, {})
        own[row.verdict] = own.get(row.verdict, 0) + 1
    return counts
