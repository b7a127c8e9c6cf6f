"""The server through the SDK's own client, in memory, in both protocol eras."""

import gc
import json
import threading

import anyio
import pytest
from mcp import Client, MCPError

from atk_mcp import snapshot, toolsets
from atk_mcp.greeting import INSTRUCTIONS
from atk_mcp.server import LazyOperations, build_server
from tests.atk_mcp import toys

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(params=["auto", "legacy"])
def client(request):
    """A client of the toy server, not yet connected."""
    toys.ended.clear()
    return Client(toy_server(), mode=request.param)


def toy_server(*, read_only=False):
    tools = snapshot.tools(toys.OPERATIONS)
    return build_server(toys.OPERATIONS, offer=toolsets.offer(tools, {}, read_only=read_only))


async def test_the_list_is_the_snapshot(client):
    async with client:
        listed = await client.list_tools()
    shown = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed.tools]
    assert shown == snapshot.tools(toys.OPERATIONS)


async def test_the_list_may_be_kept_in_the_era_that_has_such_hints():
    async with Client(toy_server()) as client:
        listed = await client.list_tools()
    assert (listed.ttl_ms, listed.cache_scope) == (3_600_000, "public")


async def test_a_call_is_answered_in_structure_and_in_text(client, tmp_path):
    async with client:
        result = await client.call_tool("get_status", {"project_path": str(tmp_path)})
    assert not result.is_error
    assert result.structured_content["lines"] == ["line 0", "line 1"]
    assert json.loads(result.content[0].text) == result.structured_content


def no_room(_):
    raise RuntimeError("can't start new thread")


async def test_a_call_that_gets_no_thread_is_refused_with_the_limit_to_raise_and_the_next_is_answered(
    client, tmp_path, monkeypatch
):
    given = {"project_path": str(tmp_path)}
    async with client:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", no_room)
            refused = await client.call_tool("get_status", given)
        answered = await client.call_tool("get_status", given)
    assert (refused.is_error, refused.structured_content["code"]) == (True, "storage_failed")
    assert "raise their limit (`ulimit -u`)" in refused.structured_content["message"]
    assert not answered.is_error


def test_a_server_that_gets_no_thread_to_load_in_loads_at_the_first_call(monkeypatch):
    monkeypatch.setattr(threading.Thread, "start", no_room)
    gc.disable()
    LazyOperations().warm_up()
    assert gc.isenabled()
    gc.unfreeze()


async def test_a_cut_answer_still_passes_the_published_schema(client, tmp_path):
    async with client:
        result = await client.call_tool("get_status", {"project_path": str(tmp_path), "length": 9000})
    assert "truncated" in result.structured_content


async def test_a_refusal_is_an_answer_the_agent_can_act_on(client, tmp_path):
    async with client:
        result = await client.call_tool("store_dataset", {"project_path": str(tmp_path), "cases": []})
    assert result.is_error
    assert result.structured_content["code"] == "cases_missing"
    assert result.content[0].text.startswith("Error [cases_missing] ")


async def test_an_unknown_argument_is_refused_with_the_closest_name(client, tmp_path):
    async with client:
        result = await client.call_tool("store_dataset", {"project_path": str(tmp_path), "case": [{}], "cases": [{}]})
    assert result.is_error
    assert "did you mean cases?" in result.content[0].text


async def test_an_unknown_tool_is_a_protocol_error_with_the_closest_name(client):
    async with client:
        with pytest.raises(MCPError) as raised:
            await client.call_tool("get_statu", {})
    assert raised.value.error.code == -32602
    assert raised.value.error.message == "There is no tool 'get_statu'. Did you mean get_status?"


async def test_a_crash_is_told_by_its_incident_and_recorded_masked(client, tmp_path):
    (tmp_path / ".atk").mkdir()
    arguments = {"project_path": str(tmp_path), "cases": [{}], "expected": "crash"}
    async with client:
        result = await client.call_tool("store_dataset", arguments)
    assert result.is_error
    assert result.structured_content["code"] == "internal_error"
    assert "sk-proj" not in result.content[0].text
    assert "RuntimeError" not in result.content[0].text


async def test_a_catalog_that_cannot_be_loaded_is_an_incident_too(tmp_path, capsys):
    server = build_server({}, offer=toolsets.offer(snapshot.tools(toys.OPERATIONS), {}))
    async with Client(server) as client:
        result = await client.call_tool("get_status", {"project_path": str(tmp_path)})
    assert result.structured_content["code"] == "internal_error"
    assert result.structured_content["facts"]["incident_id"] in capsys.readouterr().err


async def test_progress_increases_and_all_of_it_arrives_before_the_answer(client, tmp_path):
    seen = []

    async def note(done, total, message):
        seen.append((done, total, message))

    async with client:
        await client.call_tool("wait_for_batch", {"project_path": str(tmp_path), "steps": 5}, progress_callback=note)
    assert seen == [(float(i), 5.0, f"step {i}") for i in range(1, 6)]


async def give_up_once_it_runs(client, folder):
    """Starts a call that would wait for ever, and cancels it when it has reported that it runs."""
    with anyio.CancelScope() as scope:

        async def give_up(*_):
            scope.cancel()

        arguments = {"project_path": str(folder), "steps": 1, "forever": True}
        await client.call_tool("wait_for_batch", arguments, progress_callback=give_up)


async def test_cancelling_a_call_reaches_the_operation_and_leaves_the_server_at_work(client, tmp_path):
    toys.ended.clear()
    async with client:
        await give_up_once_it_runs(client, tmp_path)
        assert await anyio.to_thread.run_sync(toys.ended.wait, 10)
        result = await client.call_tool("get_status", {"project_path": str(tmp_path)})
    assert result.structured_content["message"] == "All is well."


async def test_read_only_offers_and_runs_reading_tools_only(tmp_path):
    async with Client(toy_server(read_only=True)) as client:
        listed = await client.list_tools()
        with pytest.raises(MCPError, match="read-only"):
            await client.call_tool("store_dataset", {"project_path": str(tmp_path), "cases": [{}]})
    assert [tool.name for tool in listed.tools] == ["get_status", "wait_for_batch"]


def test_the_instructions_are_short_and_name_the_first_tool_early():
    assert "get_status" in INSTRUCTIONS[:240]
    assert len(INSTRUCTIONS) <= 640
