"""One server over HTTP: who is let in, that it serves several clients and projects in both eras, and how it ends."""

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from atk_mcp import snapshot, tokens
from atk_mcp.door import ADDRESS, Door, PortTaken, listening
from tests.atk_mcp.test_main import ROOT
from tests.atk_mcp.test_running import head, running, setting_up, until

LONG = 300
"""Seconds that bound a wait. Nothing here takes nearly as long unless it is broken."""

AGENT = """\
import os, sys, time
home = sys.argv[1]
open(os.path.join(home, "pids", f"{os.getpid()}.pid"), "w").close()
while not os.path.exists(os.path.join(home, "go")):
    time.sleep(0.01)
print("an answer")
"""


@pytest.fixture
def anyio_backend():
    return "asyncio"


def started(folder, *options):
    """Starts a server with a token of its own in `folder`; returns it with its address once it listens."""
    process = subprocess.Popen(
        [sys.executable, "-m", "atk_mcp", "--http", "--port", "0", "--token-file", str(folder / "token"), *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": ROOT, "ATK_STRICT_RESULTS": "1"},
    )
    return process, process.stdout.readline().strip()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    process, url = started(folder)
    with process:
        yield url, (folder / "token").read_text().strip()
        process.kill()


@asynccontextmanager
async def client_of(server, mode="auto"):
    url, token = server
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=LONG) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


async def answer(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content[0].text
    return result.structured_content


def headers(**said):
    given = {"host": "127.0.0.1:7285", "authorization": "Bearer secret"} | said
    return [(name.encode(), value.encode()) for name, value in given.items() if value is not None]


DOOR = Door(None, 7285, "secret")


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ({"host": "evil.example:7285"}, 421),
        ({"host": "127.0.0.1:7286"}, 421),
        ({"host": "127.0.0.1:7285.evil.example"}, 421),
        ({"host": None}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "https://127.0.0.1:7285"}, 403),
        ({"origin": "null"}, 403),
        ({"authorization": None}, 401),
        ({"authorization": "Bearer secret2"}, 401),
        ({"authorization": "Basic secret"}, 401),
        ({"authorization": "Bearer"}, 401),
    ],
)
def test_who_comes_from_elsewhere_or_without_the_token_stays_out(said, status):
    assert DOOR.refusal("/mcp", headers(**said))[0] == status


@pytest.mark.parametrize("said", [{}, {"host": "LOCALHOST:7285"}, {"origin": "http://localhost:7285"}])
def test_who_comes_from_here_with_the_token_is_let_in(said):
    assert DOOR.refusal("/mcp", headers(**said)) is None
    assert DOOR.refusal("/", headers(**said))[0] == 404


def test_a_header_said_twice_lets_nobody_in():
    assert DOOR.refusal("/mcp", [*headers(), (b"Host", b"127.0.0.1:7285")])[0] == 421
    assert DOOR.refusal("/mcp", [*headers(), (b"Origin", b"http://localhost:7285"), (b"Origin", b"null")])[0] == 403
    assert DOOR.refusal("/mcp", [*headers(), (b"Authorization", b"Bearer secret")])[0] == 401


def test_a_token_is_made_once_for_its_owner_only(tmp_path):
    place = tmp_path / "atk" / "token"
    made = tokens.made_or_known(str(place))
    assert (made.path, len(made.secret)) == (str(place), 43)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    assert tokens.made_or_known(str(place)) == made
    assert os.listdir(place.parent) == ["token"]


def test_a_token_that_others_may_read_or_that_is_none_is_refused(tmp_path):
    place = tmp_path / "token"
    tokens.made_or_known(str(place))
    place.chmod(0o640)
    with pytest.raises(tokens.TokenUnusable, match="0640"):
        tokens.made_or_known(str(place))
    place.chmod(0o600)
    place.write_text("short\n")
    with pytest.raises(tokens.TokenUnusable, match="something else"):
        tokens.made_or_known(str(place))
    place.unlink()
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(tokens.TokenUnusable):
        tokens.made_or_known(str(place))


def test_a_port_that_is_taken_is_refused_and_only_this_machine_is_listened_on():
    with listening(0) as opened:
        address, port = opened.getsockname()
        assert address == ADDRESS == "127.0.0.1"
        with pytest.raises(PortTaken, match=f"Port {port} of 127.0.0.1"):
            listening(port)
    with pytest.raises(PortTaken):
        listening(70_000)


@pytest.mark.anyio
async def test_an_answer_waits_for_no_acknowledgement_of_its_first_part():
    taken = asyncio.Queue()

    async def take(_, writer):
        await taken.put(writer)

    with listening(0) as opened:
        async with await asyncio.start_server(take, sock=opened):
            with socket.create_connection(opened.getsockname()):
                server_end = await taken.get()
                assert server_end.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                server_end.close()


def test_without_a_token_nothing_is_answered(server):
    url, token = server
    hello = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {}}
    with httpx2.Client() as http:
        for given, status in (({}, 401), ({"Authorization": f"Bearer {token}x"}, 401)):
            told = http.post(url, json=hello, headers=given)
            assert told.status_code == status
            assert "result" not in told.json()
        from_a_page = {"Authorization": f"Bearer {token}", "Origin": "http://evil.example"}
        assert http.post(url, json=hello, headers=from_a_page).status_code == 403


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_two_clients_work_on_two_projects_at_once(server, mode, tmp_path):
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    async with client_of(server, mode) as first, client_of(server, mode) as second:
        assert [tool.name for tool in (await first.list_tools()).tools] == [t["name"] for t in snapshot.offer().tools]
        assert "project_path" in (first.instructions or "")
        made = await answer(first, "initialize_project", project_path=str(folders[0]), analysis_only=True)
        found = await answer(second, "get_status", project_path=str(folders[0]))
        other = await answer(second, "get_status", project_path=str(folders[1]))
        shown = await first.read_resource(f"atk://status?project_path={folders[0]}")
    assert made["project_id"]
    assert found["next"] != other["next"]
    assert other["next"][0]["tool"] == "initialize_project"
    assert json.loads(shown.contents[0].text) == found


@pytest.mark.anyio
@pytest.mark.parametrize("given", [{}, {"project_path": "here"}])
async def test_a_call_that_says_no_project_is_refused_where_the_server_has_none(server, given):
    async with client_of(server) as client:
        result = await client.call_tool("get_status", given)
        with pytest.raises(MCPError, match="project_not_named"):
            await client.read_resource("atk://status")
    assert result.is_error
    assert result.structured_content["code"] == "project_not_named"
    assert result.structured_content["next"][0]["tool"] == "get_status"


@pytest.fixture
def target(tmp_path):
    """A repository whose agent leaves its process id and waits until there is a file `go` beside the repository."""
    folder = tmp_path / "target"
    (tmp_path / "pids").mkdir()
    folder.mkdir()
    (folder / "agent.py").write_text(AGENT, encoding="utf-8")
    who = ["-c", "user.name=Owner", "-c", "user.email=owner@example.org"]
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "An agent"]):
        subprocess.run(["git", "-C", str(folder), *command], check=True)
    cases = [{"id": f"case-{i}", "input": str(tmp_path), "usage": "optimization"} for i in range(2)]
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(x) + "\n" for x in cases), encoding="utf-8")
    return folder


async def start_a_run(client, target):
    """Starts a run whose agents wait, and returns its batch once they do."""
    tool, arguments = setting_up(target)
    arguments["command"] = [sys.executable, "agent.py", "{input}"]
    await answer(client, tool, **arguments)
    dataset = await answer(client, "store_dataset", source=str(target.parent / "cases.jsonl"))
    arguments = {"dataset_id": dataset["dataset_id"], "revision_commit": head(target), "wait_seconds": 0}
    batch = await answer(client, "run_evaluation", **arguments)
    assert batch["status"] == "running"
    await until(lambda: running(target))
    return batch["batch_id"]


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_run_goes_on_without_its_client_and_ends_with_the_server_and_is_continued_at_the_next(target):
    process, url = started(target.parent, "--project", str(target))
    with process:
        server = url, (target.parent / "token").read_text().strip()
        async with client_of(server, "legacy") as client:
            batch_id = await start_a_run(client, target)
        (target.parent / "go").touch()
        async with client_of(server) as client:
            while (ended := await answer(client, "wait_for_batch", batch_id=batch_id))["status"] == "running":
                pass  # it answers after a while whatever the run does
            assert ended["status"] == "sealed"
            (target.parent / "go").unlink()
            arguments = {"revision_commit": head(target), "wait_seconds": 0}
            again = await answer(client, "run_evaluation", **arguments)
            await until(lambda: running(target))
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONG) == 0
        assert "Traceback" not in process.stderr.read()
        await until(lambda: not running(target))
    process, url = started(target.parent, "--project", str(target))
    with process:
        async with client_of((url, server[1])) as client:
            found = await answer(client, "wait_for_batch", batch_id=again["batch_id"])
            assert found["status"] == "interrupted"
            assert found["next"][0]["tool"] == "run_evaluation"
            killed = await answer(client, "run_evaluation", **arguments)
            await until(lambda: running(target))
        process.kill()
        process.wait(LONG)
        await until(lambda: not running(target))
    port = url.split(":")[2].partition("/")[0]
    process, again_there = started(target.parent, "--project", str(target), "--port", port)
    with process:
        assert again_there == url
        (target.parent / "go").touch()
        async with client_of((url, server[1])) as client:
            found = await answer(client, "wait_for_batch", batch_id=killed["batch_id"])
            assert found["status"] == "interrupted"
            done = await answer(client, "run_evaluation", continue_batch_id=killed["batch_id"], wait_seconds=240)
            assert done["status"] == "sealed"
        process.send_signal(signal.SIGINT)
        assert process.wait(LONG) == 0


def test_a_server_that_cannot_start_says_why(tmp_path):
    with socket.socket() as other:
        other.bind((ADDRESS, 0))
        other.listen()
        port = str(other.getsockname()[1])
        told = subprocess.run(
            [sys.executable, "-m", "atk_mcp", "--http", "--port", port, "--token-file", str(tmp_path / "token")],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            timeout=LONG,
        )
    assert told.returncode == 1
    assert told.stderr.startswith("Error [port_taken]")
    assert not (tmp_path / "token").exists()
