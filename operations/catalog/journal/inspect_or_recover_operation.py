"""`inspect_or_recover_operation`: see what a crash left open, and finish or undo it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from operations.context import Context
from operations.definition import Effect, Example, Response, WriteRequest, operation, steps
from operations.tuning.batches import finishing
from operations.wording import counted
from storage import probes
from storage.errors import AtkError, NextCall
from storage.files import StoreDamaged
from storage.project import Project
from storage.projection import State
from storage.schema.batches import Batch


@dataclass(kw_only=True, eq=False)
class NoSuchOperation(AtkError):
    """The journal has no record of that number."""

    message = "There is no journal record {given}. Give a number from 1 to {last}, or leave it out for what is open."
    next_calls = (NextCall("inspect_or_recover_operation"),)

    given: int
    last: int


@dataclass(kw_only=True, eq=False)
class NotStuck(AtkError):
    """Only an operation that a dead process left open can be closed as it is."""

    message = (
        "Record {given} is not an operation that a dead process left open, and only such a one can be closed: {opened}."
    )
    next_calls = (NextCall("inspect_or_recover_operation"),)

    given: int
    opened: list[str]


class InspectOrRecoverOperationRequest(WriteRequest):
    operation_id: Annotated[int | None, Field(ge=1, description="A journal record. Default: whatever is open.")] = None
    leave_as_is: Annotated[
        bool,
        Field(
            description="With operation_id: close a stuck operation, every file as it is, when neither known content "
            "is to come back. Ask the person first."
        ),
    ] = False
    reason: Annotated[str, Field(description="Why, for leave_as_is.")] = ""
    round_id: Annotated[str | None, Field(description="Accepted for those who know it; not needed.")] = None


class InspectOrRecoverOperationResponse(Response):
    open_before: Annotated[list[str], Field(description="What was open when the call began.")]
    open_now: Annotated[list[str], Field(description="What could not be finished or undone, or is being worked on.")]
    rebuilt_views: Annotated[list[str], Field(description="Views that were edited by hand or rotten, written anew.")]
    operation: Annotated[
        dict[str, Any] | None, Field(description="The journal record that was asked for, in short.")
    ] = None


@operation(
    effect=Effect.WORKTREE,
    idempotent=True,
    raises=(NoSuchOperation, NotStuck),
    examples=(
        Example("Finish or undo whatever a crash left open.", {}),
        Example("Look at one record.", {"operation_id": 14}),
    ),
)
def inspect_or_recover_operation(
    request: InspectOrRecoverOperationRequest, context: Context
) -> InspectOrRecoverOperationResponse:
    """Finish or undo what a crash left open, rebuild the views, and say what is still open and why.

    Every changing call does this first. A target in neither known state is named and left alone: put one of the
    two contents back, then call again.

    An effect is finished when its targets are in a known state, and undone when nothing had been changed yet. Work
    whose process still lives is not touched. A stored file that is not as it was recorded is named in the
    warnings; nothing pretends to heal it.
    """
    project = context.project
    began = project.state()
    before = _open(began)
    if request.leave_as_is:
        _leave(request, context)
    state = project.recover(context.call)
    now = _open(state)
    shown = None
    if request.operation_id is not None:
        if request.operation_id > state.position.number:
            raise NoSuchOperation(given=request.operation_id, last=state.position.number)
        shown = _shown(next(r for r in project.journal_records() if r["n"] == request.operation_id))
    reasons = [f"record {u.number} ({u.operation}): {u.error}" for u in project.unresolved]
    damaged = list(_damaged(project, state))
    settled = [line for line in before if line not in now]
    ended = [state.get(Batch, batch_id) for batch_id in began.runs if batch_id not in state.runs]
    whole = f"Nothing was open; damaged files of the store: {len(damaged)}." if damaged else ""
    return InspectOrRecoverOperationResponse(
        message=" ".join(
            [f"Of {counted(len(before), 'open operation')}, {len(settled)} settled.", *_became(project, began, ended)]
        )
        if before
        else whole or "Nothing was open; the store is whole.",
        journal_record=state.position.number,
        warnings=[*reasons, *damaged[:20], *project.mishaps[:20]],
        open_before=before,
        open_now=now,
        rebuilt_views=project.edited_views[:20],
        operation=shown,
        next=steps(*filter(None, map(finishing, ended)), NextCall("get_status")),
    )


def _leave(request: InspectOrRecoverOperationRequest, context: Context) -> None:
    number, reason = request.operation_id, request.reason.strip() or "left as it is"
    if number is None or not context.project.give_up(context.call, number, reason):
        opened = _open(context.project.state())
        raise NotStuck(given=number or 0, opened=opened)


def _open(state: State) -> list[str]:
    intents = [f"record {i.number}: {i.operation}, since {i.at}" for i in state.intents.values()]
    asked = [f"{p.id}: diagnostic_probe, since {p.started_at}" for p in probes.open_probes(state)]
    return [*intents, *(f"record {r.number}: run of {r.batch_id}, since {r.at}" for r in state.runs.values()), *asked]


def _became(project: Project, began: State, batches: Sequence[Batch]) -> Iterator[str]:
    """Yields a sentence on what became of each effect that was open when it began, and of each run that ended."""
    records = project.journal_records() if began.intents else ()
    for record in (r for r in records if r["kind"] in ("done", "undone") and r["intent"] in began.intents):
        what = f"{record['op']} (record {record['intent']}) is"
        if record["kind"] == "done":
            yield f"{what} carried out."
        else:
            how = "closed with every file as it was" if record.get("left_as_is") else "taken back"
            yield f"{what} {how}: {str(record['reason']).removesuffix('.')}."
    for batch in batches:
        ends = [f"{count} {status.replace('_', ' ')}" for status, count in batch.counts.items() if count]
        unknown = len(batch.unknown_record_ids)
        ends += [f"{unknown} of unknown end"] if unknown else []
        left = len(batch.missing_record_ids) - unknown
        ends += [f"{left} not begun"] if left > 0 else []
        yield f"{batch.id} is {batch.status}; of {counted(batch.slots, 'attempt')}: {', '.join(ends)}."


def _damaged(project: Project, state: State) -> Iterator[str]:
    """Yields what is wrong with each stored file that does not have the bytes that were recorded."""
    for path, recorded in state.files.items():
        try:
            found = project.store.digest(path)
        except (FileNotFoundError, StoreDamaged):
            yield f"{project.store.full(path)} is missing, or a link stands in its place."
        else:
            if found != recorded:
                yield f"{project.store.full(path)} does not have the {recorded.size} bytes that were recorded."


def _shown(record: dict[str, Any]) -> dict[str, Any]:
    kept = ("n", "kind", "op", "at", "request_id", "intent", "batch_id", "reason", "recovered", "claims")
    found = {k: record[k] for k in kept if k in record}
    found["objects"] = {kind: sorted(made) for kind, made in record.get("objects", {}).items()}
    found["files"] = sorted(record.get("files", {}))[:10]
    found["steps"] = [step["do"] for step in record.get("steps", ())]
    return found
