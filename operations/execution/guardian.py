"""The guardian: one process that runs an agent, one attempt after another, and leaves nothing of it behind.

It is forked by the supervisor and never by the server: adopting orphans in a process with other children would kill
those, and preparing a child between fork and exec is only safe without threads. This module imports little, since
every agent's start copies what its guardian has in memory. It takes orders on one channel, line
by line, and answers each `run` with one line. When the channel ends or the server's pipe is hung up, it kills all.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from operations.execution import processes

End = Literal["exited", "timeout", "cancelled", "server_gone", "not_started"]

_SURVIVED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LOOK_SECONDS = 1.0
_LOOK_SECONDS_WITHOUT_PIDFD = 0.05
_KILLED_WITHIN_SECONDS = 2.0


@dataclass(frozen=True)
class Settings:
    """What is the same for every attempt of a batch."""

    working_directory: str
    environment: Mapping[str, str]
    timeout_seconds: float
    grace_seconds: float
    max_output_bytes: int


@dataclass(frozen=True)
class Ended:
    """How an attempt's process ended, and what it left: the guardian's answer to `run`."""

    end: End
    started_at: str
    ended_at: str
    seconds: float
    exit_code: int | None = None
    signal: int | None = None
    error: str | None = None
    leftovers_killed: int = 0
    survivors: int = 0
    stdout_bytes: int = 0
    stderr_bytes: int = 0


class Channel:
    """One end of a stream socket that carries JSON objects, one to a line."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.ended = False
        self._rest = b""

    def send(self, message: Mapping[str, Any]) -> None:
        """Sends one message. One to an end that is gone is lost: the reader of this end is told by its `receive`."""
        data = memoryview(json.dumps(message).encode("ascii") + b"\n")
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while data:
                data = data[os.write(self.handle, data) :]

    def receive(self) -> list[dict[str, Any]]:
        """Returns the messages that are there, waiting for some bytes; `ended` says that there will be no more."""
        try:
            data = os.read(self.handle, 1 << 20)
        except ConnectionResetError:
            data = b""
        if not data:
            self.ended = True
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]


@dataclass
class Guardian:
    """A guardian as its supervisor sees it."""

    pid: int
    channel: Channel


def channels() -> tuple[Channel, Channel]:
    """Returns the two ends of a channel."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Channel(ours.detach()), Channel(theirs.detach())


def fork_guardian(control: int, kept: Collection[int] = ()) -> Guardian:
    """Forks a guardian and returns it as its supervisor sees it. Only for a process with one thread.

    Args:
        control: The read end of the server's pipe. Guardians never read it; its end means that the server is gone.
        kept: What the guardian keeps open beside its channel, the pipe and the standard streams.
    """
    ours, theirs = channels()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        os.close(theirs.handle)
        return Guardian(pid, ours)
    code = 1  # from here on, the stack below belongs to the supervisor: never return
    try:
        _close_all_but({0, 1, 2, control, theirs.handle, *kept})
        guard(theirs, control)
        code = 0
    except BaseException:  # noqa: BLE001 - written down; the process ends either way
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def guard(channel: Channel, control: int) -> None:
    """Makes attempts as they are ordered, until the channel ends.

    Orders are `{"do": "know", <the fields of Settings>}` first, then `{"do": "run", "argv", "stdout", "stderr"}`, each
    of which may be followed by `{"do": "stop"}`.
    """
    processes.adopt_orphans()
    signal.set_wakeup_fd(-1)
    for number in _SURVIVED:  # a handler, not SIG_IGN, which the agent would inherit
        signal.signal(number, lambda *_: None)
    _limit(resource.RLIMIT_CORE, 0)
    settings: Settings | None = None
    while not channel.ended:
        for order in channel.receive():
            if order["do"] == "know":
                settings = Settings(**{name: value for name, value in order.items() if name != "do"})
                _limit(resource.RLIMIT_FSIZE, settings.max_output_bytes)
            elif order["do"] == "run" and settings is not None:
                ended = _attempt(order, channel, control, settings)
                channel.send(vars(ended))


def _attempt(order: Mapping[str, Any], channel: Channel, control: int, settings: Settings) -> Ended:
    started_at, started = _now(), time.monotonic()
    try:
        agent = _start(order, settings)
    except (OSError, ValueError, subprocess.SubprocessError) as trouble:
        seconds = time.monotonic() - started
        return Ended("not_started", started_at, _now(), seconds, error=_not_started(trouble, order["argv"][0]))
    pidfd = processes.open_pidfd(agent.pid)
    try:
        end = _watch(agent, pidfd, channel, control, started + settings.timeout_seconds)
        if end != "exited":
            _end(agent, pidfd, channel, control, 0.0 if end == "server_gone" else settings.grace_seconds)
    finally:
        if pidfd is not None:
            os.close(pidfd)
    swept = processes.sweep()
    if not processes.LINUX:
        _signal_group(agent, signal.SIGKILL)
    code = agent.returncode
    return Ended(
        end,
        started_at,
        _now(),
        time.monotonic() - started,
        exit_code=code if code is not None and code >= 0 else None,
        signal=-code if code is not None and code < 0 else None,
        leftovers_killed=swept.killed,
        survivors=swept.survivors,
        stdout_bytes=_size(order["stdout"]),
        stderr_bytes=_size(order["stderr"]),
    )


def _start(order: Mapping[str, Any], settings: Settings) -> subprocess.Popen[bytes]:
    me = os.getpid()

    with contextlib.ExitStack() as files:
        stdout, stderr = (_create(order[name], files) for name in ("stdout", "stderr"))
        return subprocess.Popen(
            order["argv"],
            cwd=settings.working_directory,
            env=settings.environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            preexec_fn=lambda: processes.die_with_parent(me),  # noqa: PLW1509 - this process has one thread
        )


def _watch(agent: subprocess.Popen[bytes], pidfd: int | None, channel: Channel, control: int, deadline: float) -> End:
    """Waits until the agent has exited, its time is up or somebody asks for its end, and returns which."""
    while True:
        left = deadline - time.monotonic()
        asked = _asked(pidfd, channel, control, min(left, _LOOK_SECONDS))
        if asked is not None:
            return asked
        processes.reap_orphans(agent.pid)
        if _exited(agent, pidfd):
            return "exited"
        if left <= 0:
            return "timeout"


def _end(
    agent: subprocess.Popen[bytes], pidfd: int | None, channel: Channel, control: int, grace_seconds: float
) -> None:
    """Asks the agent's group to end, waits out its grace, then kills the agent. The sweep gets the others."""
    deadline = time.monotonic() + grace_seconds
    if grace_seconds:
        _signal_group(agent, signal.SIGTERM)
    while (left := deadline - time.monotonic()) > 0 and not _exited(agent, pidfd):
        if _asked(pidfd, channel, control, left) == "server_gone":
            break
    if agent.returncode is not None:
        return
    if pidfd is None:
        _signal_group(agent, signal.SIGKILL)
    else:
        processes.signal_pidfd(pidfd, signal.SIGKILL)
    # One that sleeps in the kernel cannot be collected yet: the sweep counts it among the survivors.
    with contextlib.suppress(subprocess.TimeoutExpired):
        agent.wait(_KILLED_WITHIN_SECONDS)


def _asked(pidfd: int | None, channel: Channel, control: int, seconds: float) -> End | None:
    """Waits for an event, at most `seconds`, and returns the end that was asked for, if any."""
    poll = select.poll()
    poll.register(control, 0)  # hang-up only: what is written to the pipe is the supervisor's to read
    poll.register(channel.handle, select.POLLIN)
    if pidfd is not None:
        poll.register(pidfd, select.POLLIN)
    else:
        seconds = min(seconds, _LOOK_SECONDS_WITHOUT_PIDFD)
    ready = dict(poll.poll(max(0.0, seconds) * 1000))
    if control in ready:
        return "server_gone"
    if channel.handle in ready:
        orders = channel.receive()
        if channel.ended:
            return "server_gone"
        if any(order["do"] == "stop" for order in orders):
            return "cancelled"
    return None


def _exited(agent: subprocess.Popen[bytes], pidfd: int | None) -> bool:
    """Returns whether the agent's own process has ended; its status is collected then, and only here."""
    if pidfd is not None and not processes.wait_readable([pidfd], 0):
        return False
    return agent.poll() is not None


def _signal_group(agent: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(agent.pid, number)


def _create(path: str, files: contextlib.ExitStack) -> int:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    files.callback(os.close, handle)
    return handle


def _close_all_but(kept: set[int]) -> None:
    """Closes what the supervisor has open, so that a guardian holds no lock, log or channel of others."""
    low = 0
    for handle in sorted(kept):
        if low < handle:  # an empty range at 0 would close everything
            os.closerange(low, handle)
        low = handle + 1
    os.closerange(low, os.sysconf("SC_OPEN_MAX"))


def _limit(what: int, value: int) -> None:
    hard = resource.getrlimit(what)[1]
    bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(what, (bound, bound))


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:  # the agent may delete what it wrote
        return 0


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _not_started(trouble: Exception, program: str) -> str:
    if isinstance(trouble, OSError):
        return (
            f"The program {program!r} cannot be started: {trouble.strerror or trouble} ({trouble.filename or program})."
        )
    return f"The program {program!r} cannot be started: {trouble}."
