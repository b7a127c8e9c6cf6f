"""Turns the observations of one trace into the events of its EventLog, parents before what happened in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from operations.importers._cells import decoded, is_score_column, loosened, moment, whole_numbers
from operations.importers._export_rows import MAX_FIELDS
from operations.importers._fields import OBSERVATION, Shape, Shapes
from operations.importers._tally import Tally
from operations.trajectories.settling import settled

PLACED = (
    "id", "trace_id", "parent_observation_id", "type", "name", "start_time", "end_time", "input", "output",
    "provided_model_name", "model_parameters", "level", "status_message",
)  # fmt: skip

_COUNTS = frozenset(("usage_details", "provided_usage_details", "usage"))
_JSON_TEXT = frozenset(("metadata", "model_parameters"))
_TO_THE_MICROSECOND = 26
_MODELS = 1024
"""Models, each with its parameters, that are remembered,"""
_MODEL_LENGTH = 500
"""of at most so many characters."""


@dataclass(slots=True, eq=False)
class _Plan:
    """Where the fields of rows of one shape are; the row's own name of each, None where it has none."""

    id: str | None
    parent: str | None
    type: str | None
    name: str | None
    start: str | None
    end: str | None
    model: str | None
    parameters: str | None
    rest: list[str]
    """The row's own names of what an event has no place for,"""
    canonical: list[str]
    """and what they mean, in the same order."""
    counts: list[str]
    """Those of `canonical` that hold counts,"""
    texts: list[str]
    """and those that hold JSON as text."""
    late: list[tuple[str, str]]
    """(canonical, own name) of what comes after them."""


@dataclass(slots=True, eq=False)
class Span:
    """One observation, read."""

    id: str
    parent: str | None
    """Empty where it is a root; None where the export does not say."""
    row: Mapping[str, Any]
    shape: Shape
    plan: _Plan
    locator: dict[str, Any]
    marks: dict[str, str]
    start: str
    """For sorting: the start in UTC, empty where unknown."""
    times: dict[str, Any]
    input: dict[str, Any] = field(default_factory=dict)
    output: dict[str, Any] = field(default_factory=dict)


class SpanReader:
    """Reads observations. One serves a whole import."""

    def __init__(self, shapes: Shapes, json_columns: Sequence[str], tally: Tally) -> None:
        self._shapes = shapes
        self._json = frozenset(json_columns)
        self._texts = self._json | _JSON_TEXT
        self._tally = tally
        self._plans: dict[int, tuple[Shape, _Plan]] = {}
        self._models: dict[tuple[Any, Any], dict[str, Any] | None] = {}

    def read(
        self, row: Mapping[str, Any], shape: Shape, marks: Mapping[str, str], locator: dict[str, Any], *, loose: bool
    ) -> Span:
        """Reads one row. `marks` are those of the row's own names; `loose` tells a format that writes raw text."""
        shape.rows += 1
        plan = self._plan(shape)
        own = {self._shapes.canonical(name): status for name, status in marks.items()} if marks else {}
        parent = None
        if plan.parent is not None:
            parent = row[plan.parent]
            parent = "" if parent is None else parent if parent.__class__ is str else str(parent)
        given = None if plan.id is None else row[plan.id]
        found = "" if given is None else given if isinstance(given, str) else str(given)
        times, sort = self._times(row, plan)
        span = Span(found, parent, row, shape, plan, locator, own, sort, times)
        span.input = self.content(span, "input", loose=loose)
        span.output = self.content(span, "output", loose=loose)
        return span

    def _plan(self, shape: Shape) -> _Plan:
        known = self._plans.get(id(shape))
        if known is not None and known[0] is shape:
            return known[1]
        names = shape.names
        canonical = [name for _, name in shape.rest]
        plan = _Plan(
            id=names.get("id"),
            parent=names.get("parent_observation_id"),
            type=names.get("type"),
            name=names.get("name"),
            start=names.get("start_time"),
            end=names.get("end_time"),
            model=names.get("provided_model_name"),
            parameters=names.get("model_parameters"),
            rest=[name for name, _ in shape.rest],
            canonical=canonical,
            counts=[name for name in canonical if name in _COUNTS],
            texts=[name for own, name in shape.rest if own in self._texts or name in self._texts],
            late=[(name, names[name]) for name in ("level", "status_message") if name in names],
        )
        if len(self._plans) < MAX_FIELDS:
            self._plans[id(shape)] = shape, plan
        return plan

    def content(self, span: Span, name: str, *, loose: bool) -> dict[str, Any]:
        """Returns one content field as `Content` takes it."""
        source = span.shape.names.get(name)
        if source is None:
            return {"status": "not_exported"}
        value = span.row[source]
        if value is None:
            self._tally.null(OBSERVATION, name)
            return {"status": "null"}
        if value == "":
            return {"status": "empty"}
        if value.__class__ is list and is_score_column(value) and name not in self._shapes.mapped:
            self._tally.warn("a list of numbers may be a score of that name", f"observation field {name}")
        if span.marks.get(name) == "unparsable":
            return {"status": "unparsable", "value": value}
        if isinstance(value, str) and (loose or source in self._json or name in self._json):
            return self._text_content(span, name, source, value)
        return {"status": "value", "value": value}

    def _text_content(self, span: Span, name: str, source: str, text: str) -> dict[str, Any]:
        """Returns what a text stands for that is JSON, or may be in a format that writes everything as text."""
        if source not in self._json and name not in self._json:
            return {"status": "value", "value": loosened(text)}
        cell = decoded(text)
        if cell.double:
            self._tally.warn("double_encoded_json", f"{span.locator['file']} row {span.locator['row']}")
        if cell.status == "unparsable":
            span.marks[name] = "unparsable"
            self._tally.warn(f"{name} is no JSON and stays text", f"observation {span.id}"[:80])
        return {"status": cell.status, "value": cell.value}

    def _times(self, row: Mapping[str, Any], plan: _Plan) -> tuple[dict[str, Any], str]:
        start = None if plan.start is None else row[plan.start]
        end = None if plan.end is None else row[plan.end]
        if (usual := _usual(start, end)) is not None and usual[2] >= 0:
            at, ended_at, seconds = usual
            return {
                "at_text": start,
                "at": at,
                "ended_text": end,
                "ended_at": ended_at,
                "duration_seconds": seconds,
            }, at
        found: dict[str, Any] = {}
        began, sort = moment(start)
        ended, shown_end = moment(end)
        if start:
            found["at_text"] = str(start)
            if began:
                found["at"] = sort
        if end:
            found["ended_text"] = str(end)
            if ended:
                found["ended_at"] = shown_end
                if began:
                    seconds = (ended - began).total_seconds()
                    if seconds >= 0:
                        found["duration_seconds"] = seconds
                    else:
                        shown = str(None if plan.id is None else row[plan.id])[:80]
                        self._tally.warn("ends before it starts, duration unknown", f"observation {shown}")
        return found, sort

    # -- events --------------------------------------------------------------------------------------------------------

    def events(self, spans: Sequence[Span]) -> list[dict[str, Any]]:
        """Returns the events of a trace's observations, as `EventLog` takes them."""
        found: list[dict[str, Any]] = []
        for span in ordered(spans):
            event = self._base(span)
            row, plan = span.row, span.plan
            kind = "" if plan.type is None else str(row[plan.type] or "").upper()
            name = None if plan.name is None else row[plan.name]
            name = name if name is None or isinstance(name, str) else str(name)
            if kind == "TOOL":
                found.append({**event, "kind": "tool_call", "call_id": span.id, "name": name, "arguments": span.input})
                result: dict[str, Any] = {k: event[k] for k in ("id", "parent", "error", "locator") if k in event}
                if "ended_at" in event:
                    result |= {"at": event["ended_at"], "at_text": event["ended_text"]}
                result |= {"kind": "tool_result", "call_id": span.id, "name": name, "content": span.output}
                found.append(result)
            elif kind == "GENERATION":
                event["kind"], event["role"], event["name"] = "text", "assistant", name
                event["content"], event["prompt"] = span.output, span.input
                found.append(event)
            else:
                event["kind"], event["type"], event["name"] = "observation", kind or None, name
                event["input"], event["output"] = span.input, span.output
                found.append(event)
        return settled(found)

    def _base(self, span: Span) -> dict[str, Any]:
        event: dict[str, Any] = {"id": span.id, "locator": span.locator, **span.times}
        if span.parent:
            event["parent"] = span.parent
        if attributes := self._attributes(span):
            event["attributes"] = attributes
            if attributes.get("level") == "ERROR":
                event["error"] = self._error(span, attributes)
        if model := self._model(span):
            event["model"] = model
        if span.marks:
            event["marks"] = span.marks
            for canonical, status in span.marks.items():
                self._tally.marks[OBSERVATION, canonical, status] += 1
        return event

    def _attributes(self, span: Span) -> dict[str, Any]:
        """Returns everything that an event has no place for."""
        row, plan = span.row, span.plan
        values = [row[name] for name in plan.rest]
        attributes = dict(zip(plan.canonical, values, strict=True))
        for canonical, own in plan.late:
            value = attributes[canonical] = row[own]
            values.append(value)
        if None in values:
            nulls = self._tally.nulls[OBSERVATION]
            for canonical, value in attributes.items():
                if value is None:
                    nulls[canonical] = nulls.get(canonical, 0) + 1
        for canonical in plan.counts:
            attributes[canonical] = whole_numbers(attributes[canonical])
        for canonical in plan.texts:
            value = attributes[canonical]
            if value.__class__ is str:
                attributes[canonical] = self._decoded(span, canonical, value)
        return attributes

    def _decoded(self, span: Span, canonical: str, text: str) -> Any:  # noqa: ANN401 - JSON
        cell = decoded(text)
        if cell.status == "unparsable":
            span.marks[canonical] = "unparsable"
        return cell.value

    @staticmethod
    def _error(span: Span, attributes: Mapping[str, Any]) -> dict[str, Any]:
        kinds = {"TOOL": "tool", "GENERATION": "model", "AGENT": "agent"}
        plan = span.plan
        kind = kinds.get("" if plan.type is None else str(span.row[plan.type]).upper(), "unknown")
        message = attributes.get("status_message")
        return {"kind": kind, "message": message if isinstance(message, str) else None}

    def _model(self, span: Span) -> dict[str, Any] | None:
        row, plan = span.row, span.plan
        name = None if plan.model is None else row[plan.model]
        parameters = None if plan.parameters is None else row[plan.parameters]
        if name is None and plan.model is not None:
            self._tally.null(OBSERVATION, "provided_model_name")
        if parameters is None and plan.parameters is not None:
            self._tally.null(OBSERVATION, "model_parameters")
        if not isinstance(name, str) or not isinstance(parameters, str) or len(name) + len(parameters) > _MODEL_LENGTH:
            return self._model_of(span, name, parameters)
        key = name, parameters
        if key in self._models:
            return self._models[key]
        found = self._model_of(span, name, parameters)
        if "model_parameters" not in span.marks and len(self._models) < _MODELS:
            self._models[key] = found
        return found

    def _model_of(self, span: Span, name: Any, parameters: Any) -> dict[str, Any] | None:  # noqa: ANN401 - JSON
        if isinstance(parameters, str) and parameters:
            parameters = self._decoded(span, "model_parameters", parameters)
        found = {"name": name if name is None else str(name), "parameters": parameters}
        return {key: value for key, value in found.items() if value not in (None, "")} or None


def _usual(start: object, end: object) -> tuple[str, str, float] | None:
    """Returns both times as they are shown, and the seconds between them, where both have the form of most exports."""
    if not (
        isinstance(start, str)
        and isinstance(end, str)
        and len(start) == len(end) == _TO_THE_MICROSECOND
        and start[19] == end[19] == "."
    ):
        return None
    try:
        began, ended = datetime.fromisoformat(start), datetime.fromisoformat(end)
    except ValueError:
        return None
    if began.tzinfo is not None or ended.tzinfo is not None:
        return None
    return f"{start[:10]}T{start[11:]}Z", f"{end[:10]}T{end[11:]}Z", (ended - began).total_seconds()


def says_root(span: Span) -> bool:
    """Whether the export calls it the root of its trace, which may have a parent in a system that is not exported."""
    name = span.shape.sources.get("is_root_observation")
    return name is not None and str(span.row[name]).lower() == "true"


def ordered(spans: Sequence[Span]) -> list[Span]:
    """Returns spans by time, each after the one in which it happened; a circle of parents is cut at its earliest."""
    by_id = {span.id: span for span in spans if span.id}
    found: dict[Span, None] = {}
    for span in sorted(spans, key=lambda span: (span.start, span.id)):
        chain: dict[Span, None] = {}
        at: Span | None = span
        while at is not None and at not in found and at not in chain:
            chain[at] = None
            at = by_id.get(at.parent or "")
        found |= dict.fromkeys(reversed(chain))
    return list(found)
