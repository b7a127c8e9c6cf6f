"""Removes trees that agents left: of any depth, closed to us, or in part not ours to remove."""

from __future__ import annotations

import errno
import itertools
import os
import stat
from collections.abc import Callable, Iterator
from functools import partial

_OPEN = 0o700

KEPT = frozenset({errno.EACCES, errno.EPERM, errno.EBUSY})
"""What the system says of what it does not let us remove."""


def remove(name: str, at: int) -> None:
    """Removes an entry of a folder, however deep it is: neither handles nor the stack limit what an agent leaves.

    What the system keeps does not hold up what it lets go of; the first such error is raised in the end.
    """
    if not _is_folder(name, at):
        os.unlink(name, dir_fd=at)
        return
    kept: dict[str, OSError] = {}
    top = _openable(name, at)
    try:
        spare = map(str, itertools.count())
        while entries := set(os.listdir(top)) - set(kept):
            for entry in sorted(entries):
                _try(kept, entry, partial(_flatten, entry, top, spare))
    finally:
        os.close(top)
    for error in kept.values():
        raise error
    os.rmdir(name, dir_fd=at)


def _try(kept: dict[str, OSError], name: str, take_away: Callable[[], None]) -> None:
    """Takes an entry away, or remembers that the system keeps it."""
    try:
        take_away()
    except OSError as error:
        if error.errno not in KEPT:
            raise
        kept[name] = error


def _flatten(entry: str, top: int, spare: Iterator[str]) -> None:
    """Removes an entry of `top`; the folders in it become entries of `top`, to be removed in their turn."""
    if not _is_folder(entry, top):
        os.unlink(entry, dir_fd=top)
        return
    kept: dict[str, OSError] = {}
    fd = _openable(entry, top)
    try:
        for name in os.listdir(fd):
            _try(kept, name, partial(_take_out, name, fd, top, spare))
    finally:
        os.close(fd)
    for error in kept.values():
        raise error
    os.rmdir(entry, dir_fd=top)


def _take_out(name: str, fd: int, top: int, spare: Iterator[str]) -> None:
    if not _is_folder(name, fd):
        os.unlink(name, dir_fd=fd)
        return
    os.close(_openable(name, fd))
    _lift(name, fd, top, spare)


def _lift(name: str, at: int, top: int, spare: Iterator[str]) -> None:
    for free in spare:
        try:
            os.rename(name, free, src_dir_fd=at, dst_dir_fd=top)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
        else:
            return


def _is_folder(name: str, at: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode)


def _openable(name: str, at: int) -> int:
    """Returns a handle of a folder that can be listed and emptied, whatever an agent set its mode to."""
    if os.stat(name, dir_fd=at, follow_symlinks=False).st_mode & _OPEN != _OPEN:
        os.chmod(name, _OPEN, dir_fd=at)
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
