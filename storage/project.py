"""A project's `.atk/` folder, opened: the state it is in, and the one way to change it."""

from __future__ import annotations

import errno
import os
import shutil
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from storage import owners, probes, recovery, refusing, segments, views
from storage.errors import AtkError, NextCall
from storage.files import Folder, StoreDamaged
from storage.founding import KEY, alone, masker_of, write_new_store
from storage.git import Git
from storage.journal import FOLDER as JOURNAL
from storage.journal import SEGMENT, Journal, check_format, prepare
from storage.lock import Held, exclusive
from storage.masking import Masker, load_key
from storage.projection import State, apply, fold
from storage.schema.projects import Project as ProjectRecord
from storage.transaction import Call, Replayed, RequestIdReused, ResourceBusy, Staging, Transaction

ATK = ".atk"


@dataclass(kw_only=True, eq=False)
class ProjectNotInitialized(AtkError):
    """There is no `.atk/` in the folder."""

    message = (
        "There is no ATK project in {path}. Make one with initialize_project (`atk init` in a terminal), or give "
        "another project_path."
    )
    next_calls = (NextCall("initialize_project", {"project_path": "{path}"}, {"command": "how the agent is started"}),)

    path: str


@dataclass(kw_only=True, eq=False)
class LegacyStore(AtkError):
    """The `.atk/` folder was made by ATK 1.0.0 or older, or by something else. It is left as it is."""

    message = (
        "{path} was not made by this ATK: it holds {found} and no operation journal. It was left untouched. "
        "Move it aside (for instance to .atk-old) and initialize the project anew."
    )
    next_calls = (NextCall("initialize_project", supply={"project_path": "once the old folder is moved aside"}),)

    path: str
    found: list[str]


@dataclass(kw_only=True, eq=False)
class AlreadyInitialized(AtkError):
    """The folder has a project already."""

    message = (
        "{path} has an ATK project already ({project_id}). Go on with it, or give the whole configuration anew with "
        "revise: true."
    )
    next_calls = (
        NextCall("get_status"),
        NextCall("initialize_project", {"revise": True}, {"arguments": "the whole configuration"}),
    )

    path: str
    project_id: str


@dataclass(kw_only=True, eq=False)
class StorageFailed(AtkError):
    """The disk refused. What was being written was taken back or is finished at the next call."""

    message = "The system refused: {reason}{place}. {advice} Nothing was recorded as done; call again afterwards."
    next_calls = (NextCall("inspect_or_recover_operation"), NextCall("get_status"))

    reason: str
    place: str
    advice: str

    @classmethod
    def of(cls, error: OSError, *near: str) -> StorageFailed:
        """Returns the refusal that `error` means, with what to do about it.

        `near` are folders on the disks that were written to: an error does not say which of them is full.
        """
        place = f" ({os.fsdecode(error.filename)})" if isinstance(error.filename, str | bytes) else ""
        advice = refusing.advice(error.errno or 0)
        if error.errno == errno.ENOSPC and (full := refusing.full(near)):
            place, advice = full
        return cls(reason=error.strerror or type(error).__name__, place=place, advice=advice)


class Project:
    """One project. Instances are shared by the threads of a process; get one with `open`."""

    def __init__(self, root: str, store: Folder) -> None:
        self.root = root
        self.store = store
        self._journal = Journal(store)
        self._state = State()
        self._guard = threading.RLock()
        self._tidied = False
        self._rotates = True
        """Whether a checkpoint can hold the state. It costs much to find out, and hardly ever turns."""
        self._segment: int | None = None
        """That of the last change: a new one was begun by another process."""
        self.mask_key = load_key(store.full(KEY))
        self.unresolved: list[recovery.Unresolved] = []
        self.edited_views: list[str] = []
        self.mishaps: list[str] = []
        """A warning for each view that the last recovery could not write, and each folder it could not take away."""

    @classmethod
    def open(cls, root: str) -> Project:
        """Returns the project in `root`.

        Raises:
            ProjectNotInitialized: There is no `.atk/`.
            LegacyStore: There is one, but not ours.
            StoreDamaged: `.atk` is a link.
            NewerFormat: A newer ATK wrote it.
        """
        path = os.path.join(root, ATK)
        with _guard:
            known = _opened.get(root)
            if known is not None and _same_folder(known.store, path):
                return known
            store = _open_store(root, path)
            try:
                project = cls(root, store)
            except BaseException:
                store.close()
                raise
            if known is not None:  # other threads may still be at work there
                weakref.finalize(known, known.store.close)
            _opened[root] = project
            return project

    @classmethod
    def create(cls, root: str, call: Call, record: ProjectRecord, response: Mapping[str, Any]) -> tuple[Project, int]:
        """Makes `.atk/` whole beside its place, then renames it once. Returns the project and the record's number.

        Raises:
            AlreadyInitialized: There is a project.
            LegacyStore: There is a folder that is not ours.
            ProjectBusy: Another process makes a store there, and does not end.
        """
        path = os.path.join(root, ATK)
        if os.path.lexists(path):
            found = cls.open(root)
            raise AlreadyInitialized(path=path, project_id=found.state().project_id)
        with alone(root) as prefix:
            staging = f"{prefix}{record.id}"
            try:
                write_new_store(staging, call, record, response)
                os.rename(staging, path)
            except OSError as error:
                shutil.rmtree(staging, ignore_errors=True)
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    raise AlreadyInitialized(path=path, project_id=cls.open(root).state().project_id) from None
                raise
            with Folder(root) as folder:
                folder.sync()
        return cls.open(root), 1

    # ---- reading --------------------------------------------------------------------------------------------

    def state(self) -> State:
        """Returns the project as its journal says, without a lock. Damage ends the reading; see `damage`."""
        return self._read()[0]

    def damage(self) -> StoreDamaged | None:
        """Returns what is wrong with the journal, or None."""
        return self._read()[1]

    def journal_records(self) -> Iterator[dict[str, Any]]:
        """Yields what every record says, oldest first."""
        for segment in segments.segments(self.store):
            for frame in segment.frames:
                yield frame.body

    @property
    def masker(self) -> Masker:
        """Makes what may be stored: known secrets and the project's own keys are masked."""
        configured = self.state().objects.get("project", {}).values()
        record = next((record for record in configured if isinstance(record, ProjectRecord)), None)
        return masker_of(self.mask_key, record)

    @contextmanager
    def git(self) -> Iterator[Git]:
        """Yields git for this project. It belongs to the calling thread."""
        git = Git(self.root)
        try:
            yield git
        finally:
            git.close()

    @contextmanager
    def scratch(self, nonce: str) -> Iterator[str]:
        """Yields a folder for private indexes and the like, and removes it."""
        path = f"work/scratch-{nonce}"
        self.store.make_folders(path, durable=False)
        try:
            yield self.store.full(path)
        finally:
            self.store.remove_tree(path)

    # ---- changing -------------------------------------------------------------------------------------------

    def transaction(self, call: Call) -> Transaction:
        """Returns the door to a change."""
        return Transaction(self, call)

    def staging(self, parent: str) -> Staging:
        """Returns a folder in which large files are prepared without the lock."""
        return Staging(self, parent)

    def check_replay(self, call: Call, state: State | None = None) -> None:
        """Tells a call that was made before from a new one.

        Raises:
            Replayed: The same call was made before; it carries the answer.
            RequestIdReused: Its `request_id` was used for something else.
            ResourceBusy: The call of that `request_id` is not over; asked only where `state` is given.
        """
        made = (state or self.state()).requests.get(call.request_id or "")
        if made is None:
            # What is still open after a recovery is being worked on, or waits for a person.
            for intent in state.intents.values() if state and call.request_id else ():
                if intent.frame.get("request_id") == call.request_id:
                    holder = f"{intent.operation} (record {intent.number})"
                    raise ResourceBusy(resource=f"request_id {call.request_id}", holder=holder)
            return
        if made.digest != call.digest(self.mask_key):
            raise RequestIdReused(given=str(call.request_id), record=made.record)
        self._journal.sync()  # the writer may have died before it did, and an answer is a promise
        raise Replayed(made.response)

    def catch_up(self, held: Held) -> State:
        """Returns the present state; a torn tail is cut, which only the lock's holder may do.

        Raises:
            StoreDamaged: The journal cannot be trusted.
        """
        with self._guard:
            state, damage = self._read(held)
            if damage is not None:
                raise damage
            return state

    def recovered(self, held: Held) -> State:
        """Returns the present state, with everything finished or undone that nobody works on any more."""
        state = self.catch_up(held)
        if not self._tidied or state.intents:
            self._journal.sync()  # before anything is built on a record that a killed writer did not flush
        if self._segment not in (None, state.position.segment):
            self.store.sync(JOURNAL)  # nor on a segment whose name one that was killed did not
        self._segment = state.position.segment
        if state.intents or state.runs or probes.open_probes(state):
            recovery.free_work(self)
            before = state
            state, self.unresolved, kept = recovery.recover(self, state, held)
            changed = [key for key, number in state.written.items() if before.written.get(key) != number]
            self.mishaps = self.show(state, changed) + kept
        else:
            self.unresolved, self.mishaps = [], []
        if not self._tidied:
            segments.tidy(self.store)
            kept = recovery.tidy(self, state)
            self.edited_views, failed = views.rebuild(self.store, state)
            self.mishaps += [*failed, *(said for said in kept if said not in self.mishaps)]
            self._tidied = not failed  # only now: what was found damaged refuses the next change as well
        if self._rotates and segments.due(self.store, state):
            self._rotates = segments.rotate(self, state, held, self.clock())
            state = self.catch_up(held)
        return state

    def settle(self, call: Call) -> State:
        """Finishes or undoes what nobody works on any more, and nothing else. Returns the state."""
        with exclusive(self.store, call.operation, call.at) as held:
            return self.recovered(held)

    def recover(self, call: Call) -> State:
        """Recovers, rebuilds every view and takes away what is nobody's. Returns the state."""
        with exclusive(self.store, call.operation, call.at) as held:
            self._tidied = False
            return self.recovered(held)

    def give_up(self, call: Call, number: int, reason: str) -> bool:
        """Closes what a crash left open in record `number` and leaves every file as it is. Returns whether it did."""
        with exclusive(self.store, call.operation, call.at) as held:
            before = self.catch_up(held)
            state = recovery.give_up(self, before, number, reason, held)
            if state is None:
                return False
            changed = [key for key, n in state.written.items() if before.written.get(key) != n]
            self.show(state, changed)
            return True

    def show(self, state: State, changed: Iterable[tuple[str, str]]) -> list[str]:
        """Writes the views of `changed`; the next change tries again. Returns a warning for each that failed."""
        warnings = views.write(self.store, state, changed)
        if warnings:
            self._tidied = False
        return warnings

    def append(self, body: dict[str, Any], held: Held) -> State:
        """Appends one record, and takes it into the state."""
        with self._guard:
            record = prepare(body, self._state.position)
            state = apply(self._state, record.frame, self._journal.path)  # never write what cannot be read
            try:
                self._journal.append(record, held)
            except BaseException:
                self._tidied = False
                raise
            self._state = state
            return state

    def caught_up_state(self) -> State:
        """Returns the state as of the last reading or appending."""
        return self._state

    def clock(self) -> str:
        """Returns the time as UTC ISO-8601, for what a recovery records. Nothing is ordered by it."""
        return datetime.now(UTC).isoformat(timespec="microseconds")

    def forget(self, nonce: str) -> None:
        """Removes the file of an owner whose work is recorded."""
        owners.forget(self.store, nonce)

    def _read(self, held: Held | None = None) -> tuple[State, StoreDamaged | None]:
        with self._guard:
            path = self._journal.path
            if not self._journal.follows(self._state.position):
                self._state = State()
            try:
                frames, tail = self._journal.read(self._state.position)
                for frame in frames:
                    if frame.body.get("kind") == "checkpoint":
                        check_format(frame.body, self.store.path)
            except StoreDamaged as error:
                return self._state, error
            damage = None
            if frames:
                self._state, damage = fold(self._state, frames, path)
            if damage is not None:
                return self._state, damage
            if tail.state != "damaged" and self._state.position.number < 1:
                # A store is put in place whole; no interrupted append leaves this.
                damage = StoreDamaged(path=path, place=f" at byte {tail.offset}", reason="ends before its first record")
            elif tail.state == "damaged":
                damage = StoreDamaged(path=path, place=f" at byte {tail.offset}", reason=tail.reason)
            elif tail.state == "torn" and held is not None:
                self._journal.cut(tail, held)
            return self._state, damage


_opened: dict[str, Project] = {}
_guard = threading.Lock()


def _same_folder(store: Folder, path: str) -> bool:
    try:
        there = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    here = os.fstat(store.fd)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def _open_store(root: str, path: str) -> Folder:
    if not os.path.lexists(path):
        raise ProjectNotInitialized(path=root)
    if os.path.islink(path) or not os.path.isdir(path):
        raise StoreDamaged(path=path, reason="is a link or a file where the store's folder should be")
    store = Folder(path)
    try:
        _require_ours(store)
    except BaseException:
        store.close()
        raise
    return store


def _require_ours(store: Folder) -> None:
    if any(name.endswith((".log", ".log.zst")) for name in store.names(JOURNAL)):
        return
    found = store.names()
    if KEY in found:
        raise StoreDamaged(path=store.full(SEGMENT), reason="is missing")
    raise LegacyStore(path=store.path, found=found[:12])
