"""The process beside a batch that runs preparations, probes and services, and ends them all when its server is gone.

It has one thread, so it may adopt orphans and prepare children between fork and exec; the server may not. It takes
orders on stdin, one JSON object to a line, and answers each with one line. `run` starts a program and answers when it
has ended; what it left running stays. `serve` starts a program and answers at once. `look` says which services live.
`close` ends everything in peace. The end of stdin means that the server is gone: everything is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from operations.execution import processes

KEPT_BYTES = 16 * 1024
"""How much of the end of a program's output is kept; the rest is read and dropped, so that nobody is held up."""
_LOOK_SECONDS = 0.5
_GRACE_SECONDS = 3.0
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True) if processes.LINUX else None


@dataclass(eq=False)
class Started:
    """A program that was started, and the end of what it and its children wrote."""

    process: subprocess.Popen[bytes]
    reader: int
    tail: bytearray = field(default_factory=bytearray)
    bytes: int = 0
    open: bool = True

    def drain(self) -> None:
        """Reads what is there, without waiting."""
        while self.open:
            try:
                data = os.read(self.reader, 1 << 16)
            except BlockingIOError:
                return
            if not data:
                self.open = False
                os.close(self.reader)
                return
            self.bytes += len(data)
            self.tail += data
            del self.tail[:-KEPT_BYTES]


class ServerGone(Exception):
    """Nobody holds the other end of the pipe any more."""


class Attendant:
    """Runs what it is told to, one order at a time."""

    def __init__(self, control: int, answers: int) -> None:
        self._control = control
        self._answers = answers
        self._rest = b""
        self._started: list[Started] = []
        self._services: list[Started] = []
        self._waiting: list[dict[str, Any]] = []
        """Orders that came together with the one that is obeyed."""
        self._closing = False
        self._current = 0
        """The process id of the program that is being run to its end."""

    def attend(self) -> None:
        """Takes orders until it is told to close or the server is gone; nothing is left running afterwards."""
        processes.adopt_orphans()
        try:
            while True:
                self._waiting = self._orders(self._look(_LOOK_SECONDS))
                while self._waiting:
                    order = self._waiting.pop(0)
                    self._closing = self._closing or order["do"] == "close"
                    if order["do"] not in {"close", "stop"}:  # a stop that came too late stops nothing
                        self._answer(self._obey(order))
                    if self._closing:
                        self._end_services()
                        return
        except ServerGone:
            pass
        finally:
            processes.sweep()
            for started in self._services:
                self._signal_group(started, signal.SIGKILL)

    def _orders(self, ready: bool) -> list[dict[str, Any]]:  # noqa: FBT001 - what was looked at
        if not ready:
            return []
        data = os.read(self._control, 1 << 16)
        if not data:
            raise ServerGone
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def _look(self, seconds: float, pidfd: int | None = None) -> bool:
        """Drains all output, and waits for an order, an ending or more output; returns whether an order is there."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        for started in self._started:
            if started.open:
                poll.register(started.reader, select.POLLIN)
        if pidfd is not None:
            poll.register(pidfd, select.POLLIN)
        ready = dict(poll.poll(max(0.0, seconds) * 1000))
        for started in self._started:
            started.drain()
        self._started = [started for started in self._started if started.open or started in self._services]
        self._reap_orphans(pidfd is not None)
        if ready.get(self._control, 0) & select.POLLHUP and not ready[self._control] & select.POLLIN:
            raise ServerGone
        return self._control in ready

    def _reap_orphans(self, running: bool) -> None:  # noqa: FBT001 - whether a program's own end is waited for
        """Collects dead children that were adopted; the status of those that were started belongs to their owners."""
        ours = {service.process.pid for service in self._services if service.process.returncode is None}
        if running:
            ours.add(self._current)
        while processes.LINUX:  # elsewhere none is adopted, and Python has no waitid before 3.13
            try:
                dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if dead is None or dead.si_pid in ours:
                return
            os.waitpid(dead.si_pid, 0)

    def _obey(self, order: dict[str, Any]) -> dict[str, Any]:
        if order["do"] == "look":
            return {"services": [self._seen(service) for service in self._services]}
        try:
            started = self._start(order)
        except (OSError, ValueError, subprocess.SubprocessError) as trouble:
            return {"end": "not_started", "output": "", "seconds": 0.0, "error": str(trouble)}
        if order["do"] == "serve":
            self._services.append(started)
            return {"end": "serving", "output": "", "seconds": 0.0}
        return self._run(started, float(order["timeout"]))

    def _start(self, order: dict[str, Any]) -> Started:
        me = os.getpid()
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        try:
            process = subprocess.Popen(
                order["argv"],
                cwd=order["cwd"],
                env=order["env"],
                stdin=subprocess.DEVNULL,
                stdout=writer,
                stderr=writer if order["do"] == "serve" or order.get("stderr") else subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=lambda: _die_with(me),  # noqa: PLW1509 - this process has one thread
            )
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        started = Started(process, reader)
        self._started.append(started)
        return started

    def _run(self, started: Started, timeout: float) -> dict[str, Any]:
        """Waits for the program's own end, not for those that it left, which may hold its output open."""
        begun = time.monotonic()
        self._current = started.process.pid
        pidfd = processes.open_pidfd(started.process.pid)
        end = "exited"
        try:
            while started.process.poll() is None:
                left = begun + timeout - time.monotonic()
                if left <= 0:
                    end = "timeout"
                    self._end_program(started)
                    break
                if self._asked_to_stop(self._waiting or self._orders(self._look(min(left, _LOOK_SECONDS), pidfd))):
                    end = "stopped"
                    self._end_program(started)
                    break
        finally:
            if pidfd is not None:
                os.close(pidfd)
        started.drain()
        return {**self._seen(started), "end": end, "seconds": time.monotonic() - begun}

    def _asked_to_stop(self, orders: list[dict[str, Any]]) -> bool:
        self._closing = self._closing or any(order["do"] == "close" for order in orders)
        self._waiting = []
        return bool(orders)

    def _end_program(self, started: Started) -> None:
        """Ends one program and all below this process but the services that it was told to keep."""
        self._signal_group(started, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            started.process.wait(_GRACE_SECONDS)
        self._signal_group(started, signal.SIGKILL)
        processes.sweep([service.process.pid for service in self._services if service.process.poll() is None])
        started.process.poll()

    def _end_services(self) -> None:
        for service in self._services:
            self._signal_group(service, signal.SIGTERM)
        deadline = time.monotonic() + _GRACE_SECONDS
        for service in self._services:
            with contextlib.suppress(subprocess.TimeoutExpired):
                service.process.wait(max(0.0, deadline - time.monotonic()))

    def _signal_group(self, started: Started, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(started.process.pid, number)

    def _seen(self, started: Started) -> dict[str, Any]:
        started.drain()
        code = started.process.poll()
        text = bytes(started.tail).decode("utf-8", "replace")
        if started.bytes > KEPT_BYTES:
            text = text.partition("\n")[2]  # half a line may hold half a secret, which would not be masked
        return {"exit_code": code, "output": text, "bytes": started.bytes}

    def _answer(self, message: dict[str, Any]) -> None:
        data = json.dumps(message).encode("ascii") + b"\n"
        try:
            while data:
                data = data[os.write(self._answers, data) :]
        except BrokenPipeError as gone:
            raise ServerGone from gone


def _die_with(parent: int) -> None:
    """Has the kernel kill this process when `parent` ends, so that a killed attendant leaves no service (prctl(2))."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(127)


def main() -> int:
    """Attends on stdin and stdout, which no program that it starts is given."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # the pipe says when to end
    control, answers = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    Attendant(control, answers).attend()
    return 0


if __name__ == "__main__":
    sys.exit(main())
