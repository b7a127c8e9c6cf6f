"""`wait_for_batch`: follow a run."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from operations.context import Context
from operations.definition import Effect, Example, Request, Response, operation, steps
from operations.execution import keeper
from storage import contents
from storage.errors import NextCall
from storage.projection import UnknownObject
from storage.schema.base import ObjectId


class WaitForBatchRequest(Request):
    batch_id: ObjectId
    wait_seconds: Annotated[float, Field(ge=0, le=240, description="How long to wait at most.")] = 20


class WaitForBatchResponse(Response):
    batch_id: ObjectId
    revision_id: ObjectId
    round_id: ObjectId | None
    status: Annotated[str, Field(description="running, sealed, partial, interrupted or contaminated")]
    counts: dict[str, int]
    end_reason: str | None
    missing: Annotated[list[str], Field(description="Records without a confirmed attempt; the first 20.")]
    unknown: Annotated[list[str], Field(description="Of these, those that began: they need the user's word to rerun.")]
    spending: Annotated[dict[str, Any] | None, Field(description="metric, limit, spent, source, trust")]
    notes: list[str]


@operation(
    effect=Effect.STORE,
    idempotent=True,
    raises=(UnknownObject,),
    examples=(Example("Wait for up to a minute.", {"batch_id": "batch-14-m3qa", "wait_seconds": 60}),),
)
def wait_for_batch(request: WaitForBatchRequest, context: Context) -> WaitForBatchResponse:
    """Wait until a batch has ended, or for wait_seconds, and say how it stands.

    Giving up this call does not stop the run. A run whose server died is sealed here with what it had confirmed.
    """
    found = keeper.follow(
        context.project,
        context.call,
        request.batch_id,
        seconds=1e9 if context.stays else request.wait_seconds,
        progress=context.progress,
        stop_waiting=context.cancelled,
    )
    batch = found.batch
    look, why = _spoiled(found, context)
    return WaitForBatchResponse(
        message=f"{batch.id} is {batch.status}: {sum(found.counts.values())} of {batch.slots} attempts are done.{why}",
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
        next=steps(*look, *keeper.leads_on(found)),
    )


def _spoiled(found: keeper.Followed, context: Context) -> tuple[list[NextCall], str]:
    """Where infrastructure spoiled every attempt: what shows the first, and why it failed."""
    batch, counts = found.batch, {status: n for status, n in found.counts.items() if n}
    if found.alive or batch.records_sha256 is None or set(counts) != {"infra_error"}:
        return [], ""
    first = next(iter(contents.records(context.project, context.project.state(), batch.id)), None)
    if first is None:
        return [], ""
    reason = first.execution.error or f"exit code {first.execution.exit_code}, which says nothing about the agent"
    look = [NextCall("read_record", {"record_id": first.id})]
    return look, f" None says anything about the agent: all failed by infrastructure, {first.id} by {reason}."
