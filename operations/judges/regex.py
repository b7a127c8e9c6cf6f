"""The judge `regex`: passes when a pattern matches the output."""

from __future__ import annotations

import json
from typing import Any, Self

from pydantic import model_validator

from operations.judges._judge import Comparison, Judgement, RuleSettings, judge_with
from operations.judges._linear import found_in, pattern_problem


class PatternSettings(RuleSettings):
    """Which pattern, and how it has to match."""

    pattern: str | None = None
    """In RE2's syntax. None: each Case's expected answer is its pattern."""
    whole: bool = False
    """Whether the whole text has to match, not only a part of it."""
    absent: bool = False
    """Whether it passes when the pattern does not match."""

    @property
    def needs_expected(self) -> bool:
        """Only without a pattern of its own."""
        return self.pattern is None

    @model_validator(mode="after")
    def _can_be_run(self) -> Self:
        if self.pattern is not None:
            problem = pattern_problem(self.pattern) if self.pattern else "the pattern is empty"
            if problem:
                raise ValueError(problem)
        return self


@judge_with(PatternSettings, folds=False)
def regex(sides: Comparison[PatternSettings]) -> Judgement:
    """Passes when the pattern of the settings, or else the expected answer as a pattern, matches the output."""
    settings = sides.settings
    pattern = settings.pattern if settings.pattern is not None else sides.expected
    if not isinstance(pattern, str) or not pattern:
        return Judgement("unknown", "The expected answer is no pattern.")
    if settings.pattern is None and (problem := pattern_problem(pattern)):
        return Judgement("unknown", f"The expected answer cannot be used: {problem}.")
    if not sides.whole:
        return Judgement("unknown", "The output was cut, and what was left out could match or end a match.")
    found = found_in(pattern, _text(sides.found, settings), whole=settings.whole, ignore_case=settings.ignore_case)
    said = "The pattern matches." if found else "The pattern does not match."
    return Judgement("pass" if found is not settings.absent else "fail", said)


def _text(found: Any, settings: RuleSettings) -> str:  # noqa: ANN401 - JSON
    text = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
    return text.strip() if settings.strip else text
