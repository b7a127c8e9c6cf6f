"""Tells a lock file that our own killed git left behind from one that is somebody else's."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

from storage.git import locked

GRAIN_NS = 10_000_000
"""Nanoseconds by which a file's time may lie before the clock's: file systems stamp with the kernel's last tick."""


def remove_own_locks(paths: Iterable[str], ours: Sequence[bytes], *, since_ns: int) -> None:
    """Removes those of the lock files that are ours; one that cannot be shown to be stops everything before that.

    A lock is ours when it was born after `since_ns`, holds nothing but the beginning of something that we were about to
    write, perhaps with zeros where a power cut kept bytes from the disk, and no living process has it open.

    Raises:
        GitLocked: A lock is not ours.
    """
    left = []
    for path in paths:
        try:
            with open(path, "rb") as file:
                data, status = file.read(), os.fstat(file.fileno())
        except (FileNotFoundError, NotADirectoryError):
            continue
        if status.st_mtime_ns + GRAIN_NS < since_ns:
            raise locked(path, "older than this operation")
        if not any(_begins(data, x) for x in ours):
            raise locked(path, "with content that is not ours")
        if holder := _holder(path):
            raise locked(path, holder)
        left.append(path)
    for path in left:
        os.unlink(path)


def _begins(data: bytes, whole: bytes) -> bool:
    return len(data) <= len(whole) and all(found in (0, wanted) for found, wanted in zip(data, whole, strict=False))


def _holder(path: str) -> str | None:
    """Returns who has a file open, or None when nobody has; where that cannot be told, somebody may."""
    if sys.platform != "linux":
        return "perhaps open in a living process"
    real = os.path.realpath(path)
    for process in filter(str.isdigit, os.listdir("/proc")):
        folder = f"/proc/{process}/fd"
        try:
            if any(os.path.realpath(os.path.join(folder, x)) == real for x in os.listdir(folder)):
                return f"open in process {process}"
        except OSError:
            continue  # it ended meanwhile, or belongs to another user
    return None
