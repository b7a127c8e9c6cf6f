"""Takes out of published schemas what clients drop, repeat or never read: the list costs every session its tokens.

The server checks every argument by the whole model, whatever the list says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from atk_mcp.schemas import CONSTRAINTS, Schema

_TOLD = frozenset({*CONSTRAINTS, "default"})
"""Keywords whose content stands in the field's description, and which clients drop on the way to a model."""

_IN_EVERY_ANSWER = frozenset({"message", "journal_record", "warnings", "next"})
"""Fields of every answer: the server's instructions tell of them once."""


def published_input(schema: Mapping[str, Any]) -> Schema:
    """Returns a request's schema without the keywords that its descriptions tell already."""
    return {key: _kept(key, value) for key, value in schema.items() if key not in _TOLD or isinstance(value, Mapping)}


def _kept(key: str, value: object) -> Any:  # noqa: ANN401 - a schema of any shape
    if key == "properties" and isinstance(value, Mapping):  # here the keys are names of fields
        return {name: published_input(part) for name, part in value.items()}
    if key in ("items", "additionalProperties") and isinstance(value, Mapping):
        return published_input(value)
    if key == "anyOf" and isinstance(value, list):
        return [published_input(branch) for branch in value]
    return value


def published_output(schema: Mapping[str, Any]) -> Schema:
    """Returns a response's schema with its own fields by name and type: an answer shows what is inside them."""
    properties = schema.get("properties", {})
    own = {name: _named(part) for name, part in properties.items() if name not in _IN_EVERY_ANSWER}
    required = [name for name in schema.get("required", ()) if name in own]
    return {"type": "object", "properties": own} | ({"required": required} if required else {})


def _named(part: Mapping[str, Any]) -> Schema:
    said = {"description": part["description"]} if part.get("description") else {}
    if "anyOf" in part:
        kinds = list(dict.fromkeys(branch.get("type", "object") for branch in part["anyOf"]))
        return {"anyOf": [{"type": kind} for kind in kinds]} | said if len(kinds) > 1 else {"type": kinds[0]} | said
    return {"type": part.get("type", "object")} | said
