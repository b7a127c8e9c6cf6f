"""Words for what does not fit a model: the field, what it has to be, what was given."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError

from operations.wording import counted
from storage.schema.base import ID_GRAMMAR

_GIVEN_CHARACTERS = 80
_PLAIN = {
    "string_type": "has to be text",
    "int_type": "has to be a whole number",
    "int_from_float": "has to be a whole number",
    "float_type": "has to be a number",
    "finite_number": "has to be a finite number",
    "bool_type": "has to be true or false",
    "list_type": "has to be a list",
    "tuple_type": "has to be a list",
    "dict_type": "has to be an object",
    "model_type": "has to be an object",
    "model_attributes_type": "has to be an object",
    "missing": "is required",
    "extra_forbidden": "is not a field",
    "blank": "is blank; say it in words",
    "datetime_type": "has to be a date, or a date and time, by ISO 8601",
    "datetime_parsing": "has to be a date, or a date and time, by ISO 8601",
    "datetime_from_date_parsing": "has to be a date, or a date and time, by ISO 8601",
    "timezone_aware": "has to be a date and time with its offset from UTC, by ISO 8601",
}
"""What is said of a kind of mistake that has no limit in it, by pydantic's name of the kind."""

_LIMITS = {
    "greater_than_equal": ("ge", "has to be at least {}"),
    "greater_than": ("gt", "has to be more than {}"),
    "less_than_equal": ("le", "has to be at most {}"),
    "less_than": ("lt", "has to be less than {}"),
    "literal_error": ("expected", "has to be {}"),
}
_LENGTHS = {
    "string_too_short": ("min_length", "has to have at least {}", "character"),
    "string_too_long": ("max_length", "may have at most {}", "character"),
    "too_short": ("min_length", "has to have at least {}", "item"),
    "too_long": ("max_length", "may have at most {}", "item"),
}


def said(mistake: Mapping[str, Any]) -> str:
    """Returns what is wrong with a field as the end of a sentence that begins with its name, such as "has to be text".

    What a validator of ours raises is returned as it stands. `mistake` is one of `ValidationError.errors()`.
    """
    kind, context = mistake["type"], mistake.get("ctx", {})
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind in _LIMITS:
        name, words = _LIMITS[kind]
        limit = context[name]
        return words.format(int(limit) if isinstance(limit, float) and limit.is_integer() else limit)
    if kind in _LENGTHS:
        name, words, unit = _LENGTHS[kind]
        return words.format(counted(context[name], unit))
    if kind == "string_pattern_mismatch":
        known = context["pattern"] == ID_GRAMMAR
        return "has to be an id as ATK gives it" if known else f"has to fit the pattern {context['pattern']}"
    message = str(mistake["msg"])
    if kind == "value_error":
        return message.removeprefix("Value error, ")
    return f"cannot be used: {message[:1].lower()}{message[1:]}"


def sentence(field: str, mistake: Mapping[str, Any]) -> str:
    """Returns what is wrong with a field with its name before it; what a validator of ours says comes after a colon."""
    return f"{field}{':' if mistake['type'] == 'value_error' else ''} {said(mistake)}"


def problems(model: type[BaseModel], error: ValidationError) -> list[str]:
    """Returns a phrase for each mistake in what was given for `model`, in the order of its fields."""
    found = []
    for mistake in error.errors(include_url=False):
        where = ".".join(str(part) for part in mistake["loc"]) or "arguments"
        if mistake["type"] == "extra_forbidden":
            known = _known(model, mistake["loc"])
            near = get_close_matches(str(mistake["loc"][-1]), known, 1, 0.5)
            hint = f"did you mean {near[0]}?" if near else f"fields: {', '.join(known)}"
            found.append(f"{sentence(where, mistake)} ({hint})")
        elif mistake["type"] == "missing":
            found.append(f"{sentence(where, mistake)}{_choices(model, mistake['loc'])}")
        else:
            found.append(f"{sentence(where, mistake)} (given: {_cut(mistake['input'])})")
    return found


def _known(model: type[BaseModel], where: Sequence[str | int]) -> list[str]:
    """Returns the fields of the model in which the last part of `where` is none."""
    return list(_holder(model, where).model_fields)


def _choices(model: type[BaseModel], where: Sequence[str | int]) -> str:
    """Returns what a field that is missing can be, where that is one of a few words."""
    field = _holder(model, where).model_fields.get(str(where[-1]))
    words = get_args(field.annotation) if field is not None and get_origin(field.annotation) is Literal else ()
    return f": one of {', '.join(map(str, words))}" if len(words) > 1 else ""


def _holder(model: type[BaseModel], where: Sequence[str | int]) -> type[BaseModel]:
    """Returns the model that the last part of `where` is said of."""
    for part in where[:-1]:
        field = model.model_fields.get(str(part))
        if field is not None and (inner := _model_in(field.annotation)) is not None:
            model = inner
    return model


def _model_in(annotation: object) -> type[BaseModel] | None:
    """Returns the one model that an annotation such as `list[Model] | None` is about."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = [model for part in get_args(annotation) if (model := _model_in(part)) is not None]
    return found[0] if len(found) == 1 else None


def _cut(value: object) -> str:
    shown = json.dumps(value, ensure_ascii=False, default=str)
    return shown if len(shown) <= _GIVEN_CHARACTERS else shown[:_GIVEN_CHARACTERS] + "…"
