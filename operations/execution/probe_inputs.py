"""Finds what a probe is given: Cases of a dataset and stored Records, each checked before anything starts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from operations.execution import attachments, kept
from operations.execution.probing import ProbeInput
from operations.importers import stored
from operations.tuning import probing
from storage import contents
from storage.project import Project
from storage.projection import State
from storage.schema.batches import Batch
from storage.schema.datasets import Case, Dataset
from storage.schema.probes import ProbePermission
from storage.schema.rounds import Round
from storage.schema.traces import ImportedBatch

_NEWEST = 5


def choose_dataset(given: str | None, value: Round | None, state: State) -> str:
    """Returns the dataset of the Cases: the one given, the plan's, or the only one.

    Raises:
        UnknownObject: There is no dataset of the given id.
        ProbeInputRefused: None is given, and there is not just one.
    """
    if given is not None:
        return state.get(Dataset, given).id
    if value is not None and value.plan is not None:
        return value.plan.dataset_id
    known = [dataset.id for dataset in state.all(Dataset)]
    if len(known) == 1:
        return known[0]
    problem = "has to name the dataset of case_ids, since the project does not have just one"
    raise probing.ProbeInputRefused(field="dataset_id", problem=problem, given=[], allowed=known[-_NEWEST:])


def of_cases(
    project: Project, state: State, dataset_id: str, wanted: Sequence[str], permission: ProbePermission
) -> list[ProbeInput]:
    """Returns the inputs of Cases, in the order asked for.

    Raises:
        ProbeInputRefused: One is not there, not permitted, a holdout, or lacks an attachment.
        StoreDamaged: The dataset is not what was recorded.
    """
    known: list[str] = []
    found: dict[str, Case] = {}
    for line in contents.lines(project, state, f"datasets/{dataset_id}/cases.jsonl"):
        read = json.loads(line)
        known.append(read["id"])
        if read["id"] in wanted:
            found[read["id"]] = Case.model_validate(read)
    probing.require_cases(permission, wanted, known)
    cases = [found[case_id] for case_id in wanted]
    probing.require_visible(cases)
    dataset = state.get(Dataset, dataset_id)
    if dataset.kept_attachments:
        kept.require_whole(project, state, dataset, wanted)
        folder = project.store.full(kept.folder_of(dataset))
        return [ProbeInput(c.input, case_id=c.id, attachments=c.attachments, kept=folder) for c in cases]
    for case in cases:
        pins = attachments.pinned([each.model_dump() for each in case.attachments], project.root)
        if trouble := attachments.trouble(pins):
            raise probing.ProbeInputRefused(
                field="case_ids", problem=f"cannot be given: {trouble.rstrip('.')}", given=[case.id], allowed=["others"]
            )
    return [ProbeInput(case.input, case_id=case.id, attachments=case.attachments) for case in cases]


def of_records(project: Project, state: State, wanted: Sequence[str], permission: ProbePermission) -> list[ProbeInput]:
    """Returns whole Records of runs and imports as inputs, in the order asked for.

    Raises:
        ProbeInputRefused: One is not there, or of a Case that the permission does not name.
        StoreDamaged: The evidence is not what was recorded.
    """
    made = []
    for record_id in wanted:
        record = _record(project, state, record_id)
        if record is None:
            newest = [batch.id for batch in (*state.all(Batch), *state.all(ImportedBatch))][-_NEWEST:]
            problem = "names what is no stored Record"
            raise probing.ProbeInputRefused(
                field="record_ids", problem=problem, given=[record_id], allowed=[f"{batch}.1" for batch in newest]
            )
        case_id = record.get("case_id")
        probing.require_named(permission, [case_id or record_id], field="record_ids")
        made.append(ProbeInput(record, case_id=case_id, record_id=record_id))
    return made


def _record(project: Project, state: State, record_id: str) -> dict[str, Any] | None:
    batch_id = record_id.rpartition(".")[0]
    if state.find(ImportedBatch, batch_id) is not None:
        return stored.record(project, state, batch_id, record_id)
    batch = state.find(Batch, batch_id)
    if batch is None or batch.records_sha256 is None:
        return None
    return next((r for r in contents.raw_records(project, state, batch_id) if r["id"] == record_id), None)
