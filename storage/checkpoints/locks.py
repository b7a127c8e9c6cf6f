"""Tells a lock file that our own killed git left behind from one that is somebody else's."""

from __future__ import annotations

import os
import re
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence

from storage.files import open_plain
from storage.git import locked

GRAIN_NS = 10_000_000
"""Nanoseconds by which a file's time may lie before the clock's: file systems stamp with the kernel's last tick."""

_TABLE = re.compile(rb"0x[0-9a-f]{12,16}-0x[0-9a-f]{12,16}-[0-9a-f]{8}\.ref\n")
"""A line of a stack's list: the first and the last update in a table, and what makes its name its own."""

_HEADERS = {b"\x01": 24, b"\x02": 28}
"""The version of a table, which is its fifth byte, and how many bytes come before its first block."""

_MOST = 1 << 16
"""Bytes that are looked at of a table and of its log: one that adds a ref is smaller."""


def stack_lock(folder: str) -> str:
    """Returns the path at which Git locks all refs of a folder that keeps them as reftables."""
    return os.path.join(folder, "reftable", "tables.list.lock")


def additions(lock: str, *signs: bytes) -> list[bytes]:
    """Returns what a lock on a stack of reftables may hold when it is to add a table that has one of `signs` in it.

    Git writes the table first, and then the list of all that were there and of this one into the lock. A table that is
    named in the lock and is not there is nobody's to come: a power cut took it.
    """
    folder = os.path.dirname(lock)
    paths = (os.path.join(folder, "tables.list"), lock)
    if not all(os.path.isfile(x) and not os.path.islink(x) for x in paths):
        return []
    with open_plain(paths[0]) as file:
        listed = file.read()
    with open_plain(lock) as file:
        added = file.read()[len(listed) :]
    lost = _TABLE.fullmatch(added) and not os.path.lexists(os.path.join(os.fsencode(folder), added.rstrip(b"\n")))
    names = [*(x + b"\n" for x in _tables_with(folder, signs)), *([added] if lost else [])]
    return [listed, *(listed + x for x in names)]


def _tables_with(folder: str, signs: Sequence[bytes]) -> Iterator[bytes]:
    for name in map(os.fsencode, sorted(os.listdir(folder))):
        if _TABLE.fullmatch(name + b"\n"):
            with open_plain(os.path.join(folder, os.fsdecode(name))) as file:
                table = file.read(_MOST)
            if any(sign in part for part in (table, _log(table)) for sign in signs):
                yield name


def _log(table: bytes) -> bytes:
    """Returns the first block of a table that holds nothing but a log, which is compressed; of any other, nothing."""
    start = _HEADERS.get(table[4:5], len(table))
    if table[start : start + 1] != b"g":
        return b""
    try:
        return zlib.decompressobj().decompress(table[start + 4 :], _MOST)
    except zlib.error:
        return b""


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
            if not stat.S_ISREG(os.lstat(path).st_mode):
                raise locked(path, "no regular file, as Git's are")
            with open_plain(path) as file:
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
