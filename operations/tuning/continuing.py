"""How a batch that did not complete is continued: what is carried over, what is due, and whose word that needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from storage.errors import AtkError, NextCall
from storage.schema.batches import Batch, UnknownAuthorization
from storage.schema.evidence import ExecutionStatus, Slot


@dataclass(kw_only=True, eq=False)
class BatchStillRuns(AtkError):
    """A batch is to be continued or retried that has not ended."""

    message: ClassVar[str] = "{batch_id} is still running. Wait for its end, or stop it, before another one follows it."
    next_calls: ClassVar[tuple[NextCall, ...]] = (
        NextCall("wait_for_batch", {"batch_id": "{batch_id}"}),
        NextCall("stop_batch", {"batch_id": "{batch_id}"}),
    )

    batch_id: str


@dataclass(kw_only=True, eq=False)
class AlreadyFollowed(AtkError):
    """A batch has one successor; a second one would let somebody choose between them."""

    message: ClassVar[str] = (
        "{batch_id} was followed by {successor_id} already. Continue or retry that one, or assess it."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (
        NextCall("wait_for_batch", {"batch_id": "{successor_id}"}),
        NextCall("read_record", {"record_id": "{successor_id}"}),
    )

    batch_id: str
    successor_id: str


@dataclass(kw_only=True, eq=False)
class NothingToContinue(AtkError):
    """Every slot of the batch has an end that counts."""

    message: ClassVar[str] = (
        "{batch_id} is {status} and every slot of it has a confirmed end, so nothing is left to run. Assess it; "
        "Records that infrastructure spoiled are tried again with retry_batch_id, and a spoiled side is run anew."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (
        NextCall("store_assessment", {"batch_id": "{batch_id}"}, {"rows": "verdicts, or a judger that ATK runs"}),
        NextCall("run_evaluation", {"retry_batch_id": "{batch_id}"}, {"retry_execution_ids": "Records to try again"}),
    )

    batch_id: str
    status: str


@dataclass(kw_only=True, eq=False)
class UnknownNeedsTheUser(AtkError):
    """Attempts whose end nobody saw may have had their effects; only a person can let them be made again."""

    message: ClassVar[str] = (
        "Attempts of {batch_id} whose end is unknown may have acted already ({count}): {record_ids}. Ask the user, "
        "and give unknown_execution_authorization with batch_id and record_ids naming exactly these ({problem})."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (
        NextCall(
            "run_evaluation",
            {"continue_batch_id": "{batch_id}"},
            {"unknown_execution_authorization": "the user's word: source, batch_id, record_ids, reason, risk"},
        ),
        NextCall("read_record", {"record_id": "{batch_id}", "field": "unknown_record_ids"}),
    )

    batch_id: str
    count: int
    record_ids: list[str]
    problem: str


@dataclass(kw_only=True, eq=False)
class DiffersFromPredecessor(AtkError):
    """A batch that follows another one runs the same thing."""

    message: ClassVar[str] = (
        "{field} is {given}, and {batch_id} ran with {was}. A batch that follows it runs the same: leave the field "
        "out, put the configuration back, or run the evaluation anew."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (
        NextCall("read_record", {"record_id": "{batch_id}"}),
        NextCall("run_evaluation", supply={"revision_commit": "HEAD's, or round_id: a run of its own"}),
    )

    batch_id: str
    field: str
    given: str
    was: str


@dataclass(frozen=True)
class Attempted:
    """What has to be known of one Record of the batch before."""

    n: int
    record_id: str
    status: ExecutionStatus

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Attempted:
        """Returns what matters of a stored Record."""
        return cls(record["n"], record["id"], record["execution"]["status"])


@dataclass(frozen=True, kw_only=True)
class Succession:
    """How one batch follows another one."""

    kind: Literal["continue", "retry"]
    slots: tuple[Slot, ...]
    """All numbers of the new batch, in order."""
    due: tuple[Slot, ...]
    """Those to be attempted."""
    carried: frozenset[int]
    """The numbers of the Records that are carried over."""


def require_followable(old: Batch, batches: Iterable[Batch]) -> None:
    """Refuses a batch that runs or has a successor.

    Raises:
        BatchStillRuns: It has not ended.
        AlreadyFollowed: It has its successor.
    """
    if old.status == "running":
        raise BatchStillRuns(batch_id=old.id)
    for batch in batches:
        if batch.supersedes_batch_id == old.id:
            raise AlreadyFollowed(batch_id=old.id, successor_id=batch.id)


def require_same(old: Batch, given: Mapping[str, object]) -> None:
    """Refuses to follow `old` with anything else than it ran; None stands for what was left to it.

    Raises:
        DiffersFromPredecessor: It names the first field that differs.
    """
    for field, value in given.items():
        was = getattr(old, field)
        if value is not None and value != (list(was) if isinstance(was, tuple) else was):
            raise DiffersFromPredecessor(batch_id=old.id, field=field, given=_short(value), was=_short(was))


def continued(
    old: Batch,
    slots: Sequence[Slot],
    attempted: Collection[Attempted],
    batch_id: str,
    authorization: UnknownAuthorization | None,
) -> Succession:
    """Returns how `batch_id` continues `old`.

    Confirmed Records are carried over. Slots that never started are due, and so are those whose attempt ATK itself
    ended (cancelled): under a new number, linked, since that attempt stays on record. Unknown ones need the user's
    word. Of a contaminated batch nothing is carried: nobody knows which of its Records were the Revision's.

    Raises:
        UnknownNeedsTheUser: Attempts of unknown end are not authorized, or others than these are.
        NothingToContinue: No slot is due.
    """
    _require_word(old, authorization)
    if old.status == "contaminated":
        first = tuple(renamed(slot, batch_id) for slot in slots if slot.retry_of is None)
        return Succession(kind="continue", slots=first, due=first, carried=frozenset())
    carried = frozenset(a.n for a in attempted)
    fresh = [renamed(slot, batch_id) for slot in slots]
    retried = {slot.retry_of for slot in slots}
    cancelled = {a.n for a in attempted if a.status == "cancelled" and a.record_id not in retried}
    again = linked([slot for slot in fresh if slot.n in cancelled], batch_id, len(fresh))
    due = (*(slot for slot in fresh if slot.n not in carried), *again)
    if not due or old.status == "sealed":
        raise NothingToContinue(batch_id=old.id, status=old.status)
    return Succession(kind="continue", slots=(*fresh, *again), due=due, carried=carried)


def _require_word(old: Batch, authorization: UnknownAuthorization | None) -> None:
    unknown = old.unknown_record_ids
    if authorization is None:
        problem = "nothing was given" if unknown else ""
    elif authorization.batch_id != old.id:
        problem = f"batch_id is {authorization.batch_id}"
    else:
        ids = authorization.record_ids
        problem = "" if sorted(ids) == sorted(unknown) else f"record_ids names {len(ids)} others or not all"
    if problem:
        raise UnknownNeedsTheUser(batch_id=old.id, count=len(unknown), record_ids=list(unknown[:50]), problem=problem)


def renamed(slot: Slot, batch_id: str) -> Slot:
    """Returns the slot as a batch numbers it that follows the slot's own."""
    return slot.model_copy(
        update={"record_id": f"{batch_id}.{slot.n}", "retry_of": _renamed_id(slot.retry_of, batch_id)}
    )


def linked(slots: Iterable[Slot], batch_id: str, last: int) -> tuple[Slot, ...]:
    """Returns a new attempt for each of `slots`, numbered after `last` and linked to the one before."""
    return tuple(
        slot.model_copy(update={"n": n, "record_id": f"{batch_id}.{n}", "retry_of": slot.record_id})
        for n, slot in enumerate(slots, start=last + 1)
    )


def carried_over(record: Mapping[str, Any], batch_id: str) -> dict[str, Any]:
    """Returns a stored Record as the batch that follows has it: under its own id, and saying where it is from."""
    execution = record["execution"]
    return {
        **record,
        "id": f"{batch_id}.{record['n']}",
        "carried_from": record["id"],
        "execution": {**execution, "retry_of": _renamed_id(execution.get("retry_of"), batch_id)},
    }


def _renamed_id(record_id: str | None, batch_id: str) -> str | None:
    return None if record_id is None else f"{batch_id}.{record_id.rpartition('.')[2]}"


def _short(value: object, limit: int = 120) -> str:
    text = str(value)
    return text if len(text) <= limit else text[:limit] + "…"
