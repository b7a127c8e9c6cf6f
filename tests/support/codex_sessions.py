"""Builds sessions of Codex as its rollout files hold them, old and new, and as `codex exec --json` prints them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

START = datetime(2026, 11, 29, 20, 26, 29, tzinfo=UTC)
THREAD = "01a228fc-cc0a-7541-9294-5f2538661ab6"
PROVIDER, MODEL = "openai", "gpt-6.2-sol"


def jsonl(rows: Iterable[Any]) -> bytes:
    """Returns rows as a file of lines."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def name(thread: str = THREAD, part: str = "") -> str:
    """Returns the name that Codex gives a session's file."""
    return f"2026/11/29/rollout-2026-11-29T20-26-25-{thread}{part}.jsonl"


class Rollout:
    """A rollout, line by line. `ordinals` and `mirrors` are what newer versions write beside the model's history."""

    def __init__(self, thread: str = THREAD, *, ordinals: bool = True, mirrors: bool = True, **head: Any) -> None:
        self.thread, self.lines = thread, []
        self._ordinals, self._mirrors = ordinals, mirrors
        self._turn = ""
        self._turns = 0
        self._items = 0
        self._total: dict[str, int] = {}
        meta = {
            "id": thread,
            "timestamp": stamp(0),
            "cwd": "/home/me/repo",
            "originator": "codex_exec",
            "cli_version": "0.171.0",
            "source": "exec",
            "model_provider": PROVIDER,
            "git": {"commit_hash": "0d3f", "branch": "main"},
            **head,
        }
        self.line("session_meta", meta)

    def line(self, kind: str, payload: dict[str, Any], **more: Any) -> dict[str, Any]:
        """Writes a line."""
        number = len(self.lines)
        ordinal = {"ordinal": number} if self._ordinals else {}
        found = {"timestamp": stamp(number), **ordinal, "type": kind, "payload": payload, **more}
        self.lines.append(found)
        return found

    def item(self, kind: str, /, **payload: Any) -> dict[str, Any]:
        """Writes an item of the model's history."""
        turn = {"internal_chat_message_metadata_passthrough": {"turn_id": self._turn}} if self._mirrors else {}
        return self.line("response_item", {"type": kind, **payload, **turn})

    def event(self, kind: str, /, **payload: Any) -> dict[str, Any]:
        """Writes an event."""
        return self.line("event_msg", {"type": kind, **payload})

    def ask(self, text: str) -> None:
        """Begins a turn with what the person says."""
        self._turns += 1
        self._turn = f"{self.thread}-turn-{self._turns}"
        if self._mirrors:
            self.event("task_started", turn_id=self._turn, model_context_window=258400)
        context = f"<environment_context>\n  <cwd>/home/me/repo</cwd> {self._turns}\n</environment_context>"
        self.item("message", role="user", content=[{"type": "input_text", "text": context}])
        self.item("message", role="user", content=[{"type": "input_text", "text": text}], id=f"msg_{self._turns}")
        turn = {"turn_id": self._turn} if self._mirrors else {}
        self.event("user_message", message=text, kind="plain", **turn)
        self.line("turn_context", {"cwd": "/home/me/repo", "model": MODEL, "effort": "high", **turn})

    def think(self, summary: str, raw: str | None = None) -> None:
        """Writes what the model thought."""
        self._items += 1
        turn = {"turn_id": self._turn} if self._mirrors else {}
        self.event("agent_reasoning", text=summary, **turn)
        content = None if raw is None else [{"type": "reasoning_text", "text": raw}]
        parts = [{"type": "summary_text", "text": summary}]
        self.item("reasoning", id=f"rs_{self._items}", summary=parts, content=content, encrypted_content="gAAA")

    def call(self, call_id: str, tool: str, arguments: str) -> None:
        """Writes a call."""
        self.item("function_call", name=tool, arguments=arguments, call_id=call_id, id=f"fc_{call_id}")

    def answer(self, call_id: str, output: Any) -> None:
        """Writes a call's result."""
        self.item("function_call_output", call_id=call_id, output=output)

    def tokens(self, given: int, answered: int) -> None:
        """Writes what a response cost, twice, as Codex does when the limits change."""
        last = {
            "input_tokens": given,
            "cached_input_tokens": 0,
            "output_tokens": answered,
            "total_tokens": given + answered,
        }
        self._total = {k: self._total.get(k, 0) + v for k, v in last.items()}
        info = {"total_token_usage": dict(self._total), "last_token_usage": last, "model_context_window": 258400}
        self.event("token_count", info=info, rate_limits=None)
        self.event("token_count", info=info, rate_limits={"primary": {"used_percent": 1.0}})

    def say(self, text: str) -> None:
        """Writes a message of the agent."""
        self._items += 1
        turn = {"turn_id": self._turn} if self._mirrors else {}
        self.event("agent_message", message=text, **turn)
        self.item("message", role="assistant", content=[{"type": "output_text", "text": text}], id=f"out_{self._items}")

    def done(self, text: str | None, **more: Any) -> None:
        """Ends the turn, in a version that says so."""
        if self._mirrors:
            self.event("task_complete", turn_id=self._turn, last_agent_message=text, duration_ms=577, **more)

    def bytes(self) -> bytes:
        """Returns the file."""
        return jsonl(self.lines)


def stamp(seconds: int) -> str:
    """Returns a time of the session as Codex writes it."""
    return (START + timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def usual(thread: str = THREAD, **options: Any) -> Rollout:
    """Returns a session of one turn with thought, two calls side by side and an answer."""
    made = Rollout(thread, **options)
    made.ask("Fix the failing test.")
    made.think("**Looking** around", "I should run the tests.")
    made.call("c1", "exec_command", '{"cmd": "pytest -q"}')
    made.call("c2", "exec_command", '{"cmd": "ls"}')
    made.tokens(100, 20)
    made.answer("c2", "Process exited with code 0\nOutput:\na.py\n")
    made.answer("c1", "Process exited with code 1\nOutput:\n1 failed\n")
    made.tokens(150, 7)
    made.say("It is fixed.")
    made.done("It is fixed.")
    return made


def stream(thread: str = THREAD) -> list[dict[str, Any]]:
    """Returns what `codex exec --json` prints."""
    command = {"id": "item_1", "type": "command_execution", "command": "bash -lc ls"}
    return [
        {"type": "thread.started", "thread_id": thread},
        {"type": "turn.started"},
        {"type": "item.completed", "item": {"id": "item_0", "type": "reasoning", "text": "**Looking**"}},
        {
            "type": "item.started",
            "item": {**command, "aggregated_output": "", "exit_code": None, "status": "in_progress"},
        },
        {"type": "item.completed", "item": {**command, "aggregated_output": "a\n", "exit_code": 2, "status": "failed"}},
        {"type": "item.completed", "item": {"id": "item_2", "type": "agent_message", "text": "Done."}},
        {"type": "turn.completed", "usage": {"input_tokens": 30, "cached_input_tokens": 4, "output_tokens": 15}},
    ]
