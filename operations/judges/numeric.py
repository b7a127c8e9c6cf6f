"""The judge `numeric`: passes when the output's number is the expected one, within a tolerance."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import Field

from operations.judges._judge import Comparison, Judgement, RuleSettings, judge_with

_SIGN = r"[+\-\u2212]?+"
_POWER = r"(?:[eE][+-]?+\d{1,3}+)?+"
_NUMBER = re.compile(rf"(?<![\w.,]){_SIGN}(?:\d++(?:,\d++)*+(?:\.\d++)?+|\.\d++){_POWER}(?!\w|[.,]\d)", re.ASCII)
_BEGUN = re.compile(r"\d", re.ASCII)
_GROUPED = re.compile(rf"{_SIGN}\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?{_POWER}", re.ASCII)
_LONGEST = 400
"""Digits of a number that is read."""


class NumericSettings(RuleSettings):
    """How far the numbers may be apart, and which number of the output counts."""

    absolute_tolerance: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    relative_tolerance: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """As a share of the expected number's size. The larger of both tolerances counts."""
    take: Literal["whole", "first", "last", "only"] = "whole"
    """The whole output is the number; or it is the first, the last or the only number in it."""
    thousands: Literal[",", ""] = ""
    """`,` where commas part thousands. Without it a number with a comma is not read, for it could mean either."""


@judge_with(NumericSettings)
def numeric(sides: Comparison[NumericSettings]) -> Judgement:
    """Passes when the output's number differs from the expected one by at most the tolerance; ends included."""
    settings = sides.settings
    expected = _read(sides.expected, settings, take="whole")
    if not isinstance(expected, Fraction):
        return Judgement("unknown", "The expected answer is no number.")
    if not sides.whole:
        return Judgement("unknown", "The output was cut, so its number may not be all there.")
    found = _read(sides.found, settings, take=settings.take)
    if isinstance(found, Judgement):
        return found
    # A tolerance is meant as it is written: 0.1 is a tenth, not the nearest binary number.
    absolute, relative = (Fraction(str(t)) for t in (settings.absolute_tolerance, settings.relative_tolerance))
    if abs(found - expected) <= max(absolute, relative * abs(expected)):
        return Judgement("pass", "The number is within the tolerance.")
    return Judgement("fail", "The number is not within the tolerance.")


def _read(value: Any, settings: NumericSettings, *, take: str) -> Fraction | Judgement:  # noqa: ANN401 - JSON
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _number(str(value), settings)
    if not isinstance(value, str):
        return Judgement("fail", "The output is no number.")
    if take == "whole":
        return _number(value.strip(), settings)
    found = _NUMBER.findall(value)
    if not found:
        if _BEGUN.search(value):
            return Judgement("unknown", "The output has digits, and none that are surely a number by themselves.")
        return Judgement("fail", "There is no number in the output.")
    if take == "only" and len(found) > 1:
        return Judgement("unknown", f"The output has {len(found)} numbers, and its only one was to be compared.")
    return _number(found[-1 if take == "last" else 0], settings)


def _number(text: str, settings: NumericSettings) -> Fraction | Judgement:
    if "," in text:
        if not settings.thousands:
            return Judgement("unknown", "A number has a comma, and thousands does not say that it parts thousands.")
        if _GROUPED.fullmatch(text) is None:
            return Judgement("unknown", "A number's commas do not part thousands.")
        text = text.replace(",", "")
    if len(text) > _LONGEST or _NUMBER.fullmatch(text) is None:
        return Judgement("fail", "The output is no number.")
    return Fraction(text.replace("\u2212", "-"))
