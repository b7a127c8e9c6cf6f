"""Gives a stdio server an HTTP face, since the conformance suite speaks Streamable HTTP only.

    python -m tests.support.conformance.bridge --port 3012 --command "python -m tests.support.conformance.fixture"

Up to 2025-11-25 each session has a process of its own; since 2026-07-28 all requests share one. What only HTTP has is
the bridge's: Host and Origin, session ids, headers, status codes. Every JSON-RPC answer is the server's. Loopback only.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import uuid
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

VERSION = "io.modelcontextprotocol/protocolVersion"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
MODERN = ["2026-07-28"]
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATUS = {-32601: 404}
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
LOCAL = ("localhost", "127.0.0.1", "::1")
EVENTS = "text/event-stream"


class Asked:
    """One request on its way: under which id and progress token the client knows it."""

    def __init__(self, message: dict[str, Any]) -> None:
        self.id = message["id"]
        self.answers: asyncio.Queue[tuple[Any, bool]] = asyncio.Queue()
        self.token: Any = None
        self.listens = message["method"] == "subscriptions/listen"


class Child:
    """One process of the server."""

    def __init__(self, command: str) -> None:
        self.command = command
        self.number = 0
        self.open: dict[int, Asked] = {}
        self.unasked: asyncio.Queue[tuple[Any, bool]] = asyncio.Queue()

    async def start(self) -> Child:
        self.process = await asyncio.create_subprocess_exec(
            *shlex.split(self.command), stdin=-1, stdout=-1, limit=64 << 20
        )
        self.pumping = asyncio.create_task(self._pump())
        return self

    async def send(self, message: dict[str, Any]) -> None:
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        await self.process.stdin.drain()

    async def request(self, message: dict[str, Any]) -> tuple[int, Asked]:
        self.number += 1
        asked = Asked(message)
        meta = (message.get("params") or {}).get("_meta")
        if isinstance(meta, dict) and "progressToken" in meta:
            asked.token, meta["progressToken"] = meta["progressToken"], self.number
        self.open[self.number] = asked
        await self.send({**message, "id": self.number})
        return self.number, asked

    async def stop(self) -> None:
        self.process.stdin.close()
        try:
            await asyncio.wait_for(self.process.wait(), 5)
        except TimeoutError:
            self.process.kill()

    async def _pump(self) -> None:
        while line := await self.process.stdout.readline():
            message = json.loads(line)
            if "method" not in message:
                await self._answered(message)
            else:
                await self._told(message)
        for asked in self.open.values():
            await asked.answers.put((None, True))

    async def _answered(self, message: dict[str, Any]) -> None:
        asked = self.open.get(message.get("id"))
        if asked is None:
            return
        message["id"] = asked.id
        meta = message["result"].get("_meta") if isinstance(message.get("result"), dict) else None
        if meta and SUBSCRIPTION in meta:
            meta[SUBSCRIPTION] = str(asked.id) if isinstance(meta[SUBSCRIPTION], str) else asked.id
        await asked.answers.put((message, True))

    async def _told(self, message: dict[str, Any]) -> None:
        """Passes on what the server says unasked: to the request that it is about, else to whoever listens."""
        params = message.get("params") or {}
        about = None
        if message["method"] == "notifications/progress" and params.get("progressToken") in self.open:
            about = self.open[params["progressToken"]]
            params["progressToken"] = about.token
        elif (number := (params.get("_meta") or {}).get(SUBSCRIPTION)) is not None:
            about = self.open.get(int(number))
            if about is not None:
                params["_meta"][SUBSCRIPTION] = type(number)(about.id)
        elif message["method"] == "notifications/cancelled" and params.get("requestId") in self.open:
            about = self.open[params["requestId"]]
            params["requestId"] = about.id
        if about is None:
            live = [asked for asked in self.open.values() if not asked.listens]
            await (live[-1].answers if live else self.unasked).put((message, False))
        else:
            await about.answers.put((message, False))


def refused(number: Any, code: int, words: str, data: Any = None, status: int | None = None) -> Response:
    error = {"code": code, "message": words} | ({} if data is None else {"data": data})
    return JSONResponse({"jsonrpc": "2.0", "id": number, "error": error}, status or STATUS.get(code, 400))


def event(message: dict[str, Any]) -> str:
    return f"event: message\ndata: {json.dumps(message)}\n\n"


class Bridge:
    """The HTTP end."""

    def __init__(self, command: str) -> None:
        self.command = command
        self.sessions: dict[str, Child] = {}
        self.shared: Child | None = None

    async def endpoint(self, request: Request) -> Response:
        host = (request.headers.get("host") or "").rsplit(":", 1)[0].strip("[]")
        if host not in LOCAL:
            return Response("Invalid Host header", 421)
        origin = request.headers.get("origin")
        if origin and origin.split("://", 1)[-1].rsplit(":", 1)[0].strip("[]") not in LOCAL:
            return Response("Invalid Origin header", 403)
        session = request.headers.get("mcp-session-id")
        if request.method == "DELETE":
            return await self._ended(session)
        if request.method == "GET":
            return self._listened(session)
        try:
            message = json.loads(await request.body())
        except ValueError:
            return refused(None, -32700, "Parse error")
        if not isinstance(message, dict):
            return refused(None, -32600, "Invalid request")
        if self._is_modern(request, message, session):
            return await self._modern(request, message)
        return await self._legacy(message, session)

    async def close(self) -> None:
        for child in (*self.sessions.values(), *([self.shared] if self.shared else [])):
            await child.stop()

    async def _ended(self, session: str | None) -> Response:
        child = self.sessions.pop(session or "", None)
        if child is None:
            return Response(status_code=404)
        await child.stop()
        return Response(status_code=200)

    def _listened(self, session: str | None) -> Response:
        if session is None:
            return Response(status_code=400 if self.shared is None else 405)
        child = self.sessions.get(session)
        if child is None:
            return Response(status_code=404)

        async def events() -> Any:
            yield ": open\n\n"
            while True:
                yield event((await child.unasked.get())[0])

        return StreamingResponse(events(), media_type=EVENTS)

    @staticmethod
    def _is_modern(request: Request, message: dict[str, Any], session: str | None) -> bool:
        said = request.headers.get("mcp-protocol-version")
        first = not session and message.get("method") not in ("initialize", None) and "result" not in message
        return VERSION in _meta(message) or (said is not None and said not in LEGACY) or first

    async def _modern(self, request: Request, message: dict[str, Any]) -> Response:
        number, method, meta = message.get("id"), message.get("method"), _meta(message)
        if number is None:
            if self.shared:
                await self.shared.send(message)
            return Response(status_code=202)
        if VERSION in meta and (wrong := _wrong_headers(request, message, meta)) is not None:
            return wrong
        if method == "initialize":
            return refused(number, -32601, "Method not found", method)
        if VERSION not in meta:
            return refused(number, -32602, f"_meta is missing {VERSION}")
        self.shared = self.shared or await Child(self.command).start()
        return await self._exchange(self.shared, message, modern=True)

    async def _legacy(self, message: dict[str, Any], session: str | None) -> Response:
        number, headers = message.get("id"), {}
        if message.get("method") == "initialize":
            session = uuid.uuid4().hex
            self.sessions[session] = await Child(self.command).start()
            headers = {"mcp-session-id": session}
        elif not session:
            return refused(number, -32600, "Missing session id")
        child = self.sessions.get(session)
        if child is None:
            return refused(number, -32600, "Session not found", status=404)
        if message.get("method") is None or number is None:
            await child.send(message)
            return Response(status_code=202)
        return await self._exchange(child, message, headers=headers)

    @staticmethod
    async def _exchange(
        child: Child, message: dict[str, Any], *, modern: bool = False, headers: dict[str, str] | None = None
    ) -> Response:
        number, asked = await child.request(message)
        first, last = await asked.answers.get()
        if last:
            child.open.pop(number, None)
            if first is None:
                return refused(message["id"], -32603, "server exited", status=500)
            code = first.get("error", {}).get("code")
            status = STATUS.get(code, 400) if modern and code in {-32601, -32602, -32020, -32021, -32022} else 200
            return JSONResponse(first, status, headers=headers)

        async def events() -> Any:
            said, end = first, last
            try:
                while True:
                    yield event(said)
                    if end:
                        return
                    said, end = await asked.answers.get()
            finally:
                child.open.pop(number, None)
                if not end:
                    gone = {"method": "notifications/cancelled", "params": {"requestId": number}}
                    await child.send({"jsonrpc": "2.0", **gone})

        return StreamingResponse(events(), media_type=EVENTS, headers=headers)


def _meta(message: dict[str, Any]) -> dict[str, Any]:
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta if isinstance(meta, dict) else {}


def _wrong_headers(request: Request, message: dict[str, Any], meta: dict[str, Any]) -> Response | None:
    """Returns the refusal of headers that do not say what the body says; None where they do."""
    number, method = message.get("id"), message.get("method")
    if request.headers.get("mcp-protocol-version") != meta[VERSION]:
        return refused(number, -32020, "MCP-Protocol-Version header does not match _meta")
    if meta[VERSION] not in MODERN:
        known = {"supported": MODERN, "requested": meta[VERSION]}
        return refused(number, -32022, "Unsupported protocol version", known)
    if request.headers.get("mcp-method") != method:
        return refused(number, -32020, "Mcp-Method header does not match the body")
    named = NAMED.get(str(method))
    if named and request.headers.get("mcp-name") != (message.get("params") or {}).get(named):
        return refused(number, -32020, "Mcp-Name header does not match the body")
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--command", required=True, help="starts the stdio server")
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args()
    bridge = Bridge(given.command)

    @asynccontextmanager
    async def life(_: Starlette) -> Any:
        yield
        await bridge.close()

    route = Route("/mcp", bridge.endpoint, methods=["GET", "POST", "DELETE"])
    uvicorn.run(Starlette(routes=[route], lifespan=life), host="127.0.0.1", port=given.port, log_level="error")


if __name__ == "__main__":
    main()
