"""Writes a run's `attempts.log`: appended by its supervisor, one flush to a step (read: storage.attempts).

A frame is `started` (record_id, n, at), `finished` (record) or `ended` (reason). A Record counts once its `finished`
frame is on the disk. What was started and has no `finished` frame is unknown: it may have had its effects.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from storage.attempts import read_attempts
from storage.errors import AtkError, NextCall
from storage.files import sync_file, write_all
from storage.frames import encode


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
        try:
            self.found = read_attempts(path)
            """What the log said when it was opened."""
            self._begin(path, keep_torn_in)
        except BaseException:
            os.close(self._handle)  # and the lock with it, or whoever opens it next would take this for a writer
            raise
        self._digest = self.found.digest

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

    def _begin(self, path: str, keep_torn_in: str) -> None:
        """Makes the log one that can be appended to, and its name one that stays."""
        tail = self.found.tail
        if tail.state == "damaged":
            raise AttemptsLogDamaged(path=path, offset=tail.offset, reason=tail.reason)
        if tail.state == "torn":
            self._cut(tail.offset, keep_torn_in)
        folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

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
