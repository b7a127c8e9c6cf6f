"""Turns the transcript and the messages of a sample into the events of its EventLog, each said once.

The transcript gives the order. A message that a model was given stands before what the model said, the first time that
any model is given it; a call stands with the message that made it, and its result where the transcript has it. What the
transcript does not have, or all where there is none, follows in the order of the sample's messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from operations.importers._cells import moment
from operations.importers._inspect_samples import POOL, is_lost
from operations.importers._json_values import dumps
from operations.trajectories.settling import settled

_BASE = frozenset(
    ("uuid", "span_id", "timestamp", "working_start", "event", "pending", "completed", "events", "input_refs")
)
_INPUTS = ("input", "cmd", "message", "prompt")
_OUTPUTS = ("result", "output", "data", "changes", "score", "edit", "state")
_ROLES = frozenset(("system", "developer", "user", "assistant", "tool"))
_KINDS = {"timeout": "timeout", "cancelled": "cancelled", "sandbox_unavailable": "infrastructure"}


def events_of(sample: Mapping[str, Any], locator: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the events of a sample in the one form, as `EventLog` takes them."""
    made = _Transcript(sample, locator)
    made.walk(_list(sample.get("events")), "/events", None)
    made.given([(one, f"/messages/{number}") for number, one in enumerate(_list(sample.get("messages")))])
    return settled(made.events)


class _Transcript:
    def __init__(self, sample: Mapping[str, Any], locator: Mapping[str, Any]) -> None:
        self.events: list[dict[str, Any]] = []
        self._pool = _list(sample.get(POOL))
        whole = [message for message in _list(sample.get("messages")) if isinstance(message, Mapping)]
        self._whole = {str(message["id"]): message for message in whole if message.get("id")}
        self._locator = locator
        self._ids: Counter[tuple[str, str]] = Counter()
        self._said: Counter[str] = Counter()
        """Message → how many times it stands in the log."""
        self._calls: dict[str, dict[str, Any]] = {}
        self._results: dict[str, dict[str, Any]] = {}
        self._spans: dict[str, dict[str, Any]] = {}

    def walk(self, events: Sequence[Any], at: str, parent: str | None) -> None:
        """Adds the events of a transcript; those inside another event too, as older logs have them."""
        for number, event in enumerate(events):
            place = f"{at}/{number}"
            if not isinstance(event, Mapping):
                self._add({"id": "", "kind": "observation", "type": "unknown", **_contents(None, event)}, place)
                continue
            base = self._base(event, parent)
            match event.get("event"):
                case "model":
                    self._model(event, base, place)
                case "tool":
                    self._tool(event, base, place)
                case "span_end" if str(event.get("id")) in self._spans:
                    self._end(self._spans[str(event["id"])], event)
                case _:
                    self._other(event, base, place)
            self.walk(_list(event.get("events")), f"{place}/events", _text(event.get("uuid")) or parent)

    def given(self, messages: Sequence[tuple[Any, str]]) -> None:
        """Adds the messages of a conversation, each with its place, that do not stand in the log yet."""
        seen: Counter[str] = Counter()
        for message, at in messages:
            if isinstance(message, Mapping):
                key = _key(message)
                seen[key] += 1
                if seen[key] > self._said[key]:
                    self._said[key] += 1
                    self._message(message, at, {})

    # -- the transcript ------------------------------------------------------------------------------------------------

    def _model(self, event: Mapping[str, Any], base: dict[str, Any], at: str) -> None:
        places = [place for place in _list(event.get("input_refs")) if 0 <= place < len(self._pool)]
        self.given([(self._pool[place], f"{at}/input_refs") for place in places])
        output = event.get("output")
        output = dict(output) if isinstance(output, Mapping) else {}
        choices = _list(output.pop("choices", None))
        output.pop("completion", None)
        name = _text(event.get("model")) or _text(output.get("model"))
        config = event.get("config")
        about = dict(base)
        about["model"] = {"name": name, **({"parameters": config} if config else {})}
        rest = {k: v for k, v in event.items() if k not in (*_BASE, "model", "config", "output", "error", "traceback")}
        usage = output.pop("usage", None)
        output.pop("model", None)
        extra = {"usage": usage, "output": output, "traceback": event.get("traceback")}
        about["attributes"] = {k: v for k, v in {**rest, **extra}.items() if v not in (None, {}, [])}
        error = event.get("error") or output.get("error")
        if error:
            about["error"] = {"kind": "model", "message": error if isinstance(error, str) else str(error)}
        if not choices:
            said = {"kind": "text", "role": "assistant", "content": {"status": "null"}}
            self._add({**about, **said}, at)
        for number, choice in enumerate(choices):
            message = choice.get("message") if isinstance(choice, Mapping) else None
            stop = choice.get("stop_reason") if isinstance(choice, Mapping) else None
            more = {**about, "attributes": {**about["attributes"], **({"finish_reason": stop} if stop else {})}}
            if number:
                more["attributes"] = {"choice": number, **({"finish_reason": stop} if stop else {})}
            if isinstance(message, Mapping):
                self._said[_key(message)] += 1
                self._message(message, f"{at}/output/choices/{number}/message", more)

    def _tool(self, event: Mapping[str, Any], base: dict[str, Any], at: str) -> None:
        call_id = _text(event.get("id")) or base["id"]
        known = self._calls.get(call_id)
        if known is None or call_id in self._results:
            called = {"kind": "tool_call", "call_id": call_id, "name": _text(event.get("function"))}
            self._calls[call_id] = self._add({**base, **called, "arguments": _content(event.get("arguments"))}, at)
        else:
            known |= {name: base[name] for name in _TIMES if name in base}
        if event.get("pending"):
            return
        result: dict[str, Any] = {name: base[name] for name in ("id", "parent") if name in base}
        result |= {"at": base["ended_at"], "at_text": base["ended_text"]} if "ended_at" in base else {}
        error = event.get("error")
        if isinstance(error, Mapping):
            code = _text(error.get("type"))
            result["error"] = {
                "kind": _KINDS.get(code or "", "tool"),
                "message": _text(error.get("message")),
                "code": code,
            }
        placed = (*_BASE, "id", "function", "arguments", "result", "error", "type")
        rest = {k: v for k, v in event.items() if k not in placed and v is not None}
        result |= {"attributes": rest} if rest else {}
        said = {"kind": "tool_result", "call_id": call_id, "name": _text(event.get("function"))}
        self._results[call_id] = self._add({**result, **said, "content": _content(event.get("result"))}, at)

    def _other(self, event: Mapping[str, Any], base: dict[str, Any], at: str) -> None:
        kind = str(event.get("event") or "unknown")
        rest = {name: value for name, value in event.items() if name not in _BASE and value is not None}
        if kind == "span_begin" and _text(event.get("id")):
            base |= {"id": str(rest.pop("id"))}
            base.pop("parent", None)
            if _text(event.get("parent_id")):
                base["parent"] = str(rest.pop("parent_id"))
        name = rest.pop("name", None) or rest.pop("scorer", None) or rest.pop("action", None)
        error = rest.get("error")
        if error is not None:
            message = error.get("message") if isinstance(error, Mapping) else error
            base["error"] = {"kind": "unknown", "message": _text(message)}
        given = next((rest.pop(one) for one in _INPUTS if one in rest), _NOTHING)
        said = next((rest.pop(one) for one in _OUTPUTS if one in rest), _NOTHING)
        made = {**base, "kind": "observation", "type": kind, "name": _text(name), **_contents(given, said)}
        if rest:
            made["attributes"] = rest
        added = self._add(made, at)
        if kind == "span_begin":
            self._spans[added["id"]] = added

    @staticmethod
    def _end(span: dict[str, Any], event: Mapping[str, Any]) -> None:
        span |= _ended(event.get("timestamp"), span)

    # -- messages ------------------------------------------------------------------------------------------------------

    def _message(self, message: Mapping[str, Any], at: str, about: Mapping[str, Any]) -> None:
        if is_lost(message.get("content")):
            message = self._whole.get(str(message.get("id")), message)
        role = str(message.get("role"))
        given = message.get("tool_call_id")
        if role == "tool" and given is not None:
            self._told(message, str(given), at)
            return
        placed = ("id", "role", "content", "tool_calls", "model")
        rest = {name: value for name, value in message.items() if name not in placed and value is not None}
        attributes = {**about.get("attributes", {}), **rest}
        parts, content = _parts(message.get("content"))
        calls = [call for call in _list(message.get("tool_calls")) if isinstance(call, Mapping)]
        event: dict[str, Any] = {**about, "kind": "text", "role": role if role in _ROLES else "unknown"}
        event |= {"id": _text(message.get("id")) or about.get("id", ""), "content": content}
        if "model" not in event and _text(message.get("model")):
            event["model"] = {"name": _text(message["model"])}
        if attributes:
            event["attributes"] = attributes
        reasoning = [self._reasoning(part, about, at) for part in parts]
        text = self._add(event, at)
        group = text["id"] if calls or reasoning else None
        made = [self._call(call, text["id"], number, at) for number, call in enumerate(calls)]
        for one in (*reasoning, text, *made) if group else ():
            one["group"] = group

    def _reasoning(self, part: Mapping[str, Any], about: Mapping[str, Any], at: str) -> dict[str, Any]:
        rest = {k: v for k, v in part.items() if k not in ("type", "reasoning", "redacted") and v not in (None, False)}
        text = part.get("reasoning")
        event: dict[str, Any] = {"id": f"{about.get('id', 'm')}:reasoning", "kind": "reasoning"}
        event |= {"content": _content(text), "opaque": bool(part.get("redacted"))}
        if rest:
            event["attributes"] = rest
        return self._add(event, at)

    def _call(self, call: Mapping[str, Any], message_id: str, number: int, at: str) -> dict[str, Any]:
        call_id = _text(call.get("id")) or f"{message_id}:{number}"
        event: dict[str, Any] = {"id": call_id, "kind": "tool_call", "call_id": call_id, "parent": message_id}
        event |= {"name": _text(call.get("function")), "arguments": _content(call.get("arguments"))}
        if call.get("parse_error"):
            event["error"] = {"kind": "model", "message": str(call["parse_error"]), "code": "parse_error"}
            event["marks"] = {"arguments": "unparsable"}
        placed = ("id", "function", "arguments", "parse_error", "type")
        if rest := {name: value for name, value in call.items() if name not in placed and value is not None}:
            event["attributes"] = rest
        self._calls[call_id] = self._add(event, f"{at}/tool_calls/{number}")
        return self._calls[call_id]

    def _told(self, message: Mapping[str, Any], call_id: str, at: str) -> None:
        """A tool's message: the result, or what the model was told of a result that stands there already."""
        known = self._results.get(call_id)
        content = _content(message.get("content"))
        if known is not None:
            if content != known["content"]:
                known.setdefault("attributes", {}).setdefault("told_model", content.get("value"))
            return
        placed = ("id", "role", "content", "tool_call_id", "function", "error")
        event: dict[str, Any] = {"id": _text(message.get("id")) or call_id, "kind": "tool_result", "call_id": call_id}
        event |= {"name": _text(message.get("function")), "content": content}
        if isinstance(error := message.get("error"), Mapping):
            code = _text(error.get("type"))
            event["error"] = {
                "kind": _KINDS.get(code or "", "tool"),
                "message": _text(error.get("message")),
                "code": code,
            }
        if rest := {name: value for name, value in message.items() if name not in placed and value is not None}:
            event["attributes"] = rest
        self._results[call_id] = self._add(event, at)

    # -- what every event has ------------------------------------------------------------------------------------------

    def _base(self, event: Mapping[str, Any], parent: str | None) -> dict[str, Any]:
        base: dict[str, Any] = {"id": _text(event.get("uuid")) or ""}
        if parent := _text(event.get("span_id")) or parent:
            base["parent"] = parent
        began, shown = moment(event.get("timestamp"))
        if event.get("timestamp"):
            base["at_text"] = str(event["timestamp"])
        if began is not None:
            base["at"] = shown
        return base | _ended(event.get("completed"), base)

    def _add(self, event: dict[str, Any], at: str) -> dict[str, Any]:
        """Adds an event under an id of its own."""
        wanted = event["id"] or f"e{len(self.events)}"
        while self._ids[event["kind"], wanted]:
            self._ids[event["kind"], wanted] += 1
            wanted = f"{wanted}#{self._ids[event['kind'], wanted]}"
        self._ids[event["kind"], wanted] += 1
        event["id"] = wanted
        event["locator"] = {**self._locator, "pointer": f"{self._locator.get('pointer', '')}{at}"}
        self.events.append(event)
        return event


_NOTHING = object()
_TIMES = ("at", "at_text", "ended_at", "ended_text", "duration_seconds")


def _ended(given: Any, event: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - JSON
    if not given:
        return {}
    found: dict[str, Any] = {"ended_text": str(given)}
    ended, shown = moment(given)
    began, _ = moment(event.get("at"))
    if ended is not None:
        found["ended_at"] = shown
        if began is not None and ended >= began:
            found["duration_seconds"] = (ended - began).total_seconds()
    return found


def _parts(content: Any) -> tuple[list[Mapping[str, Any]], dict[str, Any]]:  # noqa: ANN401 - JSON
    """Returns the reasoning in a message, and its text; content of other kinds stays whole."""
    if not isinstance(content, list) or not all(isinstance(part, Mapping) for part in content):
        return [], _content(content)
    kinds = [part.get("type") for part in content]
    texts = [part for part in content if part.get("type") == "text"]
    if not set(kinds) <= {"text", "reasoning"} or len(texts) > 1:
        return [], _content(content)
    if any(
        value not in (None, False, []) for part in texts for name, value in part.items() if name not in ("type", "text")
    ):
        return [], _content(content)
    reasoning = [part for part in content if part.get("type") == "reasoning"]
    return reasoning, _content(texts[0].get("text")) if texts else {"status": "null"}


def _content(value: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    if value is None:
        return {"status": "null"}
    if value == "":
        return {"status": "empty"}
    return {"status": "unparsable" if is_lost(value) else "value", "value": value}


def _contents(given: Any, said: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    absent = {"status": "not_exported"}
    return {
        "input": dict(absent) if given is _NOTHING or given is None else _content(given),
        "output": dict(absent) if said is _NOTHING else _content(said),
    }


def _key(message: Mapping[str, Any]) -> str:
    """What makes two messages one: their id, else what they say."""
    given = message.get("id")
    if isinstance(given, str) and given:
        return f"i{given}"
    said = [message.get(name) for name in ("role", "content", "tool_calls", "tool_call_id")]
    return f"s{dumps(said).decode()}"


def _text(value: Any) -> str | None:  # noqa: ANN401 - JSON
    return None if value is None or value == "" else str(value)


def _list(given: Any) -> list[Any]:  # noqa: ANN401 - JSON
    return given if isinstance(given, list) else []
