"""Reads one line of a Codex session, in any of the forms in which Codex has written them, into one form.

Forms, newest first: rollout lines `{timestamp, ordinal?, type, payload, metadata?}`; the stream of `codex exec --json`
(`thread.started`, `turn.*`, `item.*`, `error`); its older stream `{id, msg}`; and the oldest rollouts, whose first line
is the session's head and whose others are bare items of the model's history.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ROLLOUT = frozenset((
    "session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state", "token_usage_record",
))  # fmt: skip
"""Types of rollout lines whose meaning is known."""

EXEC = frozenset((
    "thread.started", "turn.started", "turn.completed", "turn.failed", "item.started", "item.updated",
    "item.completed", "error",
))  # fmt: skip
ITEMS = frozenset((
    "message", "reasoning", "local_shell_call", "function_call", "function_call_output", "custom_tool_call",
    "custom_tool_call_output", "tool_search_call", "tool_search_output", "web_search_call", "image_generation_call",
    "compaction", "compaction_summary", "ghost_snapshot", "other",
))  # fmt: skip
"""Types of items of the model's history."""

_NEEDED = {"thread.started": "thread_id", "error": "message", "turn.failed": "error", "turn.completed": "usage"}
"""What a line of the stream has, by which it is told from other lines of that name."""

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass(slots=True, eq=False)
class Line:
    """A line in the one form."""

    kind: str
    """A rollout line's type, `exec` for the stream, `state` for what the oldest rollouts keep of Codex itself."""
    type: str
    """The payload's own type; empty where it has none."""
    payload: dict[str, Any]
    at: str | None = None
    ordinal: int | None = None
    rest: dict[str, Any] = field(default_factory=dict)
    """What the line says beside its payload."""
    locator: dict[str, Any] = field(default_factory=dict)
    turn: int | None = None


def read_line(value: Mapping[str, Any]) -> Line:
    """Returns a line in the one form; `unknown` is the kind of what is no line of Codex."""
    kind, payload, at = value.get("type"), value.get("payload"), value.get("timestamp")
    when = at if isinstance(at, str) else None
    if isinstance(kind, str) and isinstance(payload, dict):
        ordinal = value.get("ordinal")
        number = ordinal if isinstance(ordinal, int) and not isinstance(ordinal, bool) else None
        rest = {k: v for k, v in value.items() if k not in ("type", "payload", "timestamp", "ordinal")}
        return Line(kind, _text(payload.get("type")), payload, when, number, rest)
    if isinstance(msg := value.get("msg"), dict) and "type" in msg:
        return Line("event_msg", _text(msg["type"]), msg, when, rest={"id": value["id"]} if "id" in value else {})
    if "record_type" in value:
        return Line("state", _text(value["record_type"]), dict(value), when)
    if isinstance(kind, str) and kind in EXEC:
        return Line("exec", kind, {k: v for k, v in value.items() if k != "type"}, when)
    if isinstance(kind, str) and kind in ITEMS:
        return Line("response_item", kind, dict(value), when)
    if kind is None and isinstance(value.get("id"), str) and when and ("instructions" in value or "git" in value):
        return Line("session_meta", "", dict(value), when)
    return Line("unknown", _text(kind), dict(value), when)


def is_line(value: Mapping[str, Any]) -> bool:
    """Returns whether a row is a line of Codex, by what it holds."""
    line = read_line(value)
    if line.kind == "exec":
        needed = "item" if line.type.startswith("item.") else _NEEDED.get(line.type)
        return needed is None or needed in line.payload
    if line.kind == "response_item" and "payload" not in value:
        return "role" in value or "call_id" in value or line.type == "reasoning"
    return line.kind in ROLLOUT or line.kind == "state"


def session_named(line: Line) -> str | None:
    """Returns the id of the session that a line opens."""
    found = None
    if line.kind == "session_meta":
        found = line.payload.get("id")
    elif line.kind == "exec" and line.type == "thread.started":
        found = line.payload.get("thread_id")
    elif line.kind == "event_msg" and line.type == "session_configured":
        found = line.payload.get("session_id")
    return found if isinstance(found, str) and found else None


def ancestors_named(line: Line) -> set[str]:
    """Returns the sessions whose history a session's head says that it may go on with."""
    payload = line.payload
    source = payload.get("source")
    agent = source.get("subagent") if isinstance(source, dict) else None
    spawned = agent.get("thread_spawn") if isinstance(agent, dict) else None
    named = [payload.get("forked_from_id"), payload.get("parent_thread_id")]
    if isinstance(spawned, dict):
        named.append(spawned.get("parent_thread_id"))
    return {one for one in named if isinstance(one, str) and one}


def id_in_name(name: str) -> str | None:
    """Returns the session's id that a rollout's file name ends with."""
    base = name.rpartition("/")[2]
    found = _UUID.findall(base)
    return found[-1] if found and base.startswith("rollout-") else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
