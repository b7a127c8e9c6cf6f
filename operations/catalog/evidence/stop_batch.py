"""`stop_batch`: end a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from operations.context import Context
from operations.definition import Effect, Example, Request, Response, operation, steps
from operations.execution import keeper
from storage.errors import AtkError, NextCall
from storage.projection import UnknownObject
from storage.schema.base import ObjectId
from storage.schema.batches import Batch


@dataclass(kw_only=True, eq=False)
class BatchEnded(AtkError):
    """There is nothing to stop."""

    message = "{batch_id} is {status} already; nothing of it runs."
    next_calls = (NextCall("read_record", {"record_id": "{batch_id}"}),)

    batch_id: str
    status: str


class StopBatchRequest(Request):
    batch_id: ObjectId
    wait_seconds: Annotated[float, Field(ge=0, le=240, description="How long to wait for the end.")] = 20


class StopBatchResponse(Response):
    batch_id: ObjectId
    status: str
    counts: dict[str, int]


@operation(
    effect=Effect.STORE,
    raises=(BatchEnded, UnknownObject),
    examples=(Example("Stop a run.", {"batch_id": "batch-14-m3qa"}),),
)
def stop_batch(request: StopBatchRequest, context: Context) -> StopBatchResponse:
    """Stop a running batch: its agents and all their processes are ended, and what was confirmed is sealed.

    Works whichever process started the run. Attempts under way are recorded as cancelled, never as the agent's failure.
    """
    project = context.project
    state = project.state()
    batch = state.get(Batch, request.batch_id)
    if batch.id not in state.runs:
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
