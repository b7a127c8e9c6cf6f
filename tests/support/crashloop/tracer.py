"""Runs a command with a fault at its N-th file-changing call, and says which calls it made.

The calls are counted over all processes of the command by `crashtrace.c` (ptrace and seccomp), so a Git child is
covered like Python. To save the start of an interpreter for each of hundreds of runs, the command runs in a child
of this process, forked when everything is imported and no project is open: as fresh as a new process, but for that.
"""

from __future__ import annotations

import atexit
import ctypes
import errno
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "crashtrace.c")

TIMEOUT_SECONDS = 600
HUNG = 124
"""The exit status of a command that had not ended by then."""


def missing() -> str | None:
    """Returns why calls cannot be traced here, or None."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return f"crashtrace knows x86_64 Linux, and this is {platform.machine()} {platform.system()}"
    if shutil.which("gcc") is None:
        return "there is no gcc to build crashtrace with"
    return None


@dataclass(frozen=True)
class Point:
    """One file-changing call: its process, its name, its paths, and how many bytes it was to write (-1: none)."""

    pid: int
    name: str
    path: str
    target: str
    size: int

    @property
    def writes(self) -> bool:
        """Whether it can store a part of what it was given."""
        return self.name in ("write", "pwrite64") and self.size > 1

    @property
    def flushes(self) -> bool:
        """Whether it promises that something is on the disk."""
        return self.name in ("fsync", "fdatasync", "syncfs", "sync", "sync_file_range")

    def __str__(self) -> str:
        return f"{self.name} {self.path}" + (f" -> {self.target}" if self.target else "")


@dataclass(frozen=True)
class Ran:
    """What came of a command: its exit status (128 + signal when killed), what it had printed, and its process."""

    status: int
    stdout: str
    stderr: str
    points: tuple[Point, ...] = ()
    pid: int = 0


class Tracer:
    """`crashtrace`, with its notes in `folder`. `root` is the folder whose changes count."""

    def __init__(self, folder: str, root: str) -> None:
        self.folder = folder
        self.root = root
        self._program, self._library = _built()

    def count(self, command: Callable[[], int]) -> Ran:
        """Runs `command` without a fault."""
        return self.run(command, "count")

    def record(self, command: Callable[[], int]) -> Ran:
        """Runs `command` without a fault, and leaves in `log` and `data` what it wrote, for a power-loss replay."""
        return self.run(command, "record", options=("-D", self.data))

    @property
    def log(self) -> str:
        """The list of the last run's calls."""
        return os.path.join(self.folder, "calls.log")

    @property
    def data(self) -> str:
        """The bytes that a recorded run wrote."""
        return os.path.join(self.folder, "calls.data")

    def fault(self, command: Callable[[], int], mode: str, at: int) -> Ran:
        """Runs `command` with a fault at call `at`: kill, killone, torn, short, or the name of an errno.

        An errno with a `+` fails every later call that takes space, too: the disk stays full. With EROFS+ every
        later call fails.
        """
        if hasattr(errno, mode.rstrip("+")):
            number = str(getattr(errno, mode.rstrip("+")))
            lasting = "-A" if mode == "EROFS+" else "-S"
            sticky = (lasting,) if mode.endswith("+") else ()
            return self.run(command, "error", options=("-n", str(at), "-e", number, *sticky))
        return self.run(command, mode, options=("-n", str(at)))

    def run(self, command: Callable[[], int], mode: str, options: tuple[str, ...] = ()) -> Ran:
        """Runs `command` in a child under the tracer."""
        child = Child(self.folder, command, before=self._library.install_filter)
        tracer = subprocess.Popen(
            [self._program, "-r", self.root, "-m", mode, "-l", self.log, *options, "-p", str(child.pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert tracer.stdout is not None
        try:
            assert tracer.stdout.readline() == b"attached\n", "ptrace is not allowed here"
            child.go()
            tracer.wait(TIMEOUT_SECONDS)
            hung = False
        except subprocess.TimeoutExpired:
            hung = True
        finally:
            tracer.stdout.close()
            tracer.kill()
            tracer.wait()
            ran = child.ended()
        return replace(ran, points=tuple(self._points()), pid=child.pid, status=HUNG if hung else ran.status)

    def _points(self) -> list[Point]:
        found = []
        with open(self.log, errors="replace", encoding="utf-8") as file:
            for line in file:
                parts = line.rstrip("\n").split("\t")
                if parts[0].isdigit() and parts[0] != "0":
                    target = "" if parts[4] == "-" else self._short(parts[4])
                    found.append(Point(int(parts[1]), parts[2], self._short(parts[3]), target, int(parts[7])))
        return found

    def _short(self, quoted: str) -> str:
        return os.path.relpath(urllib.parse.unquote(quoted), self.root)


@cache
def _built() -> tuple[str, ctypes.CDLL]:
    """Builds `crashtrace` as a program and as a library, once a process."""
    folder = tempfile.mkdtemp(prefix="crashtrace-")
    atexit.register(_removed, folder, os.getpid())
    program, library = os.path.join(folder, "crashtrace"), os.path.join(folder, "crashtrace.so")
    compiler = ["gcc", "-O2", "-Wno-format-truncation", SOURCE]
    subprocess.run([*compiler, "-o", program], check=True, capture_output=True)
    subprocess.run([*compiler, "-shared", "-fPIC", "-o", library], check=True, capture_output=True)
    return program, ctypes.CDLL(library)


def _removed(folder: str, pid: int) -> None:
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)


class Child:
    """A forked child that runs `command` and nothing else, with its output in files under `folder`."""

    def __init__(self, folder: str, command: Callable[[], int], before: Callable[[], int] | None = None) -> None:
        self._folder = folder
        self._ready, self._start = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._run(command, before)
        os.close(self._ready)

    def _run(self, command: Callable[[], int], before: Callable[[], int] | None) -> None:
        status = 99
        try:
            os.close(self._start)
            os.setsid()
            for number, name in ((1, "stdout"), (2, "stderr")):
                fd = os.open(os.path.join(self._folder, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                os.dup2(fd, number)
                os.close(fd)
            sys.stdin = open(os.devnull)  # noqa: SIM115 - lives as long as the child
            sys.stdout = open(1, "w", closefd=False, encoding="utf-8")  # noqa: SIM115
            sys.stderr = open(2, "w", closefd=False, encoding="utf-8")  # noqa: SIM115
            os.read(self._ready, 1)
            if before is not None and before() != 0:
                os.write(2, b"seccomp is not allowed here")
                os._exit(98)
            status = command()
        except BaseException:
            import traceback

            traceback.print_exc()
            raise
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def go(self) -> None:
        """Lets the command begin."""
        os.write(self._start, b"!")

    def ended(self) -> Ran:
        """Waits for the end, and takes what was printed."""
        os.close(self._start)
        _, status = os.waitpid(self.pid, 0)
        code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        return Ran(code, self._text("stdout"), self._text("stderr"))

    def _text(self, name: str) -> str:
        try:
            with open(os.path.join(self._folder, name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""


def in_child(folder: str, command: Callable[[], int]) -> Ran:
    """Runs `command` in a child of its own, without a tracer."""
    child = Child(folder, command)
    signal.alarm(0)
    child.go()
    return child.ended()
