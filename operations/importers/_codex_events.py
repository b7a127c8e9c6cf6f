"""Turns the lines of a Codex session into events: the model's history leads, what repeats it is put to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from operations.importers._codex_lines import Line, session_named
from operations.importers._codex_results import ENDS, Call, Outcome, call_of_end, outcome_of, outcome_of_end
from operations.importers._codex_stream import StreamReader
from operations.importers._codex_usage import Usage
from operations.importers._session_log import (
    NOT_EXPORTED,
    SessionLog,
    content_of,
    json_of,
    message_of,
    parts_of,
    time_of_ms,
    times_of,
)
from operations.importers._tally import Tally

_CONTEXT = (
    "<environment_context", "<user_instructions", "<turn_aborted", "<skill", "# AGENTS.md instructions",
    "<INSTRUCTIONS", "<ENVIRONMENT_CONTEXT", "<user_shell_command", "<subagent_notification",
)  # fmt: skip
"""How messages begin that Codex itself puts into the user's place."""

_ROLES = frozenset(("system", "developer", "user", "assistant", "tool"))
_USED = frozenset(("type", "id", "call_id", "name", "turn_id", "thread_id"))
_MIRRORS = {
    "user_message": ("user", "message"),
    "agent_message": ("assistant", "message"),
    "agent_reasoning": ("reasoning", "text"),
    "agent_reasoning_raw_content": ("reasoning", "text"),
}
_MIRRORED_ITEMS = {"UserMessage": "user", "AgentMessage": "assistant", "Reasoning": "reasoning"}
_ENDED = {"task_complete": "completed", "turn_complete": "completed", "turn_aborted": "aborted"}
_KNOWN_EVENTS = frozenset((
    "task_started", "turn_started", "token_count", "thread_name_updated", "context_compacted", "entered_review_mode",
    "exited_review_mode", "thread_rolled_back", "thread_settings_applied", "item_completed", "item_started",
    "session_configured", "background_event", "stream_error", "turn_diff", "plan_update", "guardian_assessment",
    "error", "warning", "shutdown_complete",
))  # fmt: skip
_KNOWN_LINES = frozenset((
    "session_meta", "turn_context", "compacted", "world_state", "token_usage_record", "event_msg", "response_item",
    "state",
))  # fmt: skip


def is_context(payload: Mapping[str, Any]) -> bool:
    """Returns whether a message in the user's place was put there by Codex: newer lines say it, older ones begin so."""
    inner = payload.get("internal_chat_message_metadata_passthrough")
    kinds = inner.get("content_item_kinds") if isinstance(inner, dict) else None
    if isinstance(kinds, list) and kinds:
        return not any(str(kind).startswith("user") for kind in kinds)
    content = payload.get("content")
    pieces = content if isinstance(content, list) else [content]
    texts = [piece.get("text") if isinstance(piece, dict) else piece for piece in pieces]
    return any(isinstance(text, str) and text.lstrip().startswith(_CONTEXT) for text in texts)


class EventReader:
    """Reads the events of one session."""

    def __init__(self, tally: Tally, usage: Usage) -> None:
        self._tally = tally
        self._usage = usage
        self._log = SessionLog(tally)
        self._model: dict[str, Any] = {}
        self._said: dict[tuple[int | None, str, str], list[dict[str, Any]]] = {}
        """(turn, whose, text) → events of the model's history that say it."""
        self._results: dict[str, list[dict[str, Any]]] = {}
        """Call id → results, in order."""
        self._taken: set[tuple[int, str]] = set()
        """(event, kind of mirror) of what was put to an event."""

    def events(self, lines: Sequence[Line]) -> list[dict[str, Any]]:
        """Returns the events as `EventLog` takes them."""
        stream = StreamReader(self._log, self._base)
        head = next((line for line in lines if session_named(line) is not None), None)
        later: list[tuple[int, str | None, Line]] = []
        mirrored = {"response_item"} <= {line.kind for line in lines}
        for line in lines:
            if line is head and line.kind == "session_meta":
                self._model = _provider(line.payload)  # the rest of the head is the Record's metadata
            elif mirrored and self._is_mirror(line):
                later.append((self._log.slot(), self._log.waiting(_CODE), line))
            elif line.kind == "exec":
                stream.take(line, self._usage)
            else:
                self._take(line)
        for slot, within, line in later:
            self._log.fill(slot)
            self._mirror(line, within)
        events = self._log.finish()
        counts = self._tally.counts
        counts["model_calls"] += sum(1 for line in lines if line.kind == "token_usage_record")
        counts["events"] += len(events)
        return events

    # -- lines ---------------------------------------------------------------------------------------------------------

    def _base(self, line: Line, kind: str, used: Sequence[str] = ()) -> dict[str, Any]:
        event: dict[str, Any] = {"kind": kind, "locator": line.locator, **times_of(line.at)}
        if line.turn is not None:
            event["turn"] = line.turn
        rest = {k: v for k, v in line.payload.items() if k not in _USED and k not in used}
        if line.rest:
            rest["line"] = line.rest
        if rest:
            event["attributes"] = rest
        return event

    def _take(self, line: Line) -> None:
        if line.kind == "response_item":
            reader = _ITEMS.get(line.type)
            if reader is not None:
                reader(self, line)
                return
        elif line.kind == "turn_context":
            self._model = {k: v for k, v in self._model.items() if k == "provider"} | _model(line.payload)
        elif line.kind == "session_meta":
            self._model = _provider(line.payload)
        elif line.kind == "event_msg" and line.type in _ENDED:
            self._turn_end(line)
            return
        elif line.kind == "event_msg" and line.type in _MIRRORS:
            self._unmirrored(line, *_MIRRORS[line.type])
            return
        elif line.kind == "event_msg" and line.type in ENDS:
            self._end_alone(line)
            return
        self._observation(line)

    def _observation(self, line: Line) -> None:
        """Keeps what has no event of its own kind, the unknown too."""
        known = line.kind in _KNOWN_LINES and (line.kind != "event_msg" or line.type in _KNOWN_EVENTS)
        name = f"{line.kind}.{line.type}" if line.type else line.kind
        if not known or (line.kind == "response_item" and line.type not in _KEPT_ITEMS):
            self._tally.counts["lines_of_unknown_kind"] += 1
            self._tally.warn("kind of line that is not known, kept as an observation", name[:80])
        payload = {k: v for k, v in line.payload.items() if k != "type"}
        event = self._base(line, "observation", tuple(line.payload))
        event |= {"type": name, "input": dict(NOT_EXPORTED), "output": content_of(payload)}
        if line.type in ("error", "stream_error"):
            event["error"] = {"kind": "agent", "message": message_of(line.payload.get("message"))}
        self._log.add(event, line.payload.get("id"))

    def _message(self, line: Line) -> None:
        role = str(line.payload.get("role"))
        event = self._base(line, "text", ("role", "content"))
        event["role"] = role if role in _ROLES else "unknown"
        event["content"] = content_of(parts_of(line.payload.get("content")))
        if event["role"] in ("developer", "system") or (role == "user" and is_context(line.payload)):
            event.setdefault("attributes", {})["context"] = True
        elif event["role"] == "assistant" and self._model:
            event["model"] = self._model
        self._log.add(event, line.payload.get("id"))
        for text in _texts(line.payload.get("content")):
            self._said.setdefault((line.turn, role, text), []).append(event)

    def _reasoning(self, line: Line) -> None:
        event = self._base(line, "reasoning", ("summary", "content", "encrypted_content"))
        summary, raw = _texts(line.payload.get("summary")), _texts(line.payload.get("content"))
        shown = raw or summary
        kept = event.setdefault("attributes", {})
        if raw and summary:
            kept["summary"] = summary
        if (hidden := line.payload.get("encrypted_content")) is not None:
            kept["encrypted_content"] = hidden
        event["content"] = content_of(shown[0] if len(shown) == 1 else shown) if shown else dict(NOT_EXPORTED)
        event["opaque"] = not raw and hidden is not None
        if self._model:
            event["model"] = self._model
        self._log.add(event, line.payload.get("id"))
        for text in (*summary, *raw):
            self._said.setdefault((line.turn, "reasoning", text), []).append(event)

    def _call(self, line: Line) -> None:
        payload = line.payload
        event = self._base(line, "tool_call", ("arguments", "input", "action"))
        event["name"] = payload["name"] if isinstance(payload.get("name"), str) else line.type.removesuffix("_call")
        if isinstance(payload.get("arguments"), str):
            event["arguments"] = json_of(payload["arguments"])
        else:
            given = next((payload[name] for name in ("input", "action", "arguments") if name in payload), None)
            event["arguments"] = content_of(given)
        if event["arguments"]["status"] == "unparsable":
            event["marks"] = {"arguments": "unparsable"}
        if (own := payload.get("id")) is not None and own != payload.get("call_id"):
            event.setdefault("attributes", {})["item_id"] = own
        if self._model:
            event["model"] = self._model
        self._log.call(event, payload.get("call_id") or own)

    def _result(self, line: Line) -> None:
        payload = line.payload
        event = self._base(line, "tool_result", ("output", "tools"))
        given = payload.get("output", payload.get("tools"))
        outcome = outcome_of(given)
        event["content"] = outcome.content
        _told(event, outcome)
        if (own := payload.get("id")) is not None:
            event.setdefault("attributes", {})["item_id"] = own
        self._log.result(event, payload.get("call_id"))
        self._results.setdefault(str(payload.get("call_id")), []).append(event)

    def _turn_end(self, line: Line) -> None:
        error = line.payload.get("error")
        event = self._base(line, "turn_complete", ("error", "reason"))
        event["finish_reason"] = str(line.payload.get("reason") or ("failed" if error else _ENDED[line.type]))
        event["usage"] = self._usage.by_turn.get(line.turn, {})
        if error:
            code = error.get("codex_error_info") if isinstance(error, dict) else None
            event["error"] = {
                "kind": "model",
                "message": message_of(error),
                "code": None if code is None else str(code),
            }
        elif line.type == "turn_aborted":
            event["error"] = {"kind": "cancelled", "message": message_of(line.payload.get("reason"))}
        self._log.add(event, line.payload.get("turn_id"))

    # -- what repeats the model's history ------------------------------------------------------------------------------

    def _is_mirror(self, line: Line) -> bool:
        if line.kind != "event_msg":
            return False
        item = line.payload.get("item")
        return line.type in _MIRRORS or line.type in ENDS or (line.type == "item_completed" and isinstance(item, dict))

    def _mirror(self, line: Line, within: str | None) -> None:
        """Puts a line to the event that says the same; a line that says something of its own becomes an event."""
        item = line.payload.get("item")
        if line.type in _MIRRORS:
            whose, name = _MIRRORS[line.type]
            texts, said = [str(line.payload.get(name))], {k: v for k, v in line.payload.items() if k != name}
        elif isinstance(item, dict) and str(item.get("type")) in _MIRRORED_ITEMS:
            whose = _MIRRORED_ITEMS[str(item["type"])]
            texts = _texts(item.get("content")) or _texts(item.get("summary_text")) or _texts(item.get("raw_content"))
            said = dict(line.payload)
        else:
            self._put_to_result(line, within)
            return
        kind = f"{line.type}.{whose}"
        for text in texts:
            for event in self._said.get((line.turn, whose, text), ()):
                if (id(event), f"{kind}.{text}") not in self._taken:
                    self._taken.add((id(event), f"{kind}.{text}"))
                    self._put(event, line, said)
                    return
        if line.type in _MIRRORS:
            self._unmirrored(line, *_MIRRORS[line.type])
        else:
            self._observation(line)

    def _put_to_result(self, line: Line, within: str | None) -> None:
        item = line.payload.get("item")
        said = item if isinstance(item, dict) else line.payload
        call_id = str(said.get("id") if isinstance(item, dict) else said.get("call_id"))
        for event in self._results.get(call_id, ()):
            if (id(event), line.type) not in self._taken:
                self._taken.add((id(event), line.type))
                self._put(event, line, dict(line.payload))
                _told(event, outcome_of_end(said))
                return
        if (call := call_of_end(said)) is not None and not self._log.has_call(call_id):
            self._within(line, said, call, within)
        elif line.type in ENDS:
            self._end_alone(line)
        else:
            self._observation(line)

    def _put(self, event: dict[str, Any], line: Line, said: Mapping[str, Any]) -> None:
        self._tally.counts["lines_that_repeat"] += 1
        also = {k: v for k, v in said.items() if k not in ("type", "turn_id", "thread_id")}
        one = {"type": line.type, "at_text": line.at, "line": line.locator.get("line"), **also}
        event.setdefault("attributes", {}).setdefault("also", []).append(one)

    def _unmirrored(self, line: Line, whose: str, name: str) -> None:
        """Makes an event of a message that the model's history does not hold."""
        event = self._base(line, "reasoning" if whose == "reasoning" else "text", (name,))
        event["content"] = content_of(line.payload.get(name))
        if whose != "reasoning":
            event["role"] = whose
        self._log.add(event, line.payload.get("id"))

    def _within(self, line: Line, said: Mapping[str, Any], call: Call, within: str | None) -> None:
        """Makes a call and its result of a tool that the model's history does not name, since code called it."""
        own = said.get("id", said.get("call_id"))
        outcome = outcome_of_end(said)
        used = ("item", "started_at_ms", "completed_at_ms", *call.used)
        asked, given = self._base(line, "tool_call", (*line.payload,)), self._base(line, "tool_result", used)
        asked |= {"name": call.name, "arguments": call.arguments, **time_of_ms(line.payload.get("started_at_ms"))}
        given |= {"content": outcome.content, **time_of_ms(line.payload.get("completed_at_ms"))}
        if (rest := {k: v for k, v in said.items() if k not in (*_USED, *call.used)}) and said is not line.payload:
            given.setdefault("attributes", {}).update(rest)
        _told(given, outcome)
        for event in (asked, given):
            if within is not None:
                event["parent"] = within
        self._log.call(asked, own)
        self._log.result(given, own)

    def _end_alone(self, line: Line) -> None:
        """Makes a result of a call's end that the model's history does not hold."""
        outcome = outcome_of_end(line.payload)
        event = self._base(line, "tool_result")
        event["content"] = outcome.content
        _told(event, outcome)
        self._log.result(event, line.payload.get("call_id"))


def _told(event: dict[str, Any], outcome: Outcome) -> None:
    if outcome.exit_code is not None:
        event.setdefault("attributes", {})["exit_code"] = outcome.exit_code
    if outcome.error is not None and "error" not in event:
        event["error"] = outcome.error


def _provider(payload: Mapping[str, Any]) -> dict[str, Any]:
    provider = payload.get("model_provider")
    return {"provider": provider} if isinstance(provider, str) else {}


def _model(payload: Mapping[str, Any]) -> dict[str, Any]:
    names = ("effort", "summary", "personality", "collaboration_mode")
    parameters = {name: payload[name] for name in names if payload.get(name) is not None}
    model = payload.get("model")
    found = {"name": model if isinstance(model, str) else None, "parameters": parameters or None}
    return {name: value for name, value in found.items() if value is not None}


def _texts(pieces: Any) -> list[str]:  # noqa: ANN401 - JSON
    if isinstance(pieces, str):
        return [pieces]
    if not isinstance(pieces, list):
        return []
    found = [piece.get("text") if isinstance(piece, dict) else piece for piece in pieces]
    return [text for text in found if isinstance(text, str)]


_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "tool_search_call", "web_search_call")
_RESULTS = ("function_call_output", "custom_tool_call_output", "tool_search_output")
_CODE = "exec"
"""The tool that runs code of the model, which calls other tools."""

_KEPT_ITEMS = frozenset(
    ("additional_tools", "compaction", "compaction_summary", "image_generation_call", "ghost_snapshot", "other")
)
_ITEMS: Mapping[str, Callable[[EventReader, Line], None]] = {
    "message": EventReader._message,  # noqa: SLF001 - a table of the class's own methods
    "reasoning": EventReader._reasoning,  # noqa: SLF001
    **dict.fromkeys(_CALLS, EventReader._call),  # noqa: SLF001
    **dict.fromkeys(_RESULTS, EventReader._result),  # noqa: SLF001
}
