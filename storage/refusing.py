"""Says what a person can do about an error of the system, and which disk is the full one."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable

_LITTLE = 1 << 20
"""Bytes free below which a disk counts as full: what a call had prepared is gone when its refusal is worded."""

_FEW = 16
"""Files that can still be made below which it is out of them."""

_OWNER = "Check who owns the folder and its permissions."
_GONE = "The disk is gone; mount it again."

_ADVICE = {
    errno.ENOSPC: "Free some space on that disk.",
    errno.EDQUOT: "Free some space in your quota.",
    errno.EFBIG: "Raise the limit of a file's size (`ulimit -f`) and start the server again.",
    errno.EROFS: "The file system is mounted read-only; mount it for writing.",
    errno.EACCES: _OWNER,
    errno.EPERM: _OWNER,
    errno.EMFILE: "Raise the limit of open files (`ulimit -n`) and start the server again.",
    errno.ENFILE: "The whole machine has too many open files; end what holds them.",
    errno.EAGAIN: "No further process or thread can be started; end some, or raise their limit (`ulimit -u`).",
    errno.ENOMEM: "There is no memory left; free some, or raise its limit (`ulimit -v`).",
    errno.EIO: "The disk reports an error; check it before you go on.",
    errno.ENAMETOOLONG: "Move the project to a shorter path.",
    errno.ENODEV: _GONE,
    errno.ENOTCONN: _GONE,
    errno.ESTALE: _GONE,
}


def advice(number: int) -> str:
    """Returns what to do about the error of this number."""
    return _ADVICE.get(number, "Put that right.")


def full(folders: Iterable[str]) -> tuple[str, str] | None:
    """Returns which disk is full as a place and what to do about it; None when none of those under `folders` is.

    A disk can be out of files while it has space, and is full for an unprivileged user before it is for root.
    """
    for folder in folders:
        try:
            found = os.statvfs(folder)
        except OSError:  # it is none that could be written to
            continue
        if found.f_files and found.f_favail < _FEW:
            return f" (on the disk of {folder}, where no more files can be made)", "Remove some files from that disk."
        if (left := found.f_bavail * found.f_frsize) < _LITTLE:
            return f" (on the disk of {folder}, {left // 1024} KiB free)", _ADVICE[errno.ENOSPC]
    return None
