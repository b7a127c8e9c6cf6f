"""Reads the Records of a batch one by one, whether it was run or imported, and the selections of them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from operations.importers import stored
from operations.importers._assessment_csv import read_assessment_csv
from operations.importers.stored import number_in
from storage import contents
from storage.errors import AtkError, NextCall
from storage.files import StoreDamaged
from storage.holdout import Showing
from storage.project import Project
from storage.projection import State, UnknownObject
from storage.schema.assessments import Assessment, Judger
from storage.schema.batches import Batch
from storage.schema.candidates import Issue
from storage.schema.selections import Selection
from storage.schema.traces import ImportedBatch

SELECTED = "records.jsonl"
"""The file of a selection's ids."""


@dataclass(kw_only=True, eq=False)
class BatchHasNoRecords(AtkError):
    """A batch that still runs, or in which nothing was confirmed, has no Records to read."""

    message = "{batch_id} is {status} and has no Records yet. Wait for it to end, or name another batch."
    next_calls = (NextCall("wait_for_batch", {"batch_id": "{batch_id}"}),)

    batch_id: str
    status: str


@dataclass(kw_only=True, eq=False)
class BatchOrSelection(AtkError):
    """It is not said, or said twice, of which Records a call is."""

    message = "{problem}. Give batch_id for the Records of a batch, or selection_id for those of a stored selection."
    next_calls = (NextCall("get_status"),)

    problem: str


@dataclass(kw_only=True, eq=False)
class AssessmentOfOtherBatch(AtkError):
    """An Assessment says nothing about the Records of another batch."""

    message = (
        "{assessment_id} judges {judged_batch_id}, and the Records are of {batch_id}. Name one of its Assessments."
    )
    next_calls = (NextCall("get_status"), NextCall("store_assessment", {"batch_id": "{batch_id}"}))

    assessment_id: str
    judged_batch_id: str
    batch_id: str


@dataclass(frozen=True)
class Evidence:
    """One batch whose Records can be read."""

    project: Project
    state: State
    batch: Batch | ImportedBatch
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """Case id → its masked input, for a batch that was run: its Records do not hold it."""

    @property
    def imported(self) -> bool:
        """Whether the batch came from an export."""
        return isinstance(self.batch, ImportedBatch)

    @property
    def tags_exported(self) -> bool:
        """Whether the export has tags at all, so that a trace without any is known to have none."""
        fields = self.batch.fields if isinstance(self.batch, ImportedBatch) else {}
        return any(name.endswith(".tags") and counts.get("kept") for name, counts in fields.items())

    def records(self, wanted: Collection[int] | None = None) -> Iterator[dict[str, Any]]:
        """Yields the Records as plain values in the order of their numbers, or those whose number is `wanted`.

        Memory stays that of a block of Records. Each is checked: of an import by its block, of a run by the whole
        file, so that what was yielded counts only once the iteration has ended.

        Raises:
            StoreDamaged: The file is not what was recorded.
        """
        if self.imported and wanted is not None:
            yield from stored.some(self.project, self.state, self.batch.id, wanted)
            return
        made = stored.records(self.project, self.state, self.batch.id) if self.imported else self._ran()
        yield from (record for record in made if wanted is None or record["n"] in wanted)

    def _ran(self) -> Iterator[dict[str, Any]]:
        path = f"evidence/{self.batch.id}/records.jsonl"
        full = self.project.store.full(path)
        if path not in self.state.files:
            raise StoreDamaged(path=full, reason="is named by no journal record")
        hashed = hashlib.sha256()
        try:
            fd = self.project.store.open(path, os.O_RDONLY)
        except FileNotFoundError:
            raise StoreDamaged(path=full, reason="is missing") from None
        with os.fdopen(fd, "rb") as file:
            for line in file:
                hashed.update(line)
                try:
                    record: dict[str, Any] = json.loads(line)
                except ValueError:
                    raise StoreDamaged(path=full, reason="does not have the digest that was recorded") from None
                yield record
        if hashed.hexdigest() != self.state.files[path].sha256:
            raise StoreDamaged(path=full, reason="does not have the digest that was recorded")


def record_of(project: Project, state: State, record_id: str) -> dict[str, Any]:
    """Returns one Record of a run, a probe or an import, as it may be shown.

    Raises:
        UnknownObject: There is no such Record.
        HoldoutKeyMissing: It may be shown, and its key is not here.
        SealBroken: What it holds encrypted is not what was sealed.
        StoreDamaged: Its file is not what was recorded.
    """
    batch_id = record_id.rpartition(".")[0]
    known: list[str] = []
    if state.find(ImportedBatch, batch_id) is not None:
        found = stored.record(project, state, batch_id, record_id)
        if found is not None:
            return found
        known = [f"{batch_id}.1"]
    elif f"evidence/{batch_id}/records.jsonl" in state.files:
        for one in contents.raw_records(project, state, batch_id):
            if one["id"] == record_id:
                return Showing(project, state).record(one, needs_key=True)
            known = [*known[-4:], one["id"]]
    raise UnknownObject(kind="Record", given=record_id, known=known)


def evidence_of(project: Project, state: State, batch_id: str) -> Evidence:
    """Returns a batch to read.

    Raises:
        UnknownObject: There is no such batch.
        BatchHasNoRecords: It runs, or nothing in it was confirmed.
    """
    imported = state.find(ImportedBatch, batch_id)
    if imported is not None:
        if not imported.counts.get("records"):
            raise BatchHasNoRecords(batch_id=batch_id, status="an import of scores alone")
        return Evidence(project, state, imported)
    batch = state.find(Batch, batch_id)
    if batch is None:
        known = [*state.objects.get(Batch.kind, {}), *state.objects.get(ImportedBatch.kind, {})]
        raise UnknownObject(kind="batch", given=batch_id, known=known[-5:])
    if batch.records_sha256 is None:
        raise BatchHasNoRecords(batch_id=batch_id, status=batch.status)
    mask = project.masker.value
    cases = contents.cases(project, state, batch.dataset_id)
    inputs = {case.id: mask(case.input) for case in cases if case.usage != "holdout"}
    return Evidence(project, state, batch, inputs)


def selection_of(state: State, batch_id: str | None, selection_id: str | None) -> Selection | None:
    """Returns the selection that is named, or None where a whole batch is.

    Raises:
        BatchOrSelection: Neither is named, or both and the selection is of another batch.
        UnknownObject: There is no such selection.
    """
    if selection_id is None:
        if batch_id is None:
            raise BatchOrSelection(problem="Neither batch_id nor selection_id is given")
        return None
    found = state.get(Selection, selection_id)
    if batch_id not in (None, found.batch_id):
        raise BatchOrSelection(problem=f"{selection_id} is of {found.batch_id}, not of {batch_id}")
    return found


def verdicts_of(evidence: Evidence, assessment_id: str, dimension: str | None) -> dict[int, frozenset[str]]:
    """Returns the verdicts that an Assessment has for each Record, by the Record's number.

    Raises:
        UnknownObject: There is no such Assessment.
        AssessmentOfOtherBatch: It is of another batch.
    """
    found = evidence.state.get(Assessment, assessment_id)
    if found.batch_id != evidence.batch.id:
        raise AssessmentOfOtherBatch(assessment_id=found.id, judged_batch_id=found.batch_id, batch_id=evidence.batch.id)
    data = contents.checked(evidence.project, evidence.state, f"assessments/{found.id}/assessment.csv")
    verdicts: dict[int, frozenset[str]] = {}
    for row in read_assessment_csv(data):
        if dimension in (None, row.dimension):
            number = int(row.record_id.rpartition(".")[2])
            verdicts[number] = verdicts.get(number, frozenset()) | {row.verdict}
    return verdicts


def exposed_by(evidence: Evidence) -> dict[int, tuple[str, ...]]:
    """Returns for the number of each Record that was looked at what did: the client's Assessments, and Issues.

    Mere reading leaves no record in the journal, so a Record that is not in here need not be unseen.
    """
    state, batch_id = evidence.state, evidence.batch.id
    found: dict[int, list[str]] = {}
    for assessment in state.all(Assessment):
        if assessment.batch_id == batch_id and state.get(Judger, assessment.judger_id).method == "client":
            for number in verdicts_of(evidence, assessment.id, None):
                found.setdefault(number, []).append(assessment.id)
    for issue in state.all(Issue):
        checked = (ref for check in issue.checks for ref in check.evidence_refs)
        refs = [*issue.evidence_refs, *issue.mechanism_evidence_refs, *checked]
        cited = {number_in(ref.evidence_id, batch_id) for ref in refs}
        for number in sorted(n for n in cited if n is not None):
            found.setdefault(number, []).append(issue.id)
    return {number: tuple(ids) for number, ids in found.items()}


def selected(project: Project, state: State, selection: Selection) -> list[int]:
    """Returns the numbers of a selection's Records, ascending.

    Raises:
        StoreDamaged: Its file is not what was recorded.
    """
    lines = contents.lines(project, state, f"selections/{selection.id}/{SELECTED}")
    return [int(json.loads(line).rpartition(".")[2]) for line in lines]
