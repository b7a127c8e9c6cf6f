"""The only door to a change: lock, catch up, recover, decide, commit.

A handler that is refused has changed nothing, because nothing is published before `commit`, `intend` or
`start_run`, and each of these is one append and one flush of the journal.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from pydantic import BaseModel

from storage import effects
from storage.errors import AtkError, NextCall
from storage.files import Stored
from storage.frames import canonical
from storage.lock import Held, exclusive
from storage.owners import Owner
from storage.projection import State
from storage.schema.base import Record
from storage.schema.kinds import KINDS

if TYPE_CHECKING:
    from storage.project import Project

ARGUMENTS_LIMIT = 64 * 1024
"""Bytes of masked arguments that a journal record carries; of longer ones it keeps the digest and the size."""

SHOWN = 3
"""Warnings of views that a recovery could not write; the next change tries them all again."""

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_SUFFIXES = 32**4
_STEP = 8
"""How far ids of one transaction lie apart, at most: there is room for more than 50,000 after any first one."""


@dataclass(kw_only=True, eq=False)
class RequestIdReused(AtkError):
    """The `request_id` was used before, for something else."""

    message = (
        "request_id {given!r} was used in journal record {record} with other arguments. "
        "Repeat those to get the recorded response, or choose a new request_id."
    )
    next_calls = (NextCall("get_status"),)

    given: str
    record: int


@dataclass(kw_only=True, eq=False)
class ResourceBusy(AtkError):
    """Something that the call relies on is in use by work that has not ended."""

    message = "Busy: {resource} is in use by {holder}. Wait for it to end, or stop it."
    next_calls = (NextCall("get_status"), NextCall("inspect_or_recover_operation"))

    resource: str
    holder: str
    batch_id: str = ""
    """The batch whose run it is that has to end, where it is one."""

    @property
    def next(self) -> tuple[NextCall, ...]:
        """A run is waited for, or stopped."""
        if not self.batch_id:
            return super().next
        named = {"batch_id": self.batch_id}
        return (NextCall("wait_for_batch", named), NextCall("stop_batch", named), NextCall("get_status"))


class Replayed(Exception):
    """The same call was made before; `response` is what it was answered."""

    def __init__(self, response: Mapping[str, Any]) -> None:
        super().__init__("answered before")
        self.response = response


class Answer(Protocol):
    """What a response has to offer: the operations' models do."""

    def model_dump(self, *, mode: str) -> dict[str, Any]: ...  # noqa: D102

    def model_copy(self, *, update: Mapping[str, Any]) -> Any: ...  # noqa: ANN401, D102


AnswerT = TypeVar("AnswerT", bound=Answer)
RecordT = TypeVar("RecordT", bound=Record)


@dataclass(frozen=True, kw_only=True)
class Call:
    """What the journal will say about a call. `arguments` are as given; they are masked before they are kept."""

    operation: str
    arguments: Mapping[str, Any]
    request_id: str | None
    at: str

    def digest(self, key: bytes) -> str:
        """Returns a keyed digest of the operation and its arguments, so that a repeat can be told."""
        return hmac.new(key, canonical([self.operation, self.arguments]), hashlib.sha256).hexdigest()


class Staging:
    """A folder beside its final place, where large files are written and flushed before the lock is taken."""

    def __init__(self, project: Project, parent: str) -> None:
        self._project = project
        self.owner = Owner(project.store)
        self.parent = parent
        self.path = f"{parent}/.staging-{self.owner.nonce}"
        self.files: dict[str, Stored] = {}
        try:
            project.store.make_folders(self.path)
        except BaseException:
            self.owner.release()
            raise

    def write(self, name: str, chunks: Sequence[bytes] | Any) -> Stored:  # noqa: ANN401 - any iterable of bytes
        """Writes one file and flushes it. Returns its digest and size."""
        stored = self._project.store.write_new(f"{self.path}/{name}", chunks)
        self.files[name] = stored
        return stored

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Takes away what was not placed."""
        with suppress(OSError):  # what is left is nobody's, and the next call takes it away
            self._project.store.remove_tree(self.path)
        self.owner.release()
        with suppress(OSError):
            self._project.forget(self.owner.nonce)


@dataclass
class Pending:
    """An announced effect. `carry_out` makes it so, without the project's lock, and records that it is done."""

    project: Project
    call: Call
    number: int
    steps: tuple[effects.Step, ...]
    since_ns: int
    owner: Owner
    answer: Any

    def carry_out(self) -> Any:  # noqa: ANN401 - the response that `intend` was given
        """Makes the effect so. Returns the response.

        Raises:
            AtkError: A target was in no known state. If nothing of the user's had changed, the intent is
                recorded as undone; otherwise it stays open for `inspect_or_recover_operation`.
        """
        try:
            with self.project.git() as git, self.project.scratch(self.owner.nonce) as scratch:
                try:
                    effects.make_it_so(git, self.steps, since_ns=self.since_ns, scratch=scratch)
                except AtkError as error:
                    if effects.untouched(git, self.steps, scratch):
                        effects.take_back(git, self.steps, since_ns=self.since_ns, scratch=scratch)
                        self._close("undone", str(error))
                    raise
            number, warnings = self._close("done")
        finally:
            self.owner.release()
        return self.answer.model_copy(update={"journal_record": number, "warnings": [*self.answer.warnings, *warnings]})

    def _close(self, kind: str, reason: str | None = None) -> tuple[int, list[str]]:
        with exclusive(self.project.store, self.call.operation, self.call.at) as held:
            before = self.project.catch_up(held)
            if self.number not in before.intents:  # another process thought this one dead and finished it
                return before.position.number, []
            body = {"kind": kind, "intent": self.number, "op": self.call.operation, "at": self.call.at}
            state = self.project.append({**body, **({"reason": reason} if reason else {})}, held)
            self.project.forget(self.owner.nonce)
            warnings = self.project.show(state, _newer(before, state))
            return state.position.number, [*self.project.mishaps[:SHOWN], *warnings]


@dataclass
class Transaction:
    """One change being made. Use it as a context manager; the lock is held inside."""

    project: Project
    call: Call
    _stack: ExitStack = field(default_factory=ExitStack)
    _objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    _files: dict[str, Stored] = field(default_factory=dict)
    _placed: list[str] = field(default_factory=list)
    _suffixes: dict[str, int] = field(default_factory=dict)
    _held: Held | None = None
    _state: State | None = None

    def __enter__(self) -> Self:
        self._held = self._stack.enter_context(exclusive(self.project.store, self.call.operation, self.call.at))
        try:
            self._state = self.project.recovered(self._held)
            self.project.check_replay(self.call, self._state)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for path in self._placed:  # placed, and no record names it
                with suppress(OSError):
                    self.project.store.remove_tree(path)
        finally:
            self._stack.close()

    @property
    def state(self) -> State:
        """The project as it is now, nothing open that nobody works on."""
        if self._state is None:
            raise RuntimeError("BUG: a transaction is used before it is entered")
        return self._state

    @property
    def number(self) -> int:
        """The number of the record that this transaction will append."""
        return self.state.position.number + 1

    def new_id(self, kind: str) -> str:
        """Returns a new id: its kind, the record that first names it, and four random characters.

        Ids of one transaction ascend, as a frame holds its objects sorted by id: what is first recorded together is
        listed in the order in which it was given.
        """
        last = self._suffixes.get(kind)
        drawn = secrets.randbelow(_SUFFIXES // 2) if last is None else last + 1 + secrets.randbelow(_STEP)
        if drawn >= _SUFFIXES:
            raise RuntimeError(f"BUG: one transaction made more {kind}s than there are ids for")
        self._suffixes[kind] = drawn
        return f"{kind}-{self.number}-{_in_base_32(drawn)}"

    def put(self, record: RecordT) -> RecordT:
        """Adds a record to what will be committed. Returns it as it is kept: masked."""
        kept = record if record.as_given else type(record).model_validate(self.project.masker.record(record))
        self._objects.setdefault(record.kind, {})[record.id] = kept.model_dump(mode="json")
        return kept

    def place(self, staging: Staging, target: str) -> None:
        """Renames a staged folder to its final place. Until a record names it, it is nobody's."""
        store = self.project.store
        store.sync(staging.path)
        if not store.exists(target):
            self._placed.append(target)
        store.move(staging.path, target)
        self._files |= {f"{target}/{name}": stored for name, stored in staging.files.items()}

    def require_free(self, *claims: str) -> None:
        """Refuses when an open effect or a run relies on one of `claims`.

        Raises:
            ResourceBusy: It names who does.
        """
        claimed = self.state.claimed()
        for claim in claims:
            if claim in claimed:
                run = self.state.run_on(claim)
                raise ResourceBusy(resource=claim, holder=claimed[claim], batch_id=run.batch_id if run else "")

    def commit(self, answer: AnswerT) -> AnswerT:
        """Appends the operation's record: the commit point. Returns `answer` with its record's number."""
        number, warnings = self._append({"kind": "operation", **self._body(answer)})
        return _answered(answer, number, warnings)

    def intend(self, steps: Sequence[effects.Step], answer: Answer, *, claims: Sequence[str]) -> Pending:
        """Announces an effect outside the store. Call `carry_out` on the result once the lock is released."""
        with self.project.git() as git:
            effects.require_unlocked(git, steps)
            strangers = effects.strangers_locks(git)
            effects.flush(git)
        body = {"kind": "intent", **self._body(answer), "steps": list(steps), "claims": list(claims)}
        owner = Owner(self.project.store)
        since_ns = time.time_ns()
        try:
            number, _ = self._append({**body, "owner": owner.nonce, "strangers_locks": strangers})
        except BaseException:
            owner.release()
            raise
        return Pending(self.project, self.call, number, tuple(steps), since_ns, owner, answer)

    def start_run(self, run: Mapping[str, Any], answer: AnswerT) -> AnswerT:
        """Records that a run begins. `run` says what its sealing needs: batch_id, owner, switch, revision."""
        number, warnings = self._append({"kind": "run_started", **self._body(answer), "run": dict(run)})
        return _answered(answer, number, warnings)

    def _append(self, body: dict[str, Any]) -> tuple[int, list[str]]:
        if self._held is None:
            raise RuntimeError("BUG: a transaction is used before it is entered")
        before = self.state
        # From here on the record may be on the disk even when the append fails, so what it names has to stay;
        # where it is not, the next call takes the folders away.
        self._placed.clear()
        self._state = self.project.append(body, self._held)
        warnings = self.project.show(self.state, _newer(before, self.state))
        return self.state.position.number, [*self.project.mishaps[:SHOWN], *warnings]

    def _body(self, answer: Answer) -> dict[str, Any]:
        masker = self.project.masker
        masked = masker.value(dict(self.call.arguments))
        size = len(canonical(masked))
        arguments = masked if size <= ARGUMENTS_LIMIT else {"left_out": f"{size} bytes of arguments"}
        body: dict[str, Any] = {
            "op": self.call.operation,
            "at": self.call.at,
            "arguments": arguments,
            "arguments_digest": self.call.digest(self.project.mask_key),
            "objects": self._objects,
            "files": {path: {"sha256": f.sha256, "size": f.size} for path, f in self._files.items()},
            "response": masker.record(answer)
            if isinstance(answer, BaseModel)
            else masker.value(answer.model_dump(mode="json")),
        }
        return body if self.call.request_id is None else {**body, "request_id": self.call.request_id}


def _in_base_32(number: int) -> str:
    return "".join(_ALPHABET[number >> shift & 31] for shift in (15, 10, 5, 0))


def _answered(answer: AnswerT, number: int, warnings: list[str]) -> AnswerT:
    shown: AnswerT = answer.model_copy(
        update={"journal_record": number, "warnings": [*getattr(answer, "warnings", []), *warnings]}
    )
    return shown


def _newer(before: State, after: State) -> list[tuple[str, str]]:
    """The objects that `after` holds in another version than `before`."""
    return [key for key, number in after.written.items() if key[0] in KINDS and before.written.get(key) != number]
