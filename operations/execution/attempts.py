"""A run's `attempts.log`: appended by its supervisor, one flush to a step, and read by everybody else.

A frame is `started` (record_id, n, at), `finished` (record) or `ended` (reason). A Record counts once its `finished`
frame is on the disk. What was started and has no `finished` frame is unknown: it may have had its effects.
"""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, ClassVar, Literal, cast

from storage.errors import AtkError, NextCall
from storage.files import sync_file, write_all
from storage.frames import HEADER, ORIGIN, Frame, Tail, encode, scan
from storage.schema.evidence import EvidenceRecord

EndReason = Literal["all_done", "stopped", "server_gone", "batch_timeout", "infra_failures"]
"""Why a supervisor ended its run. A log without one was left by a supervisor that was killed or could not write."""


@dataclass(kw_only=True, eq=False)
class AttemptsLogDamaged(AtkError):
    """A whole frame of the log is wrong. What follows it cannot be trusted, so nothing is added or cut."""

    path: str
    offset: int
    reason: str

    message: ClassVar[str] = (
        "The run's log at {path} is damaged at byte {offset}: {reason}. The Records before it can be read; the run "
        "cannot be continued. Start the evaluation again for the slots that are missing."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (NextCall("get_status"), NextCall("run_evaluation"))


@dataclass(kw_only=True, eq=False)
class RunIsLive(AtkError):
    """Another supervisor is writing this log."""

    path: str

    message: ClassVar[str] = (
        "The run's log at {path} is being written by a supervisor that is alive. Wait for the run or stop it."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (NextCall("wait_for_batch"), NextCall("stop_batch"))


@dataclass
class Attempts:
    """What a log says as a whole. Grows with the number of attempts, never with their outputs."""

    path: str
    finished: set[str] = field(default_factory=set)
    """Ids of the Records that count."""
    unfinished: dict[str, None] = field(default_factory=dict)
    """Ids of the Records that were started and have no known end, in the order of their start."""
    counts: Counter[str] = field(default_factory=Counter)
    """How many Records have each status."""
    ended: EndReason | None = None
    """Why the last supervisor ended; None while one runs, or when it could not say."""
    tail: Tail = field(default_factory=lambda: Tail("clean", 0))
    digest: str = ORIGIN
    """The digest of the last whole frame."""

    def records(self) -> Iterator[EvidenceRecord]:
        """Yields the Records that count, in the order in which they ended, one at a time from the file."""
        for found in read_frames(self.path):
            if isinstance(found, Frame) and found.body["kind"] == "finished":
                yield EvidenceRecord.model_validate(found.body["record"])

    def take(self, found: Frame | Tail) -> None:
        """Takes in the next thing that `read_frames` found."""
        if isinstance(found, Tail):
            self.tail = found
            return
        body = found.body
        self.digest = found.digest
        self.ended = None
        if body["kind"] == "started":
            self.unfinished[body["record_id"]] = None
        elif body["kind"] == "finished":
            record = body["record"]
            self.unfinished.pop(record["id"], None)
            self.finished.add(record["id"])
            self.counts[record["execution"]["status"]] += 1
        else:
            self.ended = cast("EndReason", body["reason"])


def read_attempts(path: str) -> Attempts:
    """Returns what the log at `path` says; one that does not exist yet says nothing.

    Time grows with the file's size, memory with the number of attempts. `tail` says whether the end is torn or damaged.
    """
    attempts = Attempts(path)
    for found in read_frames(path):
        attempts.take(found)
    return attempts


class AttemptsFollower:
    """Follows a log that is being written: each `update` reads only what is new."""

    def __init__(self, path: str) -> None:
        self._attempts = Attempts(path)

    def update(self) -> Attempts:
        """Returns what the log says by now. A frame that is still being written is left for the next time."""
        seen = self._attempts
        for found in read_frames(seen.path, offset=seen.tail.offset, prev=seen.digest):
            seen.take(found)
        return seen


def read_frames(path: str, *, offset: int = 0, prev: str = ORIGIN) -> Iterator[Frame | Tail]:
    """Yields the frames of a file from `offset`, then one `Tail`, with one frame in memory at a time."""
    try:
        file = open(path, "rb")  # noqa: SIM115 - closed below
    except FileNotFoundError:
        yield Tail("clean", offset)
        return
    with file:
        while True:
            file.seek(offset)
            found = next(scan(_one_frame(file), offset=offset, prev=prev))
            yield found
            if isinstance(found, Tail):
                return
            prev, offset = found.digest, found.end


def _one_frame(file: BinaryIO) -> bytes:
    """Returns the bytes of the next frame and one more, which tells a last frame from one that others follow."""
    header = file.read(HEADER)
    left = os.fstat(file.fileno()).st_size - file.tell()
    try:
        wanted = int(header[:8], 16) + 2
    except ValueError:
        wanted = left
    return header + file.read(max(0, min(wanted, left)))


class AttemptsLog:
    """The log as its one writer has it. A failed write or flush poisons it: the run must end."""

    def __init__(self, path: str, keep_torn_in: str) -> None:
        """Opens or creates the log, and cuts a torn tail after keeping it in the folder `keep_torn_in`.

        Raises:
            RunIsLive: Another process has it open for writing.
            AttemptsLogDamaged: A whole frame is wrong.
            OSError: It cannot be read or written.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._handle = os.open(path, flags, 0o600)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as busy:
            os.close(self._handle)
            raise RunIsLive(path=path) from busy
        self.found = read_attempts(path)
        """What the log said when it was opened."""
        tail = self.found.tail
        if tail.state == "damaged":
            raise AttemptsLogDamaged(path=path, offset=tail.offset, reason=tail.reason)
        if tail.state == "torn":
            self._cut(tail.offset, keep_torn_in)
        self._digest = self.found.digest
        folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def append(self, bodies: Sequence[Mapping[str, Any]]) -> None:
        """Appends frames with one write and one flush. They are on the disk when this returns.

        Raises:
            OSError: They could not be written or flushed. What is on the disk is then unknown.
        """
        chunks: list[bytes] = []
        digest = self._digest
        for body in bodies:
            chunk, digest = encode({**body, "prev": digest})
            chunks.append(chunk)
        write_all(self._handle, b"".join(chunks))
        _flush(self._handle)
        self._digest = digest

    def close(self) -> None:
        """Closes the log and lets another writer have it."""
        os.close(self._handle)

    def _cut(self, offset: int, folder: str) -> None:
        size = os.fstat(self._handle).st_size
        keep = os.open(
            os.path.join(folder, f"attempts.torn-{offset}"),
            os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC,
            0o600,
        )
        try:
            write_all(keep, os.pread(self._handle, size - offset, offset))
        finally:
            os.close(keep)
        os.ftruncate(self._handle, offset)
        _flush(self._handle)


def _flush(handle: int) -> None:
    if hasattr(os, "fdatasync"):
        os.fdatasync(handle)
    else:  # pragma: no cover - macOS
        sync_file(handle)
