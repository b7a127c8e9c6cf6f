"""What Codex makes of an input schema before a model sees it: facts measured on its CLI, as a function."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

BUDGET = 5_000
"""Bytes of the sanitised schema from which Codex drops every description."""

OURS = 4_500
"""The bytes we allow ourselves."""

_KEPT = ("type", "description", "items", "minItems", "properties", "required", "additionalProperties")
_UNIONS = ("anyOf", "oneOf", "allOf")


def sanitised(schema: Any) -> Any:  # noqa: ANN401 - a schema, or what stands in a schema's place
    """Returns the schema without what Codex drops and with what it changes."""
    if not isinstance(schema, Mapping) or not schema:
        return schema
    out = {key: schema[key] for key in _KEPT if key in schema}
    if "const" in schema:
        out["enum"] = [schema["const"]]
    if "enum" in schema:
        out["enum"] = schema["enum"]
        out.setdefault("type", "string")
    out |= {union: [sanitised(branch) for branch in schema[union]] for union in _UNIONS if union in schema}
    if out.get("type") == "array":
        out["items"] = sanitised(out.get("items", {"type": "string"}))
    if out.get("type") == "object":
        out["properties"] = {name: sanitised(part) for name, part in out.get("properties", {}).items()}
        if isinstance(out.get("additionalProperties"), Mapping):
            out["additionalProperties"] = sanitised(out["additionalProperties"])
    return out


def size(value: object) -> int:
    """Returns the bytes of a JSON value without spaces."""
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())
