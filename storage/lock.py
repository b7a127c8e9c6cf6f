"""One writer to a project at a time, for milliseconds."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from storage.errors import AtkError, NextCall
from storage.files import Folder, StoreDamaged

FILE = "lock"
PATIENCE_SECONDS = 10.0
"""How long a call waits for the lock. A holder keeps it for milliseconds, or for a large recovery."""


@dataclass(kw_only=True, eq=False)
class ProjectBusy(AtkError):
    """Another call is changing the project and did not finish in time."""

    message = "Busy: {holder}. Waited {waited} s. Reading is still possible; call again when it has finished."
    next_calls = (NextCall("get_status"),)

    holder: str
    waited: float


@dataclass(kw_only=True, eq=False)
class LocksNotSupported(AtkError):
    """The file system cannot lock, so two writers could not be kept apart."""

    message = (
        "The file system under {path} does not support file locks ({reason}), so ATK cannot keep two writers apart. "
        "Move the project to a local disk."
    )

    path: str
    reason: str


@dataclass(frozen=True)
class Held:
    """Proof that the project's lock is held; what changes the journal asks for it."""

    operation: str
    store: Folder | None = None
    """None for a store that nobody else can see yet."""
    fd: int = -1

    def require(self) -> None:
        """Checks that no other can hold the project by now, as when a person removed the lock's file.

        Raises:
            StoreDamaged: The file is gone, or another one.
        """
        if self.store is not None and not _in_place(self.store, self.fd):
            raise StoreDamaged(path=self.store.full(FILE), reason="was taken away or replaced while it was held")


@contextmanager
def exclusive(store: Folder, operation: str, since: str, patience: float = PATIENCE_SECONDS) -> Iterator[Held]:
    """Holds the project for `operation`. The file is never removed, and the system lets go when the process dies.

    Raises:
        ProjectBusy: Another process or thread holds it for longer than `patience` seconds.
        LocksNotSupported: The file system has no locks.
    """
    fd = store.open(FILE, os.O_RDWR | os.O_CREAT)
    try:
        take(fd, store.path, patience, lambda: holder(store))
        held = Held(operation, store, fd)
        held.require()
        note = {"pid": os.getpid(), "host": socket.gethostname(), "operation": operation, "since": since}
        text = json.dumps(note).encode().ljust(256)
        os.pwrite(fd, text, 0)
        yield held
    finally:
        os.close(fd)


def take(fd: int, path: str, patience: float, held_by: Callable[[], str]) -> None:
    """Takes the lock of an open file or folder, which the system lets go when `fd` is closed.

    Args:
        fd: What is locked.
        path: Where it is.
        patience: Seconds to wait for it at most.
        held_by: Says who has it.

    Raises:
        ProjectBusy: Another one has it for longer.
        LocksNotSupported: The file system has no locks.
    """
    start = time.monotonic()
    pause = 0.002
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waited = time.monotonic() - start
            if waited >= patience:
                raise ProjectBusy(holder=held_by(), waited=round(waited, 1)) from None
            time.sleep(pause)
            pause = min(pause * 1.5, 0.05)
        except OSError as error:
            raise LocksNotSupported(path=path, reason=os.strerror(error.errno or 0)) from None
        else:
            return


def _in_place(store: Folder, fd: int) -> bool:
    """Whether the locked file is still the one that others will open."""
    try:
        return os.fstat(fd).st_ino == os.stat(FILE, dir_fd=store.fd, follow_symlinks=False).st_ino
    except FileNotFoundError:
        return False


def holder(store: Folder) -> str:
    """Says who wrote the lock's note last: its process, its operation, and since when."""
    try:
        note = json.loads(store.read(FILE, 4096))
        return f"process {int(note['pid'])} on {note['host']} is running {note['operation']} since {note['since']}"
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError, FileNotFoundError):
        return "an unknown process holds the project's lock"
