"""The server as a process: what is on its wire, and how it ends."""

import json
import os
import signal
import subprocess
import sys
import threading

import anyio
import pytest
from mcp import Client, StdioServerParameters

from atk_mcp.greeting import Greeting
from atk_mcp.pipes import Pipes
from tests.atk_mcp.test_server import give_up_once_it_runs

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
COMMAND = [sys.executable, "-m", "tests.atk_mcp.toys"]
LONG = 20
"""Seconds that bound a wait. Nothing here takes nearly as long unless it is broken."""


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def server():
    """A server process of the test's own; what is left of it at the end is killed."""
    with started() as process:
        yield process
        process.kill()


def send(process, *messages):
    process.stdin.write(b"".join(json.dumps({"jsonrpc": "2.0", **m}).encode() + b"\n" for m in messages))


def receive(process):
    return json.loads(process.stdout.readline())


def initialize(process, version="2025-06-18"):
    hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    send(process, {"id": 0, "method": "initialize", "params": hello}, {"method": "notifications/initialized"})
    return receive(process)


def call(number, tool, **arguments):
    return {"id": number, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def start_waiting(process):
    """Starts a call that only ends when it is given up, and returns once it is under way."""
    message = call(1, "wait_for_batch", forever=True, steps=1)
    message["params"]["_meta"] = {"progressToken": "t"}
    send(process, message)
    assert receive(process)["method"] == "notifications/progress"


def started(*options):
    return subprocess.Popen(
        [*COMMAND, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, bufsize=0
    )


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_who_comes_before_the_sdk_is_loaded_is_told_the_same(version, tmp_path):
    told = []
    for options in ([], ["--greet", "--late"]):
        with started(*options) as process:
            answers = [initialize(process, version)]
            send(process, {"id": "list", "method": "tools/list", "params": {"_meta": {"progressToken": 1}}})
            answers.append(receive(process))
            send(process, call(3, "get_status", project_path=str(tmp_path)), {"id": 4, "method": "ping"})
            answers += sorted((receive(process), receive(process)), key=lambda answer: answer["id"])
            process.stdin.close()
            assert process.stdout.read() == b""
            told.append(answers)
    assert told[1] == told[0]


MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}


def test_who_comes_without_a_handshake_before_the_sdk_is_loaded_is_told_the_same(tmp_path):
    told = []
    status = {"name": "get_status", "arguments": {"project_path": str(tmp_path)}}
    for options in ([], ["--greet", "--late"]):
        with started(*options) as process:
            answers = []
            for number, method, more in (
                (1, "server/discover", {}),
                ("list", "tools/list", {}),
                (3, "tools/call", status),
                (4, "tools/list", {"cursor": "x"}),
            ):
                send(process, {"id": number, "method": method, "params": {**more, "_meta": MODERN}})
                answers.append(receive(process))
            process.stdin.close()
            assert process.stdout.read() == b""
            told.append(answers)
    assert told[1] == told[0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"io.modelcontextprotocol/protocolVersion": "2099-01-01"},
        {"io.modelcontextprotocol/clientCapabilities": None},
        {"io.modelcontextprotocol/clientInfo": {"name": 3}},
        {"io.modelcontextprotocol/logLevel": "loud"},
    ],
)
def test_a_request_that_is_not_well_said_is_left_to_the_sdk_which_refuses_it(wrong):
    greeting = Greeting([], "1.2.3")
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": MODERN | wrong}}
    assert greeting(json.dumps(request).encode()) is None


def test_a_client_that_goes_back_to_a_handshake_is_left_to_the_sdk(tmp_path):
    with started("--greet", "--late") as process:
        send(process, {"id": 1, "method": "server/discover", "params": {"_meta": MODERN}})
        assert receive(process)["result"]["supportedVersions"] == ["2026-07-28"]
        assert initialize(process)["result"]["serverInfo"]["name"] == "atk"
        send(process, call(2, "get_status", project_path=str(tmp_path)))
        assert receive(process)["result"]["structuredContent"]["message"] == "All is well."
        process.kill()


def test_what_is_not_for_the_greeting_waits_for_the_sdk(tmp_path):
    with started("--greet", "--late") as process:
        send(process, call(0, "get_status"))
        assert receive(process)["error"]
        assert initialize(process)["result"]["serverInfo"]["name"] == "atk"
        send(process, call(1, "get_status", project_path=str(tmp_path)))
        assert receive(process)["result"]["structuredContent"]["message"] == "All is well."
        process.kill()


def test_an_old_version_is_left_to_the_sdk_which_knows_it():
    with started("--greet", "--late") as process:
        assert initialize(process, "2024-11-05")["result"]["protocolVersion"] == "2024-11-05"
        process.kill()


def test_a_client_that_only_says_hello_is_answered_and_the_server_ends():
    with started("--greet", "--late") as process:
        initialize(process)
        process.stdin.close()
        assert process.wait(LONG) == 0


def test_an_old_client_is_greeted_in_its_version_and_told_what_this_is_for(server):
    greeting = initialize(server)["result"]
    assert greeting["protocolVersion"] == "2025-06-18"
    assert greeting["serverInfo"]["name"] == "atk"
    assert greeting["serverInfo"]["version"]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_ends_the_server_and_its_calls_though_stdin_stays_open(server, name):
    initialize(server)
    start_waiting(server)
    server.send_signal(getattr(signal, name))
    assert server.wait(LONG) == 0
    assert b"noticed" in server.stderr.read()


def test_a_client_that_hangs_up_ends_the_server_and_its_calls(server):
    initialize(server)
    start_waiting(server)
    server.stdin.close()
    assert server.wait(LONG) == 0
    assert b"noticed" in server.stderr.read()


def test_a_client_that_no_longer_reads_ends_the_server(server):
    initialize(server)
    server.stdout.close()
    send(server, {"id": 2, "method": "tools/list"})
    assert server.wait(LONG) == 0


def test_every_line_on_stdout_is_a_message(server, tmp_path):
    initialize(server)
    send(server, call(1, "wait_for_batch", project_path=str(tmp_path)))
    assert receive(server)["id"] == 1
    server.stdin.close()
    assert server.stdout.read() == b""
    assert b"a stray print must not reach the client" in server.stderr.read()


HALF = "\ud800"
"""Half of a character: text to JSON, but nothing that can be sent."""

NO_MESSAGES = [
    (b"nonsense", -32700, None),
    (b'{"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": [1]}', -32600, 7),
    (b'[{"jsonrpc": "2.0", "id": 8, "method": "ping"}]', -32600, None),
    (b"[" * 5000, -32700, None),
    (b'{"jsonrpc": "2.0", "id": null, "method": "tools/list"}', -32600, None),
    (b'{"jsonrpc": "2.0", "id": 1.5, "method": "tools/list"}', -32600, None),
    (b'{"jsonrpc": "2.0", "id": true, "method": "tools/list"}', -32600, None),
    (json.dumps({"jsonrpc": "2.0", "id": HALF, "method": "ping"}).encode(), -32600, HALF),
]


def test_a_line_that_is_no_message_is_answered(server):
    initialize(server)
    for line, code, number in NO_MESSAGES:
        server.stdin.write(line + b"\n")
        answer = receive(server)
        assert (answer["id"], answer["error"]["code"]) == (number, code)
    send(server, {"id": 9, "method": "ping"})
    assert receive(server) == {"jsonrpc": "2.0", "id": 9, "result": {}}


def test_an_id_that_cannot_be_sent_is_left_to_the_sdk_which_refuses_it():
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    for method, params in (("initialize", hello), ("server/discover", {"_meta": MODERN})):
        request = {"jsonrpc": "2.0", "id": HALF, "method": method, "params": params}
        assert Greeting([], "1.2.3")(json.dumps(request).encode()) is None
        assert Greeting([], "1.2.3")(json.dumps(request | {"id": "\U0001f600"}).encode()) is not None


@pytest.mark.parametrize("wrong", [{"clientInfo": {}}, {"clientInfo": {"name": "x"}}, {"capabilities": {"roots": 1}}])
def test_a_handshake_that_the_sdk_will_refuse_is_not_greeted(wrong):
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello | wrong}
    assert Greeting([], "1.2.3")(json.dumps(request).encode()) is None


def wired(greeter=None):
    """A wire on pipes. Returns it with the client's end to write and the one to read."""
    (incoming, to_server), (from_server, outgoing) = os.pipe(), os.pipe()
    pipes = Pipes(incoming, outgoing, greeter)
    pipes.start()
    return pipes, to_server, from_server


class Ends:
    """A server's end of the wire that waits for the wire's end."""

    def __init__(self):
        self.ended = threading.Event()

    def received(self, line):
        raise RuntimeError(f"nobody is to receive {line!r}")

    def over(self, end):
        assert end == "ended"
        self.ended.set()


def test_a_line_without_end_is_told_and_ends_the_wire(monkeypatch):
    monkeypatch.setattr("atk_mcp.pipes.MAX_LINE", 100_000)
    pipes, to_server, from_server = wired()
    server = Ends()
    pipes.attach(server)
    for _ in range(2):
        os.write(to_server, b"x" * 60_000)
    assert server.ended.wait(LONG)
    answer = json.loads(os.read(from_server, 1000))
    assert (answer["id"], answer["error"]["code"]) == (None, -32600)
    assert "100000 bytes" in answer["error"]["message"]


def test_a_wire_that_breaks_down_while_reading_ends_instead_of_going_deaf(monkeypatch):
    broken = []
    monkeypatch.setattr(threading, "excepthook", broken.append)
    pipes, to_server, _ = wired()
    server = Ends()
    pipes.attach(server)
    os.write(to_server, b"{}\n")
    assert server.ended.wait(LONG)
    pipes._reader.join(LONG)
    assert [(told.exc_type, str(told.exc_value)) for told in broken] == [(RuntimeError, "nobody is to receive b'{}'")]


def test_a_server_started_without_stdin_ends_as_when_a_client_hangs_up():
    bare = "import os; os.close(0); os.close(1); from atk_mcp.__main__ import main; main([])"
    told = subprocess.run([sys.executable, "-c", bare], stderr=subprocess.PIPE, cwd=ROOT, timeout=LONG, check=False)
    assert (told.returncode, told.stderr) == (0, b"")


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_cancelled_call_over_stdio_ends_and_the_next_is_answered(mode, tmp_path):
    log = tmp_path / "stderr"
    parameters = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], cwd=ROOT)
    with log.open("w") as stderr:
        from mcp.client.stdio import stdio_client

        async with Client(stdio_client(parameters, errlog=stderr), mode=mode) as client:
            await give_up_once_it_runs(client, tmp_path)
            with anyio.fail_after(LONG):
                while "noticed" not in log.read_text():
                    await client.call_tool("get_status", {"project_path": str(tmp_path)})
            result = await client.call_tool("get_status", {"project_path": str(tmp_path)})
    assert result.structured_content["message"] == "All is well."
