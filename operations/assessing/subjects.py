"""What an Assessment is about: the Records of a batch or of a stored selection of it, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from operations.importers import stored
from operations.importers.batches import selected
from operations.tuning.batches import find_batch, has_records
from operations.tuning.judging import BatchNotReadable
from storage import contents
from storage.holdout import records_for_work
from storage.project import Project
from storage.projection import State
from storage.schema.assessments import SelectionJudged
from storage.schema.batches import Batch
from storage.schema.evidence import EvidenceRecord
from storage.schema.selections import Selection
from storage.schema.traces import ImportedBatch


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The Records that get a verdict. Each batch is read once."""

    batch: Batch | ImportedBatch
    names: Mapping[str, str]
    """Record id → the Case or trace that it is of, in the order of the Records."""
    records: Sequence[EvidenceRecord] = ()
    """Of a run, those of holdout Cases opened; those of an import are too many to be held."""
    selection: Selection | None = None

    @property
    def round_id(self) -> str | None:
        """The Round that the batch belongs to."""
        return self.batch.round_id if isinstance(self.batch, Batch) else None

    @property
    def judged_selection(self) -> SelectionJudged | None:
        """What the Assessment keeps of the selection."""
        found = self.selection
        if found is None:
            return None
        return SelectionJudged(
            selection_id=found.id,
            rule=found.rule,
            sample=found.sample,
            seed=found.seed,
            record_count=found.record_count,
            ids_sha256=found.ids_sha256,
        )


def subject_of(project: Project, state: State, batch_id: str, selection: Selection | None = None) -> Subject:
    """Returns the Records of a batch, or of a selection of it.

    Raises:
        UnknownObject: There is no such batch.
        BatchNotReadable: It runs, or nothing in it was confirmed.
        HoldoutKeyMissing: Holdout Records cannot be opened here.
        StoreDamaged: A file does not hold what was recorded.
    """
    batch = find_batch(state, batch_id)
    if not has_records(batch):
        made = 0 if isinstance(batch, ImportedBatch) else sum(batch.counts.values())
        raise BatchNotReadable(batch_id=batch.id, status=batch.status, records=made)
    wanted = set(selected(project, state, selection)) if selection is not None else None
    if isinstance(batch, Batch):
        kept = (r for r in contents.records(project, state, batch.id) if wanted is None or r.n in wanted)
        records = list(records_for_work(project, kept))
        return Subject(batch=batch, names={r.id: r.case_id for r in records}, records=records, selection=selection)
    lines = (
        stored.records(project, state, batch.id) if wanted is None else stored.some(project, state, batch.id, wanted)
    )
    names = {r["id"]: str(r.get("case_id") or r["source"]["trace_id"] or r["id"]) for r in lines}
    return Subject(batch=batch, names=names, selection=selection)
