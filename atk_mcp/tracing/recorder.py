"""Writes what went over a wire into a file, masked, one line of JSON for each message.

A file holds one or more sessions. Each line is an object with `session`, `at` (UTC), `ms` since the session began, and
`from`: `trace` for its first line (`format`, `command`) and last (`ended`, the server's exit status), else `client` or
`server` with `bytes` and `message`, the JSON of the line that was sent, or `text` where it is none.
"""

from __future__ import annotations

import json
import os
import queue
import secrets
import stat
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from atk_mcp import results
from storage.errors import AtkError

if TYPE_CHECKING:
    from storage.masking import Masker

FORMAT = 1
LONGEST = 1_000_000
"""Characters of one message that are kept; of a longer one, its beginning as text."""

_MODE = 0o600

Side = Literal["client", "server"]


@dataclass(kw_only=True, eq=False)
class TraceUnusable(AtkError):
    """The file of a trace cannot be written or read."""

    message = (
        "{path} cannot be used: {reason}. A trace is a file that only its owner reads; name a new one, or one that "
        "`atk trace record` made."
    )

    path: str
    reason: str


def opened(path: str) -> int:
    """Returns a descriptor that appends to the file of a trace, made now where there is none.

    Raises:
        TraceUnusable: It cannot be opened, is no file, or others may read it.
    """
    path = os.path.expanduser(path)  # a client's configuration is read by no shell
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, _MODE)
    except OSError as error:
        raise TraceUnusable(path=path, reason=error.strerror or str(error)) from error
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode) and not mode & 0o077:
        return fd
    os.close(fd)
    said = f"others may read it (its mode is {stat.S_IMODE(mode):04o})" if stat.S_ISREG(mode) else "it is no file"
    raise TraceUnusable(path=path, reason=said)


class Recorder:
    """Records one session. The wire never waits for it: what passed is queued, and written by a thread of its own."""

    def __init__(self, file: int, command: Sequence[str], folder: str) -> None:
        """Takes the file to append to, what started the server, and the folder whose project's rules mask."""
        self._file = file
        self._command = list(command)
        self._folder = folder
        self._session = secrets.token_hex(3)
        self._began = time.monotonic()
        self._passed: queue.SimpleQueue[tuple[Side, float, bytes] | int] = queue.SimpleQueue()
        self._rest: dict[Side, bytearray] = {"client": bytearray(), "server": bytearray()}
        self._masker: Masker | None = None
        self._ended_early = False
        self._thread = threading.Thread(target=self._write, name="recorder", daemon=True)
        self._thread.start()

    def passed(self, side: Side, chunk: bytes) -> None:
        """Takes note of bytes that one side sent."""
        self._passed.put((side, time.monotonic(), chunk))

    def finish(self, status: int) -> None:
        """Writes what is waiting and how the server ended."""
        self._passed.put(status)
        self._thread.join()

    def _write(self) -> None:
        self._masker = _masker(self._folder)
        self._put("trace", self._began, {"format": FORMAT, "command": self._masker.value(self._command)})
        while not isinstance(found := self._passed.get(), int):
            if not self._ended_early:
                self._take(*found)
        for side, rest in self._rest.items():
            if rest.strip():
                self._message(side, time.monotonic(), bytes(rest))
        self._put("trace", time.monotonic(), {"ended": found})

    def _take(self, side: Side, at: float, chunk: bytes) -> None:
        *whole, rest = chunk.split(b"\n")
        if whole:
            whole[0] = bytes(self._rest[side]) + whole[0]
            self._rest[side].clear()
        self._rest[side] += rest
        for line in whole:
            if line.strip():
                self._message(side, at, line)

    def _message(self, side: Side, at: float, line: bytes) -> None:
        if self._masker is None:
            raise RuntimeError("A message is recorded before there is anything to mask it with.")
        about: dict[str, Any] = {"bytes": len(line) + 1}
        try:
            message = self._masker.value(json.loads(line))
            kept = results.compact(results.safe(message))
            if len(kept) <= LONGEST:
                self._put(side, at, {**about, "message": message})
                return
        except (ValueError, RecursionError):  # it is no JSON, or nested too deep to be looked into
            kept = self._masker.text(line.decode("utf-8", "replace"))
        cut = {"cut": True} if len(kept) > LONGEST else {}
        self._put(side, at, {**about, "text": kept[:LONGEST], **cut})

    def _put(self, side: str, at: float, more: Mapping[str, Any]) -> None:
        if self._ended_early:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")  # noqa: TID251 - no operation: the wire's own clock
        entry = {"session": self._session, "at": now, "ms": round((at - self._began) * 1000, 3), "from": side, **more}
        line = memoryview(results.compact(results.safe(entry)).encode() + b"\n")
        try:
            while line:
                line = line[os.write(self._file, line) :]
        except OSError as error:  # the wire goes on without a record
            self._ended_early = True
            sys.stderr.write(f"atk trace: the record ends here: {error.strerror}.\n")
            sys.stderr.flush()


def _masker(folder: str) -> Masker:
    """Returns the masker of the project in a folder; where there is none, one with a key of this session only."""
    from storage.masking import KEY_BYTES, Masker  # noqa: PLC0415 - loads while the wire is already carried
    from storage.project import Project  # noqa: PLC0415 - as above

    try:
        return Project.open(folder).masker
    except (AtkError, OSError):
        return Masker(os.urandom(KEY_BYTES))
