"""The tree of processes below this one: who is in it, and how to end it without hitting a stranger.

Linux only, where a process can adopt the orphans below it (prctl(2), PR_SET_CHILD_SUBREAPER) and a pidfd names a
process for good (pidfd_open(2)). Elsewhere `adopt_orphans` and `sweep` do nothing: the process group is all there is,
and a process that left its group (setsid) survives.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol, cast

LINUX = sys.platform == "linux"

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True) if LINUX else None

_LOOK_EVERY_SECONDS = 0.005
_EMPTY_LOOKS = 2
"""A fork may slip in between a look and a kill; its parent is dead by the next look, so a second one sees it."""


@dataclass(frozen=True)
class Process:
    """One living process. The start time, in clock ticks since boot, tells it from a later one of the same number."""

    pid: int
    start: int


@dataclass(frozen=True)
class Swept:
    """What a sweep did: how many processes it ended and how many it could not."""

    killed: int
    survivors: int


class _LinuxSignal(Protocol):
    def pidfd_send_signal(self, pidfd: int, signalnum: int) -> None: ...


class _LinuxOs(Protocol):
    def pidfd_open(self, pid: int) -> int: ...


def adopt_orphans() -> None:
    """Makes this process the parent of every orphan below it, so that none can leave its tree."""
    if _libc is not None:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """Has the kernel kill this process when `parent` ends. For use between fork and exec."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(127)


def open_pidfd(pid: int) -> int | None:
    """Returns a handle that becomes readable when the child `pid` ends, or None where there is none."""
    return cast("_LinuxOs", os).pidfd_open(pid) if LINUX else None


def signal_pidfd(pidfd: int, number: int) -> None:
    """Sends a signal to the process behind `pidfd`; one that is gone or not ours to signal is left alone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        cast("_LinuxSignal", signal).pidfd_send_signal(pidfd, number)


def reap_orphans(spare: int) -> None:
    """Collects dead children but `spare`, whose exit status belongs to somebody else."""
    while LINUX:
        try:
            dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if dead is None or dead.si_pid == spare:
            return
        os.waitpid(dead.si_pid, 0)


def sweep(spare: Collection[int] = (), *, limit_seconds: float = 2.0) -> Swept:
    """Kills everything below this process but the children `spare` and what is below them.

    Without `spare`, every child's exit status is collected, so the caller must have read those that it wants. Having no
    child left is proof that nothing is left; otherwise looks are repeated until two in a row find nothing alive.
    """
    killed: set[Process] = set()
    empty, end = 0, time.monotonic() + limit_seconds
    while LINUX:
        if not spare and not _reap_all():
            break
        found = descendants(os.getpid(), spare)
        empty = 0 if found else empty + 1
        if empty >= _EMPTY_LOOKS:
            break
        if time.monotonic() >= end:
            return Swept(len(killed), len(found))
        for process in found:
            killed.add(process)
            _kill(process)
        if spare:
            _reap_but(spare)
        time.sleep(_LOOK_EVERY_SECONDS)
    return Swept(len(killed), 0)


def descendants(root: int, spare: Collection[int] = ()) -> list[Process]:
    """Returns the living processes below `root`, parents first, without `spare` and what is below them."""
    children: dict[int, list[tuple[Process, str]]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (read := _stat(int(name))):
            parent, state, start = read
            children.setdefault(parent, []).append((Process(int(name), start), state))
    found: list[Process] = []
    todo = [root]
    while todo:
        for process, state in children.get(todo.pop(), ()):
            if process.pid in spare:
                continue
            todo.append(process.pid)
            if state not in "ZX":
                found.append(process)
    return found


def _stat(pid: int) -> tuple[int, str, int] | None:
    """Returns parent, state and start time of a process (proc(5), fields 4, 3 and 22), or None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read().decode("latin-1")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    fields = text[text.rindex(")") + 2 :].split()  # the program's name may itself have spaces and parentheses
    return int(fields[1]), fields[0], int(fields[19])


def _kill(process: Process) -> None:
    try:
        handle = cast("_LinuxOs", os).pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        read = _stat(process.pid)
        if read is not None and read[2] == process.start:
            signal_pidfd(handle, signal.SIGKILL)
    finally:
        os.close(handle)


def _reap_all() -> bool:
    """Collects dead children and returns whether any child is left."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True


def _reap_but(spare: Collection[int]) -> None:
    """Collects the dead among the adopted children. Rare, so a look at the whole table is cheap enough."""
    me = os.getpid()
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in spare:
            continue
        read = _stat(int(name))
        if read is not None and read[0] == me and read[1] == "Z":
            with contextlib.suppress(ChildProcessError):
                os.waitpid(int(name), os.WNOHANG)


def wait_readable(handles: Collection[int], seconds: float | None) -> dict[int, int]:
    """Waits until one of `handles` has something to read or is hung up, and returns which, with poll(2)'s events."""
    poll = select.poll()
    for handle in handles:
        poll.register(handle, select.POLLIN)
    return dict(poll.poll(None if seconds is None else max(0, seconds) * 1000))
