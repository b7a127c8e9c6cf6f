"""The guardian: one process that runs an agent, one attempt after another, and leaves nothing of it behind.

It is forked by the supervisor and never by the server: adopting orphans in a process with other children would kill
those, and what an agent inherits (folder, limits) is set in the guardian itself. It takes orders on one channel, line
by line, and answers each `run` with one line. When the channel ends or the server's pipe is hung up, it kills all.
A guardian that is itself killed leaves its agent to the supervisor, which adopts and ends it.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

from operations.execution import agents, attachments, processes

End = Literal["exited", "timeout", "cancelled", "server_gone", "not_started"]

_SURVIVED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LOOK_SECONDS = 1.0
_LOOK_SECONDS_WITHOUT_PIDFD = 0.05
_KILLED_WITHIN_SECONDS = 2.0
FILE_BYTES = 1 << 30
"""The largest file that an agent may write beside its output (RLIMIT_FSIZE)."""


@dataclass(frozen=True)
class Settings:
    """What is the same for every attempt of a batch."""

    working_directory: str
    environment: Mapping[str, str]
    timeout_seconds: float
    grace_seconds: float
    max_output_bytes: int
    """How much of stdout and of stderr is kept; an agent can write no more to them."""
    max_file_bytes: int = FILE_BYTES


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
    """How much was kept."""
    stderr_bytes: int = 0
    stdout: str | None = None
    """All of it, with bytes that are not UTF-8 as surrogates; None when it is in the attempt's file."""
    stderr: str | None = None
    stdout_full: bool = False
    """Whether the agent was kept from writing more than the limit."""
    stderr_full: bool = False


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
    of which may be followed by `{"do": "stop"}`. `stdout` and `stderr` name files that are made for long outputs;
    `attachments`, where given, are files that must be the same before and after the attempt.
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
                _limit(resource.RLIMIT_FSIZE, max(settings.max_file_bytes, settings.max_output_bytes))
            elif order["do"] == "run" and settings is not None:
                channel.send(vars(_attempt(order, _Ears(channel, control), settings)))


class _Ears:
    """Hears whoever may ask for an attempt's end, while the agent's output is kept."""

    def __init__(self, channel: Channel, control: int) -> None:
        self._channel = channel
        self._control = control

    def hear(self, agent: agents.Agent, seconds: float) -> End | None:
        """Waits for an event, at most `seconds`, and returns the end that was asked for, if any."""
        poll = select.poll()
        poll.register(self._control, 0)  # hang-up only: what is written to the pipe is the supervisor's to read
        poll.register(self._channel.handle, select.POLLIN)
        if agent.pidfd is None:
            seconds = min(seconds, _LOOK_SECONDS_WITHOUT_PIDFD)
        else:
            poll.register(agent.pidfd, select.POLLIN)
        for output in agent.outputs:
            if output.handle is not None:
                poll.register(output.handle, select.POLLIN)
        ready = dict(poll.poll(max(0.0, seconds) * 1000))
        for output in agent.outputs:
            if output.handle in ready:
                output.pump()
        if self._control in ready:
            return "server_gone"
        if self._channel.handle in ready:
            orders = self._channel.receive()
            if self._channel.ended:
                return "server_gone"
            if any(order["do"] == "stop" for order in orders):
                return "cancelled"
        return None


def _attempt(order: Mapping[str, Any], ears: _Ears, settings: Settings) -> Ended:
    started_at, started = _now(), time.monotonic()
    if changed := attachments.trouble(order.get("attachments", ())):
        return Ended("not_started", started_at, _now(), time.monotonic() - started, error=changed)
    with contextlib.ExitStack() as stack:
        try:
            outputs = (_capture(order["stdout"], settings, stack), _capture(order["stderr"], settings, stack))
            agent = agents.start(order["argv"], settings.environment, settings.working_directory, outputs)
        except (OSError, ValueError) as trouble:
            seconds = time.monotonic() - started
            return Ended("not_started", started_at, _now(), seconds, error=_not_started(trouble, order["argv"][0]))
        try:
            end = _watch(agent, ears, started + settings.timeout_seconds)
            if end != "exited":
                _end(agent, ears, 0.0 if end == "server_gone" else settings.grace_seconds)
        finally:
            agent.close()
        swept = processes.sweep()
        if not processes.LINUX:
            agent.signal_group(signal.SIGKILL)
        for output in outputs:
            output.finish()
            if end == "server_gone":  # nobody may be there to be told
                output.spill()
    return _ended(Ended(end, started_at, _now(), time.monotonic() - started), agent, swept, order)


def _ended(known: Ended, agent: agents.Agent, swept: processes.Swept, order: Mapping[str, Any]) -> Ended:
    code, (stdout, stderr) = agent.returncode, agent.outputs
    return replace(
        known,
        exit_code=code if code is not None and code >= 0 else None,
        signal=-code if code is not None and code < 0 else None,
        error=_unkept(stdout) or _unkept(stderr) or attachments.trouble(order.get("attachments", ())),
        leftovers_killed=swept.killed,
        survivors=swept.survivors,
        stdout_bytes=stdout.size,
        stderr_bytes=stderr.size,
        stdout=stdout.text,
        stderr=stderr.text,
        stdout_full=stdout.full,
        stderr_full=stderr.full,
    )


def _unkept(output: agents.Capture) -> str | None:
    return None if output.trouble is None else f"The agent's output could not be kept: {output.trouble.strerror}."


def _capture(path: str, settings: Settings, stack: contextlib.ExitStack) -> agents.Capture:
    capture = agents.Capture(path, settings.max_output_bytes)
    stack.callback(capture.close)
    return capture


def _watch(agent: agents.Agent, ears: _Ears, deadline: float) -> End:
    """Waits until the agent has exited, its time is up or somebody asks for its end, and returns which."""
    look = time.monotonic() + _LOOK_SECONDS
    while True:
        now = time.monotonic()
        asked = ears.hear(agent, min(deadline - now, _LOOK_SECONDS))
        if asked is not None:
            return asked
        if agent.poll():
            return "exited"
        if now >= deadline:
            return "timeout"
        if now >= look:  # the dead among the adopted would otherwise fill the process table
            processes.reap_orphans(agent.pid)
            look = now + _LOOK_SECONDS


def _end(agent: agents.Agent, ears: _Ears, grace_seconds: float) -> None:
    """Asks the agent's group to end, waits out its grace, then kills the agent. The sweep gets the others."""
    deadline = time.monotonic() + grace_seconds
    if grace_seconds:
        agent.signal_group(signal.SIGTERM)
    while (left := deadline - time.monotonic()) > 0 and not agent.poll():
        if ears.hear(agent, left) == "server_gone":
            break
    if agent.poll():
        return
    agent.kill()
    # One that sleeps in the kernel cannot be collected yet: the sweep counts it among the survivors.
    deadline = time.monotonic() + _KILLED_WITHIN_SECONDS
    while (left := deadline - time.monotonic()) > 0 and not agent.poll():
        processes.wait_readable([] if agent.pidfd is None else [agent.pidfd], min(left, _LOOK_SECONDS_WITHOUT_PIDFD))


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


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _not_started(trouble: Exception, program: str) -> str:
    if isinstance(trouble, OSError):
        return (
            f"The program {program!r} cannot be started: {trouble.strerror or trouble} ({trouble.filename or program})."
        )
    return f"The program {program!r} cannot be started: {trouble}."
