"""Turns the spans of one trace into the events of its EventLog; each after the one in which it happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from operations.importers._otel_messages import parts_of, plain_text
from operations.importers._otel_spans import OtelSpan, place
from operations.importers._otel_values import text_of

_REASONING = frozenset(("reasoning", "thinking"))
_UNFOLDED = frozenset(("text", "tool_call", *_REASONING))


def ordered(spans: Sequence[OtelSpan]) -> list[OtelSpan]:
    """Returns spans by start, each after its parent; a circle of parents is cut at its earliest."""
    by_id = {span.id: span for span in spans}
    found: dict[str, OtelSpan] = {}
    for span in sorted(spans, key=lambda span: (span.start, span.id)):
        chain: dict[str, OtelSpan] = {}
        at: OtelSpan | None = span
        while at is not None and at.id not in found and at.id not in chain:
            chain[at.id] = at
            at = by_id.get(at.parent or "")
        for one in reversed(chain.values()):
            found[one.id] = one
    return list(found.values())


def events_of(spans: Sequence[OtelSpan], resources: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns the events, as `settled` takes them.

    A tool's span is a call and its result. A call that a model made and that has no span of its own is taken from the
    model's message, and its result from the next message to a model that holds one.
    """
    made = _Unfolding(spans, resources)
    for span in ordered(spans):
        made.add(span)
    return made.events


class _Unfolding:
    def __init__(self, spans: Sequence[OtelSpan], resources: Sequence[Mapping[str, Any]]) -> None:
        self.events: list[dict[str, Any]] = []
        self._resources = list(resources)
        self._with_span = {span.call_id for span in spans if span.what == "tool" and span.call_id is not None}
        self._open: dict[str, Any] = {}
        """Calls without a span and without a result yet → the tool's name."""

    def add(self, span: OtelSpan) -> None:
        """Adds the events of one span."""
        event = self._base(span)
        match span.what:
            case "tool":
                self._tool(span, event)
            case "model":
                self._results(span)
                self._model(span, event)
            case _:
                self.events.append(
                    {
                        **event,
                        "kind": "observation",
                        "type": span.type,
                        "name": span.name,
                        "input": dict(span.input.content),
                        "output": dict(span.output.content),
                    }
                )

    def _tool(self, span: OtelSpan, event: dict[str, Any]) -> None:
        call = {"call_id": span.call_id or span.id, "name": span.tool_name}
        self.events.append({**event, **call, "kind": "tool_call", "arguments": dict(span.input.content)})
        result: dict[str, Any] = {name: event[name] for name in ("id", "parent", "error", "locator") if name in event}
        if "ended_at" in event:
            result |= {"at": event["ended_at"], "at_text": event["ended_text"]}
        self.events.append({**result, **call, "kind": "tool_result", "content": dict(span.output.content)})

    def _model(self, span: OtelSpan, event: dict[str, Any]) -> None:
        content, inner = self._unfolded(span)
        reasoning = [one for one in inner if one["kind"] == "reasoning"]
        if inner:
            event["group"] = span.id
        said = {"kind": "text", "role": "assistant", "content": content, "prompt": dict(span.input.content)}
        self.events += [*reasoning, {**event, **said}, *(one for one in inner if one["kind"] != "reasoning")]

    def _unfolded(self, span: OtelSpan) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Returns the text that a model said, and its reasoning and calls as events of their own.

        What has parts of another kind, or several answers, stays whole as it was exported.
        """
        content = dict(span.output.content)
        messages = span.output.messages
        if len(messages) != 1 or messages[0].keys() - {"role", "parts", "content", "finish_reason"}:
            return content, []
        parts = parts_of(messages[0])
        if not parts or any(part.get("type") not in _UNFOLDED for part in parts):
            return content, []
        texts = [part for part in parts if part.get("type") == "text"]
        if len(texts) > 1 or any(part.keys() - {"type", "content"} for part in texts):
            return content, []
        text = {"status": "null"}
        if texts:
            text = plain_text({"status": "value", "value": [{"role": "assistant", "parts": texts}]})
        if finish := messages[0].get("finish_reason"):
            place(span.attributes, "finish_reason", finish)
        inner: list[dict[str, Any]] = []
        for number, part in enumerate(parts):
            common = {"id": f"{span.id}:{number}", "parent": span.id, "group": span.id, "locator": span.locator}
            if part.get("type") in _REASONING:
                value = part.get("content")
                reasoning = {"status": "null"} if value is None else {"status": "value", "value": value}
                inner.append({**common, "kind": "reasoning", "content": reasoning, **_rest(part, "content")})
            elif part.get("type") == "tool_call" and part.get("id") not in self._with_span:
                inner.append({**common, **self._call(span, number, part)})
        return text, inner

    def _call(self, span: OtelSpan, number: int, part: Mapping[str, Any]) -> dict[str, Any]:
        given = part.get("id")
        call_id = f"{span.id}:{number}" if given is None else str(given)
        name = text_of(part.get("name"))
        if given is not None:
            self._open[call_id] = name
        arguments: dict[str, Any] = {"status": "not_exported"}
        if "arguments" in part:
            value = part["arguments"]
            arguments = {"status": "null"} if value is None else {"status": "value", "value": value}
        called = {"kind": "tool_call", "call_id": call_id, "name": name, "arguments": arguments}
        return {**called, **_rest(part, "id", "name", "arguments")}

    def _results(self, span: OtelSpan) -> None:
        """Adds the results that a model was given of calls without a span."""
        if not self._open:
            return
        for place_, message in enumerate(span.input.messages):
            for number, part in enumerate(parts_of(message)):
                call_id = str(part.get("id"))
                if part.get("type") != "tool_call_response" or call_id not in self._open:
                    continue
                value = part.get("response", part.get("result"))
                content = {"status": "null"} if value is None else {"status": "value", "value": value}
                self.events.append(
                    {
                        "id": f"{span.id}:result:{place_}.{number}",
                        "parent": span.id,
                        "locator": span.locator,
                        "kind": "tool_result",
                        "call_id": call_id,
                        "name": self._open.pop(call_id),
                        "content": content,
                    }
                )

    def _base(self, span: OtelSpan) -> dict[str, Any]:
        event: dict[str, Any] = {"id": span.id, "locator": span.locator, **span.times}
        if span.parent:
            event["parent"] = span.parent
        if span.error:
            event["error"] = span.error
        if span.model:
            event["model"] = span.model
        if attributes := self._attributes(span):
            event["attributes"] = attributes
        if span.marks:
            event["marks"] = span.marks
        return event

    def _attributes(self, span: OtelSpan) -> dict[str, Any]:
        own = span.attributes
        value = span.value
        code = value.get("code")
        extra: dict[str, Any] = {
            "usage": span.usage,
            "span_name": span.name if span.what in ("model", "tool") else None,
            "span_kind": value.get("kind"),
            "status": code if code != "unset" else None,
            "status_message": value.get("message") if not span.error else None,
            "events": span.events,
            "links": value.get("links"),
            "scope": value.get("scope"),
            "span_fields": value.get("rest"),
        }
        if len(self._resources) > 1 and value.get("resource") in self._resources:
            extra["resource"] = self._resources.index(value["resource"])
        for name, item in extra.items():
            if item not in (None, [], {}):
                place(own, name, item)
        return own


def _rest(part: Mapping[str, Any], *placed: str) -> dict[str, Any]:
    """Returns what else a part says, as attributes."""
    rest = {name: value for name, value in part.items() if name not in (*placed, "type")}
    return {"attributes": rest} if rest else {}
