"""How the judges of JSON read both sides: the output as a document, the expected answer as a value or its JSON text."""

from __future__ import annotations

import json
import re
from typing import Any, Literal, NoReturn

from operations.judges._judge import Comparison, Judgement, RuleSettings, folded

_FENCE = re.compile(
    r"^[ \t]*```[ \t]*(?:json)?[ \t]*\n(.*?)^[ \t]*```[ \t]*$", re.DOTALL | re.MULTILINE | re.IGNORECASE
)
_TICKS = "```"


class DocumentSettings(RuleSettings):
    """Where in the output its JSON stands."""

    document: Literal["whole", "fenced"] = "whole"
    """The whole output is JSON; or, `fenced`, so is what stands in its only Markdown fence."""


def document(sides: Comparison[Any]) -> tuple[Any, None] | tuple[None, Judgement]:
    """Returns the output's JSON value and None, or None and what is said of an output without one."""
    if not sides.whole:
        return None, Judgement("unknown", "The output was cut, so its JSON cannot be read.")
    found = sides.found
    if not isinstance(found, str):
        return found, None
    if sides.settings.document == "fenced":
        blocks = _FENCE.findall(found)
        if len(blocks) > 1:
            return None, Judgement("unknown", f"The output has {len(blocks)} fences, and one of them was to be read.")
        if not blocks:
            return None, Judgement("fail", "The output has no fence with JSON in it.")
        found = blocks[0]
    try:
        return folded(strict(found), sides.settings), None
    except ValueError:
        if sides.settings.json_field is not None:
            return found, None  # a field that is text is that text
        return None, Judgement("fail", "The output is not JSON.")


def wanted(expected: Any, settings: RuleSettings) -> tuple[Any, ...]:  # noqa: ANN401 - JSON
    """Returns what an expected answer can mean: itself, and what it says where it is JSON text, as a CSV's cell is."""
    if isinstance(expected, str):
        try:
            return folded(strict(expected), settings), expected
        except ValueError:
            pass
    return (expected,)


def strict(text: str) -> Any:  # noqa: ANN401 - JSON
    """Returns the value of JSON text; NaN and Infinity are none.

    Raises:
        ValueError: The text is not JSON, or nests too deep to be read.
    """
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError as error:
        raise ValueError(str(error)) from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
