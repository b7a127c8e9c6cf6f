"""A connection to the HTTP server in bytes, for requests that no client would send."""

import json

import anyio

MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
GONE = (BrokenPipeError, ConnectionResetError, anyio.BrokenResourceError, anyio.EndOfStream)


class Wire:
    """One connection to a server, in bytes."""

    def __init__(self, url):
        self.port = int(url.split(":")[2].partition("/")[0])

    async def __aenter__(self):
        self.stream = await anyio.connect_tcp("127.0.0.1", self.port)
        self.read = b""
        return self

    async def __aexit__(self, *_):
        await self.stream.aclose()

    def head(
        self,
        *lines,
        method="POST",
        path="/mcp",
        host=None,
        token="secret",
        accept="application/json, text/event-stream",
    ):
        """The head of a request of a client that knows what it does, but for what is given."""
        about = [f"{method} {path} HTTP/1.1", f"Host: {host or f'127.0.0.1:{self.port}'}"]
        about += [f"Authorization: Bearer {token}"] if token else []
        about += ["Content-Type: application/json", f"Accept: {accept}", *lines]
        return "\r\n".join(about).encode() + b"\r\n"

    def request(self, message, *lines, **how):
        """A whole request with a message, in JSON or in bytes."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return self.head(*lines, f"Content-Length: {len(body)}", **how) + b"\r\n" + body

    def modern(self, method, **how):
        """A whole request of the era without sessions."""
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": META}}
        return self.request(message, f"MCP-Protocol-Version: {MODERN}", f"Mcp-Method: {method}", **how)

    def call(self, tool, arguments, token=None):
        """A whole call of a tool in the era without sessions; `token` asks for progress."""
        meta = META if token is None else META | {"progressToken": token}
        params = {"name": tool, "arguments": arguments, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return self.request(message, f"MCP-Protocol-Version: {MODERN}", "Mcp-Method: tools/call", f"Mcp-Name: {tool}")

    async def answers(self, data, number=1):
        """Sends, and returns the status of so many answers, or of those until the server ends the connection."""
        await self.stream.send(data)
        statuses = []
        while len(statuses) < number:
            try:
                statuses.append(await self.answer())
            except GONE:
                break
        return statuses

    async def answer(self):
        """Reads one answer, its body included, and returns its status."""
        head = await self.until(b"\r\n\r\n")
        said = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
        self.said = said
        if b"content-length" in said:
            while len(self.read) < int(said[b"content-length"]):
                self.read += await self.stream.receive()
            self.body, self.read = self.read[: int(said[b"content-length"])], self.read[int(said[b"content-length"]) :]
        elif said.get(b"transfer-encoding") == b"chunked":
            self.body = await self.until(b"\r\n0\r\n\r\n")
        return int(head.split(b" ")[1])

    async def until(self, end):
        while end not in self.read:
            self.read += await self.stream.receive()
        found, _, self.read = self.read.partition(end)
        return found

    async def is_cut(self):
        """Waits until the server has ended the connection."""
        try:
            while True:
                await self.stream.receive()
        except GONE:
            return True
