"""The door of the HTTP server: where it is, and who may come in, decided before anything of a request is read."""

from __future__ import annotations

import hmac
import json
import socket
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

from storage.errors import AtkError

ADDRESS = "127.0.0.1"
"""Where the server listens. There is no option for another: what it offers runs programs as its user."""

PATH = "/mcp"
HOSTS = ("127.0.0.1", "localhost")
"""Names under which this machine reaches itself. A request for any other name was led here by someone else's page."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Refusal = tuple[int, str, dict[str, str]]


@dataclass(kw_only=True, eq=False)
class PortTaken(AtkError):
    """The port of the HTTP server cannot be had."""

    message = (
        "Port {port} of {address} cannot be had: {reason}. If an ATK server runs there, use it; else give a port from "
        "1024 to 65535 with --port, or 0 for any that is free."
    )

    port: int
    reason: str
    address: str = ADDRESS


def listening(port: int) -> socket.socket:
    """Returns a socket that listens on this machine's own address.

    Raises:
        PortTaken: The port is in use or not allowed.
    """
    # With its protocol named, asyncio sends what is written at once; else each answer would wait 40 ms for the client's
    # acknowledgement of its head.
    opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((ADDRESS, port))
        opened.listen()
    except (OSError, OverflowError) as error:
        opened.close()
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise PortTaken(port=port, reason=reason) from error
    return opened


class Door:
    """Lets in requests for this machine, from this machine's own pages or from none, that show the token.

    Refuses with 421 another Host, with 403 another Origin, with 401 no or another token, with 404 another path.
    """

    def __init__(self, inside: App, port: int, token: str, admit: Callable[[Scope], None] = lambda _: None) -> None:
        """Takes what is behind the door, the port it is at, the token, and who is to be told of each request let in."""
        self._inside = inside
        self._admit = admit
        self._hosts = frozenset(f"{host}:{port}".encode() for host in HOSTS)
        self._origins = frozenset(b"http://" + host for host in self._hosts)
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        if scope["type"] != "http":
            raise RuntimeError(f"The HTTP server serves no {scope['type']}.")
        refused = self.refusal(scope["path"], scope["headers"])
        if refused is None:
            self._admit(scope)
            # No events are kept that a client could go on from: it gets a stream that begins now.
            headers = [header for header in scope["headers"] if header[0] != b"last-event-id"]
            await self._inside({**scope, "headers": headers}, receive, send)
        else:
            await _say(send, *refused)

    def refusal(self, path: str, headers: Iterable[tuple[bytes, bytes]]) -> Refusal | None:
        """Returns why a request is not let in: its status, a sentence, headers of the answer. None lets it in."""
        said: dict[bytes, list[bytes]] = {}
        for name, value in headers:
            said.setdefault(name.lower(), []).append(value)
        hosts, origins, tokens = (said.get(name, []) for name in (b"host", b"origin", b"authorization"))
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return 421, "This server answers to 127.0.0.1 and localhost, with its port, and to no other name.", {}
        if not self._origins.issuperset(origin.lower() for origin in origins):
            return 403, "This server answers no page of another origin.", {}
        if len(tokens) != 1 or not self._is_token(tokens[0]):
            return 401, "Send the server's token: Authorization: Bearer TOKEN.", {"www-authenticate": "Bearer"}
        if path != PATH:
            return 404, f"The server is at {PATH}.", {}
        return None

    def _is_token(self, value: bytes) -> bool:
        scheme, _, given = value.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._token)


async def _say(send: Send, status: int, sentence: str, headers: dict[str, str]) -> None:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": sentence}}
    body = json.dumps(error).encode()
    told = {"content-type": "application/json", "content-length": str(len(body)), **headers}
    lines = [(name.encode(), value.encode()) for name, value in told.items()]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})
