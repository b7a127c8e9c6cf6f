"""Brings each form in which spans are exported into one: OTLP's nested documents, and rows of one span each.

A span then is an object with `trace_id`, `span_id`, `parent_id` ("" for a root, None where the export does not say),
`name`, `kind`, `start`, `end` (as written), `code`, `message`, `attributes`, `events`, `links`, `resource`, `scope` and
`rest`; what an export lacks is absent. A log record of the same conventions has `log` instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from operations.importers._cells import decoded
from operations.importers._otel_values import SPAN_BYTES, TRACE_BYTES, any_value, attributes, code, identifier, kind

OPENINFERENCE_KINDS = frozenset(
    ("AGENT", "TOOL", "LLM", "CHAIN", "RETRIEVER", "GUARDRAIL", "EVALUATOR", "EMBEDDING", "RERANKER", "PROMPT")
)

RESOURCES = ("resourceSpans", "resource_spans", "resourceLogs", "resource_logs")
METRICS = frozenset(("resourceMetrics", "resource_metrics", "resourceProfiles", "resource_profiles"))
SCOPES = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans", "scopeLogs", "scope_logs")
ITEMS = ("spans", "logRecords", "log_records")

_PLAIN = re.compile(r"[^a-z0-9.]")
_NAMES: dict[str, tuple[str, ...]] = {
    "trace_id": ("traceid", "context.traceid"),
    "span_id": ("spanid", "context.spanid", "id"),
    "parent_id": ("parentspanid", "parentid", "parentspancontext.spanid"),
    "name": ("name", "spanname"),
    "kind": ("kind", "spankind"),
    "start": ("starttimeunixnano", "starttime", "timestamp"),
    "end": ("endtimeunixnano", "endtime"),
    "code": ("statuscode", "status.code", "status.statuscode"),
    "message": ("statusmessage", "status.message", "status.description"),
    "status": ("status",),
    "attributes": ("attributes", "spanattributes"),
    "events": ("events",),
    "links": ("links",),
    "resource": ("resource", "resourceattributes"),
    "scope": ("scope", "instrumentationscope", "scopename"),
}
_SPREAD = "attributes."
"""How the columns begin that hold one attribute each."""

_OBJECTS = frozenset(("status", "attributes", "events", "links", "resource", "scope"))
_OF_SPANS = frozenset(("parent_id", "kind", "code", "attributes", "links", "resource", "scope"))
"""What tells a span whose own id is called no more than `id`."""


class Spanned(NamedTuple):
    """A span or log record in the one form, and where in its row it stood."""

    value: dict[str, Any]
    pointer: str | None


def is_document(value: Mapping[str, Any]) -> bool:
    """Returns whether an object is an OTLP request or file, and not a row of one span."""
    return any(name in value for name in RESOURCES) or not METRICS.isdisjoint(value)


def is_span_row(value: Mapping[str, Any]) -> bool:
    """Returns whether an object is one span: it has a trace's id, its own, and a start.

    A mere `id` beside a trace's id and a time is what scores and observations of other tools have as well.
    """
    found = _columns(value)
    if not {"trace_id", "span_id", "start"} <= found.keys():
        return False
    told = not _OF_SPANS.isdisjoint(found) or any(name.startswith(_SPREAD) for name in value)
    return told or found["span_id"].lower() != "id"


def spans_of(value: Mapping[str, Any], pointer: str | None) -> Iterator[Spanned]:
    """Yields what a row holds: the spans and log records of a document, or the one span that it is."""
    if not is_document(value):
        yield Spanned(flat(value), pointer)
        return
    base = pointer or ""
    for name in RESOURCES:
        for place, holder in enumerate(_list(value.get(name))):
            resource = _resource(holder.get("resource"))
            for inner in SCOPES:
                for number, group in enumerate(_list(holder.get(inner))):
                    scope = _scope(group)
                    at = f"{base}/{name}/{place}/{inner}/{number}"
                    yield from _items(group, resource, scope, at)


def _items(
    group: Mapping[str, Any], resource: dict[str, Any] | None, scope: dict[str, Any] | None, at: str
) -> Iterator[Spanned]:
    for name in ITEMS:
        for number, item in enumerate(_list(group.get(name))):
            made = otlp(item, resource, scope, log=name != "spans")
            yield Spanned(made, f"{at}/{name}/{number}")


def context_of(resource: Any, group: Mapping[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:  # noqa: ANN401 - JSON
    """Returns the resource and the scope that a group of spans stands in."""
    return _resource(resource), _scope(group)


def otlp(
    item: Mapping[str, Any], resource: dict[str, Any] | None, scope: dict[str, Any] | None, *, log: bool
) -> dict[str, Any]:
    """Returns a span or a log record of an OTLP document. What protobuf's JSON leaves out is its default there."""
    found = _log(item) if log else flat(item)
    if not log and found.get("parent_id") is None:
        found["parent_id"] = ""
    if resource:
        found["resource"] = resource
    if scope:
        found["scope"] = scope
    return found


def _log(item: Mapping[str, Any]) -> dict[str, Any]:
    own = attributes(item.get("attributes"))
    time = item.get("timeUnixNano", item.get("time_unix_nano"))
    if time in (None, "", 0, "0"):
        time = item.get("observedTimeUnixNano", item.get("observed_time_unix_nano"))
    name = item.get("eventName") or item.get("event_name") or own.get("event.name")
    body = any_value(item.get("body"))
    placed = {
        "traceId", "trace_id", "spanId", "span_id", "attributes", "body", "eventName", "event_name", "timeUnixNano",
        "time_unix_nano",
    }  # fmt: skip
    rest = {key: value for key, value in item.items() if key not in placed}
    return {
        "trace_id": identifier(item.get("traceId", item.get("trace_id")), TRACE_BYTES),
        "span_id": identifier(item.get("spanId", item.get("span_id")), SPAN_BYTES),
        "log": {"name": name, "time": time, "attributes": own, "body": body, **({"rest": rest} if rest else {})},
    }


def flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the span of a row: one of OTLP, of an SDK's console, or of a table with columns for its attributes."""
    row = _opened(row)
    names = _columns(row)
    found: dict[str, Any] = {}
    for canonical, name in names.items():
        value = row[name]
        if canonical in _OBJECTS and isinstance(value, str):
            cell = decoded(value)
            value = cell.value if cell.status == "value" else value
        if value is not None and not (value == "" and canonical not in ("parent_id", "name")):
            found[canonical] = value
    used = set(names.values())
    others = {name: value for name, value in row.items() if name not in used and value not in (None, "")}
    spread = {name.removeprefix(_SPREAD): any_value(v) for name, v in others.items() if name.startswith(_SPREAD)}
    rest = {name: value for name, value in others.items() if not name.startswith(_SPREAD)}
    if "parent_id" in names:
        found["parent_id"] = identifier(row[names["parent_id"]], SPAN_BYTES)
    for name, size in (("trace_id", TRACE_BYTES), ("span_id", SPAN_BYTES)):
        found[name] = identifier(found.get(name), size)
    _tidy(found, spread)
    if rest:
        found["rest"] = rest
    return found


def _tidy(found: dict[str, Any], spread: dict[str, Any]) -> None:
    """Brings the members of a span into their one form."""
    status = found.pop("status", None)
    if isinstance(status, Mapping):
        found.setdefault("code", status.get("code", status.get("status_code", status.get("statusCode"))))
        found.setdefault("message", status.get("message", status.get("description")))
    elif status is not None:
        found.setdefault("code", status)
    found["code"] = code(found.get("code"))
    own = {**attributes(found.get("attributes")), **spread}
    given = found.get("kind")
    if str(given).upper() in OPENINFERENCE_KINDS:
        own.setdefault("openinference.span.kind", str(given).upper())
        found.pop("kind")
    elif given is not None:
        found["kind"] = kind(given)
    found["attributes"] = own
    found["events"] = [_event(item) for item in _list(found.get("events"))]
    found["links"] = [_link(item) for item in _list(found.get("links"))]
    if "resource" in found:
        found["resource"] = _resource(found["resource"])
    if "scope" in found and not isinstance(found["scope"], Mapping):
        found["scope"] = {"name": found["scope"]}
    for name in [name for name, value in found.items() if value in (None, [], {}) and name != "parent_id"]:
        del found[name]


def _opened(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a row whose `context` and the like are columns of their own."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        if name in ("context", "parentSpanContext"):
            given = decoded(value).value if isinstance(value, str) else value
            if isinstance(given, Mapping):
                found |= {f"{name}.{inner}": item for inner, item in given.items()}
                continue
        found[name] = value
    return found


def _columns(row: Mapping[str, Any]) -> dict[str, str]:
    """Returns canonical name → the row's own. Where two fit, the first of `_NAMES` counts and the other is kept."""
    context = row.get("context")
    return _columns_of(tuple(row), tuple(context) if isinstance(context, Mapping) else ())


@lru_cache(maxsize=512)
def _columns_of(names: tuple[str, ...], context: tuple[str, ...]) -> dict[str, str]:
    """Returns the same, which rows of one kind share. The result must not be changed."""
    plain: dict[str, str] = {}
    for name in names:
        plain.setdefault(_PLAIN.sub("", name.lower()), name)
    plain |= {f"context.{_PLAIN.sub('', str(inner).lower())}": "context" for inner in context}
    return {
        canonical: plain[found[0]]
        for canonical, usual in _NAMES.items()
        if (found := [one for one in usual if one in plain])
    }


def _event(item: Mapping[str, Any]) -> dict[str, Any]:
    time = next((item[name] for name in ("timeUnixNano", "time_unix_nano", "timestamp", "time") if name in item), None)
    placed = ("name", "timeUnixNano", "time_unix_nano", "timestamp", "time", "attributes")
    rest = {name: value for name, value in item.items() if name not in placed and value not in (0, None)}
    found = {"name": item.get("name"), "time": time, "attributes": attributes(item.get("attributes"))}
    return {**found, **({"rest": rest} if rest else {})}


def _link(item: Mapping[str, Any]) -> dict[str, Any]:
    row = _opened(item)
    trace = next((row[n] for n in ("traceId", "trace_id", "context.trace_id", "context.traceId") if n in row), None)
    span = next((row[n] for n in ("spanId", "span_id", "context.span_id", "context.spanId") if n in row), None)
    found = {"trace_id": identifier(trace, TRACE_BYTES), "span_id": identifier(span, SPAN_BYTES)}
    own = attributes(item.get("attributes"))
    return {**found, **({"attributes": own} if own else {})}


def _resource(given: Any) -> dict[str, Any] | None:  # noqa: ANN401 - JSON
    if not isinstance(given, Mapping):
        return None
    inner = given.get("attributes")
    return attributes(inner if isinstance(inner, list | dict) else dict(given)) or None


def _scope(group: Mapping[str, Any]) -> dict[str, Any] | None:
    given = group.get("scope", group.get("instrumentationLibrary"))
    if not isinstance(given, Mapping):
        return None
    found = {name: value for name, value in given.items() if name != "attributes" and value not in (None, "")}
    own = attributes(given.get("attributes"))
    return {**found, **({"attributes": own} if own else {})} or None


def _list(given: Any) -> list[Mapping[str, Any]]:  # noqa: ANN401 - JSON
    return [item for item in given if isinstance(item, Mapping)] if isinstance(given, list) else []
