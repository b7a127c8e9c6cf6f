"""Starts a process that does some of the work of a long import, on a second core, and hands shares to it."""

from __future__ import annotations

import contextlib
import fcntl
import marshal
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from operations.execution.processes import is_readable
from operations.importers._langfuse import Langfuse
from operations.importers._langfuse_shares import Setup
from operations.importers._shares import receive, send
from operations.importers.evidence import EvidenceImport
from storage.project import Project

LEAST_BYTES = 8 * 1024 * 1024
"""Bytes of an export below which a second process does not pay."""

PIPE_BYTES = 1 << 20
"""What is asked of the system for the pipe to the helper; what cannot wait there is not handed over."""

AT_MOST = 3
"""Shares that the helper has at a time: one in work, the others so that it need not wait."""

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_BOOT = (
    "import sys; root = sys.argv.pop(1); root in sys.path or sys.path.insert(0, root); "
    "from operations.importers._share_worker import serve; serve(0, 1)"
)


class ImportHelper:
    """See `_shares.Helper`. It has no files and ends when its pipe does, so that it leaves nothing behind."""

    def __init__(self, setup: Setup) -> None:
        """Starts it.

        Raises:
            OSError: It cannot be started.
        """
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _BOOT, _ROOT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # what is wrong with a share is said where it is done again
            bufsize=0,
            start_new_session=True,
        )
        if self._process.stdin is None or self._process.stdout is None:
            raise OSError("a process without the pipes that it was to have")
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._to, self._from = self._stdin.fileno(), self._stdout.fileno()
        try:
            self._room = _enlarged(self._to) * 3 // 4  # a pipe counts pages, and each message begins one
            _enlarged(self._from)
        except OSError:
            self.end()
            raise
        self._ready = False
        self._under_way: list[int] = []
        """Bytes of each share that was handed over and not answered."""
        self._gone = False
        self._tell(marshal.dumps(tuple(vars(setup).values())))

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def offer(self, kind: str, share: tuple[Any, ...]) -> bool:
        """Hands a share over, if the helper is ready and its pipe has room, so that writing it never waits."""
        if self._gone or len(self._under_way) >= AT_MOST or not self._is_ready():
            return False
        data = marshal.dumps((kind, tuple(share)))
        if sum(self._under_way) + len(data) > self._room:
            return False
        size = self._tell(data)
        if size:
            self._under_way.append(size)
        return bool(size)

    def has_answered(self) -> bool:
        """Whether `answer` need not wait."""
        return self._gone or is_readable(self._from, 0)

    def answer(self) -> Any:  # noqa: ANN401 - see `_shares.Helper`
        """Waits for what came of the oldest share that was taken. Returns None where it could not be done there."""
        self._under_way.pop(0)
        if self._gone:
            return None
        found = receive(self._from)
        self._gone = found is None
        return found or None

    def end(self) -> None:
        """Ends the process, whatever it is at: it has nothing that could be left half done."""
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()
        self._stdout.close()
        self._process.kill()
        self._process.wait()

    def _is_ready(self) -> bool:
        if not self._ready and self.has_answered():
            self._ready = receive(self._from) is not None
            self._gone = not self._ready
        return self._ready

    def _tell(self, data: bytes) -> int:
        try:
            return send(self._to, data)
        except BrokenPipeError:
            self._gone = True
            return 0


@contextmanager
def helped(reading: EvidenceImport, project: Project) -> Iterator[None]:
    """Gives an import a helper, where it would pay and can be had."""
    source, files = reading.source, reading.found.files
    helper = None
    if isinstance(source, Langfuse) and _cores() > 1 and sum(_size(file.path) for file in files) >= LEAST_BYTES:
        names = tuple(file.name for file in files)
        with contextlib.suppress(OSError):  # the import goes on without it
            helper = ImportHelper(Setup.of(source.settings, names, project.mask_key, project.masker.redact_keys))
    reading.helper = helper
    try:
        yield
    finally:
        if helper is not None:
            helper.end()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0  # it is gone; opening it will say so


def _enlarged(pipe: int) -> int:
    """Makes a pipe as large as is useful. Returns how much it holds.

    Raises:
        OSError: The system does not let it be large enough.
    """
    ask = getattr(fcntl, "F_SETPIPE_SZ", None)
    if ask is None:
        raise OSError("pipes have one size here")
    return int(fcntl.fcntl(pipe, ask, PIPE_BYTES))
