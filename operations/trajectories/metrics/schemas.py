"""Tells which schemas can be checked in bounded time: they come out of traces, and can unfold without an end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

STEPS = 20_000
"""Parts that a schema may unfold to."""
_LEVELS = 22
"""Levels of it that count: a check follows about as many."""

JsonSchema = Mapping[str, Any]


def is_bounded(schema: JsonSchema) -> bool:
    """Returns whether a schema unfolds to no more than `STEPS` parts. Takes time in proportion to its size."""
    known: dict[tuple[int, int], int] = {}

    def size(part: Any, level: int) -> int:  # noqa: ANN401 - any JSON
        if not isinstance(part, Mapping) or level > _LEVELS:
            return 1
        key = id(part), level
        if key not in known:
            known[key] = min(STEPS + 1, 1 + sum(size(inner, level + 1) for inner in _inner(part, schema)))
        return known[key]

    return size(schema, 0) <= STEPS


def _inner(part: Mapping[str, Any], root: JsonSchema) -> Iterator[Any]:
    for name, value in part.items():
        if name == "$ref" and isinstance(value, str) and value.startswith("#/"):
            yield _named(value, root)
        elif name in ("anyOf", "oneOf", "allOf") and isinstance(value, list):
            yield from value
        elif name in ("properties", "patternProperties") and isinstance(value, Mapping):
            yield from value.values()
        elif name in ("items", "additionalProperties", "not"):
            yield value


def _named(reference: str, root: Any) -> Any:  # noqa: ANN401 - any JSON
    for step in reference[2:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        root = root.get(name) if isinstance(root, Mapping) else None
    return root
