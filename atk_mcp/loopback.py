"""`atk-mcp --http`: one long-lived server for several clients and projects, on this machine's own address only."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import uvicorn
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from atk_mcp.calls import Calls
from atk_mcp.door import ADDRESS, PATH, Door
from atk_mcp.offering import NOTHING, Additions
from atk_mcp.pipes import MAX_LINE
from atk_mcp.server import LAST_SECONDS, LazyOperations, build_server, stop_on_signal
from atk_mcp.terminal import complain, say

if TYPE_CHECKING:
    from mcp.server import Server

    from atk_mcp.tokens import Token
    from atk_mcp.toolsets import Offer

_GRACE_SECONDS = 1
"""How long answers under way may take to reach their clients once the server ends."""


def run(opened: socket.socket, token: Token, offer: Offer, *, home: bool, more: Additions = NOTHING) -> None:
    """Serves until a signal asks to stop, and ends the process.

    Args:
        opened: Where to listen.
        token: What clients have to show.
        offer: The tools on offer.
        home: Whether a call without `project_path` is about the working folder. If not, it is refused.
        more: What is offered beside the tools, where a server is examined.
    """
    calls = Calls(strict=os.environ.get("ATK_STRICT_RESULTS") == "1")
    operations = LazyOperations()
    server = build_server(operations, offer=offer, calls=calls, more=more, home=home)
    anyio.run(partial(serve, server, calls, opened, token, ready=operations.warm_up))
    sys.stderr.flush()
    os._exit(0)  # a worker thread left behind would otherwise hold the process


class _Web(uvicorn.Server):
    """Uvicorn without hands on the process's signals."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(  # noqa: PLR0913 - what a server is made of
    server: Server[Any],
    calls: Calls,
    opened: socket.socket,
    token: Token,
    *,
    ready: Callable[[], None],
    stop: Callable[[anyio.CancelScope], Coroutine[Any, Any, None]] = stop_on_signal,
) -> None:
    """Serves clients until it is asked to stop. Calls under way are then given up, as when a client hangs up.

    `ready` is called once clients can come; `stop` cancels the scope that it is given when the server is to end.
    """
    port = opened.getsockname()[1]
    sessions = StreamableHTTPSessionManager(server, max_request_body_size=MAX_LINE)
    web = _Web(
        uvicorn.Config(
            Door(sessions.asgi_app, port, token.secret),
            lifespan="off",
            ws="none",
            log_level="critical",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(web.serve, sockets=[opened]))
        async with sessions.run():
            async with anyio.create_task_group() as until:
                until.start_soon(stop, until.cancel_scope)
                _tell(port, token)
                ready()
                await anyio.sleep_forever()
            web.should_exit = True
            await anyio.to_thread.run_sync(calls.stop, LAST_SECONDS)


def _tell(port: int, token: Token) -> None:
    say(f"http://{ADDRESS}:{port}{PATH}")
    sys.stdout.flush()
    complain(f"ATK serves there, for this user of this machine. The token is in {token.path}.")
    if token.fresh:
        complain(f"It was made just now and is not shown again: {token.secret}")
    complain("Clients send it as `Authorization: Bearer TOKEN`. Ctrl-C ends the server.")
    sys.stderr.flush()
