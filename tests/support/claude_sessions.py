"""Builds sessions of Claude Code as its project folders hold them, and as its stream prints them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

START = datetime(2026, 8, 17, 10, tzinfo=UTC)
SESSION = "07c9cd52-1111-4222-8333-444455556666"
MODEL = "claude-opus-5"


def jsonl(rows: Iterable[Any]) -> bytes:
    """Returns rows as a file of lines."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def usage(given: int, answered: int) -> dict[str, Any]:
    """Returns what an answer cost, as the format states it."""
    return {
        "input_tokens": given,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 900,
        "output_tokens": answered,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "service_tier": "standard",
    }


class Session:
    """A session, line by line; each line names the one before it as its parent."""

    def __init__(self, session: str = SESSION, prefix: str = "") -> None:
        self.session, self.prefix = session, prefix
        self.lines: list[dict[str, Any]] = []
        self.last: str | None = None
        self._count = 0
        self._seconds = 0
        self._answers = 0

    def line(self, kind: str, /, **more: Any) -> dict[str, Any]:
        """Writes a line of the conversation."""
        self._count += 1
        self._seconds += 1
        uuid = f"{self.prefix}{self.session[:4]}-{self._count}"
        made = {
            "parentUuid": self.last,
            "isSidechain": False,
            "userType": "external",
            "cwd": "/home/me/repo",
            "sessionId": self.session,
            "version": "2.1.200",
            "gitBranch": "main",
            "type": kind,
            "uuid": uuid,
            "timestamp": stamp(self._seconds),
            **more,
        }
        self.last = uuid
        self.lines.append(made)
        return made

    def bare(self, kind: str, /, **more: Any) -> dict[str, Any]:
        """Writes a line that is not of the conversation."""
        made = {"type": kind, **more}
        self.lines.append(made)
        return made

    def ask(self, content: Any, **more: Any) -> dict[str, Any]:
        """Writes what the person said."""
        made = self.line("user", message={"role": "user", "content": content}, **more)
        self.bare("file-history-snapshot", messageId=made["uuid"], snapshot={}, isSnapshotUpdate=False)
        return made

    def answer(self, *blocks: dict[str, Any], given: int = 10, answered: int = 5, **more: Any) -> str:
        """Writes an answer, a line for each block; all but the last line state a count that is not yet whole."""
        self._answers += 1
        own = f"{self.prefix}msg_{self.session[:4]}_{self._answers}"
        more = {"requestId": f"req_{self._answers}", **more}
        for number, block in enumerate(blocks, 1):
            last = number == len(blocks)
            ends = "tool_use" if blocks[-1]["type"] == "tool_use" else "end_turn"
            message = {
                "id": own,
                "type": "message",
                "role": "assistant",
                "model": MODEL,
                "content": [block],
                "stop_reason": ends if last else None,
                "stop_sequence": None,
                "usage": usage(given, answered if last else 1),
            }
            self.line("assistant", message=message, **more)
        return own

    def result(self, call: str, content: Any, *, is_error: bool = False, **more: Any) -> None:
        """Writes a tool's result."""
        block = {"tool_use_id": call, "type": "tool_result", "content": content}
        if is_error:
            block["is_error"] = True
        self.line("user", message={"role": "user", "content": [block]}, **more)

    def bytes(self) -> bytes:
        """Returns the file."""
        return jsonl(self.lines)


def text(said: str) -> dict[str, Any]:
    """Returns a block of text."""
    return {"type": "text", "text": said}


def thinking(said: str) -> dict[str, Any]:
    """Returns a block of thought."""
    return {"type": "thinking", "thinking": said, "signature": "EpMC"}


def tool_use(call: str, tool: str, arguments: Any) -> dict[str, Any]:
    """Returns a block that calls a tool."""
    return {"type": "tool_use", "id": call, "name": tool, "input": arguments}


def stamp(seconds: int) -> str:
    """Returns a time of the session as the format writes it."""
    return (START + timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def usual(session: str = SESSION) -> Session:
    """Returns a session of one turn with thought, two calls side by side and an answer."""
    made = Session(session)
    made.ask("Fix the failing test.")
    made.answer(
        thinking("Look first."),
        text("I will look."),
        tool_use(f"{session[:4]}_1", "Read", {"file_path": "/home/me/repo/a.py"}),
        tool_use(f"{session[:4]}_2", "Bash", {"command": "pytest"}),
        given=12,
        answered=90,
    )
    made.result(f"{session[:4]}_1", "print(1)", toolUseResult={"type": "text", "file": {"numLines": 1}})
    made.result(f"{session[:4]}_2", [{"type": "text", "text": "1 failed"}], is_error=True)
    made.answer(text("It is fixed."), given=20, answered=7)
    made.line("system", subtype="turn_duration", durationMs=5500, isMeta=False)
    return made


def stream(session: str = SESSION) -> list[dict[str, Any]]:
    """Returns what `claude -p --output-format stream-json` prints."""
    answer = {"id": "msg_s", "role": "assistant", "model": MODEL, "content": [text("Done.")], "usage": usage(3, 4)}
    return [
        {"type": "system", "subtype": "init", "session_id": session, "model": MODEL, "tools": ["Bash"]},
        {"type": "assistant", "message": answer, "parent_tool_use_id": None, "session_id": session},
        {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "duration_ms": 1200,
            "num_turns": 1,
            "result": "Done.",
            "session_id": session,
            "total_cost_usd": 0.0125,
            "usage": usage(3, 4),
        },
    ]
