"""What Codex makes of an input schema before a model sees it: facts measured on its CLI, as a function."""

import json

BUDGET = 5_000
"""Bytes of the sanitised schema from which Codex drops every description."""

OURS = 4_500
"""The bytes we allow ourselves."""

_KEPT = ("type", "description", "items", "minItems", "properties", "required", "additionalProperties")


def sanitised(schema):
    """Returns the schema without what Codex drops and with what it changes."""
    if not isinstance(schema, dict):
        return schema
    if not schema:
        return {}
    out = {key: schema[key] for key in _KEPT if key in schema}
    if "const" in schema:
        out["enum"] = [schema["const"]]
    if "enum" in schema:
        out["enum"] = schema["enum"]
        out.setdefault("type", "string")
    for union in ("anyOf", "oneOf", "allOf"):
        if union in schema:
            out[union] = [sanitised(branch) for branch in schema[union]]
    if out.get("type") == "array":
        out["items"] = sanitised(out.get("items", {"type": "string"}))
    if out.get("type") == "object":
        out["properties"] = {name: sanitised(part) for name, part in out.get("properties", {}).items()}
        if isinstance(out.get("additionalProperties"), dict):
            out["additionalProperties"] = sanitised(out["additionalProperties"])
    return out


def size(schema) -> int:
    return len(json.dumps(schema, separators=(",", ":"), ensure_ascii=False).encode())
