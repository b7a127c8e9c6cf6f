"""Turns the lines of a Claude Code session, in order, into events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from operations.importers._claude_lines import TYPES, Line
from operations.importers._claude_messages import Block, Message, blocks_of, messages_of
from operations.importers._session_log import (
    NOT_EXPORTED,
    SessionLog,
    added,
    content_of,
    message_of,
    numbers_of,
    parts_of,
    times_of,
)
from operations.importers._tally import Tally

ENVELOPE = ("cwd", "version", "gitBranch", "userType", "slug", "entrypoint")
"""What most lines repeat; where a session has one value of it, that is the Record's metadata."""

_USED = frozenset(("type", "timestamp", "message", "sessionId", "session_id", "isSidechain", "toolUseResult"))
_INTERRUPTED = "[Request interrupted by user"
_COMMANDS = ("<local-command-stdout", "<local-command-stderr", "<local-command-caveat", "<task-notification")
_ENDS = frozenset(("end_turn", "stop_sequence", "max_tokens", "refusal", "pause_turn"))


def is_context(line: Line, text: object) -> bool:
    """Returns whether Claude Code itself put a text into the user's place."""
    marked = any(line.value.get(name) is True for name in ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly"))
    return marked or (isinstance(text, str) and text.lstrip().startswith((_INTERRUPTED, *_COMMANDS)))


class EventReader:
    """Reads the events of one session."""

    def __init__(self, lines: Sequence[Line], tally: Tally, varied: Sequence[str]) -> None:
        """`lines` are in order; `varied` are the fields of `ENVELOPE` that the lines do not agree on."""
        self._lines = lines
        self._tally = tally
        self._log = SessionLog(tally)
        self.messages = messages_of(lines)
        self._hidden = _USED | (set(ENVELOPE) - set(varied))
        self._turn: int | None = None
        self._turn_usage: dict[str, float | int] = {}
        self._sides = _Sides(lines)
        self._last = {id(m.blocks[-1]): m for m in self.messages.values() if m.blocks}
        self._blocks: dict[int, list[tuple[Block, Message]]] = {}
        for message in self.messages.values():
            for block in message.blocks:
                self._blocks.setdefault(id(block.line), []).append((block, message))

    def events(self) -> list[dict[str, Any]]:
        """Returns the events as `EventLog` takes them."""
        for line in self._lines:
            if line.type == "assistant":
                for block, message in self._blocks.get(id(line), ()):
                    self._said(block, message)
            elif line.type == "user" and line.message:
                self._given(line)
            elif line.type == "result":
                self._result_line(line)
            else:
                self._observation(line)
        counts = self._tally.counts
        counts["blocks_superseded"] += sum(message.superseded for message in self.messages.values())
        counts["turns"] += 0 if self._turn is None else self._turn + 1
        events = self._log.finish()
        counts["events"] += len(events)
        return events

    # -- events --------------------------------------------------------------------------------------------------------

    def _base(self, line: Line, kind: str, place: int = -1) -> dict[str, Any]:
        locator = {**line.locator} | ({"pointer": f"/message/content/{place}"} if place >= 0 else {})
        event: dict[str, Any] = {"kind": kind, "locator": locator, **times_of(line.value.get("timestamp"))}
        if self._turn is not None:
            event["turn"] = self._turn
        rest = {k: v for k, v in line.value.items() if k not in self._hidden}
        if line.copied_from is not None:
            rest["copied_from"] = line.copied_from
        if line.is_side:
            side = self._sides.name(line)
            rest["sidechain"] = side
            event["group"] = f"sidechain:{side}"
            if (caller := self._sides.callers.get(side)) is not None:
                event["parent"] = caller
        if rest:
            event["attributes"] = rest
        return event

    def _said(self, block: Block, message: Message) -> None:
        """Reads a block of an answer."""
        line, value = block.line, block.value if isinstance(block.value, dict) else {"type": "", "value": block.value}
        kind = str(value.get("type"))
        if kind in ("thinking", "redacted_thinking"):
            event = self._reasoning(block, value, hidden=kind == "redacted_thinking")
            add = self._log.add(event, line.uuid)
        elif kind.endswith("tool_use"):
            event = self._base(line, "tool_call", block.place)
            name = value.get("name")
            event["name"] = name if isinstance(name, str) else None
            event["arguments"] = content_of(value["input"]) if "input" in value else dict(NOT_EXPORTED)
            _keep(event, _rest(value, ("id", "name", "input")))
            event.setdefault("group", f"message:{message.id}")
            add = self._log.call(event, value.get("id"))
        elif kind.endswith("tool_result"):
            add = self._result(block, value)
        else:
            event = self._base(line, "text", block.place)
            lacking = kind == "text" and "text" not in value
            said = dict(NOT_EXPORTED) if lacking else content_of(value["text"] if kind == "text" else value)
            event |= {"role": "assistant", "content": said}
            if kind == "text":
                _keep(event, _rest(value, ("text",)))
            else:
                self._unknown(f"assistant.{kind}")
            add = self._log.add(event, line.uuid)
        self._of_message(add, block, message)

    def _of_message(self, event: dict[str, Any], block: Block, message: Message) -> None:
        """Puts to an event what its answer says as a whole; to the last one how it ended and what it cost."""
        _keep(event, {"message_id": message.id})
        if message.model is not None and not message.is_synthetic:
            event["model"] = {"name": message.model}
        if block.line.value.get("isApiErrorMessage") or message.is_synthetic:
            text = event.get("content", {}).get("value")
            event["error"] = {"kind": "model", "message": text if isinstance(text, str) else None}
        if id(block) not in self._last:
            return
        whole = {"usage": message.usage, "stop_reason": message.stop_reason, "message": message.rest or None}
        _keep(event, {k: v for k, v in whole.items() if v is not None})
        if not message.is_side:
            if message.copied_from is None:
                added(self._turn_usage, numbers_of(message.usage))
            if message.stop_reason in _ENDS:
                end = self._base(block.line, "turn_complete")
                end.pop("attributes", None)
                end |= {"finish_reason": str(message.stop_reason), "usage": self._turn_usage}
                self._log.add(end)
                self._turn_usage = {}

    def _reasoning(self, block: Block, value: dict[str, Any], *, hidden: bool) -> dict[str, Any]:
        event = self._base(block.line, "reasoning", block.place)
        event["content"] = dict(NOT_EXPORTED) if hidden else content_of(value.get("thinking"))
        event["opaque"] = hidden
        _keep(event, _rest(value, ("thinking",)))
        return event

    def _given(self, line: Line) -> None:
        """Reads what the model was given: what the person said, results of tools, and what was put in between."""
        first = True
        for block in blocks_of(line):
            value = block.value if isinstance(block.value, dict) else {"type": "", "value": block.value}
            kind = str(value.get("type"))
            if kind.endswith("tool_result"):
                event = self._result(block, value)
                if first and "toolUseResult" in line.value:
                    _keep(event, {"tool_use_result": line.value["toolUseResult"]})
                first = False
                continue
            text = value.get("text") if kind == "text" else None
            context = is_context(line, text)
            if not context and not line.is_side and line.value.get("parent_tool_use_id") is None:
                self._turn = 0 if self._turn is None else self._turn + (block.place <= 0)
                self._turn_usage = {} if block.place <= 0 else self._turn_usage
            event = self._base(line, "text", block.place)
            event |= {"role": "user", "content": content_of(parts_of(text if kind == "text" else value))}
            if context:
                _keep(event, {"context": True})
            if isinstance(text, str) and text.startswith(_INTERRUPTED):
                event["error"] = {"kind": "cancelled", "message": text}
            self._log.add(event, line.uuid)

    def _result(self, block: Block, value: dict[str, Any]) -> dict[str, Any]:
        event = self._base(block.line, "tool_result", block.place)
        event["content"] = content_of(parts_of(value["content"])) if "content" in value else dict(NOT_EXPORTED)
        _keep(event, _rest(value, ("tool_use_id", "content")))
        if value.get("is_error") is True:
            shown = event["content"].get("value")
            event["error"] = {"kind": "tool", "message": shown if isinstance(shown, str) else None}
        return self._log.result(event, value.get("tool_use_id"))

    def _result_line(self, line: Line) -> None:
        """Reads the last line of a stream."""
        value = line.value
        event = self._base(line, "turn_complete")
        event |= {"finish_reason": str(value.get("subtype")), "usage": numbers_of(value.get("usage"))}
        if value.get("is_error") is True:
            event["error"] = {"kind": "agent", "message": message_of(value.get("result"))}
        self._log.add(event, line.uuid)

    def _observation(self, line: Line) -> None:
        """Keeps what has no event of its own kind, the unknown too."""
        subtype = line.value.get("subtype")
        name = f"{line.type}.{subtype}" if isinstance(subtype, str) else line.type
        if line.type not in TYPES:
            self._unknown(name)
        event = self._base(line, "observation")
        used = ("uuid", "parentUuid", "logicalParentUuid", *ENVELOPE)
        payload = {k: v for k, v in line.value.items() if k not in _USED and k not in used} | (
            {"message": line.message} if line.message else {}
        )
        kept = ("uuid", "parentUuid", "logicalParentUuid", "copied_from", "sidechain")
        event["attributes"] = {k: v for k, v in event.get("attributes", {}).items() if k in kept or k in ENVELOPE}
        event |= {"type": name, "input": dict(NOT_EXPORTED), "output": content_of(payload)}
        caller = line.value.get("parentToolUseID") or line.value.get("toolUseID")
        if isinstance(caller, str) and caller:
            event["parent"] = caller
        if line.value.get("level") == "error" or subtype == "api_error":
            event["error"] = {
                "kind": "model",
                "message": message_of(line.value.get("error") or line.value.get("content")),
            }
        self._log.add(event, line.uuid)

    def _unknown(self, name: str) -> None:
        self._tally.counts["lines_of_unknown_kind"] += 1
        self._tally.warn("kind of line that is not known, kept as it is", name[:80])


class _Sides:
    """The sub-agents of a session: which of them wrote a line, and which call started it."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._by_uuid = {line.uuid: line for line in lines if line.uuid and line.is_side}
        self._names: dict[str, str] = {}
        self.callers: dict[str, str] = {}
        """Sub-agent → the call that started it."""
        for line in lines:
            result = line.value.get("toolUseResult")
            agent = result.get("agentId") if isinstance(result, dict) else None
            if isinstance(agent, str):
                blocks = [block.value for block in blocks_of(line) if isinstance(block.value, dict)]
                calls = [block["tool_use_id"] for block in blocks if isinstance(block.get("tool_use_id"), str)]
                if calls:
                    self.callers[agent] = calls[-1]

    def name(self, line: Line) -> str:
        """Returns the sub-agent's id, else the call that it is for, else the first line of its chain."""
        caller, agent = line.value.get("parent_tool_use_id"), line.value.get("agentId")
        if isinstance(agent, str) and agent:
            return agent
        if isinstance(caller, str) and caller:
            self.callers[caller] = caller
            return caller
        chain: list[str] = []
        at: Line | None = line
        while at is not None and at.uuid not in self._names and at.uuid not in chain:
            chain.append(at.uuid)
            at = self._by_uuid.get(at.parent)
        root = self._names[at.uuid] if at is not None and at.uuid in self._names else chain[-1]
        self._names.update(dict.fromkeys(chain, root))
        return root


def _rest(value: Mapping[str, Any], used: Sequence[str]) -> dict[str, Any]:
    return {k: v for k, v in value.items() if k != "type" and k not in used}


def _keep(event: dict[str, Any], more: Mapping[str, Any]) -> None:
    if more:
        event.setdefault("attributes", {}).update(more)
