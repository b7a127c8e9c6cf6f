"""Writes values and contents as OTLP's JSON has them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from operations.trajectories.projections.pieces import is_conversation

ERROR = 2
"""The code of a status that says that something failed."""

_LAST = 2**63
"""No whole number of OTLP reaches this."""

Lossy = Callable[[str, str], None]


def any_value(value: Any, name: str, lossy: Lossy) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Returns a value as OTLP's `AnyValue`; a number that it cannot hold becomes text, which `lossy` is told."""
    match value:
        case None:
            return {}
        case bool():
            return {"boolValue": value}
        case int() if -_LAST <= value < _LAST:
            return {"intValue": str(value)}
        case int():
            lossy(name, "a whole number of more than 64 bits stands as text")
            return {"stringValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [any_value(item, name, lossy) for item in value]}}
        case dict():
            return {"kvlistValue": {"values": keyed(value, lossy)}}
        case _:
            return {"stringValue": str(value)}


def keyed(attributes: Mapping[str, Any], lossy: Lossy) -> list[dict[str, Any]]:
    """Returns attributes as OTLP's list of keys and values."""
    return [{"key": name, "value": any_value(value, name, lossy)} for name, value in attributes.items()]


def content(side: str, said: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the attributes of a content, or None where there is nothing that a span could say.

    Args:
        side: `input` or `output`, or the one attribute that holds JSON.
        said: The content with its status.
    """
    status, value = said["status"], said.get("value")
    if side in ("input", "output"):
        if status == "empty":
            return {f"{side}.value": ""}
        if status == "unparsable":
            return {f"{side}.value": value, f"{side}.mime_type": "application/json"}
        if status != "value":
            return None
        if is_conversation(value):
            return {f"gen_ai.{side}.messages": json.dumps(value, ensure_ascii=False)}
        if isinstance(value, str):
            return {f"{side}.value": value}
        return {f"{side}.value": json.dumps(value, ensure_ascii=False), f"{side}.mime_type": "application/json"}
    if status == "empty":
        return {side: ""}
    if status == "unparsable":
        return {side: value}
    return {side: json.dumps(value, ensure_ascii=False)} if status == "value" else None


def parts_content(said: Mapping[str, Any], kind: str = "text") -> dict[str, Any] | None:
    """Returns a content as a part of a message, or None where there is none to tell."""
    if said["status"] not in ("value", "unparsable"):
        return None
    value = said.get("value")
    return {"type": kind, "content": value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}


def mark_failed(span: dict[str, Any], error: Mapping[str, Any]) -> None:
    """Says of a span that it failed, and how."""
    message = {"message": error["message"]} if error.get("message") else {}
    span["status"] = {"code": ERROR, **message}
    if error.get("code") and not any(one["key"] == "error.type" for one in span["attributes"]):
        span["attributes"].append({"key": "error.type", "value": {"stringValue": str(error["code"])}})


def model_attributes(model: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what is known of a model as attributes of GenAI."""
    names = {"name": "gen_ai.request.model", "provider": "gen_ai.provider.name", "version": "gen_ai.response.model"}
    found = {names[k]: model[k] for k in names if model.get(k) is not None}
    parameters = model.get("parameters")
    if isinstance(parameters, Mapping):
        found |= {f"gen_ai.request.{name}": value for name, value in parameters.items()}
    elif parameters is not None:
        found["llm.invocation_parameters"] = parameters
    return found


def divided(attributes: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the attributes that have a place of their own in a span, and the others.

    A log of any source may hold what is called so and has another form; then it is an attribute like any other.
    """
    own = {name: value for name, value in attributes.items() if name in _PLACES and _PLACES[name](value)}
    if "span_fields" in own:
        own["span_fields"] = {name: value for name, value in own["span_fields"].items() if name not in _FIELDS}
    return own, {name: value for name, value in attributes.items() if name not in own}


def _is_text(value: Any) -> bool:  # noqa: ANN401 - JSON
    return isinstance(value, str)


def _is_object(value: Any) -> bool:  # noqa: ANN401 - JSON
    return isinstance(value, dict) and isinstance(value.get("attributes") or {}, dict)


def _is_list(value: Any) -> bool:  # noqa: ANN401 - JSON
    return isinstance(value, list) and all(map(_is_object, value))


def _is_any(_: Any) -> bool:  # noqa: ANN401 - JSON
    return True


_PLACES: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("span_name", "span_kind", "status", "status_message"), _is_text),
    **dict.fromkeys(("usage", "cost_details", "scope", "span_fields"), _is_object),
    **dict.fromkeys(("events", "links"), _is_list),
    **dict.fromkeys(("resource", "finish_reason", "system_instructions", "tool_definitions"), _is_any),
}
_FIELDS = frozenset({"traceId", "spanId", "parentSpanId", "name", "kind", "attributes", "status", "events", "links"})
"""The fields of a span that are made of what the log itself says."""


def scope_of(scope: Mapping[str, Any], lossy: Lossy) -> dict[str, Any]:
    """Returns the attributes of a scope, where it has any."""
    return {"attributes": keyed(scope["attributes"], lossy)} if scope.get("attributes") else {}


def span_event(one: Mapping[str, Any], lossy: Lossy) -> dict[str, Any]:
    """Returns an event of a span."""
    made = {"name": one.get("name"), "attributes": keyed(one.get("attributes") or {}, lossy)}
    text = one.get("at_text")
    return {**made, "timeUnixNano": text} if text else made


def span_link(one: Mapping[str, Any], lossy: Lossy) -> dict[str, Any]:
    """Returns a link of a span."""
    made = {"traceId": one.get("trace_id", ""), "spanId": one.get("span_id", "")}
    return {**made, "attributes": keyed(one["attributes"], lossy)} if one.get("attributes") else made
