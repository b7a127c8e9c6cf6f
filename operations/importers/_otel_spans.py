"""Reads one span: what it was, what it was given and answered, with which model, and what went wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from operations.importers._cells import decoded
from operations.importers._otel_messages import Found, content_of, read, tree
from operations.importers._otel_values import nanoseconds, shown, text_of, whole
from operations.importers._tally import Tally

CORE = (
    "parent_id", "name", "kind", "start_time", "end_time", "status", "attributes", "input", "output",
)  # fmt: skip
"""Fields that every span may have; of others it is said only where the span's kind has them."""

MODEL_OPERATIONS = frozenset(("chat", "text_completion", "generate_content", "embeddings"))
OF_OPENINFERENCE = {"LLM": "model", "TOOL": "tool", "AGENT": "agent"}

_USAGE = {
    "gen_ai.usage.input_tokens": "input_tokens",
    "gen_ai.usage.output_tokens": "output_tokens",
    "gen_ai.usage.prompt_tokens": "input_tokens",
    "gen_ai.usage.completion_tokens": "output_tokens",
    "gen_ai.usage.total_tokens": "total_tokens",
    "gen_ai.usage.cache_read.input_tokens": "cache_read_input_tokens",
    "gen_ai.usage.cache_creation.input_tokens": "cache_creation_input_tokens",
    "gen_ai.usage.reasoning.output_tokens": "reasoning_output_tokens",
    "llm.token_count.prompt": "input_tokens",
    "llm.token_count.completion": "output_tokens",
    "llm.token_count.total": "total_tokens",
    "llm.token_count.prompt_details.cache_read": "cache_read_input_tokens",
    "llm.token_count.prompt_details.cache_write": "cache_creation_input_tokens",
    "llm.token_count.completion_details.reasoning": "reasoning_output_tokens",
}
_FIRST = {
    "session_id": ("gen_ai.conversation.id", "session.id"),
    "user_id": ("user.id", "enduser.id"),
}
_MODEL = {
    "name": ("gen_ai.request.model", "llm.model_name"),
    "provider": ("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system"),
    "version": ("gen_ai.response.model",),
}
_PARAMETERS = "gen_ai.request."
_JSON = {
    "gen_ai.system_instructions": "system_instructions",
    "gen_ai.tool.definitions": "tool_definitions",
}
_ARGUMENTS = ("gen_ai.tool.call.arguments", "tool_call.function.arguments")
_RESULTS = ("gen_ai.tool.call.result",)


@dataclass(slots=True, eq=False)
class OtelSpan:
    """One span, read."""

    id: str
    parent: str | None
    """Empty where it is a root; None where the export does not say."""
    name: str | None
    value: Mapping[str, Any]
    """The span in the one form of `_otel_rows`."""
    attributes: dict[str, Any]
    """Of the span, without what has found a place of its own."""
    locator: dict[str, Any]
    what: str
    """`model`, `tool`, `agent`, or `other`."""
    type: str | None
    """What the source calls it: the operation of GenAI, or OpenInference's kind."""
    start: str = ""
    """For sorting: the start in nanoseconds, empty where unknown."""
    times: dict[str, Any] = field(default_factory=dict)
    input: Found = field(default_factory=lambda: Found({}))
    output: Found = field(default_factory=lambda: Found({}))
    model: dict[str, Any] = field(default_factory=dict)
    usage: dict[str, Any] = field(default_factory=dict)
    error: dict[str, Any] | None = None
    marks: dict[str, str] = field(default_factory=dict)
    call_id: str | None = None
    tool_name: str | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    said: dict[str, str] = field(default_factory=dict)
    """What it says of its trace: session_id, user_id."""


class SpanReader:
    """Reads spans. One serves a whole import."""

    def __init__(self, mapping: Mapping[str, str], tally: Tally) -> None:
        """`mapping` is {`input` or `output`: attribute} for spans that keep them elsewhere."""
        self._mapping = mapping
        self._tally = tally
        self.mapped: set[str] = set()
        """The attributes of `mapping` that some span had."""

    def read(self, value: Mapping[str, Any], logs: Sequence[Mapping[str, Any]], locator: dict[str, Any]) -> OtelSpan:
        """Reads one span with the log records that name it."""
        own = dict(value.get("attributes") or {})
        type_, what = _what(own)
        span = OtelSpan(
            id=value["span_id"],
            parent=value.get("parent_id"),
            name=text_of(value.get("name")),
            value=value,
            attributes=own,
            locator=locator,
            what=what,
            type=type_,
        )
        span.events = [timed(event) for event in [*(value.get("events") or []), *logs]]
        span.events.sort(key=lambda event: event.get("at", ""))
        self._times(span)
        self._contents(span)
        self._places(span)
        _model(span)
        span.error = _error(span)
        self._count(span)
        return span

    def _times(self, span: OtelSpan) -> None:
        began, ended = nanoseconds(span.value.get("start")), nanoseconds(span.value.get("end"))
        if (given := span.value.get("start")) not in (None, "", "0", 0):
            span.times["at_text"] = str(given)
            if began is None:
                span.marks["start_time"] = "unparsable"
        if began is not None:
            span.times["at"], span.start = shown(began), f"{began:020d}"
        if (given := span.value.get("end")) not in (None, "", "0", 0):
            span.times["ended_text"] = str(given)
            if ended is None:
                span.marks["end_time"] = "unparsable"
        if ended is not None:
            span.times["ended_at"] = shown(ended)
            if began is not None and ended >= began:
                span.times["duration_seconds"] = (ended - began) / 1e9
            elif began is not None:
                self._tally.warn("ends before it starts, duration unknown", f"span {span.id[:40]}")

    def _contents(self, span: OtelSpan) -> None:
        for side in ("input", "output"):
            name = self._mapping.get(side)
            if name is not None and name in span.attributes:
                self.mapped.add(name)
                found = Found(read(span.attributes[name]), (name,))
            elif span.what == "tool":
                found = _tool_content(side, span)
            else:
                found = content_of(side, span.attributes, span.events, model=span.what == "model")
            setattr(span, side, found)
        for side in ("input", "output"):
            found = getattr(span, side)
            for used in found.used:
                span.attributes.pop(used, None)
            if found.content["status"] == "unparsable":
                span.marks[side] = "unparsable"
                self._tally.warn(f"{side} is no JSON and stays text", f"span {span.id[:40]}")

    @staticmethod
    def _places(span: OtelSpan) -> None:
        """Moves what has a canonical name to its place."""
        own = span.attributes
        for name, canonical in _USAGE.items():
            if name in own and canonical not in span.usage:
                span.usage[canonical] = whole(own.pop(name))
        cost = {name.removeprefix(_COST): own.pop(name) for name in [n for n in own if n.startswith(_COST)]}
        if cost:
            place(own, "cost_details", cost)
        _definitions(span)
        for canonical, names in _FIRST.items():
            if (given := next((own[name] for name in names if own.get(name) not in (None, "")), None)) is not None:
                span.said[canonical] = str(given)
        if span.what == "tool":
            called, named = _taken(own, _CALL_IDS), _taken(own, _TOOL_NAMES)
            span.call_id = None if called is None else str(called)
            span.tool_name = _inference_name(span) if named is None else str(named)

    def _count(self, span: OtelSpan) -> None:
        tally, value = self._tally, span.value
        there = {
            "parent_id": value.get("parent_id") is not None,
            "name": bool(span.name),
            "kind": "kind" in value,
            "start_time": "at" in span.times,
            "end_time": "ended_at" in span.times,
            "status": "code" in value,
            "attributes": True,
            "input": span.input.content["status"] not in ("not_exported", "null"),
            "output": span.output.content["status"] not in ("not_exported", "null"),
        }
        if span.what == "model":
            there |= {"model": "name" in span.model, "usage": bool(span.usage)}
        if span.what == "tool":
            there |= {"tool_call_id": span.call_id is not None, "tool_name": span.tool_name is not None}
        rest = value.get("rest") or {}
        for name in ("attributes", "events", "links"):
            key = f"dropped{name.capitalize()}Count"
            lost = whole(rest.get(key, rest.get(f"dropped_{name}_count")))
            if isinstance(lost, int) and lost > 0:
                span.marks[name] = "lossy"
                tally.warn(f"the exporter dropped {name} of a span", f"span {span.id[:40]}")
            there.setdefault(name, bool(value.get(name)))
        for name, is_there in there.items():
            if (
                is_there
                or name in CORE
                or name in span.marks
                or name in ("model", "usage", "tool_call_id", "tool_name")
            ):
                tally.outcome(f"span.{name}", span.marks.get(name, "kept" if is_there else "unknown"))
        for name, mark in span.marks.items():
            if name not in there:
                tally.outcome(f"span.{name}", mark)


_COST = "llm.cost."
_CALL_IDS = ("gen_ai.tool.call.id", "tool_call.id")
_TOOL_NAMES = ("gen_ai.tool.name", "tool.name", "tool_call.function.name")


def _what(own: Mapping[str, Any]) -> tuple[str | None, str]:
    """Returns what the source calls the span, and what it is to an EventLog."""
    operation, kind = own.get("gen_ai.operation.name"), own.get("openinference.span.kind")
    if isinstance(operation, str) and operation:
        if operation == "execute_tool":
            return operation, "tool"
        if operation in MODEL_OPERATIONS and operation != "embeddings":
            return operation, "model"
        return operation, "agent" if operation in ("invoke_agent", "create_agent", "invoke_workflow") else "other"
    if isinstance(kind, str) and kind:
        return kind, OF_OPENINFERENCE.get(kind.upper(), "other")
    return None, "other"


def _definitions(span: OtelSpan) -> None:
    """Reads the instructions and tools that a model was given beside its messages."""
    own = span.attributes
    for name, canonical in _JSON.items():
        if name in own:
            cell = read(own.pop(name))
            place(own, canonical, cell.get("value"))
            if cell["status"] == "unparsable":
                span.marks[canonical] = "unparsable"
    tools, used = tree(own, "llm.tools")
    if used:
        for name in used:
            del own[name]
        place(own, "tool_definitions", tools)


def place(attributes: dict[str, Any], name: str, value: Any) -> None:  # noqa: ANN401 - JSON
    """Puts a value under a canonical name; an attribute that the source called so stays, as `<name>#2`."""
    if name in attributes:
        attributes[f"{name}#2"] = attributes[name]
    attributes[name] = value


def _taken(own: dict[str, Any], names: Sequence[str]) -> Any:  # noqa: ANN401 - JSON
    """Takes the first of some attributes that says something; the others stay."""
    return next((own.pop(name) for name in names if own.get(name) not in (None, "")), None)


def _inference_name(span: OtelSpan) -> str | None:
    """OpenInference names a tool's span after the tool."""
    return span.name if span.attributes.get("openinference.span.kind") else None


def _tool_content(side: str, span: OtelSpan) -> Found:
    for name in _ARGUMENTS if side == "input" else _RESULTS:
        if name in span.attributes:
            return Found(read(span.attributes[name]), (name,))
    found = content_of(side, span.attributes, span.events, model=False)
    if side == "input" and found.content["status"] == "not_exported" and "tool.parameters" in span.attributes:
        return Found(read(span.attributes["tool.parameters"]), ("tool.parameters",))
    return found


def _model(span: OtelSpan) -> None:
    own, found = span.attributes, span.model
    if span.what not in ("model", "agent") and not any(n in own for n in ("gen_ai.request.model", "llm.model_name")):
        return
    for canonical, usual in _MODEL.items():
        if (given := _taken(own, usual)) is not None:
            found[canonical] = str(given)
    names = [n for n in own if n.startswith(_PARAMETERS)]
    parameters: Any = {name.removeprefix(_PARAMETERS): own.pop(name) for name in names}
    if not parameters and "llm.invocation_parameters" in own:
        given = own.pop("llm.invocation_parameters")
        parameters = decoded(given).value if isinstance(given, str) else given
    if parameters not in ({}, "", None):
        found["parameters"] = parameters


def _error(span: OtelSpan) -> dict[str, Any] | None:
    """What the status says, or the exception that the span recorded; a status that is not `error` has none."""
    if span.value.get("code") != "error":
        return None
    raised = [event for event in span.events if event.get("name") == "exception"]
    own = (raised[-1].get("attributes") or {}) if raised else {}
    message = span.value.get("message") or own.get("exception.message")
    code = span.attributes.get("error.type") or own.get("exception.type")
    kind = {"other": "unknown"}.get(span.what, span.what)
    found = {"kind": kind, "message": message if message is None else str(message)}
    return found if code is None else {**found, "code": str(code)}


def timed(event: Mapping[str, Any]) -> dict[str, Any]:
    """An event of a span or a log record, with its time as it was written and in UTC."""
    found = {name: value for name, value in event.items() if name != "time" and value not in (None, {})}
    if (given := event.get("time")) not in (None, "", 0, "0"):
        found["at_text"] = str(given)
        if (count := nanoseconds(given)) is not None:
            found["at"] = shown(count)
    return found
