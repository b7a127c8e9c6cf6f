"""Reads attempts as they may be shown, whether they were run or imported, with their verdicts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from operations.importers import stored
from operations.importers._assessment_csv import read_assessment_csv
from operations.tuning.batches import find_batch
from storage import contents
from storage.holdout import Showing
from storage.project import Project
from storage.projection import State, UnknownObject
from storage.schema.assessments import Assessment
from storage.schema.batches import Batch
from storage.schema.datasets import Case
from storage.schema.traces import ImportedBatch


def of_batch(project: Project, state: State, batch_id: str) -> Iterator[dict[str, Any]]:
    """Yields the Records of a batch as they may be shown.

    Raises:
        UnknownObject: There is no such batch.
    """
    if isinstance(find_batch(state, batch_id), ImportedBatch):
        yield from stored.records(project, state, batch_id)
        return
    showing = Showing(project, state)
    if f"evidence/{batch_id}/records.jsonl" in state.files:
        for raw in contents.raw_records(project, state, batch_id):
            yield showing.record(raw)


def found_record(project: Project, record_id: str) -> dict[str, Any]:
    """Returns one Record.

    Raises:
        UnknownObject: There is no such Record.
    """
    state = project.state()
    batch_id = record_id.rpartition(".")[0]
    batch = state.find(Batch, batch_id) or state.find(ImportedBatch, batch_id)
    if isinstance(batch, ImportedBatch):
        found = stored.record(project, state, batch_id, record_id)
    else:
        found = next((r for r in of_batch(project, state, batch_id) if r["id"] == record_id), None) if batch else None
    if found is None:
        known = [f"{b.id}.1" for b in (*state.all(Batch), *state.all(ImportedBatch))][-3:]
        raise UnknownObject(kind="Record", given=record_id, known=known)
    return found


def current_assessments(state: State, batch_id: str) -> list[Assessment]:
    """Returns the Assessments of a batch that no other one superseded, oldest first."""
    newer = {a.supersedes for a in state.all(Assessment)}
    return [a for a in state.all(Assessment) if a.batch_id == batch_id and a.id not in newer]


def verdicts(project: Project, state: State, assessment: Assessment) -> dict[str, dict[str, str]]:
    """Returns Record id → dimension → verdict."""
    data = contents.checked(project, state, f"assessments/{assessment.id}/assessment.csv")
    found: dict[str, dict[str, str]] = {}
    for row in read_assessment_csv(data):
        found.setdefault(row.record_id, {})[row.dimension] = row.verdict
    return found


def cases_of(project: Project, state: State, batch_id: str) -> dict[str, Case]:
    """Returns the Cases of a run by their ids, masked; none of a holdout, and none where the batch was imported."""
    batch = state.find(Batch, batch_id)
    found = contents.cases(project, state, batch.dataset_id) if batch is not None else ()
    masked = project.masker.value
    return {
        case.id: case.model_copy(update={"input": masked(case.input), "expected": masked(case.expected)})
        for case in found
        if case.usage != "holdout"
    }


def value_of(record: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - any JSON
    """Returns a field of a Record: of an import, whose fields also say how they are known, what the field holds."""
    found = record.get(name)
    return found.get("value") if isinstance(found, dict) and "status" in found else found


def as_text(value: Any) -> str:  # noqa: ANN401 - any JSON
    """Returns what was given, expected or said, as text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def output_of(record: Mapping[str, Any]) -> str:
    """Returns what an attempt said, as text; nothing where it said nothing or it may not be seen."""
    found = value_of(record, "output")
    return str(record.get("sealed", "")) if found is None else as_text(found)
