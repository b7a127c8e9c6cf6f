"""`wait_for_batch`: follow a run or an import."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from operations.context import Context
from operations.definition import Effect, Example, NextStep, Request, Response, operation, steps
from operations.execution import importing, keeper
from operations.execution.telling import told
from operations.importers import answers
from operations.tuning.batches import find_batch
from storage.errors import NextCall
from storage.projection import UnknownObject
from storage.schema.base import ObjectId
from storage.schema.traces import ImportedBatch

_OWN = ("message", "journal_record", "warnings", "next", "batch_id", "import_id", "status", "counts", "suggestion")
"""What the answer of an import has in common with this one's."""


class WaitForBatchRequest(Request):
    batch_id: Annotated[ObjectId, Field(description="A batch, or the import_id of an import that runs.")]
    wait_seconds: Annotated[float, Field(ge=0, le=240, description="How long to wait at most.")] = 20


class WaitForBatchResponse(Response):
    batch_id: Annotated[ObjectId | None, Field(description="Null while an import runs.")]
    import_id: ObjectId | None = None
    revision_id: Annotated[ObjectId | None, Field(description="Of a run.")] = None
    round_id: ObjectId | None = None
    status: Annotated[str, Field(description="running, sealed, partial, interrupted or contaminated")]
    counts: dict[str, int]
    end_reason: str | None = None
    missing: Annotated[list[str], Field(description="Records without a confirmed attempt; the first 20.")] = []
    unknown: Annotated[
        list[str], Field(description="Of these, those that began: they need the user's word to rerun.")
    ] = []
    spending: Annotated[dict[str, Any] | None, Field(description="metric, limit, spent, source, trust")] = None
    notes: list[str] = []
    imported: Annotated[
        dict[str, Any] | None, Field(description="Of an import that has ended: the rest of import_evidence's answer.")
    ] = None


@operation(
    effect=Effect.STORE,
    idempotent=True,
    raises=(UnknownObject, importing.ImportLost, importing.ImportCrashed),
    examples=(Example("Wait for up to a minute.", {"batch_id": "batch-14-m3qa", "wait_seconds": 60}),),
)
def wait_for_batch(request: WaitForBatchRequest, context: Context) -> WaitForBatchResponse:
    """Wait until a batch or a running import has ended, or for wait_seconds, and say how it stands.

    Giving up this call stops neither.

    A run whose server died is sealed here with what it had confirmed. An import that was refused is refused here
    as well.
    """
    if importing.is_import_id(request.batch_id):
        return _import(request, context)
    batch = find_batch(context.project.state(), request.batch_id)
    if isinstance(batch, ImportedBatch):
        return _imported(batch)
    return _run(request, context)


def _import(request: WaitForBatchRequest, context: Context) -> WaitForBatchResponse:
    found = importing.follow(
        context.project,
        request.batch_id,
        seconds=1e9 if context.stays else request.wait_seconds,
        progress=context.progress,
        stop_waiting=context.cancelled,
    )
    if found.job is not None:
        return WaitForBatchResponse(
            message=f"{found.job.sentence}.",
            batch_id=None,
            import_id=request.batch_id,
            status="running",
            counts=found.job.counts,
            next=steps(*found.job.leads_on),
        )
    return _answered(request.batch_id, found.answer or {})


def _answered(import_id: str, answer: Mapping[str, Any]) -> WaitForBatchResponse:
    """Returns what import_evidence would have answered, had it waited."""
    rest = {name: value for name, value in answer.items() if name not in _OWN}
    return WaitForBatchResponse(
        message=answer["message"],
        journal_record=answer["journal_record"],
        warnings=answer["warnings"],
        batch_id=answer["batch_id"],
        import_id=import_id,
        status="sealed",
        counts=answer["counts"],
        imported={**rest, "fields": answers.ranked(rest["fields"])},
        next=[NextStep(**step) for step in answer["next"]],
    )


def _imported(batch: ImportedBatch) -> WaitForBatchResponse:
    return WaitForBatchResponse(
        message=f"{batch.id} was imported and is sealed; nothing of it runs.",
        batch_id=batch.id,
        status=batch.status,
        counts={name: batch.counts[name] for name in ("records", "scores") if name in batch.counts},
        next=steps(NextCall("read_record", {"record_id": batch.id})),
    )


def _run(request: WaitForBatchRequest, context: Context) -> WaitForBatchResponse:
    found = keeper.follow(
        context.project,
        context.call,
        request.batch_id,
        seconds=1e9 if context.stays else request.wait_seconds,
        progress=context.progress,
        stop_waiting=context.cancelled,
    )
    batch = found.batch
    message, leads = told(context.project, found)
    return WaitForBatchResponse(
        message=message,
        batch_id=batch.id,
        revision_id=batch.revision_id,
        round_id=batch.round_id,
        status=batch.status,
        counts=keeper.summary(found),
        end_reason=batch.end_reason,
        spending=keeper.spending(found),
        unknown=list(batch.unknown_record_ids)[:20],
        missing=list(batch.missing_record_ids)[:20],
        notes=list(batch.notes)[:5],
        warnings=keeper.warnings(found),
        next=steps(*leads),
    )
