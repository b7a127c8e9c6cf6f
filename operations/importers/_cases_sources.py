"""What a dataset can be made of, in one form: the rows of a file, or the Records of a batch or a selection."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from operations.importers._cases import Assign, CaseReader, read_cases
from operations.importers._cases_records import RecordCases, RecordsUnknown, Wanted
from operations.importers.batches import Evidence, evidence_of, exposed_by, selected, selection_of
from operations.importers.stored import number_in
from storage.project import Project
from storage.projection import State
from storage.schema.datasets import Case, Dataset, Usage


class Cases(Protocol):
    """Cases to be read once; the other members are complete afterwards."""

    usage_counts: dict[Usage, int]
    case_count: int
    attachment_bytes: int

    @property
    def mapping(self) -> Mapping[str, str]: ...

    def __iter__(self) -> Iterator[Case]: ...


@dataclass(frozen=True)
class FileSource:
    """A file with a Case in each row."""

    path: str
    given: Mapping[str, str]
    root: str

    @property
    def name(self) -> str:
        """The file's name, without its folders."""
        return os.path.basename(self.path)

    kept_in: None = None
    """No dataset keeps its attachments yet."""

    def cases(self, assign: Assign | None) -> CaseReader:
        """Returns the Cases, to be read from the start."""
        return read_cases(self.path, self.given, root=self.root, assign=assign)

    def sha256(self, cases: Cases) -> str:
        """Returns the digest of the bytes that `cases` were read from."""
        return cases.source_sha256 if isinstance(cases, CaseReader) else ""

    def warnings(self, cases: Cases) -> list[str]:
        """Returns what the person should know once `cases` have been read."""
        return list(cases.warnings) if isinstance(cases, CaseReader) else []


@dataclass(frozen=True)
class RecordSource:
    """Records of a batch, of which each becomes a Case."""

    evidence: Evidence
    wanted: Wanted
    name: str
    digest: str
    path: str = field(default="")

    @property
    def kept_in(self) -> str | None:
        """The folder of the dataset that keeps the attachments of the Cases that were run."""
        state, project = self.evidence.state, self.evidence.project
        dataset = state.find(Dataset, getattr(self.evidence.batch, "dataset_id", None))
        if dataset is None or not dataset.kept_attachments:
            return None
        return project.store.full(f"datasets/{dataset.id}/attachments")

    def cases(self, assign: Assign | None) -> RecordCases:
        """Returns the Cases, to be read from the start."""
        return RecordCases(self.evidence, self.wanted, assign)

    def sha256(self, cases: Cases) -> str:  # noqa: ARG002 - stored evidence does not change while it is read
        """Returns the digest of the batch's Records, or of the selection."""
        return self.digest

    def warnings(self, cases: Cases) -> list[str]:
        """Returns what the person should know once `cases` have been read."""
        return cases.warnings() if isinstance(cases, RecordCases) else []


def record_source(  # noqa: PLR0913 - what may be asked of Records
    project: Project,
    state: State,
    *,
    batch_id: str | None,
    selection_id: str | None,
    record_ids: list[str],
    options: Wanted,
) -> RecordSource:
    """Returns the Records that a request names.

    Raises:
        BatchOrSelection: Neither a batch nor a selection is named, or the selection is of another batch.
        UnknownObject: There is no such batch or selection.
        BatchHasNoRecords: The batch still runs.
        RecordsUnknown: A Record's id is not of the batch.
    """
    selection = selection_of(state, batch_id, selection_id)
    evidence = evidence_of(project, state, selection.batch_id if selection else str(batch_id))
    name = evidence.batch.id
    numbers = set(selected(project, state, selection)) if selection else None
    if record_ids:
        asked = {given: number_in(given, name) for given in record_ids}
        known = {n for n in asked.values() if n is not None and (numbers is None or n in numbers)}
        if strangers := tuple(given for given, n in asked.items() if n not in known):
            raise RecordsUnknown(batch_id=selection.id if selection else name, given=strangers)
        numbers = known
    return RecordSource(
        evidence,
        Wanted(
            numbers=numbers,
            group_by=options.group_by,
            expected_score=options.expected_score,
            skip_unknown=options.skip_unknown,
            exposed_by=exposed_by(evidence),
        ),
        name=selection.id if selection else name,
        digest=selection.ids_sha256 if selection else str(evidence.batch.records_sha256),
    )
