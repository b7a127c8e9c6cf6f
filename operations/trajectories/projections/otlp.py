"""Projects a log to spans of OpenTelemetry with GenAI's attributes, as OTLP's JSON, which importers read back."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from operations.trajectories.log import EventLog
from operations.trajectories.projections._otlp_values import (
    content,
    divided,
    keyed,
    mark_failed,
    model_attributes,
    parts_content,
    scope_of,
    span_event,
    span_link,
)
from operations.trajectories.projections.losses import NO_PLACE, Carried, Losses, LossReport

_SPAN_ID = re.compile(r"[0-9a-f]{16}")
_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017 - one name for all supported versions
_KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")
_CODES = {"ok": 1, "error": 2}
_OPENINFERENCE = frozenset(
    {"AGENT", "TOOL", "LLM", "CHAIN", "RETRIEVER", "GUARDRAIL", "EVALUATOR", "EMBEDDING", "RERANKER", "PROMPT"}
)
_NAMED = {"system_instructions": "gen_ai.system_instructions", "tool_definitions": "gen_ai.tool.definitions"}
_LOST = frozenset({"resource", "finish_reason"})
"""Attributes that no span holds; an answer has the reason of its end in its message."""
_OF_SPAN = {"id", "parent", "parent_outside", "at", "ended_at", "duration_seconds", "error", "attributes"}
_CARRIED = {
    "text": {"role", "content", "prompt"},
    "reasoning": {"content"},
    "tool_call": {"call_id", "name", "arguments"},
    "tool_result": {"call_id", "content", "error"},
    "observation": {"type", "name", "input", "output"},
    "reward": {"name", "value", "scope", "turn", "parent"},
    "memory_op": {"operation", "key", "content"},
    "turn_complete": set[str](),
}


def otlp_spans(log: EventLog, trace_id: str) -> tuple[dict[str, Any], LossReport]:
    """Returns a document of OTLP's JSON with one trace, and what it does not carry.

    An answer of a model is a span `chat`, with what it was given since its last answer where the log has no prompt; a
    call and its result are one span `execute_tool`, or stand in the model's messages where the log has them as part of
    an answer. Ids of 16 hexadecimal digits are kept, others are made in the
    order of the log, so that spans without times keep it.

    Args:
        log: The log of one run.
        trace_id: 32 hexadecimal digits, or any name, of which such an id is made.
    """
    made = _Spans(log, trace_id)
    return made.document(), made.losses.report()


class _Spans:
    def __init__(self, log: EventLog, trace_id: str) -> None:
        self.losses = Losses("otlp")
        self._log = log
        self._kinds = Carried(_CARRIED, log)
        self._trace = trace_id if _TRACE_ID.fullmatch(trace_id) else hashlib.sha256(trace_id.encode()).hexdigest()[:32]
        self._spans: dict[str, dict[str, Any]] = {}
        self._scopes: dict[str, dict[str, Any]] = {}
        self._given: list[dict[str, Any]] = []
        """Messages that the next model is given, where the log has no prompt."""
        self._texts = {e["id"] for e in log if e["kind"] == "text" and e["role"] == "assistant"}
        self._inside: dict[str, list[Mapping[str, Any]]] = {}
        """Id of an answer → the events that are parts of its message, in order."""
        self._of_message: set[str] = set()
        """Calls that stand in a message, and not in a span of their own."""
        for event in log:
            if event["kind"] in ("reasoning", "tool_call") and self._stands_inside(event):
                self._inside.setdefault(event["group"], []).append(event)
                if event["kind"] == "tool_call":
                    self._of_message.add(event["call_id"])
        self._ids: dict[tuple[str, str], str] = {}
        """Kind and id of an event → the id of its span."""
        self._of_name: dict[str, str] = {}
        """What a parent is called → the id of its span."""
        self._name_spans()
        self._calls: dict[str, str] = {}
        """Call id → its span."""
        self._ends: dict[str, dict[str, Any]] = {}
        """Call id → what its span says of the result."""
        self._made: set[tuple[str, str]] = set()
        """The events that have a span of their own."""

    def _name_spans(self) -> None:
        """Gives every event a span id: its own where it is one, else one in the order of the log."""
        prefix = hashlib.sha256(self._trace.encode()).hexdigest()[:8]
        self._root_id = f"{prefix}{0:08x}"
        taken: set[str] = set()
        for event in self._log:
            own = event["id"]
            usable = _SPAN_ID.fullmatch(own) and own.strip("0") and own not in taken
            made = own if usable else f"{prefix}{event['seq'] + 1:08x}"
            taken.add(made)
            self._ids[event["kind"], own] = made
            if event["kind"] not in ("tool_result", "reward", "turn_complete"):
                self._of_name.setdefault(own, made)
        for event in self._log:
            if event["kind"] == "tool_call":
                self._of_name.setdefault(event["call_id"], self._ids["tool_call", event["id"]])

    def document(self) -> dict[str, Any]:
        for event in self._log:
            self._take(event)
            self.losses.rest(event, self._carried(event))
        timed = [event.get("at") for event in self._log if (event["kind"], event["id"]) in self._made]
        if None in timed and any(timed):
            self.losses.count(
                ("log", "seq", "a span without a time has no place among those with one"), timed.count(None), ()
            )
        if self._given:
            self.losses.count(("text", "content", "no model was asked after it, so no span holds it"), 1, ())
        self._root()
        scopes: dict[str, dict[str, Any]] = {}
        for span_id, span in self._spans.items():
            scope = self._scopes.get(span_id) or {}
            scopes.setdefault(_dumps(scope), {"scope": scope, "spans": []})["spans"].append(span)
        return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": list(scopes.values())}]}

    def _carried(self, event: Mapping[str, Any]) -> set[str]:
        """Returns the fields of an event that the trace holds."""
        carried, attributes = self._kinds.of(event), event.get("attributes") or {}
        if self._stands_inside(event):
            return carried | {"id", "parent", "group", "attributes"}
        if event["kind"] == "tool_result":
            if event["call_id"] in self._of_message:
                carried.discard("error")  # a message holds what the tool gave back, and has no place for how it failed
            same = self._ends.get(event["call_id"], {})
            return carried | {name for name in ("id", "parent", "at", "at_text") if same.get(name) == event.get(name)}
        if (event["kind"], event["id"]) not in self._made:
            return carried
        for name in sorted(_LOST & set(attributes) - ({"finish_reason"} if event["kind"] == "text" else set())):
            self.losses.note(event, f"attributes.{name}", NO_PLACE)
        texts = {name for name in ("at_text", "ended_text") if _is_count(event.get(name))}
        group = {"group"} if event.get("group") == event["id"] else set()
        if self._ids[event["kind"], event["id"]] != event["id"]:
            self.losses.note(event, "id", "a span's id is made of the order instead")
        return carried | _OF_SPAN | {"model"} | texts | group

    def _take(self, event: Mapping[str, Any]) -> None:
        match event["kind"]:
            case "text" if event["role"] == "assistant":
                self._answer(event)
            case "text":
                self._told(event)
            case "reasoning" if not self._stands_inside(event):
                self._thought(event)
            case "tool_call" if event["call_id"] not in self._of_message:
                self._call(event)
            case "tool_result":
                self._result(event)
            case "observation":
                self._observation(event)
            case "memory_op":
                self._memory(event)
            case "turn_complete":
                self.losses.whole(event, "spans have no ends of turns")
            case _:
                pass

    def _told(self, event: Mapping[str, Any]) -> None:
        said = parts_content(event["content"])
        if said is None:
            self.losses.note(event, "content", f"there is none to carry: it is {event['content']['status']}")
        else:
            self._given.append({"role": event["role"], "parts": [said]})

    def _thought(self, event: Mapping[str, Any]) -> None:
        span = self._span(event, "chat", {"gen_ai.operation.name": "chat"})
        part = parts_content(event["content"], "reasoning")
        if part is None:
            self.losses.note(event, "content", f"there is none to carry: it is {event['content']['status']}")
        else:
            self._message(span, [part], None)

    def _memory(self, event: Mapping[str, Any]) -> None:
        span = self._span(event, f"memory {event['operation']}", {"gen_ai.operation.name": "memory"})
        key = {} if event.get("key") is None else {"atk.memory.key": event["key"]}
        about = {"atk.memory.operation": event["operation"], **key}
        span["attributes"] += keyed(about, self._lossy(event))
        self._content(span, event, "output", event["content"])

    def _stands_inside(self, event: Mapping[str, Any]) -> bool:
        group = event.get("group")
        return group in self._texts and event.get("parent") == group

    # -- spans ---------------------------------------------------------------------------------------------------------

    def _answer(self, event: Mapping[str, Any]) -> None:
        own = event.get("attributes") or {}
        named = any(name in own for name in ("gen_ai.operation.name", "openinference.span.kind"))
        span = self._span(event, "chat", {} if named else {"gen_ai.operation.name": "chat"})
        if (prompt := event.get("prompt")) and prompt["status"] != "not_exported":
            self._content(span, event, "input", prompt, "prompt")
        elif self._given:
            span["attributes"] += keyed({"gen_ai.input.messages": _dumps(self._given)}, self._lossy(event))
        self._given = []
        inside = self._inside.get(event["id"], [])
        said = event["content"]
        plain = said["status"] == "value" and isinstance(said.get("value"), str)
        if not inside and not (plain and own.get("finish_reason")):
            self._content(span, event, "output", said)
            return
        parts = [
            {**(one.get("attributes") or {}), **part}
            for one in inside
            if one["kind"] == "reasoning" and (part := parts_content(one["content"], "reasoning"))
        ]
        parts += [part] if said["status"] == "value" and (part := parts_content(said)) else []
        for one in inside:
            if one["kind"] == "tool_call":
                given = one["arguments"].get("value")
                arguments = {"arguments": given} if one["arguments"]["status"] in ("value", "unparsable") else {}
                rest = one.get("attributes") or {}
                parts.append({**rest, "type": "tool_call", "id": one["call_id"], "name": one.get("name"), **arguments})
        self._message(span, parts, own.get("finish_reason"))

    def _message(self, span: dict[str, Any], parts: list[dict[str, Any]], finish: str | None) -> None:
        message: dict[str, Any] = {"role": "assistant", "parts": parts}
        if finish:
            message["finish_reason"] = finish
        span["attributes"].append({"key": "gen_ai.output.messages", "value": {"stringValue": _dumps([message])}})

    def _call(self, event: Mapping[str, Any]) -> None:
        own = event.get("attributes") or {}
        named = any(name in own for name in ("gen_ai.operation.name", "openinference.span.kind"))
        about = {} if named else {"gen_ai.operation.name": "execute_tool"}
        span = self._span(event, f"execute_tool {event.get('name') or ''}".strip(), about)
        self._calls[event["call_id"]] = span["spanId"]
        self._ends[event["call_id"]] = {
            "id": event["id"],
            "parent": event.get("parent"),
            "at": event.get("ended_at"),
            "at_text": event.get("ended_text"),
        }
        about = {} if event["call_id"] == event["id"] else {"gen_ai.tool.call.id": event["call_id"]}
        about |= {"gen_ai.tool.name": event["name"]} if event.get("name") else {}
        span["attributes"] += keyed(about, self._lossy(event))
        self._content(span, event, "gen_ai.tool.call.arguments", event["arguments"], "arguments")

    def _result(self, event: Mapping[str, Any]) -> None:
        call_id = event["call_id"]
        if call_id in self._of_message:
            said = event["content"].get("value")
            self._given.append(
                {"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, "response": said}]}
            )
            self._ends[call_id] = {"id": event["id"], "parent": event.get("parent")}
            return
        if call_id not in self._calls:
            self.losses.whole(event, "its call is not in the log")
            return
        span = self._spans[self._calls[call_id]]
        self._content(span, event, "gen_ai.tool.call.result", event["content"], "content")
        if event.get("at") and "endTimeUnixNano" not in span:
            span["endTimeUnixNano"] = self._time(event, "at")
            self._ends[call_id]["at"] = event["at"]
        if event.get("error"):
            mark_failed(span, event["error"])

    def _observation(self, event: Mapping[str, Any]) -> None:
        own, type_ = event.get("attributes") or {}, event.get("type")
        about = {}
        if type_ and not any(name in own for name in ("gen_ai.operation.name", "openinference.span.kind")):
            about = {"openinference.span.kind" if type_ in _OPENINFERENCE else "gen_ai.operation.name": type_}
        span = self._span(event, event.get("name") or type_ or "observation", about)
        self._content(span, event, "input", event["input"])
        self._content(span, event, "output", event["output"])

    def _span(self, event: Mapping[str, Any], name: str, about: Mapping[str, Any]) -> dict[str, Any]:
        own, attributes = divided(event.get("attributes") or {})
        attributes |= {_NAMED[k]: _dumps(own[k]) for k in _NAMED if k in own}
        attributes |= {f"gen_ai.usage.{k}": v for k, v in (own.get("usage") or {}).items()}
        attributes |= {f"llm.cost.{k}": v for k, v in (own.get("cost_details") or {}).items()}
        attributes |= about
        attributes |= model_attributes(event.get("model") or {})
        kind = own.get("span_kind")
        span: dict[str, Any] = {
            "traceId": self._trace,
            "spanId": self._ids[event["kind"], event["id"]],
            "parentSpanId": self._parent(event["parent"]) if event.get("parent") else "",
            "name": own.get("span_name") or name,
            "kind": _KINDS.index(kind) if kind in _KINDS else 1,
            "attributes": keyed(attributes, self._lossy(event)),
        }
        for name_, key in (("at", "startTimeUnixNano"), ("ended_at", "endTimeUnixNano")):
            if event.get(name_):
                span[key] = self._time(event, name_)
        status: dict[str, Any] = {"code": _CODES[own["status"]]} if own.get("status") in _CODES else {}
        if own.get("status_message"):
            status["message"] = own["status_message"]
        span["status"] = status
        if event.get("error"):
            mark_failed(span, event["error"])
        if own.get("events"):
            span["events"] = [span_event(one, self._lossy(event)) for one in own["events"]]
        if own.get("links"):
            span["links"] = [span_link(one, self._lossy(event)) for one in own["links"]]
        if (scope := own.get("scope")) is not None:
            self._scopes[span["spanId"]] = {**scope, **scope_of(scope, self._lossy(event))}
        span = {**own.get("span_fields", {}), **span}
        self._made.add((event["kind"], event["id"]))
        return self._spans.setdefault(span["spanId"], span)

    def _content(
        self, span: dict[str, Any], event: Mapping[str, Any], side: str, said: Mapping[str, Any], field: str = ""
    ) -> None:
        """Puts a content into a span, under the attributes that importers look at; notes one that cannot be told."""
        made = content(side, said)
        if made is None:
            if said["status"] != "not_exported":
                self.losses.note(event, field or side, f"a span cannot say that it is {said['status']}")
            return
        span["attributes"] += keyed(made, self._lossy(event))

    def _lossy(self, event: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a function
        return lambda name, why: self.losses.note(event, f"attributes.{name}", why)

    # -- the trace -----------------------------------------------------------------------------------------------------

    def _root(self) -> None:
        """Sees to one root, which says how the run ended and holds its rewards."""
        rewards = [event for event in self._log if event["kind"] == "reward"]
        roots = [span for span in self._spans.values() if not span["parentSpanId"]]
        code = {"completed": 1, "failed": 2}.get(self._log.state)
        if self._log.state not in ("completed", "failed", "unknown"):
            self.losses.count(("log", "state", f"a span cannot say that a run is {self._log.state}"), 1, ())
        if len(roots) != 1 or roots[0]["name"] == "chat":
            root: dict[str, Any] = {
                "traceId": self._trace,
                "spanId": self._root_id,
                "parentSpanId": "",
                "name": "invoke_agent",
                "kind": 1,
                "attributes": keyed({"gen_ai.operation.name": "invoke_agent"}, lambda *_: None),
                "status": {},
            }
            for span in roots:
                span["parentSpanId"] = root["spanId"]
            roots = [root]
            self._spans = {root["spanId"]: root, **self._spans}
        if code is not None:
            roots[0]["status"] |= {"code": code}
            if code == _CODES["error"] and self._log.end_reason:
                roots[0]["status"].setdefault("message", self._log.end_reason)
            elif self._log.end_reason:
                self.losses.count(("log", "end_reason", NO_PLACE), 1, ())
        for event in rewards:
            about = {
                "gen_ai.evaluation.name": event["name"],
                "gen_ai.evaluation.score.value": event["value"],
                "atk.reward.scope": event["scope"],
                **({"atk.reward.turn": event["turn"]} if event.get("turn") is not None else {}),
            }
            known = {name: value for name, value in about.items() if value is not None}
            made = {"name": "gen_ai.evaluation.result", "attributes": keyed(known, self._lossy(event))}
            where = self._spans.get(self._parent(event["parent"]), roots[0]) if event.get("parent") else roots[0]
            where.setdefault("events", []).append(made)

    def _parent(self, name: str) -> str:
        """Returns the span of a parent, which need not be in the log."""
        if name in self._of_name:
            return self._of_name[name]
        if _SPAN_ID.fullmatch(name):
            return name
        return hashlib.sha256(f"{self._trace}\n{name}".encode(errors="surrogatepass")).hexdigest()[:16]

    def _time(self, event: Mapping[str, Any], name: str) -> str:
        """Returns a time in nanoseconds, as the source wrote it where it did so."""
        text = event.get({"at": "at_text", "ended_at": "ended_text"}[name])
        if _is_count(text):
            return str(text)
        at = datetime.fromisoformat(str(event[name]))
        return str((at - _EPOCH) // timedelta(microseconds=1) * 1000)


def _is_count(text: Any) -> bool:  # noqa: ANN401 - what a source wrote
    return isinstance(text, str) and text.isascii() and text.isdigit()


def _dumps(value: Any) -> str:  # noqa: ANN401 - JSON
    return json.dumps(value, ensure_ascii=False)
