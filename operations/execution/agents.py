"""Starts an agent's process and keeps what it prints, up to a limit.

Only for a process with one thread: the agent's folder is the guardian's own while it starts. Starting costs the same
whatever the guardian has in memory, since posix_spawn(3) copies nothing of it.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass

from operations.execution import processes

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 16
"""As much as a pipe holds on Linux."""
HELD_BYTES = 1 << 16
"""A stream up to this size is handed on as it is; making a file is the dearest step of a short attempt."""
_DEFAULT_SIGNALS = [number for number in (signal.SIGPIPE, getattr(signal, "SIGXFSZ", None)) if number is not None]
"""Python ignores these, and what is ignored stays so in the agent."""


class Capture:
    """One output stream of an agent: a pipe that is read into memory, and into a file once it is long.

    A pipe and not the file itself, so that an agent can neither write beyond the limit nor cut what it wrote. A writer
    that goes on beyond the limit gets SIGPIPE or EPIPE.
    """

    def __init__(self, path: str, limit: int) -> None:
        """Makes the pipe. `path` is where a long output goes; `limit` is how many bytes are kept."""
        self.size = 0
        """Bytes that were kept."""
        self.full = False
        """Whether the agent wrote more than that."""
        self.trouble: OSError | None = None
        """Why what the agent wrote could not be kept."""
        self._path = path
        self._limit = limit
        self._held = b""
        self._file: int | None = None
        read, self._write = os.pipe()
        os.set_blocking(read, False)
        self.handle: int | None = read
        """Where to read; None once everything was read or may be."""

    @property
    def for_agent(self) -> int:
        """The end that the agent writes to."""
        return self._write

    @property
    def text(self) -> str | None:
        """What was kept, with bytes that are not UTF-8 as surrogates; None when it is in the file."""
        return None if self._file is not None or self.trouble else self._held.decode("utf-8", "surrogateescape")

    def started(self) -> None:
        """Closes the agent's end: the stream ends with its last writer."""
        os.close(self._write)
        self._write = -1

    def pump(self) -> bool:
        """Keeps some of what was written, if there is any, and returns whether there may be more at once."""
        if self.handle is None:
            return False
        try:
            data = os.read(self.handle, min(_CHUNK, self._limit - self.size + 1))  # one more shows a flood
        except BlockingIOError:
            return False
        ended = not data
        self.full = len(data) > self._limit - self.size
        data = data[: self._limit - self.size]
        self._held += data
        self.size += len(data)
        if len(self._held) > HELD_BYTES or self._file is not None:
            self.spill()
        if ended or self.trouble or self.full:
            self._end()
            return False
        return True

    def spill(self) -> None:
        """Moves what is held to the file."""
        try:
            if self._file is None:
                self._file = _create(self._path)
            rest = memoryview(self._held)
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as trouble:
            self.trouble = trouble
        self._held = b""

    def finish(self) -> None:
        """Keeps what is still in the pipe. The agent and all below it are gone by then."""
        while self.pump():
            pass

    def close(self) -> None:
        """Closes the pipe and the file."""
        self._end()
        if self._write >= 0:
            self.started()
        if self._file is not None:
            os.close(self._file)

    def _end(self) -> None:
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None


def _create(path: str) -> int:
    """Makes a file in the attempt's own folder, which the agent may have removed or replaced by a link."""
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return os.open(os.path.basename(path), _CREATE, 0o600, dir_fd=folder)
    finally:
        os.close(folder)


@dataclass
class Agent:
    """A process that was started. Its exit status is collected in here and nowhere else."""

    pid: int
    pidfd: int | None
    outputs: tuple[Capture, Capture]
    returncode: int | None = None
    """The exit code, or the negated number of the signal that ended it; None while it runs."""

    def poll(self) -> bool:
        """Returns whether the process has ended."""
        if self.returncode is None:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            if found:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode is not None

    def signal_group(self, number: int) -> None:
        """Sends a signal to the process group that the agent began with."""
        processes.signal_group(self.pid, number)

    def kill(self) -> None:
        """Ends the process itself, which has not been collected yet."""
        if self.pidfd is None:
            self.signal_group(signal.SIGKILL)
        else:
            processes.signal_pidfd(self.pidfd, signal.SIGKILL)

    def close(self) -> None:
        """Lets go of the process."""
        if self.pidfd is not None:
            os.close(self.pidfd)


def start(argv: list[str], environment: Mapping[str, str], folder: str, outputs: tuple[Capture, Capture]) -> Agent:
    """Starts a program in a session of its own, with no input, default signals and nothing else open.

    Raises:
        OSError: The folder cannot be entered or the program not be started.
        ValueError: An argument cannot be given to a program.
    """
    os.chdir(folder)  # each time: the folder may have been replaced since
    stdout, stderr = outputs
    pid = os.posix_spawn(
        _program(argv[0], environment),
        argv,
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, stdout.for_agent, 1),
            (os.POSIX_SPAWN_DUP2, stderr.for_agent, 2),
        ],
        setsid=True,
        setsigdef=_DEFAULT_SIGNALS,
    )
    for output in outputs:
        output.started()
    return Agent(pid, processes.open_pidfd(pid), outputs)


def _program(name: str, environment: Mapping[str, str]) -> str:
    """Returns the path of a program, found as the agent itself would find it."""
    if "/" in name:
        return name
    unusable: str | None = None
    for folder in environment.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(folder or os.curdir, name)
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
        if unusable is None and os.path.lexists(path):
            unusable = path
    code = errno.EACCES if unusable else errno.ENOENT
    raise OSError(code, os.strerror(code), unusable or name)
