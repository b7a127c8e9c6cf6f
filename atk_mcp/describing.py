"""Tells a person at a terminal what an operation is: its fields with their parts, its answer, its examples."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from operations.definition import Example

Schema = Mapping[str, Any]

_HINTS = (
    ("readOnlyHint", "changes nothing"),
    ("destructiveHint", "may change files of the working tree"),
    ("idempotentHint", "the same call again changes nothing more"),
    ("openWorldHint", "starts the agent"),
)

STAYS = "wait_seconds"
"""The field of operations that wait for a run; from a terminal they wait to its end."""


def described(tool: Mapping[str, Any], examples: Sequence[Example]) -> str:
    """Returns all that a person needs to call an operation.

    Args:
        tool: The operation as clients see it.
        examples: Calls of it worth showing.
    """
    name, given = tool["name"], tool["inputSchema"]
    lines = [name, "", tool["description"], "", "Annotations:"]
    lines += [f"  {words}: {'yes' if tool['annotations'][hint] else 'no'}" for hint, words in _HINTS]
    lines += ["", "Fields of the request:", *fields_of(given)]
    lines += ["", "The answer, in short:", *fields_of(tool["outputSchema"], parts=False)]
    for example in examples:
        shown = json.dumps(dict(example.arguments), indent=2, ensure_ascii=False)
        lines += ["", f"Example: {example.summary.rstrip('.')}", "", *(f"  {line}" for line in shown.splitlines())]
    lines += ["", f"Run it: atk call {name} --request FILE   (- reads stdin; '{{…}}' is taken as the JSON itself)"]
    if STAYS in given.get("properties", {}):
        lines += [f"From a terminal it stays until the run has ended, whatever {STAYS} says."]
    return "\n".join(lines)


def fields_of(schema: Schema, indent: str = "  ", *, parts: bool = True) -> Iterator[str]:
    """Yields a line for each field of an object's schema and, with `parts`, below it one for each of its parts."""
    required = schema.get("required", ())
    for name, value in schema.get("properties", {}).items():
        yield _line(indent, name, value, needed=parts and name in required)
        if parts:
            yield from fields_of(_inner(value), indent + "    ")
    more = schema.get("additionalProperties")
    if parts and isinstance(more, Mapping):
        yield _line(indent, "(any name)", more, needed=False)
        yield from fields_of(_inner(more), indent + "    ")


def _line(indent: str, name: str, value: Schema, *, needed: bool) -> str:
    said = " ".join(str(value.get("description", "")).split())
    return f"{indent}{name} ({_kind(value)}{', required' if needed else ''}): {said}".rstrip(": ")


def _inner(value: Schema) -> Schema:
    """Returns the schema that the parts of a field are in: of a list, its items'."""
    while value.get("type") == "array":
        value = value.get("items", {})
    return value


def _kind(schema: Schema) -> str:
    if "enum" in schema:
        return " | ".join(str(x) for x in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(x) for x in schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}" if "items" in schema else "list"
    return str(schema.get("type", "any"))
