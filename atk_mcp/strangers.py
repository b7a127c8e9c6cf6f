"""Connections that have not shown the token: few at a time and for seconds, so that clients always find room."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from atk_mcp.asking import GONE

AT_ONCE = 64
"""Strangers that may be connected. One more, and the one that has been there for longest has to go: a client shows its
token as soon as it is connected, so it is never that one for long."""

SECONDS = 10.0
"""How long a stranger may stay. A client on this machine needs milliseconds."""

MAX_BYTES = 1 << 20
"""What a stranger may send. The head of a request is at most 64 KiB, and with it a client shows its token."""

BACKLOG = 16
"""Connections taken in one turn of the event loop: a fraction of `AT_ONCE`, so that a client among them is heard before
it has to go."""

_STRANGERS, _THIS = "atk.strangers", "atk.connection"
"""Where a server's state has its strangers, oldest first, and a request's state its connection."""


def admit(scope: MutableMapping[str, Any]) -> None:
    """Takes note that the connection of a request has shown the token. It is no stranger from then on."""
    if (connection := scope.get("state", {}).get(_THIS)) is not None:
        connection.admitted()


class Connection(H11Protocol):
    """One connection to the HTTP server, cut off unless a request of it is admitted in time."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._gone = asyncio.Event()
        super().__init__(config, server_state, {**app_state, _THIS: self, GONE: self._gone}, _loop)
        self._strangers: dict[Connection, None] = app_state.setdefault(_STRANGERS, {})
        self._received = 0
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Lets a stranger wait for its deadline, and sends the one away that has been here for longest."""
        super().connection_made(transport)
        self._deadline = self.loop.call_later(SECONDS, transport.abort)
        self._strangers[self] = None
        if len(self._strangers) > AT_ONCE:
            longest = next(iter(self._strangers))
            longest.admitted()
            longest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the stranger, and lets no call wait for an answer from here."""
        self.admitted()
        self._gone.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Takes what came, of a stranger not much."""
        self._received += len(data)
        if self._deadline is not None and self._received > MAX_BYTES:
            self.transport.abort()
        else:
            super().data_received(data)

    def admitted(self) -> None:
        """Ends the waiting: a request was let in, or the connection is over."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
            del self._strangers[self]
