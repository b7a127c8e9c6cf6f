"""Masks ATK's own records: what people and agents said in them, and not the ids, digests, states and field names.

A project's patterns may match any of those by accident, and its `redact_keys` may be the name of a field of ATK's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, StringConstraints
from pydantic.fields import FieldInfo

_OWN = re.compile(
    r"(?:[a-z_]+:)?(?:[0-9a-f]{40}|[0-9a-f]{64})"
    r"|[a-z]+-[0-9]+-[0-9a-z]{4}(?:\.[0-9]+)?"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})?"
)
"""What a digest, a commit, an id or a time of ATK's looks like."""

_NAMING = re.compile(r"(?:.*_)?(?:ids?|paths?|commit|tree|branch|digest|fingerprint|sha256|at|kind|tool)")
"""Fields that say which thing is meant, such as the user's Case ids: other records and files are found by them."""

_UNTOUCHED = (bool, int, float, type(None))

Text = Callable[[Any], Any]
"""Masks a text or any other JSON value."""


def masked_record(record: BaseModel, free: Text, strict: Text) -> dict[str, Any]:
    """Returns the record as JSON without credentials.

    Args:
        record: Its fields are ATK's; a value inside `dict[str, Any]` is anybody's.
        free: Masks by every rule of the project: what was said.
        strict: Masks by the rules that know credentials only: what names a thing.
    """
    return _fields(record, record.model_dump(mode="json"), free, strict)


def own_text(text: str, free: Text, strict: Text) -> Any:  # noqa: ANN401 - what `free` makes of it
    """Returns a text of ATK's own, such as a fact of an error, without credentials."""
    return strict(text) if _OWN.fullmatch(text) else free(text)


def _fields(record: BaseModel, dumped: dict[str, Any], free: Text, strict: Text) -> dict[str, Any]:
    return {
        name: _field(type(record), name, getattr(record, name, None), item, free, strict)
        for name, item in dumped.items()
    }


def _field(model: type[BaseModel], name: str, value: Any, dumped: Any, free: Text, strict: Text) -> Any:  # noqa: ANN401, PLR0913, PLR0917
    if isinstance(value, BaseModel) and isinstance(dumped, dict):
        return _fields(value, dumped, free, strict)
    if isinstance(value, list | tuple) and isinstance(dumped, list):
        return [_field(model, name, one, shown, free, strict) for one, shown in zip(value, dumped, strict=True)]
    if isinstance(dumped, str):
        return strict(dumped) if _names_a_thing(model, name) else own_text(dumped, free, strict)
    if isinstance(dumped, dict):
        return _counts(dumped, free) if _is_counts(model, name) else _merged(dumped, free(dumped), strict(dumped))
    return dumped


def _counts(value: Any, free: Text) -> Any:  # noqa: ANN401 - JSON
    return {free(name): _counts(item, free) for name, item in value.items()} if isinstance(value, dict) else value


def _merged(given: Any, free: Any, strict: Any) -> Any:  # noqa: ANN401 - JSON
    """Returns the value as every rule masks it, but ATK's own ids, digests and numbers as the strict rules do."""
    if isinstance(given, str):
        return strict if _OWN.fullmatch(given) else free
    if isinstance(given, dict) and isinstance(free, dict) and isinstance(strict, dict):
        return {
            name: kept if key in _PLACES else _merged(item, found, kept)
            for (key, item), (name, found), kept in zip(given.items(), free.items(), strict.values(), strict=True)
        }
    if isinstance(given, list | tuple) and isinstance(free, list) and isinstance(strict, list):
        return [_merged(*each) for each in zip(given, free, strict, strict=True)]
    return strict


_PLACES = frozenset(("path", "old_path", "mode"))
"""Names in the objects by which ATK describes the files of a change."""


@lru_cache(maxsize=4096)
def _is_counts(model: type[BaseModel], name: str) -> bool:
    """Whether the field is an object of numbers, perhaps in objects of their own."""
    field = model.model_fields.get(name)
    inner: Any = field.annotation if field is not None else None
    while get_origin(inner) is dict:
        inner = get_args(inner)[1]
    return inner in (int, float)


@lru_cache(maxsize=4096)
def _names_a_thing(model: type[BaseModel], name: str) -> bool:
    field = model.model_fields.get(name)
    return field is not None and (_NAMING.fullmatch(name) is not None or _is_closed(field))


def _is_closed(field: FieldInfo) -> bool:
    """Whether the field takes only words from a list or of a grammar, so that a mask is nothing it could hold."""
    return any(map(_has_grammar, field.metadata)) or _is_closed_type(field.annotation)


def _is_closed_type(annotation: Any) -> bool:  # noqa: ANN401 - a type
    if get_origin(annotation) is Literal:
        return True
    if metadata := getattr(annotation, "__metadata__", ()):
        return any(map(_has_grammar, metadata)) or _is_closed_type(annotation.__origin__)
    inside = [one for one in get_args(annotation) if one is not Ellipsis]
    if inside:
        return all(one in _UNTOUCHED or _is_closed_type(one) for one in inside)
    return isinstance(annotation, type) and not issubclass(annotation, str | BaseModel | dict | list | tuple | set)


def _has_grammar(constraint: object) -> bool:
    if isinstance(constraint, FieldInfo):
        return any(map(_has_grammar, constraint.metadata))
    if isinstance(constraint, StringConstraints):
        return constraint.pattern is not None
    return getattr(constraint, "pattern", None) is not None
