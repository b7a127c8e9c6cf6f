"""Words, names and figures in text and JSON, as far as rules need them: exact, without a model or a dictionary."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

_TOKEN = re.compile(r"\d+(?:[.,:/-]\d+)*|[^\W\d_]+[+#]*|[^\W\d_]+")
"""A number with the signs inside it (1.5, 2026-06-02), or a word of letters with the signs that tell C from C++."""

DEEP = 40
"""Levels of nesting that are looked into; what lies deeper counts as one text."""

NUMBERS = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16,
    "seventeen": 17, "eighteen": 18, "nineteen": 19, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60,
    "seventy": 70, "eighty": 80, "ninety": 90, "hundred": 100, "thousand": 1000, "million": 1_000_000, "dozen": 12,
    "once": 1, "twice": 2, "thrice": 3, "both": 2, "half": 0.5,
}  # fmt: skip


def plain(text: str) -> str:
    """Returns a text with wide signs and curly apostrophes as the plain ones."""
    return unicodedata.normalize("NFKC", text).replace("\u2019", "'")


def tokens(text: str) -> list[str]:
    """Returns the words and numbers of a text, caseless, in order."""
    return _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold())


def leaves(value: Any, depth: int = 0) -> Iterator[Any]:  # noqa: ANN401 - any JSON
    """Yields the texts, numbers, booleans and nulls of a JSON value, names of fields left out."""
    if isinstance(value, dict | list) and depth >= DEEP:
        yield as_json(value)
    elif isinstance(value, dict):
        for item in value.values():
            yield from leaves(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item, depth + 1)
    else:
        yield value


def text_of(value: Any) -> str:  # noqa: ANN401 - any JSON
    """Returns what a JSON value says, as one text: its texts and numbers, in order."""
    if isinstance(value, str):
        return value
    return "\n".join(one if isinstance(one, str) else json.dumps(one) for one in leaves(value) if one is not None)


def as_json(value: Any) -> str:  # noqa: ANN401 - any JSON
    """Returns a value as JSON; nesting that Python cannot follow leaves a text that stands for any such value."""
    try:
        return json.dumps(value, sort_keys=True)
    except RecursionError:
        return "nested too deeply"


def bag(value: Any, depth: int = 0) -> Any:  # noqa: ANN401 - any JSON
    """Returns a JSON value with each text as its sorted words: equal for texts that differ in form only."""
    if isinstance(value, str):
        return ["words", *sorted(tokens(value))] if tokens(value) else ["text", value]
    if isinstance(value, dict) and depth < DEEP:
        return {name: bag(item, depth + 1) for name, item in value.items()}
    if isinstance(value, list) and depth < DEEP:
        return ["list", *(bag(item, depth + 1) for item in value)]
    return value


def _no_number(name: str) -> None:
    raise ValueError(name)


def number_of(value: Any) -> float | None:  # noqa: ANN401 - any JSON
    """Returns a number that a rule can reckon with, or None for everything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def unpacked(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Returns what a text holds where it is the JSON of an object or a list; everything else as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            found = json.loads(value, parse_constant=_no_number)
        except (ValueError, RecursionError):
            return value
        return found if isinstance(found, dict | list) else value
    return value
