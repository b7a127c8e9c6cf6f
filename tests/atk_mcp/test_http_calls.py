"""Calls over HTTP, through the SDK's own client in both eras: progress, cancelling, a person's word."""

from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import anyio
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult

from atk_mcp import snapshot, toolsets
from atk_mcp.calls import Calls
from atk_mcp.door import PATH, listening
from atk_mcp.loopback import serve
from atk_mcp.server import build_server
from atk_mcp.tokens import Token
from operations.confirming import NeedsConfirmation, Question
from tests.atk_mcp import toys
from tests.atk_mcp.test_server import give_up_once_it_runs
from tests.support.http_wire import HELLO, Wire

pytestmark = pytest.mark.anyio
LONG = 300
"""Seconds that bound a wait. Nothing here takes nearly as long unless it is broken."""

QUESTION = Question(operation="store_dataset", subject="dataset-1", text="Store it?", facts={})


def ask_first(request, context):
    """Stores what a person allows."""
    if QUESTION.digest not in context.confirmed:
        raise NeedsConfirmation(QUESTION)
    return toys.store_dataset(request, context)


OPERATIONS = {**toys.OPERATIONS, "store_dataset": replace(toys.OPERATIONS["store_dataset"], handler=ask_first)}


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(params=["auto", "legacy"])
def mode(request):
    return request.param


@asynccontextmanager
async def served(calls=None):
    """A server in this process: yields its address and an event that makes it end. It has ended after the block."""
    offer = toolsets.offer(snapshot.tools(OPERATIONS), {})
    calls, opened, ready, enough = calls or Calls(), listening(0), anyio.Event(), anyio.Event()

    async def stop(scope):
        await enough.wait()
        scope.cancel()

    server = build_server(OPERATIONS, offer=offer, calls=calls)
    with anyio.fail_after(LONG):
        async with anyio.create_task_group() as tasks:
            token = Token("secret", "/token")
            tasks.start_soon(partial(serve, server, calls, opened, token, ready=ready.set, stop=stop))
            await ready.wait()
            yield f"http://127.0.0.1:{opened.getsockname()[1]}{PATH}", enough
            enough.set()


@asynccontextmanager
async def connected(url, mode, **how):
    async with (
        httpx2.AsyncClient(headers={"Authorization": "Bearer secret"}, timeout=LONG) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, **how) as client,
    ):
        yield client


@asynccontextmanager
async def client_of(mode, **how):
    async with served() as (url, _), connected(url, mode, **how) as client:
        yield client


async def test_progress_arrives_before_the_answer(mode, tmp_path):
    seen = []

    async def note(done, total, message):
        seen.append((done, total, message))

    async with client_of(mode) as client:
        await client.call_tool("wait_for_batch", {"project_path": str(tmp_path), "steps": 3}, progress_callback=note)
    assert seen == [(float(i), 3.0, f"step {i}") for i in range(1, 4)]


async def test_cancelling_a_call_reaches_the_operation_and_leaves_the_server_at_work(mode, tmp_path):
    toys.ended.clear()
    async with client_of(mode) as client:
        await give_up_once_it_runs(client, tmp_path)
        assert await anyio.to_thread.run_sync(toys.ended.wait, LONG)
        result = await client.call_tool("get_status", {"project_path": str(tmp_path)})
    assert result.structured_content["message"] == "All is well."


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_person_is_asked_in_the_clients_own_dialog(mode, allowed, tmp_path):
    asked = []

    async def dialog(_, params):
        asked.append(params.message)
        return ElicitResult(action="accept", content={"allow": allowed})

    async with client_of(mode, elicitation_callback=dialog) as client:
        result = await client.call_tool("store_dataset", {"project_path": str(tmp_path), "cases": [{"id": "1"}]})
    assert asked == ["Store it?"]
    assert result.is_error is not allowed
    if allowed:
        assert result.structured_content["dataset_id"] == "dataset-1"


async def test_a_client_that_drops_while_a_person_is_asked_leaves_no_call_behind(tmp_path):
    calls, about = Calls(), HELLO | {"capabilities": {"elicitation": {"form": {}}}}
    arguments = {"project_path": str(tmp_path), "cases": [{"id": "1"}]}
    async with served(calls) as (url, _):
        async with Wire(url) as wire:
            hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
            assert await wire.answers(wire.request(hello)) == [200]
            known = f"Mcp-Session-Id: {wire.said[b'mcp-session-id'].decode()}", "MCP-Protocol-Version: 2025-11-25"
            began = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert await wire.answers(wire.request(began, *known)) == [202]
            asked = {"name": "store_dataset", "arguments": arguments}
            call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": asked}
            await wire.stream.send(wire.request(call, *known))
            await wire.until(b"elicitation/create")
        await anyio.to_thread.run_sync(calls.stop, LONG)  # waits for what is under way
        assert calls.under_way == 0


async def test_a_server_that_ends_gives_up_the_calls_under_way(mode, tmp_path):
    toys.ended.clear()
    async with served() as (url, enough):

        async def end(*_):
            enough.set()

        try:
            async with connected(url, mode) as client:
                arguments = {"project_path": str(tmp_path), "steps": 1, "forever": True}
                await client.call_tool("wait_for_batch", arguments, progress_callback=end)
        except* (MCPError, httpx2.TransportError):
            pass  # the answer may still arrive, or the connection be closed before it
        assert await anyio.to_thread.run_sync(toys.ended.wait, LONG)
