"""The SDK's end of the wire: lines become messages and back, and a line that is none is answered."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import anyio
import anyio.from_thread
import anyio.lowlevel
from mcp.shared.message import SessionMessage
from mcp.types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from atk_mcp.greeting import Greeting
from atk_mcp.pipes import End, Pipes


class Wire:
    """The two streams that the SDK's server runs on.

    `on_lost` is called, on the event loop, when the client no longer reads. The answer to a handshake
    that was greeted is not sent: the client has it already.
    """

    def __init__(self, pipes: Pipes, on_lost: Callable[[], None], greeting: Greeting | None = None) -> None:
        self._pipes = pipes
        self._on_lost = on_lost
        self._greeting = greeting
        self._withheld: int | str | None = None
        self._token = anyio.lowlevel.current_token()
        self._arriving, self.incoming = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
        self.outgoing, self._leaving = anyio.create_memory_object_stream[SessionMessage](0)

    def attach(self) -> None:
        """Takes over the wire, with what came before. Called on the event loop."""
        waiting, over = self._pipes.attach(self)
        if self._greeting is not None:  # from here on it greets nobody
            self._withheld = self._greeting.handshake_id
        for line in waiting:
            if (message := self._read(line)) is not None:
                self._arriving.send_nowait(message)
        for end in sorted(over):
            self._finish(end)

    async def forward(self) -> None:
        """Sends what the server says, until the server closes its end."""
        async with self._leaving:
            async for session_message in self._leaving:
                message = session_message.message
                if self._withheld is not None and isinstance(message, JSONRPCResponse | JSONRPCError):
                    first, self._withheld = self._withheld, None
                    if message.id == first:
                        continue
                self._pipes.send(message.model_dump_json(by_alias=True, exclude_unset=True).encode())

    def received(self, line: bytes) -> None:
        """Takes a line from the wire's thread."""
        if (message := self._read(line)) is not None:
            self._on_loop(self._arriving.send_nowait, message)

    def over(self, end: End) -> None:
        """Takes note, from the wire's threads, that the client hung up or no longer reads."""
        self._on_loop(self._finish, end)

    def _read(self, line: bytes) -> SessionMessage | None:
        message = _message_of(line)
        if message is None:
            self._pipes.send(_answer_to_garbage(line))
            return None
        return SessionMessage(message)

    def _finish(self, end: End) -> None:
        if end == "lost":
            self._on_lost()
        else:
            self._arriving.close()

    def _on_loop(self, call: Callable[..., object], *arguments: object) -> None:
        """Runs `call` on the event loop. When the loop or its end of the stream is gone, so is the reader."""
        try:
            anyio.from_thread.run_sync(call, *arguments, token=self._token)
        except (RuntimeError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return


def _message_of(line: bytes) -> JSONRPCMessage | None:
    """Returns the message that a line is, or None.

    A request whose id is no id is a notification to the SDK, which would drop it in silence. Here it is no message.
    """
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        return None if isinstance(message, JSONRPCNotification) and "id" in json.loads(line) else message
    except ValueError:
        return None


def _answer_to_garbage(line: bytes) -> bytes:
    """Returns the error for a line that is no message, under its id where it has a usable one."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        code, message, given = PARSE_ERROR, "This line is not JSON.", None
    else:
        code = INVALID_REQUEST
        message = (
            "This is not a JSON-RPC 2.0 message: one object a line, params an object, id a string or a whole number."
        )
        given = value.get("id") if isinstance(value, dict) else None
    usable = given if isinstance(given, str | int) and not isinstance(given, bool) else None
    return json.dumps({"jsonrpc": "2.0", "id": usable, "error": {"code": code, "message": message}}).encode()
