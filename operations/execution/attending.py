"""The server's end of an attendant: starts it, gives it one order at a time, and ends it with all that it runs."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar, Self

from storage.errors import AtkError, NextCall

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_BOOT = (
    "import sys; root = sys.argv.pop(1); root in sys.path or sys.path.insert(0, root); "
    "from operations.execution.attendant import main; sys.exit(main())"
)
"""`python -I` sees installed packages only; a checkout that is not installed is added."""
_ASK_EVERY_SECONDS = 0.1
_SPARE_SECONDS = 15.0
"""How much longer than a program's limit its attendant may take to say how it ended."""


@dataclass(kw_only=True, eq=False)
class AttendantLost(AtkError):
    """The process that runs preparations and services has ended or does not answer."""

    doing: str

    message: ClassVar[str] = (
        "The process that runs preparations, probes and services was lost while it was to {doing}; what it had started "
        "was ended. Start the run again."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (NextCall("get_status"), NextCall("run_evaluation"))


@dataclass(frozen=True)
class Outcome:
    """How one program that an attendant ran has ended."""

    end: str
    """`exited`, `timeout`, `stopped`, `not_started`, or `serving` while it lives."""
    exit_code: int | None
    """Its exit code; below 0 the number of the signal that ended it."""
    output: str
    """The end of what it wrote, at most 16 KiB, not masked."""
    seconds: float
    error: str | None = None
    """Why it could not be started."""
    bytes: int = 0
    """How much it wrote in all."""

    @property
    def succeeded(self) -> bool:
        """Whether it ended by itself with exit code 0."""
        return self.end == "exited" and self.exit_code == 0


class Attending:
    """An attendant that was started. Safe in a process with many threads; belongs to one of them at a time."""

    def __init__(self) -> None:
        """Starts the attendant in a session of its own.

        Raises:
            OSError: The interpreter cannot be started.
        """
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _BOOT, _ROOT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(  # noqa: PLR0913 - a program, where and how long it runs, and who may stop it
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        environment: Mapping[str, str],
        timeout_seconds: float,
        cancelled: Callable[[], bool] = lambda: False,
        with_stderr: bool = True,
    ) -> Outcome:
        """Runs a program to its end, at most `timeout_seconds`, and returns how it went.

        What it left running after an end of its own goes on until `close`; after any other end nothing of it is left.

        Raises:
            AttendantLost: The attendant has died.
        """
        order = {"do": "run", "argv": list(argv), "cwd": cwd, "env": dict(environment), "timeout": timeout_seconds}
        self._send({**order, "stderr": with_stderr}, "start a program")
        return _outcome(self._answer("run a program", timeout_seconds + _SPARE_SECONDS, cancelled))

    def serve(self, argv: Sequence[str], *, cwd: str, environment: Mapping[str, str]) -> Outcome:
        """Starts a program that serves until `close`. Returns `serving`, or `not_started` and why.

        Raises:
            AttendantLost: The attendant has died.
        """
        self._send({"do": "serve", "argv": list(argv), "cwd": cwd, "env": dict(environment)}, "start a service")
        return _outcome(self._answer("start a service", _SPARE_SECONDS, lambda: False))

    def services(self) -> list[Outcome]:
        """Returns each service as it is: `serving`, or how it ended.

        Raises:
            AttendantLost: The attendant has died.
        """
        self._send({"do": "look"}, "look at the services")
        found = self._answer("look at the services", _SPARE_SECONDS, lambda: False)["services"]
        return [
            _outcome({"end": "serving" if s["exit_code"] is None else "exited", "seconds": 0.0, **s}) for s in found
        ]

    def close(self) -> None:
        """Ends all that runs, services with a grace of seconds, and the attendant. May be called more than once."""
        if self._process.stdin is None or self._process.stdin.closed:
            return
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(b'{"do": "close"}\n')
        try:
            self._process.wait(_SPARE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()

    def _send(self, order: Mapping[str, Any], doing: str) -> None:
        data = memoryview(json.dumps(order).encode("ascii") + b"\n")
        try:
            if self._process.stdin is None:
                raise AttendantLost(doing=doing)
            while data:
                data = data[self._process.stdin.write(data) or 0 :]
        except (BrokenPipeError, ValueError) as gone:
            raise AttendantLost(doing=doing) from gone

    def _answer(self, doing: str, seconds: float, cancelled: Callable[[], bool]) -> dict[str, Any]:
        end, asked = time.monotonic() + seconds, False
        stdout = self._process.stdout
        if stdout is None:
            raise AttendantLost(doing=doing)
        poll = select.poll()
        poll.register(stdout, select.POLLIN)
        while b"\n" not in self._rest:
            if not asked and cancelled():
                self._send({"do": "stop"}, doing)
                asked = True
            if poll.poll(_ASK_EVERY_SECONDS * 1000):
                data = os.read(stdout.fileno(), 1 << 16)
                if not data:
                    self.close()
                    raise AttendantLost(doing=doing)
                self._rest += data
            elif time.monotonic() > end:
                self._process.kill()
                self.close()
                raise AttendantLost(doing=doing)
        line, _, self._rest = self._rest.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer


def _outcome(answer: Mapping[str, Any]) -> Outcome:
    said = answer["end"], answer.get("exit_code"), answer["output"], answer["seconds"], answer.get("error")
    return Outcome(*said, bytes=answer.get("bytes", 0))
