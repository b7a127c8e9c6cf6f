"""Prints what `atk-mcp` costs a client beside minimal servers: start, first list, calls, later lists, memory, exit.

    python benchmarks/server.py [--rounds 7] [--calls 200] [--era legacy|modern] [--transport stdio|http]
                                [--peer-python PATH] [--quick]

Peers, each with one tool that echoes: the official SDK's MCPServer, its low-level Server, and fastmcp where
`--peer-python` names the interpreter of an environment of its own that has it (`pip install fastmcp`). ATK is the
product as it is started by a client, in an empty folder, with its whole list. The client is a bare loop on two pipes,
or over HTTP on one connection, so its cost is the same for all. Each round starts every server once, in random order,
so that what else the machine does weighs on them alike; figures are medians over rounds, and ratios are to the official
SDK's MCPServer.

`list` is from the start of the process to the answer of the first `tools/list`, with its CPU time beside it; on a busy
machine the CPU time is the steadier one. `first call` is ATK's with its catalog still to load. `call` is of ATK
get_status, which looks into the project and answers in 1 kB; of the peers it is an echo. Exit status 1: ATK's
first list takes more than 1.25 times that of the official SDK's MCPServer.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BOUND = 1.25
"""ATK's first list against that of a minimal server on the official SDK, in the same run."""

BASE = "MCPServer"
TICKS = os.sysconf("SC_CLK_TCK")

SDK = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("minimal", version="1", log_level="ERROR")

@server.tool()
async def echo(text: str) -> str:
    return text

server.run({run})
"""

LOW_LEVEL = """
import anyio
import mcp.types as t
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
LIST = t.ListToolsResult(tools=[t.Tool(name="echo", description="Echo.", input_schema=SCHEMA)])

async def listed(context, params):
    return LIST

async def called(context, params):
    return t.CallToolResult(content=[t.TextContent(type="text", text=params.arguments["text"])])

server = Server("minimal", version="1", on_list_tools=listed, on_call_tool=called)

async def main():
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())

anyio.run(main)
"""

LOW_LEVEL_HTTP = """
import uvicorn

uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port={port}, log_level="critical")
"""

FASTMCP = """
from fastmcp import FastMCP

server = FastMCP("minimal", version="1")

@server.tool
async def echo(text: str) -> str:
    return text

server.run(show_banner=False, log_level="ERROR"{run})
"""

ECHO = {"name": "echo", "arguments": {"text": "hi"}}
STATUS = {"name": "get_status", "arguments": {}}
CLIENT = {"name": "benchmark", "version": "1"}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": CLIENT,
}


class Server:
    """One started server and the bare client that speaks to it over two pipes."""

    def __init__(self, command: Sequence[str], folder: str, era: str) -> None:
        self.modern = era == "modern"
        self.number = 0
        self.began = time.perf_counter()
        environment = {**os.environ, "FASTMCP_CHECK_FOR_UPDATES": "off"}
        self.process = subprocess.Popen(
            command, stdin=-1, stdout=-1, stderr=subprocess.DEVNULL, cwd=folder, env=environment, bufsize=0
        )
        self.answers = os.fdopen(self.process.stdout.fileno(), "rb", closefd=False)

    def tell(self, method: str, params: Mapping[str, Any], number: int | None = None) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": dict(params)}
        if number is not None:
            message["id"] = number
            if self.modern:
                message["params"]["_meta"] = META
        self.send(message)

    def send(self, message: Mapping[str, Any]) -> None:
        rest = memoryview(json.dumps(message).encode() + b"\n")
        while rest:
            rest = rest[os.write(self.process.stdin.fileno(), rest) :]

    def lines(self) -> Iterator[bytes]:
        """Yields what the server sends, a message a line."""
        return iter(self.answers.readline, b"")

    def ask(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        self.number += 1
        self.tell(method, params or {}, self.number)
        for line in self.lines():
            message = json.loads(line)
            if message.get("id") == self.number and "method" not in message:
                if "error" in message or message["result"].get("isError"):
                    raise RuntimeError(f"{method} failed: {line[:300]!r}")
                return message["result"]
        raise RuntimeError(f"the server gave no answer to {method}; its status is {self.process.poll()}")

    def greet(self) -> None:
        if self.modern:
            self.ask("server/discover")
            return
        self.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT})
        self.tell("notifications/initialized", {})

    def since(self) -> float:
        return (time.perf_counter() - self.began) * 1_000

    def cpu(self) -> float:
        """Returns the milliseconds of CPU time that the process has taken."""
        taken = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(taken[11]) + int(taken[12])) * 1_000 / TICKS

    def memory(self) -> tuple[float, float]:
        """Returns the megabytes that are resident, and those that only this process has."""
        kilobytes: dict[str, int] = defaultdict(int)
        for line in Path(f"/proc/{self.process.pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()[1:]:
            name, _, value = line.partition(":")
            kilobytes[name] += int(value.split()[0])
        own = kilobytes["Private_Clean"] + kilobytes["Private_Dirty"]
        return kilobytes["Rss"] / 1_000, own / 1_000

    def end(self) -> None:
        """Lets the server see that it is to end."""
        self.process.stdin.close()

    def close(self) -> float:
        began = time.perf_counter()
        self.end()
        self.process.wait(30)
        taken = (time.perf_counter() - began) * 1_000
        self.answers.close()
        self.process.stdout.close()
        return taken


class WebServer(Server):
    """One started server and the bare client that speaks to it over one connection."""

    def __init__(self, command: Sequence[str], folder: str, era: str, port: int, token: str | None) -> None:
        super().__init__(command, folder, era)
        self.token = token
        self.session: str | None = None
        self.answer: http.client.HTTPResponse | None = None
        while True:  # a server that is not there yet refuses at once
            try:
                self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
                self.connection.connect()
                break
            except ConnectionRefusedError:
                if self.process.poll() is not None:
                    raise
                time.sleep(0.002)

    def send(self, message: Mapping[str, Any]) -> None:
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {Path(self.token).read_text(encoding='ascii').strip()}"
        if self.session is not None:
            headers["Mcp-Session-Id"] = self.session
        if self.modern:
            headers |= {"MCP-Protocol-Version": META["io.modelcontextprotocol/protocolVersion"]}
            headers |= {"Mcp-Method": message["method"]}
            headers |= {"Mcp-Name": message["params"]["name"]} if "name" in message["params"] else {}
        self.connection.request("POST", "/mcp", json.dumps(message).encode(), headers)
        self.answer = self.connection.getresponse()
        self.session = self.answer.headers.get("Mcp-Session-Id", self.session)
        if "id" not in message:
            self.answer.read()

    def lines(self) -> Iterator[bytes]:
        """Yields what the server sends in answer to the last request: one JSON body, or events."""
        body = self.answer.read()  # to its end, so that the connection serves again
        if self.answer.headers.get_content_type() == "application/json":
            yield body
        else:
            yield from (line[5:] for line in body.splitlines() if line.startswith(b"data:") and line[5:].strip())

    def end(self) -> None:
        """Lets the server see that it is to end."""
        self.connection.close()
        self.process.send_signal(signal.SIGTERM)


def measured(peer: Peer, given: argparse.Namespace, folder: str) -> dict[str, float]:
    """Starts a server once and returns its figures by name."""
    call = peer.call
    if given.transport == "stdio":
        server = Server(peer.command(None), folder, given.era)
    else:
        port, token = free_port(), os.path.join(folder, "token") if peer.shows_token else None
        server = WebServer(peer.command(port), folder, given.era, port, token)
    try:
        server.greet()
        found = {"hello, ms": server.since()}
        listed = server.ask("tools/list")
        found |= {"list, ms": server.since(), "list, ms of CPU": server.cpu()}
        began = time.perf_counter()
        server.ask("tools/call", call)
        found["first call, ms"] = (time.perf_counter() - began) * 1_000
        for name, method, params in (("call, ms", "tools/call", call), ("later list, ms", "tools/list", {})):
            taken = []
            for _ in range(given.calls if method == "tools/call" else max(given.calls // 10, 3)):
                began = time.perf_counter()
                server.ask(method, params)
                taken.append((time.perf_counter() - began) * 1_000)
            found[name] = statistics.median(taken)
        found["list, kB"] = len(json.dumps(listed, separators=(",", ":"), ensure_ascii=False).encode()) / 1_000
        found["resident, MB"], found["own memory, MB"] = server.memory()
        found["exit, ms"] = server.close()
    finally:
        server.process.kill()
        server.process.wait()
    return found


def free_port() -> int:
    """Returns a port that was free a moment ago."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@dataclass(frozen=True)
class Peer:
    """A server: what starts it, over HTTP at a port, and a call of it."""

    command: Callable[[int | None], list[str]]
    call: Mapping[str, Any]
    shows_token: bool = False


def atk(port: int | None) -> list[str]:
    over = [] if port is None else ["--http", "--port", str(port), "--token-file", "token", "--project", "."]
    return [sys.executable, "-m", "atk_mcp", *over]


def sdk(port: int | None) -> list[str]:
    over = "" if port is None else f'transport="streamable-http", host="127.0.0.1", port={port}'
    return [sys.executable, "-c", SDK.format(run=over)]


def low_level(port: int | None) -> list[str]:
    if port is None:
        return [sys.executable, "-c", LOW_LEVEL]
    return [sys.executable, "-c", LOW_LEVEL.partition("async def main")[0] + LOW_LEVEL_HTTP.format(port=port)]


def servers(given: argparse.Namespace) -> dict[str, Peer]:
    """Returns each server by its name."""
    found = {"ATK": Peer(atk, STATUS, shows_token=True), BASE: Peer(sdk, ECHO), "low-level": Peer(low_level, ECHO)}
    if given.peer_python:

        def fastmcp(port: int | None) -> list[str]:
            over = "" if port is None else f', transport="http", host="127.0.0.1", port={port}'
            return [given.peer_python, "-c", FASTMCP.format(run=over)]

        found["fastmcp"] = Peer(fastmcp, ECHO)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="how often each server is started (default 7)")
    parser.add_argument("--calls", type=int, default=200, help="calls of each started server (default 200)")
    parser.add_argument("--era", choices=("legacy", "modern"), default="legacy", help="which protocol is spoken")
    parser.add_argument("--transport", choices=("stdio", "http"), default="stdio", help="over what it is spoken")
    parser.add_argument("--peer-python", metavar="PATH", help="an interpreter that has fastmcp")
    parser.add_argument("--quick", action="store_true", help="one round of few calls, to see that it works")
    given = parser.parse_args()
    if given.quick:
        given.rounds, given.calls = 1, 5
    os.environ["PYTHONPATH"] = str(ROOT)
    taken: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    peers = servers(given)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(given.rounds + 1):  # the first one warms the caches of files and is not counted
            for name in random.sample(list(peers), len(peers)):
                for figure, value in measured(peers[name], given, folder).items():
                    if number:
                        taken[name][figure].append(value)
    medians = {name: {figure: statistics.median(x) for figure, x in found.items()} for name, found in taken.items()}
    machine = f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    print(f"{given.transport}, era {given.era}, {given.rounds} rounds, {machine}")
    print(f"{'':18}" + "".join(f"{name:>20}" for name in peers))
    for figure in medians["ATK"]:
        cells = (
            f"{medians[name][figure]:.2f} (x{medians[name][figure] / medians[BASE][figure]:.2f})" for name in peers
        )
        print(f"{figure:18}" + "".join(f"{cell:>20}" for cell in cells))
    ratio = medians["ATK"]["list, ms"] / medians[BASE]["list, ms"]
    print(f"first list: {ratio:.2f} times the official SDK's; at most {BOUND} are allowed")
    return 0 if ratio <= BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
