"""Puts a text wherever the schema of a request lets a caller choose one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any


def placed(schema: Mapping[str, Any], text: str, given: Callable[[Any], Any] = lambda value: value) -> Iterator[Any]:
    """Yields, for each text of a schema that a caller chooses, an instance with `text` there."""
    if "anyOf" in schema:
        for one in schema["anyOf"]:
            yield from placed(one, text, given)
    elif schema.get("type") == "string" and "enum" not in schema:
        yield given(text)
    elif schema.get("type") == "array":
        yield from placed(schema.get("items", {}), text, lambda value: given([value]))
    elif schema.get("type") == "object" and "properties" in schema:
        needed = {name: sample(schema["properties"][name]) for name in schema.get("required", ())}
        for name, part in schema["properties"].items():
            yield from placed(part, text, lambda value, name=name: given({**needed, name: value}))
    elif schema.get("type") == "object":
        yield given({"note": text})
        yield given({text: "note"})


def sample(schema: Mapping[str, Any]) -> Any:
    """Returns a small instance of a schema."""
    if "anyOf" in schema:
        return sample(schema["anyOf"][0])
    if "enum" in schema:
        return schema["enum"][0]
    needed = {name: sample(schema["properties"][name]) for name in schema.get("required", ())}
    simple = {"string": "x", "integer": 1, "number": 1, "boolean": True, "array": []}
    return simple.get(str(schema.get("type")), needed)
