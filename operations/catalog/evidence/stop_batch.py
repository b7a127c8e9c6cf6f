"""`stop_batch`: end a run or an import."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from operations.context import Context
from operations.definition import Effect, Example, Request, Response, operation, steps
from operations.execution import importing, keeper
from operations.tuning.batches import find_batch
from storage.errors import AtkError, NextCall
from storage.projection import UnknownObject
from storage.schema.base import ObjectId
from storage.schema.traces import ImportedBatch


@dataclass(kw_only=True, eq=False)
class BatchEnded(AtkError):
    """There is nothing to stop."""

    message = "{batch_id} is {status} already; nothing of it runs."
    next_calls = (NextCall("read_record", {"record_id": "{batch_id}"}),)

    batch_id: str
    status: str


class StopBatchRequest(Request):
    batch_id: Annotated[ObjectId, Field(description="A batch, or the import_id of an import that runs.")]
    wait_seconds: Annotated[float, Field(ge=0, le=240, description="How long to wait for the end.")] = 20


class StopBatchResponse(Response):
    batch_id: Annotated[ObjectId | None, Field(description="Null for an import that was stopped: it stored nothing.")]
    import_id: ObjectId | None = None
    status: Annotated[str, Field(description="As of wait_for_batch; stopped for an import.")]
    counts: dict[str, int]


@operation(
    effect=Effect.STORE,
    raises=(BatchEnded, UnknownObject, importing.ImportLost),
    examples=(Example("Stop a run.", {"batch_id": "batch-14-m3qa"}),),
)
def stop_batch(request: StopBatchRequest, context: Context) -> StopBatchResponse:
    """Stop a running batch or import: all its processes are ended.

    What a run had confirmed is kept; attempts under way are cancelled, never the agent's failure. An import leaves
    nothing.

    Works whichever process started it.
    """
    if importing.is_import_id(request.batch_id):
        return _import(request, context)
    project = context.project
    state = project.state()
    batch = find_batch(state, request.batch_id)
    if isinstance(batch, ImportedBatch) or batch.id not in state.runs:
        raise BatchEnded(batch_id=batch.id, status=batch.status)
    found = keeper.follow(
        project,
        context.call,
        batch.id,
        seconds=request.wait_seconds,
        progress=context.progress,
        stop_waiting=context.cancelled,
        stop=True,
    )
    return StopBatchResponse(
        message=f"{batch.id} is {found.batch.status}: {sum(found.counts.values())} of {batch.slots} attempts ended.",
        batch_id=batch.id,
        status=found.batch.status,
        counts=keeper.summary(found),
        next=steps(*keeper.leads_on(found)),
    )


def _import(request: StopBatchRequest, context: Context) -> StopBatchResponse:
    project, import_id = context.project, request.batch_id
    before = importing.job_of(project, import_id)
    try:
        found = importing.follow(
            project,
            import_id,
            seconds=request.wait_seconds,
            progress=context.progress,
            stop_waiting=context.cancelled,
            stop=True,
        )
    except importing.ImportLost:
        if before is None or not before.alive:
            raise
        return StopBatchResponse(
            message=f"{import_id} was stopped at row {before.progress.rows:,}. Nothing was stored.",
            batch_id=None,
            import_id=import_id,
            status="stopped",
            counts=before.counts,
            next=steps(NextCall("get_status")),
        )
    if found.job is not None:
        return StopBatchResponse(
            message=f"{import_id} was asked to stop and has not ended yet.",
            batch_id=None,
            import_id=import_id,
            status="running",
            counts=found.job.counts,
            next=steps(*found.job.leads_on),
        )
    raise BatchEnded(batch_id=str((found.answer or {}).get("batch_id")), status="sealed")
