"""Flat JSON Schemas from the models, in the form that MCP clients keep whole.

Clients drop or refuse `$ref`, root unions, type arrays and value constraints, so references are put
in place, an optional field is published as its plain type, and every range, default and format is
also said in the field's description.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel

from storage.schema.base import ID_GRAMMAR

Schema = dict[str, Any]

JSON_VALUE: tuple[Schema, ...] = (
    {"type": "string"},
    {"type": "number"},
    {"type": "boolean"},
    {"type": "object"},
    {"type": "array"},
)
"""What a free-form value may be. An empty schema would say the same, and clients drop its description."""

_PLAIN_WORDS = {
    ID_GRAMMAR: "an ATK id",
    r"^[0-9a-f]{64}$": "64 hexadecimal digits",
    r"^[0-9a-f]{40}([0-9a-f]{24})?$": "a full Git object id",
}
_FORMATS = {"date-time": "ISO 8601 date and time", "date": "ISO 8601 date", "uri": "a URI", "path": "a path"}
CONSTRAINTS = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "pattern",
    "format",
)
"""Keywords that limit a value: each is also told in the field's description."""

_RANGES = (
    ("minimum", "maximum", ""),
    ("minLength", "maxLength", " characters"),
    ("minItems", "maxItems", " items"),
)
_UNSAID = ("an ATK id", "not empty", "at least 0", "at least 1", "default false", "default ")
_WORDS = {"exclusiveMinimum": "more than", "exclusiveMaximum": "less than", "multipleOf": "a multiple of"}


def input_schema(model: type[BaseModel], *, brief: bool = False) -> Schema:
    """Returns the schema of a request: flat, closed, its limits kept and said in words.

    Args:
        model: The request.
        brief: Leave unsaid what a field's name, its type or a refusal tells as well.
    """
    return _root(model, say=True, brief=brief)


def output_schema(model: type[BaseModel]) -> Schema:
    """Returns the schema of a response: flat and open, without limits, since a long result may be cut."""
    return _root(model, say=False)


def _root(model: type[BaseModel], *, say: bool, brief: bool = False) -> Schema:
    raw = model.model_json_schema(mode="validation")
    flat = _Flattener(raw.get("$defs", {}), say=say, brief=brief).node(raw, ())
    flat.pop("description", None)  # the tool's own description speaks for it
    return {"type": "object", **flat}


class _Flattener:
    """Walks one schema. `say` keeps constraints and tells them in descriptions, with `brief` only those worth it."""

    def __init__(self, definitions: Mapping[str, Any], *, say: bool, brief: bool) -> None:
        self._definitions = definitions
        self._say = say
        self._brief = brief

    def node(self, raw: object, seen: tuple[str, ...]) -> Schema:
        """Returns one schema, flattened. `seen` are the names of the references it lies in."""
        if not isinstance(raw, Mapping) or not raw:
            return {"anyOf": [dict(x) for x in JSON_VALUE]}
        if "$ref" in raw:
            return self._reference(raw, seen)
        for union in ("anyOf", "oneOf", "allOf"):
            if union in raw:
                return self._union(raw, raw[union], seen)
        return self._finished(raw, self._plain(raw, seen))

    def _reference(self, raw: Mapping[str, Any], seen: tuple[str, ...]) -> Schema:
        name = str(raw["$ref"]).rpartition("/")[2]
        beside = {k: v for k, v in raw.items() if k != "$ref"}
        if name in seen:
            return {"type": "object", "description": beside.get("description", f"A nested {name}, as above.")}
        definition = dict(self._definitions[name])
        if self._brief or not self._say:
            definition.pop("description", None)  # a part's docstring, the same in every answer that has the part
        return self.node({**definition, **beside}, (*seen, name))

    def _union(self, raw: Mapping[str, Any], branches: Iterable[Any], seen: tuple[str, ...]) -> Schema:
        kept = list(branches)
        beside = {k: v for k, v in raw.items() if k not in ("anyOf", "oneOf", "allOf", "discriminator")}
        if len(kept) == 1:
            return self.node({**kept[0], **beside}, seen)
        return self._finished(raw, {"anyOf": [self.node(x, seen) for x in kept]})

    def _plain(self, raw: Mapping[str, Any], seen: tuple[str, ...]) -> Schema:
        if "const" in raw:
            return {"type": raw.get("type", "string"), "enum": [raw["const"]]}
        if "enum" in raw:
            return {"type": raw.get("type", "string"), "enum": list(raw["enum"])}
        kind = raw.get("type")
        if kind == "array":
            return {"type": "array", "items": self._items(raw, seen)}
        if kind == "object":
            return self._object(raw, seen)
        if kind is None:
            return self.node({}, seen)
        return {"type": kind}

    def _items(self, raw: Mapping[str, Any], seen: tuple[str, ...]) -> Schema:
        """A tuple's positions become one schema of the items: clients know no `prefixItems`."""
        if "prefixItems" not in raw:
            return self.node(raw.get("items", {}), seen)
        distinct: list[Schema] = []
        for position in raw["prefixItems"]:
            if (flat := self.node(position, seen)) not in distinct:
                distinct.append(flat)
        return distinct[0] if len(distinct) == 1 else {"anyOf": distinct}

    def _object(self, raw: Mapping[str, Any], seen: tuple[str, ...]) -> Schema:
        out: Schema = {"type": "object"}
        required = list(raw.get("required", ()))
        if properties := raw.get("properties"):
            out["properties"] = {
                name: self.node(value if name in required else _without_null(value), seen)
                for name, value in properties.items()
            }
        if required:
            out["required"] = required
        more = raw.get("additionalProperties")
        if isinstance(more, Mapping) and more:
            out["additionalProperties"] = self.node(more, seen)
        elif more is False and self._say:
            out["additionalProperties"] = False
        return out

    def _finished(self, raw: Mapping[str, Any], out: Schema) -> Schema:
        """Adds what stands beside the type: limits, default, and the description that tells both."""
        described = str(raw.get("description", ""))
        default = raw.get("default")
        if self._say:
            out |= {k: raw[k] for k in CONSTRAINTS if k in raw}
            if default not in (None, []) and not isinstance(default, dict):  # a part's own defaults stand in it
                out["default"] = default
            facts = (fact for fact in _facts(raw, out) if not (self._brief and _unsaid(fact)))
            described = _told(described, list(facts))
        if described:
            out["description"] = described
        return out


def _without_null(raw: Any) -> Any:  # noqa: ANN401 - a schema of any shape
    """An optional field: leaving it out says null, so the schema need not."""
    if not isinstance(raw, Mapping) or "anyOf" not in raw:
        return raw
    branches = [x for x in raw["anyOf"] if x != {"type": "null"}]
    if len(branches) == 1:
        return {**branches[0], **{k: v for k, v in raw.items() if k != "anyOf"}}
    return {**raw, "anyOf": branches}


def _facts(raw: Mapping[str, Any], out: Schema) -> Iterable[str]:
    """The limits of one field in words."""
    for low, high, unit in _RANGES:
        yield from _range(raw.get(low), raw.get(high), unit)
    yield from (f"{words} {raw[key]}" for key, words in _WORDS.items() if key in raw)
    if "pattern" in raw:
        yield _PLAIN_WORDS.get(raw["pattern"], f"matches {raw['pattern']}")
    if "format" in raw:
        yield _FORMATS.get(raw["format"], str(raw["format"]))
    if "default" in out:
        yield f"default {_shown(out['default'])}"


def _unsaid(fact: str) -> bool:
    """Whether a limit needs no words: the field's name says it, nobody meets it, or whoever does is told."""
    return fact in _UNSAID or fact.startswith("matches ") or fact.endswith((" characters", " items"))


def _range(low: float | None, high: float | None, unit: str) -> Iterable[str]:
    if low is not None and high is not None:
        yield f"{low} to {high}{unit}"
    elif low == 1 and unit:
        yield "not empty"
    elif low:
        yield f"at least {low}{unit}"
    elif low is not None and not unit:
        yield f"at least {low}"
    elif high is not None:
        yield f"at most {high}{unit}"


def _told(described: str, facts: list[str]) -> str:
    """Returns `described` with the facts that it does not tell already."""
    known = described.lower()
    if "default" in known:
        facts = [x for x in facts if not x.startswith("default ")]
    missing = [x for x in facts if x.lower() not in known]
    if not missing:
        return described
    told = "; ".join(missing)
    return f"{described} ({told})" if described else told[:1].upper() + told[1:]


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else str(value)
