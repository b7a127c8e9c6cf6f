"""Reads the items of the stream that `codex exec --json` prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from operations.importers._codex_lines import Line
from operations.importers._codex_results import outcome_of_end
from operations.importers._codex_usage import Usage
from operations.importers._session_log import NOT_EXPORTED, SessionLog, content_of, message_of

_CALLS: Mapping[str, tuple[str | None, str]] = {
    "command_execution": (None, "command"),
    "mcp_tool_call": ("tool", "arguments"),
    "collab_tool_call": ("tool", "prompt"),
    "file_change": (None, "changes"),
    "web_search": (None, "query"),
}
"""Type of item → where its tool's name and its arguments stand."""


class StreamReader:
    """Reads the lines of one session's stream into its log: a call where its item started, a result where it ended."""

    def __init__(self, log: SessionLog, base: Callable[..., dict[str, Any]]) -> None:
        self._log = log
        self._base = base
        self._started: dict[str, str] = {}
        """Item → the call id it has in the log."""
        self._runs = 0

    def take(self, line: Line, usage: Usage) -> None:
        """Reads one line."""
        item = line.payload.get("item")
        if isinstance(item, dict):
            self._item(line, item)
        elif line.type in ("turn.completed", "turn.failed"):
            self._turn(line, usage)
        else:
            if line.type == "thread.started":
                self._runs += 1
            self._observation(line, line.payload)

    def _item(self, line: Line, item: dict[str, Any]) -> None:
        kind, own = str(item.get("type")), item.get("id")
        if kind in _CALLS:
            self._call(line, item, kind)
        elif line.type != "item.completed" and kind in ("agent_message", "reasoning", "error"):
            self._observation(line, item)
        elif kind in ("agent_message", "reasoning"):
            event = self._base(line, "text" if kind == "agent_message" else "reasoning", ("item",))
            event["content"] = content_of(item.get("text"))
            if kind == "agent_message":
                event["role"] = "assistant"
            _keep(event, {k: v for k, v in item.items() if k not in ("id", "type", "text")})
            self._log.add(event, own)
        else:
            self._observation(line, item)

    def _call(self, line: Line, item: dict[str, Any], kind: str) -> None:
        name_at, arguments_at = _CALLS[kind]
        key = f"{self._runs}/{item.get('id')}"
        if key not in self._started:
            event = self._base(line, "tool_call", ("item",))
            named = item.get(name_at) if name_at else kind
            event["name"] = named if isinstance(named, str) else kind
            event["arguments"] = content_of(item[arguments_at]) if arguments_at in item else dict(NOT_EXPORTED)
            _keep(event, {"item_type": kind} | ({"server": item["server"]} if "server" in item else {}))
            self._started[key] = str(item.get("id"))
            self._log.call(event, item.get("id"))
        if line.type == "item.completed":
            outcome = outcome_of_end(item)
            event = self._base(line, "tool_result", ("item",))
            event["content"] = outcome.content if kind != "file_change" else dict(NOT_EXPORTED)
            known = ("id", "type", name_at, arguments_at, "server", "aggregated_output")
            _keep(event, {k: v for k, v in item.items() if k not in known})
            if outcome.error is not None:
                event["error"] = outcome.error
            self._log.result(event, self._started[key])
        elif line.type == "item.updated":
            self._observation(line, item)

    def _turn(self, line: Line, usage: Usage) -> None:
        event = self._base(line, "turn_complete", ("usage", "error"))
        failed = line.type == "turn.failed"
        event["finish_reason"] = "failed" if failed else "completed"
        event["usage"] = usage.by_turn.get(line.turn, {})
        if (stated := line.payload.get("usage")) is not None and not event["usage"]:
            _keep(event, {"usage": stated})
        if failed:
            event["error"] = {"kind": "model", "message": message_of(line.payload.get("error"))}
        self._log.add(event)

    def _observation(self, line: Line, payload: Mapping[str, Any]) -> None:
        kind = f"{line.type}.{payload['type']}" if "type" in payload else line.type
        event = self._base(line, "observation", tuple(line.payload))
        shown = {k: v for k, v in payload.items() if k != "type"}
        event |= {"type": kind, "input": dict(NOT_EXPORTED), "output": content_of(shown)}
        if line.type == "error" or payload.get("type") == "error":
            event["error"] = {"kind": "agent", "message": message_of(payload)}
        self._log.add(event)


def _keep(event: dict[str, Any], more: Mapping[str, Any]) -> None:
    if more:
        event.setdefault("attributes", {}).update(more)
