"""Reads the large files that the journal names, each checked against the digest that it was recorded with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from storage.files import StoreDamaged
from storage.frames import digest
from storage.projection import State
from storage.schema.datasets import Case
from storage.schema.evidence import EvidenceRecord, Slot

if TYPE_CHECKING:
    from storage.project import Project


def checked(project: Project, state: State, path: str) -> bytes:
    """Returns the bytes of a recorded file.

    Raises:
        StoreDamaged: The file is missing or its bytes are not those that were recorded.
    """
    if path not in state.files:
        raise StoreDamaged(path=project.store.full(path), reason="is named by no journal record")
    try:
        data = project.store.read(path)
    except FileNotFoundError:
        raise StoreDamaged(path=project.store.full(path), reason="is missing") from None
    if digest(data) != state.files[path].sha256:
        raise StoreDamaged(path=project.store.full(path), reason="does not have the digest that was recorded")
    return data


def lines(project: Project, state: State, path: str) -> list[bytes]:
    """Returns the lines of a recorded file of JSON lines, not yet parsed."""
    return [line for line in checked(project, state, path).split(b"\n") if line]


def cases(project: Project, state: State, dataset_id: str) -> list[Case]:
    """Returns the Cases of a dataset, in the order of its source."""
    return [
        Case.model_validate(json.loads(line)) for line in lines(project, state, f"datasets/{dataset_id}/cases.jsonl")
    ]


def records(project: Project, state: State, batch_id: str) -> list[EvidenceRecord]:
    """Returns the Records of a sealed batch, in the order of their numbers."""
    return [EvidenceRecord.model_validate(value) for value in raw_records(project, state, batch_id)]


def raw_records(project: Project, state: State, batch_id: str) -> Iterator[dict[str, Any]]:
    """Yields the Records of a sealed batch as plain values."""
    for line in lines(project, state, f"evidence/{batch_id}/records.jsonl"):
        yield json.loads(line)


def slots(project: Project, state: State, batch_id: str) -> Iterator[Slot]:
    """Yields the slots that a batch was planned with, in the order of their numbers."""
    for line in checked(project, state, f"evidence/{batch_id}/slots.jsonl").split(b"\n"):
        if line:
            yield Slot.model_validate_json(line)
