"""Starts the supervisor of a batch and holds the pipe by which it knows that the server lives."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from dataclasses import dataclass, field

from operations.execution.plan import SUPERVISOR_LOG

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_BOOT = (
    "import sys; root = sys.argv.pop(1); root in sys.path or sys.path.insert(0, root); "
    "from operations.execution.supervisor import main; sys.exit(main())"
)
"""`python -I` sees installed packages only; a checkout that is not installed is added."""

_SAID_BYTES = 1000
"""How much of its log's end is read for a supervisor's last words."""


@dataclass
class RunHandle:
    """A supervisor that was started. Dropping the handle's pipe ends the run: that is what a dead server does."""

    pid: int
    log_path: str
    _process: subprocess.Popen[bytes]
    _pipe: int | None = field(repr=False)

    @property
    def returncode(self) -> int | None:
        """None while it runs; 0 when `attempts.log` says how the run ended; other numbers otherwise."""
        return self._process.poll()

    @property
    def last_words(self) -> str:
        """The last line that the supervisor wrote into its log."""
        with open(self.log_path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _SAID_BYTES))
            return file.read().decode("utf-8", "replace").strip().rpartition("\n")[2]

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the supervisor has ended, at most `timeout` seconds, and returns whether it has."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)
        return self._process.returncode is not None

    def stop(self) -> None:
        """Asks for an orderly end: agents get their grace, and what was started is recorded as cancelled."""
        if self._pipe is not None:
            with contextlib.suppress(BrokenPipeError):  # it has ended already
                os.write(self._pipe, b"stop\n")

    def close(self) -> None:
        """Drops the pipe: a run that is still going is killed at once. May be called more than once."""
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            os.close(pipe)


def launch(plan_path: str, owner_fd: int | None = None) -> RunHandle:
    """Starts the supervisor for the plan at `plan_path`, in a session of its own, and returns at once.

    Safe in any thread of a process with many: nothing of Python runs between its fork and its exec.

    Args:
        plan_path: The absolute path that `write_plan` returned. `supervisor.log` is written beside it.
        owner_fd: The lock that says that this server lives; the supervisor and its guardians share it.

    Raises:
        OSError: The interpreter cannot be started or the log not be opened.
    """
    log_path = os.path.join(os.path.dirname(plan_path), SUPERVISOR_LOG)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    owner = [] if owner_fd is None else [owner_fd]
    with contextlib.ExitStack() as stack:
        log = os.open(log_path, flags, 0o600)
        stack.callback(os.close, log)
        read, write = os.pipe()
        stack.callback(os.close, read)
        arguments = [_ROOT, plan_path, "--control", str(read)]
        for handle in owner:
            arguments += ["--owner", str(handle)]
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-c", _BOOT, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[read, *owner],
                start_new_session=True,
            )
        except BaseException:
            os.close(write)
            raise
    return RunHandle(process.pid, log_path, process, write)
