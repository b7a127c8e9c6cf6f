"""Batches by their id, whether they were run or imported, and what finishes one that did not complete."""

from __future__ import annotations

from collections.abc import Sequence

from storage.errors import NextCall
from storage.projection import State, UnknownObject
from storage.schema.batches import Batch
from storage.schema.traces import ImportedBatch

_KNOWN = 5
"""How many batches a refusal names."""


def find_batch(state: State, batch_id: str) -> Batch | ImportedBatch:
    """Returns a batch.

    Raises:
        UnknownObject: There is neither a run nor an import of that id.
    """
    found = state.find(Batch, batch_id) or state.find(ImportedBatch, batch_id)
    if found is None:
        known = [*state.all(Batch), *state.all(ImportedBatch)]
        known.sort(key=lambda batch: state.written[batch.kind, batch.id])
        raise UnknownObject(kind="batch", given=batch_id, known=[batch.id for batch in known[-_KNOWN:]])
    return found


def has_records(batch: Batch | ImportedBatch) -> bool:
    """Whether there is something in it to be judged."""
    if isinstance(batch, ImportedBatch):
        return bool(batch.counts.get("records"))
    return batch.records_sha256 is not None and any(batch.counts.values())


def is_followed(batch: Batch, batches: Sequence[Batch]) -> bool:
    """Whether another batch continues or retries it."""
    return any(other.supersedes_batch_id == batch.id for other in batches)


def finishing(batch: Batch, *, retries: int | None = None) -> NextCall | None:
    """Returns the call that finishes a batch which ended without being whole, or None where nothing does.

    Args:
        batch: One that has ended and that no other follows.
        retries: How many retries of a slot the plan allows; None where there is no plan.
    """
    if batch.status in ("sealed", "running"):
        return None
    if batch.status == "contaminated" or batch.missing_record_ids or batch.counts.get("cancelled"):
        supply = {}
        if batch.unknown_record_ids:
            supply["unknown_execution_authorization"] = "the user's word for exactly unknown_record_ids of the batch"
        return NextCall("run_evaluation", {"continue_batch_id": batch.id}, supply)
    if batch.counts.get("infra_error") and retries != 0:
        retried = {"retry_execution_ids": "its Records with status infra_error"}
        return NextCall("run_evaluation", {"retry_batch_id": batch.id}, retried)
    return None
