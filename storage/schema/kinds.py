"""Every kind of record, by the name under which the journal keeps it."""

from __future__ import annotations

from storage.schema.approvals import Approval
from storage.schema.assessments import Assessment, Deal, EvaluationSpec, Judger
from storage.schema.base import Record
from storage.schema.batches import Batch
from storage.schema.candidates import Candidate, Decision, Issue
from storage.schema.contracts import SourceContract
from storage.schema.datasets import Dataset
from storage.schema.exposures import Exposure
from storage.schema.knowledge import Knowledge
from storage.schema.probes import Probe
from storage.schema.projects import Project
from storage.schema.rounds import Revision, Round
from storage.schema.rows import RowFile
from storage.schema.selections import Selection
from storage.schema.traces import ImportedBatch
from storage.schema.validations import ExternalValidation, Validation

KINDS: dict[str, type[Record]] = {
    kind.kind: kind
    for kind in (
        Project,
        Dataset,
        Batch,
        ImportedBatch,
        EvaluationSpec,
        Judger,
        Assessment,
        Deal,
        Round,
        Revision,
        Issue,
        Candidate,
        Validation,
        ExternalValidation,
        Decision,
        Approval,
        Probe,
        Selection,
        RowFile,
        SourceContract,
        Exposure,
        Knowledge,
    )
}
