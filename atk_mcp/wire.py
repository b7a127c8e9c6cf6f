"""The wire: MCP messages over the process's stdin and stdout, which nothing else may touch.

Two threads carry the bytes, so that a client that does not read never holds up the event loop, and a
blocked read never holds up the exit. A line that is no message is answered, not dropped in silence.
"""

from __future__ import annotations

import json
import math
import os
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio
import anyio.from_thread
import anyio.lowlevel
from mcp.shared.message import SessionMessage
from mcp.types import INVALID_REQUEST, PARSE_ERROR, jsonrpc_message_adapter

from atk_mcp.pipes import Pipes

MAX_LINE = 64 * 1024 * 1024
"""Bytes of one message. A longer one is refused: nothing that a tool takes is near it."""

_FLUSH_SECONDS = 0.5
_CHUNK = 1 << 16


class Wire:
    """The two ends that the SDK's server runs on, and the threads behind them.

    `on_lost` is called, on the event loop, when the client no longer reads.
    """

    def __init__(self, pipes: Pipes, on_lost: Callable[[], None]) -> None:
        self._pipes = pipes
        self._on_lost = on_lost
        self._token = anyio.lowlevel.current_token()
        self._received, self.incoming = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
        self.outgoing, self._sent = anyio.create_memory_object_stream[SessionMessage](0)
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="wire-out", daemon=True)
        self._reader = threading.Thread(target=self._read, name="wire-in", daemon=True)

    def start(self) -> None:
        """Starts reading and writing."""
        self._writer.start()
        self._reader.start()

    async def forward(self) -> None:
        """Passes what the server sends to the writing thread, until the server closes its end."""
        async with self._sent:
            async for message in self._sent:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                self._lines.put(text.encode() + b"\n")

    def close(self) -> None:
        """Writes what is waiting, for a bounded time."""
        self._lines.put(None)
        self._writer.join(_FLUSH_SECONDS)

    def _read(self) -> None:
        for line in _lines_of(self._pipes.incoming):
            try:
                message = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
            except ValueError:
                self._lines.put(_answer_to_garbage(line))
                continue
            if not self._on_loop(self._received.send_nowait, message):
                return
        self._on_loop(self._received.close)

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            rest = memoryview(line)
            try:
                while rest:
                    rest = rest[os.write(self._pipes.outgoing, rest) :]
            except OSError:
                self._on_loop(self._on_lost)
                return

    def _on_loop(self, call: Callable[..., object], *arguments: object) -> bool:
        """Runs `call` on the event loop; False when the loop has ended or its end is closed."""
        try:
            anyio.from_thread.run_sync(call, *arguments, token=self._token)
        except (RuntimeError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return False
        return True


def _lines_of(descriptor: int) -> Iterator[bytes]:
    """Yields the lines that are not blank, until the end or a line that is too long."""
    pending = bytearray()
    with _closed_is_end():
        while chunk := os.read(descriptor, _CHUNK):
            pending += chunk
            if b"\n" not in chunk:
                if len(pending) > MAX_LINE:
                    return
                continue
            *whole, rest = bytes(pending).split(b"\n")
            pending = bytearray(rest)
            yield from (line for line in whole if line.strip())
    if pending.strip():
        yield bytes(pending)


@contextmanager
def _closed_is_end() -> Iterator[None]:
    """A descriptor that cannot be read has nothing more to say."""
    try:
        yield
    except OSError:
        return


def _answer_to_garbage(line: bytes) -> bytes:
    """Returns the error for a line that is no message, under its id where it has a usable one."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        code, message, given = PARSE_ERROR, "This line is not JSON.", None
    else:
        code = INVALID_REQUEST
        message = "This is not a JSON-RPC 2.0 message: one object a line, params an object."
        given = value.get("id") if isinstance(value, dict) else None
    usable = given if isinstance(given, str | int) and not isinstance(given, bool) else None
    answer = {"jsonrpc": "2.0", "id": usable, "error": {"code": code, "message": message}}
    return json.dumps(answer).encode() + b"\n"
