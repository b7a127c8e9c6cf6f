"""Whether arguments are what a tool takes: the part of JSON Schema that tools use.

Checked are type, required, properties, additionalProperties, items, enum, const, minimum, maximum, minLength,
maxLength, minItems, maxItems, anyOf, oneOf, allOf and `$ref` within the schema. What else a schema asks for is taken as
met: a rule that is not understood finds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "number": (int, float),
}
_DEEP = 20
"""Levels of schemas that are followed; a schema may name itself."""
STEPS = 50_000
"""Parts of a schema that one call's arguments are held to: one out of a trace may unfold without an end."""
STEPS_IN_ALL = 5_000_000
"""Parts that all calls of an episode are held to, at ten times what 50,000 usual calls take."""

Schema = Mapping[str, Any]


class Schemas:
    """The schemas of an episode's tools; one that takes too long to hold to arguments is given up for good."""

    def __init__(self, tools: Mapping[str, Schema | None] | None) -> None:
        """`tools` are those that the agent had; None where they are not known."""
        self._of = {name: schema for name, schema in (tools or {}).items() if schema is not None}
        self._given_up: set[str] = set()
        self._left = STEPS_IN_ALL

    def __contains__(self, tool: object) -> bool:
        """Whether the schema of a tool is known."""
        return tool in self._of

    def problem(self, tool: str, arguments: Any) -> str | None:  # noqa: ANN401 - any JSON
        """Returns the first thing in which arguments are not what a tool takes whose schema is known, or None.

        Raises:
            TooMuchToCheck: That takes more than `STEPS` to find out, or did so for an earlier call of the tool.
        """
        if tool in self._given_up:
            raise TooMuchToCheck
        held = _Held(self._of[tool], min(STEPS, self._left))
        given = held.left
        try:
            return next(_problems(arguments, held.root, "", held, 0), None)
        except TooMuchToCheck:
            self._given_up.add(tool)
            raise
        finally:
            self._left -= given - max(0, held.left)


class TooMuchToCheck(ValueError):
    """A schema, with what is held to it, unfolds to more than is looked at."""


@dataclass
class _Held:
    """The schema that arguments are held to, and how much of it may still be looked at."""

    root: Schema
    left: int

    def step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise TooMuchToCheck


def _problems(value: Any, schema: Any, at: str, root: _Held, depth: int) -> Iterator[str]:  # noqa: ANN401 - any JSON
    root.step()
    if not isinstance(schema, Mapping) or depth > _DEEP:
        return
    if (target := _target(schema, root.root)) is not None:
        yield from _problems(value, target, at, root, depth + 1)
    named = at or "it"
    if not _fits(value, schema.get("type")):
        yield f"{named} is {_kind(value)}, not {_wanted(schema['type'])}"
        return
    yield from _allowed(value, schema, named)
    yield from _bounds(value, schema, named)
    for part in _list(schema.get("allOf")):
        yield from _problems(value, part, at, root, depth + 1)
    for key in ("anyOf", "oneOf"):
        choices = _list(schema.get(key))
        if choices and all(next(_problems(value, c, at, root, depth + 1), None) for c in choices):
            yield f"{named} is none of what there is a choice of"
    if isinstance(value, dict):
        yield from _fields(value, schema, at, root, depth)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _problems(item, schema.get("items"), f"{at}.{number}" if at else str(number), root, depth + 1)


def _allowed(value: Any, schema: Schema, named: str) -> Iterator[str]:  # noqa: ANN401 - any JSON
    if isinstance(allowed := schema.get("enum"), list) and value not in allowed:
        yield f"{named} is none of the {len(allowed)} values that there are"
    if "const" in schema and value != schema["const"]:
        yield f"{named} is not the one value that there is"


def _fields(value: dict[str, Any], schema: Schema, at: str, root: _Held, depth: int) -> Iterator[str]:
    known = schema.get("properties")
    known = known if isinstance(known, Mapping) else {}
    inside = f"{at}." if at else ""
    for name in _list(schema.get("required")):
        if isinstance(name, str) and name not in value:
            yield f"{inside}{name} is missing"
    more = schema.get("additionalProperties")
    for name, item in value.items():
        if name in known:
            yield from _problems(item, known[name], f"{inside}{name}", root, depth + 1)
        elif more is False and not schema.get("patternProperties"):
            yield f"{inside}{name} is no field of it"
        elif isinstance(more, Mapping):
            yield from _problems(item, more, f"{inside}{name}", root, depth + 1)


def _bounds(value: Any, schema: Schema, named: str) -> Iterator[str]:  # noqa: ANN401 - any JSON
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        measured, low, high = value, schema.get("minimum"), schema.get("maximum")
    elif isinstance(value, str):
        measured, low, high = len(value), schema.get("minLength"), schema.get("maxLength")
    elif isinstance(value, list):
        measured, low, high = len(value), schema.get("minItems"), schema.get("maxItems")
    else:
        return
    if isinstance(low, int | float) and measured < low:
        yield f"{named} is below {low}"
    if isinstance(high, int | float) and measured > high:
        yield f"{named} is above {high}"


def _target(schema: Schema, root: Schema) -> Any:  # noqa: ANN401 - any JSON
    """Returns what a `$ref` within the schema names, or None."""
    reference = schema.get("$ref")
    if reference == "#":
        return root
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    found: Any = root
    for part in reference[2:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or name not in found:
            return None
        found = found[name]
    return found


def _fits(value: Any, wanted: Any) -> bool:  # noqa: ANN401 - any JSON
    names = [wanted] if isinstance(wanted, str) else _list(wanted)
    return not names or any(_is(value, name) for name in names)


def _is(value: Any, name: Any) -> bool:  # noqa: ANN401 - any JSON
    if name == "integer":
        return not isinstance(value, bool) and (
            isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        )
    if name == "number" and isinstance(value, bool):
        return False
    types = _TYPES.get(name) if isinstance(name, str) else None
    return types is None or isinstance(value, types)


def _kind(value: Any) -> str:  # noqa: ANN401 - any JSON
    if isinstance(value, bool):
        return "boolean"
    return next((name for name, types in _TYPES.items() if isinstance(value, types)), "unknown")


def _wanted(given: Any) -> str:  # noqa: ANN401 - any JSON
    return " or ".join(map(str, _list(given))) if isinstance(given, list) else str(given)


def _list(value: Any) -> list[Any]:  # noqa: ANN401 - any JSON
    return value if isinstance(value, list) else []
