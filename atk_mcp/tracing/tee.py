"""Stands between a client and its server: passes every byte on as it came, and records it."""

from __future__ import annotations

import os
import signal
import subprocess  # noqa: TID251 - the server that the person named, never the target
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from atk_mcp.tracing.recorder import Recorder, opened
from storage.errors import AtkError

_CHUNK = 1 << 16
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LAST_SECONDS = 2.0
"""How long the answers of a server that has ended may still come, from whoever shares its stdout."""

_SIGNALLED = 128


@dataclass(kw_only=True, eq=False)
class ServerNotStarted(AtkError):
    """The server whose wire is to be recorded cannot be started."""

    message = (
        "{command} cannot be started: {reason}. Give the command after --, as the client would start it: "
        "atk trace record FILE -- atk-mcp."
    )

    command: str
    reason: str


def record(path: str, command: Sequence[str], *, incoming: int = 0, outgoing: int = 1) -> int:
    """Starts a server, carries its wire until it ends, and returns its exit status as shells have it.

    Args:
        path: The file of the trace; a session is appended to it.
        command: What starts the server.
        incoming: Where the client's bytes come from.
        outgoing: Where the server's bytes go.

    Raises:
        ServerNotStarted: There is no such program, or it may not be run.
        TraceUnusable: The file cannot be written, or others may read it.
    """
    file = opened(path)
    try:
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)  # noqa: S603 - named by the person
    except OSError as error:
        os.close(file)
        raise ServerNotStarted(command=command[0], reason=error.strerror or str(error)) from error
    if server.stdin is None or server.stdout is None:
        raise RuntimeError("A server was started without pipes.")
    for number in _FORWARDED:
        signal.signal(number, partial(_forward, server))
    recorder = Recorder(file, command, os.getcwd())
    up = threading.Thread(
        target=_carry,
        args=(incoming, server.stdin.fileno(), partial(recorder.passed, "client"), server.stdin.close),
        daemon=True,
    )
    down = threading.Thread(
        target=_carry,
        args=(server.stdout.fileno(), outgoing, partial(recorder.passed, "server"), server.stdout.close),
        daemon=True,
    )
    up.start()
    down.start()
    ended = server.wait()
    down.join(_LAST_SECONDS)
    status = ended if ended >= 0 else _SIGNALLED - ended
    recorder.finish(status)
    return status


def _carry(source: int, target: int, note: Callable[[bytes], None], end: Callable[[], None]) -> None:
    """Passes bytes on until one end is closed, then closes the server's: what the other side would have seen."""
    try:
        while chunk := os.read(source, _CHUNK):
            note(chunk)  # before it is passed on, so that no answer is recorded before what it answers
            rest = memoryview(chunk)
            while rest:
                rest = rest[os.write(target, rest) :]
    except OSError:  # whoever should read, or was to write, is gone
        pass
    finally:
        end()


def _forward(server: subprocess.Popen[bytes], number: int, _: object) -> None:
    server.send_signal(number)
