"""A run through the server: its progress, its end by a cancel, and that nothing outlives the server."""

import json
import os
import signal
import subprocess
import sys

import anyio
import pytest
from mcp import Client, StdioServerParameters

from tests.atk_mcp.test_main import HELLO, ROOT

pytestmark = pytest.mark.anyio
LONG = 60
"""Seconds that bound a wait. Nothing here takes nearly as long unless it is broken."""

AGENT = """\
import os, sys, time
open(os.path.join(sys.argv[2], f"{os.getpid()}.pid"), "w").close()
if sys.argv[1] == "hang":
    time.sleep(600)
print("answer to", sys.argv[1])
"""


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def target(tmp_path):
    """A repository with an agent that answers, or hangs when it is told to; each leaves its process id."""
    folder = tmp_path / "target"
    pids = tmp_path / "pids"
    pids.mkdir()
    folder.mkdir()
    (folder / "agent.py").write_text(AGENT, encoding="utf-8")
    who = ["-c", "user.name=Owner", "-c", "user.email=owner@example.org"]
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "An agent"]):
        subprocess.run(["git", "-C", str(folder), *command], check=True)
    for name, count in (("hang", 2), ("go", 4)):
        cases = [{"id": f"{name}-{i}", "input": name, "usage": "optimization"} for i in range(count)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(x) + "\n" for x in cases), encoding="utf-8")
    return folder


def parameters(target):
    environment = {**os.environ, "PYTHONPATH": ROOT, "ATK_STRICT_RESULTS": "1"}
    return StdioServerParameters(command=sys.executable, args=["-m", "atk_mcp"], cwd=str(target), env=environment)


def setting_up(target):
    """The calls that make the target a project, as (tool, arguments)."""
    command = [sys.executable, "agent.py", "{input}", str(target.parent / "pids")]
    return "initialize_project", {"command": command, "external_effects": [], "allowed_paths": ["agent.py"]}


def running(target):
    """The agents that are alive."""
    found = []
    for name in os.listdir(target.parent / "pids"):
        pid = int(name.partition(".")[0])
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                state = file.read().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):  # it may end between the open and the read
            continue
        if state != "Z":
            found.append(pid)
    return found


def head(target):
    told = subprocess.run(["git", "-C", str(target), "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    return told.stdout.strip()


async def answer(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content[0].text
    return result.structured_content


async def until(condition):
    with anyio.fail_after(LONG):
        while not condition():  # noqa: ASYNC110 - other processes set no event of ours
            await anyio.sleep(0.05)


async def test_a_run_reports_progress_and_ends_with_its_counts(target):
    seen = []

    async def note(done, total, message):
        seen.append((done, total, message))

    async with Client(parameters(target)) as client:
        tool, arguments = setting_up(target)
        await answer(client, tool, **arguments)
        dataset = await answer(client, "store_dataset", source=str(target.parent / "go.jsonl"))
        arguments = {"dataset_id": dataset["dataset_id"], "revision_commit": head(target), "wait_seconds": 60}
        result = await client.call_tool("run_evaluation", arguments, progress_callback=note)
    assert not result.is_error, result.content[0].text
    assert result.structured_content["batch_id"]
    assert [done for done, *_ in seen] == sorted({done for done, *_ in seen})
    assert seen[-1][:2] == (4.0, 4.0)


async def test_cancelling_the_call_that_started_a_run_ends_its_agents(target):
    async with Client(parameters(target)) as client:
        tool, arguments = setting_up(target)
        await answer(client, tool, **arguments)
        dataset = await answer(client, "store_dataset", source=str(target.parent / "hang.jsonl"))
        arguments = {"dataset_id": dataset["dataset_id"], "revision_commit": head(target), "wait_seconds": 240}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "run_evaluation", arguments)
            await until(lambda: running(target))
            tasks.cancel_scope.cancel()
        await until(lambda: not running(target))
        with anyio.fail_after(LONG):
            while (await answer(client, "get_status"))["running_batches"]:
                pass  # the call that was given up seals the batch in its own thread


@pytest.mark.parametrize("end", ["hang up", "SIGTERM", "SIGKILL"])
async def test_when_the_server_goes_its_agents_go_too(target, end):
    process = subprocess.Popen(  # noqa: ASYNC220 - a server whose pipes this test holds itself
        [sys.executable, "-m", "atk_mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=target,
        env={**os.environ, "PYTHONPATH": ROOT},
        bufsize=0,
    )

    def ask(number, method, **params):
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        process.stdin.write(json.dumps(message).encode() + b"\n")
        return json.loads(process.stdout.readline())["result"]

    def call(number, tool, **arguments):
        return ask(number, "tools/call", name=tool, arguments=arguments)["structuredContent"]

    with process:
        ask(0, "initialize", **HELLO)
        process.stdin.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        tool, arguments = setting_up(target)
        call(1, tool, **arguments)
        dataset = call(2, "store_dataset", source=str(target.parent / "hang.jsonl"))["dataset_id"]
        started = call(3, "run_evaluation", dataset_id=dataset, revision_commit=head(target), wait_seconds=0)
        assert started["batch_id"], started
        await until(lambda: running(target))
        if end == "hang up":
            process.stdin.close()
        else:
            process.send_signal(getattr(signal, end))
        process.wait(LONG)
        assert process.stdout.read() == b""
    await until(lambda: not running(target))
