"""Who is at work: a lock that the system lets go of when its process dies, named in intents and runs."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from contextlib import suppress

from storage.files import Folder

FOLDER = "owners"
_NONCE = re.compile(r"[0-9a-f]{16}")


class Owner:
    """One piece of work in progress. While its lock is held, nobody finishes or undoes that work.

    The lock belongs to the open file, so a child that inherits `fd` shares it.
    """

    def __init__(self, store: Folder) -> None:
        self._store = store
        store.make_folders(FOLDER, durable=False)
        self.nonce, self.fd = _locked_file(store)

    def release(self) -> None:
        """Lets go. The file stays until nothing names it: another process may share the lock."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def _locked_file(store: Folder) -> tuple[str, int]:
    """Makes an owner's file and takes its lock. Returns its name and the descriptor that holds the lock."""
    while True:
        nonce = secrets.token_hex(8)
        path = f"{FOLDER}/{nonce}"
        fd = store.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            # Between the two calls above another process may have found the file unlocked and removed it.
            if store.exists(path):
                return nonce, fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)


def is_alive(store: Folder, nonce: str) -> bool:
    """Whether any process holds the lock of `nonce`. Whatever else a folder's name may say belongs to nobody."""
    if not _NONCE.fullmatch(nonce):
        return False
    try:
        fd = store.open(f"{FOLDER}/{nonce}", os.O_RDONLY)  # so that it can be asked where nothing can be written
    except FileNotFoundError:
        return False
    try:
        # Shared, so that two that ask at the same time do not take one another for the owner.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def forget_dead(store: Folder, nonce: str) -> None:
    """Removes the file of an owner, unless a process holds its lock; one that is about to take it notices."""
    try:
        fd = store.open(f"{FOLDER}/{nonce}", os.O_RDWR)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        forget(store, nonce)
    except BlockingIOError:
        return
    finally:
        os.close(fd)


def forget(store: Folder, nonce: str) -> None:
    """Removes the file of an owner that is gone."""
    with suppress(FileNotFoundError), store.parent(f"{FOLDER}/{nonce}") as (fd, name):
        os.unlink(name, dir_fd=fd)
