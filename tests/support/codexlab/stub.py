"""A stub of the OpenAI Responses API on a loopback port that plays a scripted model to Codex.

Every POST to `/v1/responses` takes the next turn of the script and is answered with the server-sent
events that Codex expects; every request is kept. Given to Codex as its proxy, the stub refuses and
records each attempt to reach another host, so that a run never leaves the machine.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from tests.support.codexlab.script import ScriptError, build_item, message_item, validate_script

LOOPBACK = "127.0.0.1"


@dataclass
class StubLog:
    requests: list[dict] = field(default_factory=list)
    egress: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    reviews: int = 0


class ResponsesStub:
    """Scripted Responses API on a loopback port. Use as a context manager."""

    def __init__(self, script: dict, record_dir: str | Path | None = None, port: int = 0):
        self.script = validate_script(script)
        self.record_dir = Path(record_dir) if record_dir else None
        if self.record_dir:
            self.record_dir.mkdir(parents=True, exist_ok=True)
        self.log = StubLog()
        self._lock = threading.Lock()
        self._played = {"turns": 0, "subagent_turns": 0}
        self._root_thread: str | None = None
        self._server = ThreadingHTTPServer((LOOPBACK, port), _make_handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    # -- lifecycle
    def start(self) -> ResponsesStub:
        self._thread.start()
        return self

    def stop(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join(timeout=5)
        self._server.server_close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    @property
    def base_url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/v1"

    @property
    def turns_left(self) -> int:
        return len(self.script["turns"]) - self._played["turns"]

    # -- playing
    def error(self, text: str) -> None:
        with self._lock:
            self.log.errors.append(text)

    def _note(self, record: dict) -> None:
        if self.record_dir:
            with self._lock, open(self.record_dir / "stub_log.jsonl", "a", encoding="utf-8") as handle:
                handle.write(json.dumps({"time": round(time.time(), 3), **record}) + "\n")

    def refuse_egress(self, target: str) -> None:
        with self._lock:
            self.log.egress.append(target)
        self._note({"egress": target})

    def keep(self, request: dict) -> int:
        """Record a model request. Returns its number."""
        with self._lock:
            number = len(self.log.requests)
            self.log.requests.append(request)
        if self.record_dir:
            (self.record_dir / f"request_{number:03d}.json").write_text(json.dumps(request, indent=1), encoding="utf-8")
        return number

    def answer(self, request: dict) -> tuple[int, list[dict] | dict]:
        """Record a model request and return (HTTP status, SSE events or error body)."""
        number = self.keep(request)
        with self._lock:
            thread = (request.get("client_metadata") or {}).get("thread_id")
            if self._root_thread is None:
                self._root_thread = thread
            review = _is_approval_review(request)
            queue = "turns" if thread == self._root_thread or "subagent_turns" not in self.script else "subagent_turns"
            if review:
                self.log.reviews += 1
                index = -1
            else:
                index = self._played[queue]
                self._played[queue] += 1
        self._note({"request": number, "queue": queue, "turn": index, "model": request.get("model"), "review": review})

        if review:
            verdict = {"outcome": self.script.get("review_outcome", "deny"), "rationale": "scripted"}
            return 200, events_of(number, [message_item(json.dumps(verdict))])
        turns = self.script.get(queue, [])
        if index >= len(turns):
            text = f"STUB ERROR: script exhausted, {queue} has {len(turns)} entries, request {number} has none"
            self.error(text)
            return 200, events_of(number, [message_item(text)])
        turn = turns[index]
        time.sleep(float(turn.get("delay_s", 0)))
        if "http_status" in turn:
            return int(turn["http_status"]), turn.get("body", {"error": {"message": "scripted failure"}})
        try:
            items = [build_item(s, request, f"{queue}_{index}_{k}") for k, s in enumerate(turn["steps"])]
        except ScriptError as exc:
            text = f"STUB ERROR: {queue}[{index}]: {exc}"
            self.error(text)
            items = [message_item(text)]
        return 200, events_of(number, items)


def _is_approval_review(request: dict) -> bool:
    """Codex's automatic approval review asks the model for a JSON verdict with an 'outcome'."""
    schema = ((request.get("text") or {}).get("format") or {}).get("schema") or {}
    return "outcome" in (schema.get("properties") or {})


def events_of(number: int, items: list[dict]) -> list[dict]:
    response_id = f"resp_stub_{number}"
    events: list[dict] = [{"type": "response.created", "response": {"id": response_id}}]
    for index, item in enumerate(items):
        named = {"id": f"item_{number}_{index}", **item}
        events.append({"type": "response.output_item.done", "output_index": index, "item": named})
    usage = {
        "input_tokens": 10,
        "input_tokens_details": None,
        "output_tokens": 5,
        "output_tokens_details": None,
        "total_tokens": 15,
    }
    events.append({"type": "response.completed", "response": {"id": response_id, "usage": usage}})
    return events


def _make_handler(stub: ResponsesStub) -> type[BaseHTTPRequestHandler]:  # noqa: C901 - one small method a verb
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60

        def log_message(self, *args: object) -> None:  # silence the default access log
            pass

        def _json(self, status: int, body: Any) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _refused(self) -> bool:
            if self.command != "CONNECT" and not self.path.startswith("http"):
                return False
            stub.refuse_egress(f"{self.command} {self.path}")
            self.close_connection = True
            self._json(403, {"error": "egress refused by the test stub"})
            return True

        def do_CONNECT(self) -> None:
            self._refused()

        def do_GET(self) -> None:
            if not self._refused():
                stub._note({"get": self.path})
                self._json(404, {"error": {"message": "not served by the stub"}})

        def do_POST(self) -> None:
            if self._refused():
                return
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path.split("?")[0] != "/v1/responses":
                stub.error(f"unexpected POST {self.path}")
                self._json(404, {"error": {"message": "not served by the stub"}})
                return
            try:
                request = json.loads(raw)
            except ValueError:
                stub.error(f"body is not JSON (Content-Encoding: {self.headers.get('Content-Encoding')})")
                self._json(415, {"error": {"message": "the stub reads plain JSON only"}})
                return
            status, answer = stub.answer(request)
            if status != 200:
                self._json(status, answer)
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            try:
                for event in answer:
                    self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
                    self.wfile.flush()
            except (BrokenPipeError, ConnectionResetError):
                stub._note({"client_went_away": True})
            self.close_connection = True

    return Handler
