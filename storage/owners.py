"""Who is at work: a lock that the system lets go of when its process dies, named in intents and runs."""

from __future__ import annotations

import fcntl
import os
import secrets
from contextlib import suppress

from storage.files import Folder

FOLDER = "owners"


class Owner:
    """One piece of work in progress. While its lock is held, nobody finishes or undoes that work.

    The lock belongs to the open file, so a child that inherits `fd` shares it.
    """

    def __init__(self, store: Folder) -> None:
        self._store = store
        self.nonce = secrets.token_hex(8)
        store.make_folders(FOLDER, durable=False)
        self.fd = store.open(f"{FOLDER}/{self.nonce}", os.O_RDWR | os.O_CREAT | os.O_EXCL)
        fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        """Lets go. The file stays until nothing names it: another process may share the lock."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def is_alive(store: Folder, nonce: str) -> bool:
    """Whether any process holds the lock of `nonce`."""
    try:
        fd = store.open(f"{FOLDER}/{nonce}", os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def forget(store: Folder, nonce: str) -> None:
    """Removes the file of an owner that is gone."""
    with suppress(FileNotFoundError), store.parent(f"{FOLDER}/{nonce}") as (fd, name):
        os.unlink(name, dir_fd=fd)
