"""Turns the observations of one trace into the events of its EventLog, parents before what happened in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from operations.importers._cells import decoded, loosened, moment, whole_numbers
from operations.importers._fields import OBSERVATION, Shape, Shapes
from operations.importers._tally import Tally

PLACED = (
    "id", "trace_id", "parent_observation_id", "type", "name", "start_time", "end_time", "input", "output",
    "provided_model_name", "model_parameters", "level", "status_message",
)  # fmt: skip

_COUNTS = frozenset(("usage_details", "provided_usage_details", "usage"))
_JSON_TEXT = frozenset(("metadata", "model_parameters"))


@dataclass(slots=True, eq=False)
class Span:
    """One observation, read."""

    id: str
    parent: str | None
    """Empty where it is a root; None where the export does not say."""
    row: Mapping[str, Any]
    shape: Shape
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

    def read(
        self, row: Mapping[str, Any], shape: Shape, marks: Mapping[str, str], locator: dict[str, Any], *, loose: bool
    ) -> Span:
        """Reads one row. `marks` are those of the row's own names; `loose` tells a format that writes raw text."""
        shape.rows += 1
        names = shape.names
        own = {self._shapes.canonical(name): status for name, status in marks.items()} if marks else {}
        parent = row[names["parent_observation_id"]] if "parent_observation_id" in names else None
        if "parent_observation_id" in names and parent is None:
            parent = ""
        start = row.get(names.get("start_time", ""))
        times, sort = self._times(start, row.get(names.get("end_time", "")), row, names)
        span = Span(
            id="" if (given := row.get(names.get("id", ""))) is None else str(given),
            parent=parent if parent is None else str(parent),
            row=row,
            shape=shape,
            locator=locator,
            marks=own,
            start=sort,
            times=times,
        )
        span.input = self.content(span, "input", loose=loose)
        span.output = self.content(span, "output", loose=loose)
        return span

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
        if span.marks.get(name) == "unparsable":
            return {"status": "unparsable", "value": value}
        if isinstance(value, str):
            if source in self._json or name in self._json:
                cell = decoded(value)
                if cell.double:
                    self._tally.warn("double_encoded_json", f"{span.locator['file']} row {span.locator['row']}")
                if cell.status == "unparsable":
                    span.marks[name] = "unparsable"
                    self._tally.warn(f"{name} is no JSON and stays text", f"observation {span.id}"[:80])
                return {"status": cell.status, "value": cell.value}
            if loose:
                return {"status": "value", "value": loosened(value)}
        return {"status": "value", "value": value}

    def _times(
        self, start: object, end: object, row: Mapping[str, Any], names: Mapping[str, str]
    ) -> tuple[dict[str, Any], str]:
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
                        shown = str(row.get(names.get("id", "")))[:80]
                        self._tally.warn("ends before it starts, duration unknown", f"observation {shown}")
        return found, sort

    # -- events --------------------------------------------------------------------------------------------------------

    def events(self, spans: Sequence[Span]) -> list[dict[str, Any]]:
        """Returns the events of a trace's observations, as `EventLog` takes them."""
        found: list[dict[str, Any]] = []
        for span in ordered(spans):
            event = self._base(span)
            kind = str(span.row.get(span.shape.names.get("type", "")) or "").upper()
            name = span.row.get(span.shape.names.get("name", ""))
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
        for seq, event in enumerate(found):
            event["seq"] = seq
        return found

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
        row, nulls, texts = span.row, self._tally.nulls[OBSERVATION], self._texts
        attributes: dict[str, Any] = {}
        for name, canonical in span.shape.rest:
            value = attributes[canonical] = row[name]
            if value is None:
                nulls[canonical] = nulls.get(canonical, 0) + 1
            elif value.__class__ is dict:
                if canonical in _COUNTS:
                    attributes[canonical] = whole_numbers(value)
            elif value.__class__ is str and (name in texts or canonical in texts):
                attributes[canonical] = self._decoded(span, canonical, value)
        for canonical in ("level", "status_message"):
            if (source := span.shape.names.get(canonical)) is not None:
                value = attributes[canonical] = row[source]
                if value is None:
                    nulls[canonical] = nulls.get(canonical, 0) + 1
        return attributes

    def _decoded(self, span: Span, canonical: str, text: str) -> Any:  # noqa: ANN401 - JSON
        cell = decoded(text)
        if cell.status == "unparsable":
            span.marks[canonical] = "unparsable"
        return cell.value

    @staticmethod
    def _error(span: Span, attributes: Mapping[str, Any]) -> dict[str, Any]:
        kinds = {"TOOL": "tool", "GENERATION": "model", "AGENT": "agent"}
        kind = kinds.get(str(span.row.get(span.shape.names.get("type", ""))).upper(), "unknown")
        message = attributes.get("status_message")
        return {"kind": kind, "message": message if isinstance(message, str) else None}

    def _model(self, span: Span) -> dict[str, Any] | None:
        names, row = span.shape.names, span.row
        name = row.get(names.get("provided_model_name", ""))
        parameters = row.get(names.get("model_parameters", ""))
        for canonical, value in (("provided_model_name", name), ("model_parameters", parameters)):
            if value is None and canonical in names:
                self._tally.null(OBSERVATION, canonical)
        if isinstance(parameters, str) and parameters:
            parameters = self._decoded(span, "model_parameters", parameters)
        found = {"name": name if name is None else str(name), "parameters": parameters}
        return {key: value for key, value in found.items() if value not in (None, "")} or None


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
