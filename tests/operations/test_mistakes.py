"""What does not fit a request is said in the words of the field, never in a library's."""

from datetime import datetime
from typing import Annotated, Any, Literal

import pytest
from pydantic import AwareDatetime, Field, ValidationError, field_validator

from operations import mistakes
from operations.definition import Model, Reason
from operations.invocation import InvalidArguments
from storage.schema.base import ObjectId


class Part(Model):
    role: str


class Asked(Model):
    """One field for each kind of mistake."""

    text: str = ""
    number: Annotated[int, Field(ge=1, le=9)] = 1
    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    yes: bool = False
    names: Annotated[list[str], Field(min_length=2, max_length=3)] = ["a", "b"]
    options: dict[str, Any] = {}
    part: Part = Part(role="x")
    parts: list[Part] = []
    mode: Literal["fast", "slow"] = "fast"
    id: ObjectId = "batch-1-aaaa"
    code: Annotated[str, Field(pattern=r"^[0-9]+$", max_length=4)] = "1"
    word: Annotated[str, Field(min_length=2)] = "ab"
    at: datetime | None = None
    zoned: AwareDatetime | None = None
    reason: Reason = "because"
    even: int = 2

    @field_validator("even")
    @classmethod
    def _is_even(cls, given: int) -> int:
        if given % 2:
            raise ValueError("3 is odd, and pairs are dealt")
        return given


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('{"text": 3}', "text has to be text (given: 3)"),
        ('{"number": "3"}', 'number has to be a whole number (given: "3")'),
        ('{"number": 1.5}', "number has to be a whole number (given: 1.5)"),
        ('{"number": 0}', "number has to be at least 1 (given: 0)"),
        ('{"number": 10}', "number has to be at most 9 (given: 10)"),
        ('{"share": 0}', "share has to be more than 0 (given: 0)"),
        ('{"share": 1}', "share has to be less than 1 (given: 1)"),
        ('{"share": "a"}', 'share has to be a number (given: "a")'),
        ('{"yes": 1}', "yes has to be true or false (given: 1)"),
        ('{"names": "a"}', 'names has to be a list (given: "a")'),
        ('{"names": ["a"]}', 'names has to have at least 2 items (given: ["a"])'),
        ('{"names": ["a", "b", "c", "d"]}', 'names may have at most 3 items (given: ["a", "b", "c", "d"])'),
        ('{"options": []}', "options has to be an object (given: [])"),
        ('{"part": "x"}', 'part has to be an object (given: "x")'),
        ('{"parts": [{}]}', "parts.0.role is required"),
        ('{"parts": [{"role": "a", "roles": 1}]}', "parts.0.roles is not a field (did you mean role?)"),
        ('{"mode": "fats"}', "mode has to be 'fast' or 'slow' (given: \"fats\")"),
        ('{"id": "Batch 1"}', 'id has to be an id as ATK gives it (given: "Batch 1")'),
        ('{"code": "a"}', 'code has to fit the pattern ^[0-9]+$ (given: "a")'),
        ('{"code": "12345"}', 'code may have at most 4 characters (given: "12345")'),
        ('{"word": "a"}', 'word has to have at least 2 characters (given: "a")'),
        ('{"at": "soon"}', 'at has to be a date, or a date and time, by ISO 8601 (given: "soon")'),
        (
            '{"zoned": "2026-01-01T00:00:00"}',
            'zoned has to be a date and time with its offset from UTC, by ISO 8601 (given: "2026-01-01T00:00:00")',
        ),
        ('{"reason": " "}', 'reason is blank; say it in words (given: " ")'),
        ('{"even": 3}', "even: 3 is odd, and pairs are dealt (given: 3)"),
        ("[]", "arguments has to be an object (given: [])"),
        (f'{{"number": "{"x" * 99}"}}', f'number has to be a whole number (given: "{"x" * 79}…)'),
    ],
)
def test_a_mistake_is_said_by_its_field_what_it_has_to_be_and_what_was_given(given, said):
    with pytest.raises(ValidationError) as error:
        Asked.model_validate_json(given)
    assert mistakes.problems(Asked, error.value) == [said]


class Chosen(Model):
    kind: Literal["csv", "jsonl"]
    inner: list["Chosen"] = []


@pytest.mark.parametrize(("given", "where"), [("{}", "kind"), ('{"kind": "csv", "inner": [{}]}', "inner.0.kind")])
def test_a_missing_field_that_is_one_of_a_few_words_names_them(given, where):
    with pytest.raises(ValidationError) as error:
        Chosen.model_validate_json(given)
    assert mistakes.problems(Chosen, error.value) == [f"{where} is required: one of csv, jsonl"]


def test_a_field_that_is_like_none_is_told_all_there_are():
    with pytest.raises(ValidationError) as error:
        Part.model_validate_json('{"role": "a", "xyz": 1}')
    assert mistakes.problems(Part, error.value) == ["xyz is not a field (fields: role)"]


def test_what_is_not_foreseen_is_still_said_in_a_sentence():
    assert mistakes.said({"type": "new_kind", "msg": "Input is odd"}) == "cannot be used: input is odd"


def test_many_mistakes_are_told_apart_and_cut():
    error = InvalidArguments(operation="try_case", problems=[f"a.{n} is required" for n in range(10)])
    assert str(error).startswith("try_case: a.0 is required; a.1 is required; ")
    assert str(error).endswith("; a.7 is required; and 2 more.")
    assert len(error.facts["problems"]) == 10
