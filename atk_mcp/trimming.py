"""Makes the list of tools short enough for every session to pay: a budget of tokens, facts that people need kept.

Dropped is what clients drop on their way to a model, repeat or never act on; small parts deep in a request are told
in one line. The reference pages and `atk tools NAME` show the schemas whole, and the server checks every argument
and answer by the whole model, whatever the list says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from atk_mcp.codex_schema import size
from atk_mcp.schemas import CONSTRAINTS, Schema

BUDGET = 14_000
"""Tokens of the list as a server offers it by default."""

_BYTES = 4
"""Bytes of compact JSON to a token. o200k_base needs 4.3 here, so that this counts a little too much."""

_TOLD = frozenset({*CONSTRAINTS, "default"})
"""Keywords whose content stands in the field's description, and which clients drop on the way to a model."""

_IN_EVERY_REQUEST = frozenset({"project_path", "request_id"})
"""Fields of nearly every request: the server's instructions tell of them once."""

_IN_EVERY_ANSWER = frozenset({"message", "journal_record", "warnings", "next"})
"""Fields of every answer: the server's instructions tell of them once."""

_ACTED_ON = frozenset({"status", "result", "action", "commit", "head", "next_cursor", "value", "frozen"})
"""Fields of an answer, besides ids, on which the next step depends."""

_SMALL = 4
"""A part with no more fields than this, none of which has parts, is told in one line."""

_SELDOM = frozenset(
    {
        "components",
        "evaluation_spec",
        "fields",
        "knowledge",
        "mapping",
        "plan",
        "probe_permissions",
        "scores",
        "unknown_execution_authorization",
    }
)
"""Larger parts that few calls give, or that a preview or a reading shows: told in one line as well."""

_UNTYPED = "object"
_NUMBERS = ("number", "integer")
_DIGIT = re.compile(r"\d")
_CONTENT = ("array", "object")
"""Types of fields that may hold much; a single number or word is understood where it is met."""


def tokens(tools: Sequence[Mapping[str, Any]]) -> int:
    """Returns about how many tokens a list of tools costs, from its bytes."""
    return -(-size(tools) // _BYTES)


def published(tool: Mapping[str, Any], brief: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a tool as the list shows it.

    Args:
        tool: All that there is to say of it.
        brief: Its input schema with the words that are worth their tokens.
    """
    return {
        **tool,
        "description": published_description(tool["description"]),
        "inputSchema": published_input(brief),
        "outputSchema": published_output(tool["outputSchema"], brief.get("required", ())),
    }


def published_description(description: str) -> str:
    """Returns what the list says of a tool: the first two paragraphs. What follows is for the reference page."""
    return "\n\n".join(description.split("\n\n")[:2])


def published_input(schema: Mapping[str, Any]) -> Schema:
    """Returns a request's schema with parts one level deep; what lies deeper is told in its field's description.

    Args:
        schema: As `schemas.input_schema` gives it.
    """
    properties = {
        name: _field(part, 2 if name in _SELDOM else 1) for name, part in schema.get("properties", {}).items()
    }
    for name in _IN_EVERY_REQUEST & properties.keys():
        properties[name].pop("description", None)
    return {key: value for key, value in schema.items() if key not in _TOLD} | {"properties": properties}


def _field(schema: Mapping[str, Any], depth: int) -> Schema:
    """Returns one field's schema; what has parts is kept at depth 1, unless it is small."""
    if schema.get("type") == "array" and "items" in schema:
        items = _field(schema["items"], depth)
        told = items.pop("description", "") if "anyOf" not in items else ""
        return _said({"type": "array", "items": items}, schema.get("description", ""), told)
    if "anyOf" in schema:
        return _said({"anyOf": [_field(branch, depth) for branch in schema["anyOf"]]}, schema.get("description", ""))
    parts = schema.get("properties", {})
    if parts and (depth > 1 or _is_small(parts.values())):
        return _said({"type": "object"}, schema.get("description", ""), _in_one_line(schema))
    kept = {key: schema[key] for key in ("type", "enum", "required") if key in schema}
    if parts:
        kept["properties"] = {name: _field(part, depth + 1) for name, part in parts.items()}
    if isinstance(more := schema.get("additionalProperties"), Mapping) and more.get("type") != "string":
        kept["additionalProperties"] = _field(more, depth + 1)
    return _said(kept, schema.get("description", ""))


def _said(schema: Schema, *words: str) -> Schema:
    described = " ".join(filter(None, words))
    return schema | ({"description": described} if described else {})


def _is_small(parts: Iterable[Mapping[str, Any]]) -> bool:
    found = list(parts)
    return len(found) <= _SMALL and not any("properties" in _innermost(part) for part in found)


def _innermost(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    while schema.get("type") == "array":
        schema = schema.get("items", {})
    return schema


def _in_one_line(schema: Mapping[str, Any]) -> str:
    """Returns an object's fields in one line: `{name, other?: what it is}`, `?` where it may be left out."""
    required = schema.get("required", ())
    fields = (
        f"{name}{'' if name in required else '?'}{': ' if (told := _in_words(part)) else ''}{told}"
        for name, part in schema["properties"].items()
    )
    return f"{{{'; '.join(fields)}}}"


def _in_words(schema: Mapping[str, Any]) -> str:
    """Returns what a field takes, where its name does not say it."""
    inner = _innermost(schema)
    kind = str(inner.get("type", ""))
    if "properties" in inner:
        kind = _in_one_line(inner)
    elif "enum" in inner:
        kind = " | ".join(map(str, inner["enum"]))
    elif inner is schema and (kind == "string" or (kind in _NUMBERS and _DIGIT.search(schema.get("description", "")))):
        kind = ""
    listed = f"[{kind}]" if inner is not schema else kind
    said = str(schema.get("description", ""))
    return ", ".join(filter(None, (listed, said if said.endswith("...") else said.removesuffix("."))))


def published_output(schema: Mapping[str, Any], given: Sequence[str] = ()) -> Schema:
    """Returns a response's schema: what the next step depends on by name and type, other content by name.

    Args:
        schema: As `schemas.output_schema` gives it.
        given: Fields that every request has, and that the answer repeats.
    """
    known = _IN_EVERY_ANSWER.union(given)
    own = {name: part for name, part in schema.get("properties", {}).items() if name not in known}
    acted_on = {name: _typed(part) for name, part in own.items() if name.endswith("_id") or name in _ACTED_ON}
    others = [name for name, part in own.items() if name not in acted_on and part.get("type") in _CONTENT]
    return _said({"type": "object", "properties": acted_on}, f"Also: {', '.join(others)}." if others else "")


def _typed(part: Mapping[str, Any]) -> Schema:
    if "anyOf" not in part:
        return {"type": part.get("type", _UNTYPED)}
    kinds = list(dict.fromkeys(branch.get("type", _UNTYPED) for branch in part["anyOf"]))
    return {"anyOf": [{"type": kind} for kind in kinds]} if len(kinds) > 1 else {"type": kinds[0]}
