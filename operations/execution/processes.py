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

MARKER = "ATK_ATTEMPT_OF"
"""The environment variable by which what an agent started can be found when everybody above it was killed."""

NOT_BEGUN = 3
"""The exit status of a supervisor for whose guardians the system has no room: no attempt was begun."""

_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True) if LINUX else None

_LOOK_EVERY_SECONDS = 0.005
_EMPTY_LOOKS = 2
"""A fork may slip in between a look and a kill; its parent is dead by the next look, so a second one sees it."""


def is_readable(descriptor: int, seconds: float) -> bool:
    """Whether something can be read, or the other end is gone; waits at most `seconds`.

    select(2) takes no descriptor from 1024 up, which a server of many projects comes to.
    """
    poll = select.poll()
    poll.register(descriptor, select.POLLIN | select.POLLHUP | select.POLLERR)
    return bool(poll.poll(seconds * 1000))


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


def open_pidfd(pid: int) -> int | None:
    """Returns a handle that becomes readable when the child `pid` ends, or None where there is none."""
    return cast("_LinuxOs", os).pidfd_open(pid) if LINUX else None


def signal_pidfd(pidfd: int, number: int) -> None:
    """Sends a signal to the process behind `pidfd`; one that is gone or not ours to signal is left alone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        cast("_LinuxSignal", signal).pidfd_send_signal(pidfd, number)


def signal_group(group: int, number: int) -> None:
    """Sends a signal to a process group; one that is gone or not ours to signal is left alone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


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
    children: dict[int, list[_Seen]] = {}
    for seen in _table():
        children.setdefault(seen.parent, []).append(seen)
    found: list[Process] = []
    todo = [root]
    while todo:
        for seen in children.get(todo.pop(), ()):
            if seen.process.pid in spare:
                continue
            todo.append(seen.process.pid)
            if seen.lives:
                found.append(seen.process)
    return found


def mark(work_folder: str) -> str:
    """Returns the value of `MARKER` for the attempts of a batch, which no batch of another project has."""
    return os.path.realpath(work_folder)


def sweep_batch(work_folder: str, *, limit_seconds: float = 2.0) -> int:
    """Kills what the agents of a dead run left, and returns how many processes that were.

    For a run whose supervisor and guardians are gone together, as its released owner lock says: otherwise they sweep
    themselves, and with more certainty. Found are processes with the batch's marker in their environment, whatever is
    in a session with one, and what is below them; one that left its session, cleaned its environment and lost its
    parent is not. Neither this process, nor one above it or in its session, is ever ended. Linux only.

    Args:
        work_folder: The batch's work folder, as its plan had it.
        limit_seconds: How long to try.
    """
    entry = b"%s=%s" % (MARKER.encode(), os.fsencode(mark(work_folder)))
    killed: set[Process] = set()
    empty, end = 0, time.monotonic() + limit_seconds
    while LINUX and empty < _EMPTY_LOOKS and time.monotonic() < end:
        found = _marked(entry)
        empty = 0 if found else empty + 1
        for process in found:
            killed.add(process)
            _kill(process)
        if found:
            time.sleep(_LOOK_EVERY_SECONDS)
    return len(killed)


def _marked(entry: bytes) -> list[Process]:
    table = {seen.process.pid: seen for seen in _table()}
    barred: set[int] = set()
    above = os.getpid()
    while above in table and above not in barred:
        barred.add(above)
        above = table[above].parent
    sessions = {seen.session for pid, seen in table.items() if entry in _environment(pid)} - {os.getsid(0), 0}
    chosen: set[int] = set()
    more = {pid for pid, seen in table.items() if seen.session in sessions}
    while more:
        chosen |= more
        more = {pid for pid, seen in table.items() if seen.parent in chosen} - chosen
    return [table[pid].process for pid in chosen - barred if table[pid].lives]


def _environment(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:  # gone, or somebody else's
        return []


@dataclass(frozen=True)
class _Seen:
    """A process as a look at the table found it."""

    process: Process
    parent: int
    session: int
    lives: bool


def _table() -> list[_Seen]:
    found: list[_Seen] = []
    for name in os.listdir("/proc"):
        if name.isdigit() and (read := _stat(int(name))):
            parent, state, start, session = read
            found.append(_Seen(Process(int(name), start), parent, session, state not in "ZX"))
    return found


def _stat(pid: int) -> tuple[int, str, int, int] | None:
    """Returns parent, state, start time and session (proc(5), fields 4, 3, 22 and 6), or None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read().decode("latin-1")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    fields = text[text.rindex(")") + 2 :].split()  # the program's name may itself have spaces and parentheses
    return int(fields[1]), fields[0], int(fields[19]), int(fields[3])


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
