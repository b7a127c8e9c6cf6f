"""Serves the operations over MCP: the list from the snapshot, each call in a worker thread.

Importing this module loads the SDK but no operation, model or store: those load at the first call, or
in the background once the client has its list.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.types import INVALID_PARAMS, CallToolRequestParams, PaginatedRequestParams

import atk_mcp
from atk_mcp import results, snapshot
from atk_mcp.asking import asker
from atk_mcp.calls import Calls, Progress
from atk_mcp.greeting import LIST_TTL_MS, NAME, TITLE, Greeting, instructions
from atk_mcp.homeless import SAID, ProjectNotNamed, refuse_unnamed
from atk_mcp.offering import NOTHING, Additions, offer_prompts, offer_resources
from atk_mcp.pipes import Pipes
from atk_mcp.reporting import READINGS
from atk_mcp.toolsets import Offer
from atk_mcp.wire import Wire
from atk_mcp.withholding import ArgumentWithheld, refuse_withheld

if TYPE_CHECKING:
    from operations.confirming import Ask
    from operations.definition import Operation

_KEPT = CacheHint(ttl_ms=LIST_TTL_MS, scope="public")
_HINTS: dict[CacheableMethod, CacheHint] = {
    "tools/list": _KEPT,
    "server/discover": _KEPT,
    "resources/list": _KEPT,
    "resources/templates/list": _KEPT,
    "prompts/list": _KEPT,
    "resources/read": CacheHint(ttl_ms=0, scope="private"),
}
"""What never changes while a server runs, and what may change at any time."""

LAST_SECONDS = 0.6
"""How long calls under way may take to notice that the server ends. What they stored is safe either way."""

_FLUSH_SECONDS = 0.5

_COMPLETE = {"resultType": "complete"}
"""What every result of the 2026 era says of itself. The SDK takes it out for older clients."""


def build_server(
    operations: Mapping[str, Operation[Any, Any]],
    *,
    offer: Offer | None = None,
    calls: Calls | None = None,
    more: Additions = NOTHING,
    home: bool = True,
) -> Server[Any]:
    """Returns a server with one tool for each listed operation.

    Args:
        operations: The operations by name. It is not looked into before the first call.
        offer: The tools as clients see them, and no others are run. Default: those on record that a Round needs.
        calls: Where calls run. Default: calls of this server's own.
        more: What is offered beside the product's own, where a server is examined.
        home: Whether a call without `project_path` is about the working folder. If not, it is refused.
    """
    running = calls or Calls()
    offer = offer or snapshot.offer()
    names = {tool["name"] for tool in offer.tools}
    answer = {**_COMPLETE, "tools": [*offer.tools, *(about for about, _ in more.tools.values())]}

    async def answered(
        name: str,
        arguments: Mapping[str, Any],
        report: Progress,
        ask: Ask | None = None,
        of: Mapping[str, Operation[Any, Any]] = operations,
    ) -> dict[str, Any]:
        try:
            if not home:
                refuse_unnamed(name, arguments)
            refuse_withheld(offer, name, arguments)
        except (ProjectNotNamed, ArgumentWithheld) as error:
            return results.of_error(error)
        return await running.run(of, name, arguments, report, ask)

    async def list_tools(_: ServerRequestContext[Any], __: PaginatedRequestParams) -> dict[str, Any]:
        return answer

    async def call_tool(context: ServerRequestContext[Any], params: CallToolRequestParams) -> dict[str, Any]:
        if params.name in more.tools:
            return _COMPLETE | await more.tools[params.name][1](context, params)
        if params.name not in names:
            raise _unknown(params.name, names, offer)
        report = context.session.report_progress  # sends nothing unless the client gave a token
        result = await answered(params.name, params.arguments or {}, report, asker(context, params))
        return _COMPLETE | result

    server: Server[Any] = Server(
        NAME,
        version=atk_mcp.__version__,
        title=TITLE,
        instructions=instructions(atk_mcp.__version__, offer.words + ("" if home else SAID)),
        cache_hints=_HINTS,
    )
    server.add_request_handler("tools/list", PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", CallToolRequestParams, call_tool)

    async def read(name: str, arguments: Mapping[str, Any], report: Progress) -> dict[str, Any]:
        return await answered(name, arguments, report, of=READINGS if name in READINGS else operations)

    offer_resources(server, read, names, more)
    offer_prompts(server, more)
    for method, (params_type, other) in more.others.items():
        server.add_request_handler(method, params_type, other)
    return server


def _unknown(name: str, names: set[str], offer: Offer) -> MCPError:
    why = offer.why_not(name)
    near = [] if name in offer.left_out else snapshot.near(name, names)
    hint = f" Did you mean {near[0]}?" if near else ""
    return MCPError(INVALID_PARAMS, f"There is no tool {name!r}.{hint}{why}", {"tools": sorted(names)})


class LazyOperations(Mapping[str, "Operation[Any, Any]"]):
    """The catalog, loaded when it is first looked into."""

    def __getitem__(self, name: str) -> Operation[Any, Any]:
        return self._loaded()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded())

    def __len__(self) -> int:
        return len(self._loaded())

    def warm_up(self) -> None:
        """Loads the catalog in the background, so that the first call need not wait for it."""
        try:
            threading.Thread(target=self._warm, name="warm-up", daemon=True).start()
        except RuntimeError:  # there is no room for a thread: the first call loads it
            _settle()

    def _warm(self) -> None:
        try:
            len(self)
        finally:
            _settle()

    @staticmethod
    def _loaded() -> Mapping[str, Operation[Any, Any]]:
        from operations.registry import all_operations  # noqa: PLC0415 - this is the lazy load

        return all_operations()


def _settle() -> None:
    """Takes what is loaded out of the garbage collector: a full collection over it holds up a call for 50 ms."""
    gc.collect()
    gc.freeze()
    gc.enable()


async def serve(
    server: Server[Any], calls: Calls, pipes: Pipes, greeting: Greeting | None = None, *, ready: Callable[[], None]
) -> None:
    """Serves one client until it hangs up, no longer reads, or a signal asks to stop.

    `ready` is called once the server stands; the client may have been greeted before.
    """
    async with anyio.create_task_group() as tasks:
        wire = Wire(pipes, tasks.cancel_scope.cancel, greeting)
        tasks.start_soon(stop_on_signal, tasks.cancel_scope)
        tasks.start_soon(wire.forward)
        wire.attach()
        ready()
        await server.run(wire.incoming, wire.outgoing, server.create_initialization_options())
        tasks.cancel_scope.cancel()
    calls.stop(LAST_SECONDS)
    pipes.close(_FLUSH_SECONDS)


async def stop_on_signal(scope: anyio.CancelScope) -> None:
    """Cancels `scope` when the process is asked to end."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            scope.cancel()


def run(pipes: Pipes, greeting: Greeting | None, *, offer: Offer | None = None, more: Additions = NOTHING) -> None:
    """Serves on `pipes` and ends the process, whatever its threads are doing."""
    calls = Calls(strict=os.environ.get("ATK_STRICT_RESULTS") == "1")
    operations = LazyOperations()
    server = build_server(operations, offer=offer, calls=calls, more=more)
    anyio.run(partial(serve, server, calls, pipes, greeting, ready=operations.warm_up))
    sys.stderr.flush()
    os._exit(0)  # a worker thread left behind would otherwise hold the process
