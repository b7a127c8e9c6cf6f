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
from atk_mcp.strangers import BACKLOG, Connection, admit
from atk_mcp.terminal import complain, say

if TYPE_CHECKING:
    from mcp.server import Server

    from atk_mcp.tokens import Token
    from atk_mcp.toolsets import Offer

_GRACE_SECONDS = 1
"""How long answers under way may take to reach their clients once the server ends."""

_KEPT_SECONDS = 120
"""How long a connection may idle: longer than clients keep theirs (90 s at most), so that none sends a call into a
connection that the server is just closing."""


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

    def stands() -> None:
        os.dup2(2, 1)  # the address is all that stdout is for
        operations.warm_up()

    anyio.run(partial(serve, server, calls, opened, token, ready=stands))
    sys.stderr.flush()
    os._exit(0)  # a worker thread left behind would otherwise hold the process


class _Web(uvicorn.Server):
    """Uvicorn without hands on the process's signals, that takes connections in small helpings from a long queue."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for opened in sockets or ():
            opened.listen()  # again: asyncio has made the queue as short as a helping, and who finds it full waits 1 s

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
            Door(sessions.asgi_app, port, token.secret, admit),
            http=Connection,
            ws="none",
            lifespan="off",
            backlog=BACKLOG,
            proxy_headers=False,
            server_header=False,
            log_config=None,
            log_level="critical",
            access_log=False,
            timeout_keep_alive=_KEPT_SECONDS,
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
    complain(f"ATK serves there, for this user of this machine. The token is in {token.path}, for nobody else to read.")
    complain(
        "`atk install --http` and `atk install --client NAME --http` bring it to a client. Ctrl-C ends the server."
    )
    sys.stderr.flush()
