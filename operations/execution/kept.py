"""Tells before a run whether the attachments that a dataset keeps are still what it kept."""

from __future__ import annotations

import os
from collections.abc import Collection

from operations.execution import attachments
from storage import contents
from storage.files import StoreDamaged
from storage.project import Project
from storage.projection import State
from storage.schema.batches import Batch
from storage.schema.datasets import Dataset
from storage.schema.rounds import Round


def folder_of(dataset: Dataset) -> str:
    """Returns where a dataset keeps its attachments, relative to the store."""
    return f"datasets/{dataset.id}/{attachments.FOLDER}"


def require_whole(project: Project, state: State, dataset: Dataset, case_ids: Collection[str] | None) -> None:
    """Reads each kept attachment of a dataset's Cases, of all unless `case_ids` are given, and refuses damage.

    Raises:
        StoreDamaged: A kept file is missing or has other bytes; it names the file, the attachment and the Case.
    """
    if not dataset.kept_attachments:
        return
    wanted = None if case_ids is None else frozenset(case_ids)
    seen: set[str] = set()
    for case in contents.cases(project, state, dataset.id):
        if wanted is not None and case.id not in wanted:
            continue
        for file in case.attachments:
            if file.sha256 in seen:
                continue
            seen.add(file.sha256)
            path = f"{folder_of(dataset)}/{file.sha256}"
            if (problem := _problem(project, path, file.sha256)) is not None:
                place = f", which keeps the attachment {file.path} of the Case {case.id},"
                raise StoreDamaged(path=project.store.full(path), reason=problem, place=place)
        for name in case.sealed_attachments:
            path = f"{folder_of(dataset)}/{name}"
            recorded = state.files[path].sha256 if path in state.files else ""
            if (problem := _problem(project, path, recorded)) is not None:
                place = f", which keeps an attachment of the Case {case.id},"
                raise StoreDamaged(path=project.store.full(path), reason=problem, place=place)


def dataset_of(state: State, *, dataset_id: str | None, round_id: str | None, follows: str | None) -> Dataset | None:
    """Returns the dataset that a run with such arguments is about, or None where its planning will refuse them."""
    if (old := state.find(Batch, follows)) is not None:
        dataset_id = old.dataset_id
    elif (value := state.find(Round, round_id)) is not None and value.plan is not None:
        dataset_id = value.plan.dataset_id
    known = state.all(Dataset)
    if dataset_id is None and len(known) == 1:
        return known[0]
    return state.find(Dataset, dataset_id)


def _problem(project: Project, path: str, sha256: str) -> str | None:
    try:
        found = project.store.digest(path).sha256
    except FileNotFoundError:
        return "is missing"
    except OSError as trouble:
        return f"cannot be read ({os.strerror(trouble.errno or 0)})"
    return None if found == sha256 else f"has the SHA-256 {found}"
