"""The judge `json_schema`: passes when the output is JSON that a schema allows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import cache
from typing import Annotated, Any, Self

from pydantic import Field, JsonValue, model_validator

from operations.judges._json_sides import DocumentSettings, document, strict
from operations.judges._judge import Comparison, Judgement, judge_with
from operations.judges._linear import found_in, pattern_problem

MAX_SCHEMA = 64 * 1024
"""Characters of a schema's JSON."""

STEPS = 200_000
"""Keywords that are applied to one output."""

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


class SchemaSettings(DocumentSettings):
    """The schema, of draft 2020-12."""

    schema_: Annotated[dict[str, JsonValue] | bool | None, Field(alias="schema")] = None
    """None: each Case's expected answer is its schema."""

    @property
    def needs_expected(self) -> bool:
        """Only without a schema of its own."""
        return self.schema_ is None

    @model_validator(mode="after")
    def _can_be_run(self) -> Self:
        if self.schema_ is not None and (problem := schema_problem(self.schema_)):
            raise ValueError(problem)
        return self


Keyword = Callable[..., Iterator[Any] | None]


class _TooLong(Exception):
    """The schema leads to more steps than one output may take."""


@judge_with(SchemaSettings, folds=False)
def json_schema(sides: Comparison[SchemaSettings]) -> Judgement:
    """Passes when the output is JSON that the schema of the settings, or else the expected answer, allows."""
    schema = sides.settings.schema_
    if schema is None:
        schema, problem = _of_case(sides.expected)
        if problem:
            return Judgement("unknown", f"The expected answer is no schema: {problem}.")
    found, said = document(sides)
    if said is not None:
        return said
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 - takes a tenth of a second

    try:
        error = next(_errors(schema, found), None)
    except Unresolvable:
        return Judgement("unknown", "A reference in the schema leads nowhere.")
    except (_TooLong, RecursionError):
        return Judgement("unknown", "The schema leads to too many steps on this output.")
    if error is None:
        return Judgement("pass", "The schema allows the output.")
    return Judgement("fail", f"The schema does not allow the output at {_place(error)} ({error.validator}).")


def schema_problem(schema: Any) -> str | None:  # noqa: ANN401 - JSON
    """Returns why a schema cannot be used, as the end of a sentence, or None."""
    if not isinstance(schema, dict | bool):
        return "it is neither an object nor true or false"
    if len(json.dumps(schema)) > MAX_SCHEMA:
        return f"it is longer than {MAX_SCHEMA} characters"
    return _foreign(schema) or _against_the_draft(schema)


def _foreign(schema: Any) -> str | None:  # noqa: ANN401 - JSON
    """Returns what of a schema is not run here, or None."""
    whole = schema if isinstance(schema, dict) else {}
    if whole.get("$schema", _DRAFT) != _DRAFT:
        return f"$schema is {str(whole['$schema'])[:100]!r}; the draft is {_DRAFT}"
    for name, value in _keywords({k: v for k, v in whole.items() if k != "$schema"}):
        if name == "$schema":
            return "a schema within it names a draft; only the whole does"
        if name in ("$ref", "$dynamicRef") and not str(value).startswith("#"):
            return f"{name} leads to {str(value)[:100]!r}; a schema is whole by itself, so its references begin with #"
        if name == "patternProperties":
            return "patternProperties are not run; use properties, propertyNames and additionalProperties"
        if name == "pattern" and isinstance(value, str) and (problem := pattern_problem(value)):
            return problem
    return None


def _against_the_draft(schema: Any) -> str | None:  # noqa: ANN401 - JSON
    """Returns what the draft or the library does not allow of a schema, or None."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - takes a tenth of a second
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 - see above

    try:
        # No formats: `pattern` would be read as Python's, and here it is RE2's.
        meta = Draft202012Validator(Draft202012Validator.META_SCHEMA)
        for wrong in meta.iter_errors(schema):
            return f"at {_place(wrong)} {wrong.message[:200]}"
        next(_errors(schema, None), None)
    except Unresolvable as error:
        return f"a reference leads nowhere: {str(error)[:200]}"
    except RecursionError:
        return "it nests too deep or refers to itself without end"
    except _TooLong:
        pass  # an output may be decided sooner than null is
    return None


def _of_case(expected: Any) -> tuple[Any, str | None]:  # noqa: ANN401 - JSON
    if isinstance(expected, str):
        try:
            expected = strict(expected)
        except ValueError:
            return None, "it is not JSON"
    return expected, schema_problem(expected)


def _keywords(schema: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - JSON
    """Yields every name with its value, wherever it stands in the schema."""
    waiting = [schema]
    for value in waiting:
        if isinstance(value, dict):
            yield from value.items()
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _errors(schema: Any, found: Any) -> Iterator[Any]:  # noqa: ANN401 - JSON
    """Yields what the schema does not allow; nothing outside of the schema is read."""
    from referencing import Registry  # noqa: PLC0415 - see above

    # The library takes another class, one that counts nothing, for a schema that names its draft.
    plain = {k: v for k, v in schema.items() if k != "$schema"} if isinstance(schema, dict) else schema
    before = _left.set([STEPS])
    try:
        yield from _validator()(plain, registry=Registry()).iter_errors(found)
    finally:
        _left.reset(before)


_left: ContextVar[list[int]] = ContextVar("_left")
"""Steps that the present output has left."""


@cache
def _validator() -> Any:  # noqa: ANN401 - a class that the library makes
    """Returns the library's validator with every keyword counted, and patterns run in linear time."""
    from jsonschema import Draft202012Validator, validators  # noqa: PLC0415 - see above

    own = {**Draft202012Validator.VALIDATORS, "pattern": _pattern}
    counting = {name: _counted(keyword) for name, keyword in own.items()}
    return validators.extend(Draft202012Validator, counting)  # type: ignore[no-untyped-call]


def _counted(keyword: Keyword) -> Keyword:
    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:  # noqa: ANN401 - the library's
        left = _left.get()
        left[0] -= 1
        if left[0] < 0:
            raise _TooLong
        yield from keyword(validator, value, instance, schema) or ()

    return counted


def _pattern(validator: Any, pattern: str, instance: Any, _: Any) -> Iterator[Any]:  # noqa: ANN401 - the library's
    from jsonschema import ValidationError  # noqa: PLC0415 - see above

    if validator.is_type(instance, "string") and not found_in(pattern, instance):
        yield ValidationError("does not match the pattern")


def _place(error: Any) -> str:  # noqa: ANN401 - the library's error
    return ".".join(str(part) for part in error.absolute_path)[:200] or "its top"
