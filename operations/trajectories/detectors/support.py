"""What the user and the results said, and what follows from it."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from itertools import chain, islice
from typing import Any

from operations.trajectories.detectors.claims import Claim, readings
from operations.trajectories.detectors.episode import Episode
from operations.trajectories.detectors.outcomes import failure
from operations.trajectories.detectors.words import DEEP, NUMBERS, number_of, text_of, tokens, unpacked

NUMBERS_KEPT = 100
"""Numbers from which others are derived, in the order in which they were said. The pairs of more than that give almost
any number, so that nothing would be found, at a cost that grows with their square."""

COLUMNS = 20
"""Fields of the objects in a list whose values are added up and counted."""

NEAR = 0.05
"""How far a number that is said to be rough may be from the exact one, as a share of it."""

CONVERSIONS = (7, 12, 24, 60, 100, 365, 1000, 1024, 3600)
"""Units of time, money, length and size in each other."""

_EXACT = 1e-6

_NUMBER = re.compile(r"\d+(?:[.,'\u00a0\u202f]\d+)*")
_DATE = re.compile(r"\b\d{4}-\d\d-\d\d|\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b|\btoday\b|\btomorrow\b|\b1\d{9}\b")
"""A date, a day that is named by another, or seconds since 1970."""
_LISTED = re.compile(r",|;|\band\b|\bor\b|\n", re.IGNORECASE)
_STEM = re.compile(r"(?:'s|s|es)$")


class Support:
    """What carries claims in the answer of one episode."""

    def __init__(self, episode: Episode, answer: str) -> None:
        self._numbers: dict[float, None] = {}
        self._counts: set[float] = set(_counted(episode)) | {float(len(_LISTED.split(answer)))}
        self._series: set[float] = set()
        """Sums, means and spans of numbers that stand together."""
        self._words: set[str] = set()
        self._texts: list[str] = []
        items = 0
        for value in chain(episode.told(), (value for _, value in episode.observed())):
            for held in _values(unpacked(value), 0):
                items += self._take(held)
        self._counts.add(float(items))
        self._text = "\n".join(self._texts)
        self._dated = bool(_DATE.search(self._text))
        self._add_series(list(self._numbers))

    @cached_property
    def _derived(self) -> list[float]:
        """What two of the known numbers, or one and a unit, give; ascending."""
        kept, counts = list(self._numbers)[:NUMBERS_KEPT], sorted(self._counts)[:NUMBERS_KEPT]
        found = {abs(derived) for one in kept for derived in _of_one(one)}
        found |= {abs(derived) for one in kept for other in kept for derived in _of_two(one, other)}
        return sorted(filter(math.isfinite, found | {100 * a / b for a in counts for b in counts if b}))

    def carries(self, claim: Claim) -> bool:
        """Whether the user or a result said what is claimed, or it follows from what they said."""
        if claim.kind == "date":
            return self._dated or self._names(claim.text)
        if claim.kind == "name":
            return self._names(claim.text)
        return any(self._figure(value, claim) for value in claim.values) or not claim.values

    # -- what was said -------------------------------------------------------------------------------------------------

    def _take(self, held: Any) -> int:  # noqa: ANN401 - any JSON
        """Takes in a text, a number or a list; returns how many items a list has."""
        if isinstance(held, list):
            self._add_series([n for item in held if (n := number_of(item)) is not None])
            self._counts.add(float(len(held)))
            rows = [item for item in held if isinstance(item, dict)]
            for name in islice(dict.fromkeys(name for row in rows[:COLUMNS] for name in row), COLUMNS):
                column = [row[name] for row in rows if name in row]
                self._add_series([n for item in column if (n := number_of(item)) is not None])
                # Items are counted by what they have in common, such as a status.
                self._counts |= set(map(float, Counter(map(str, column)).values()))
            return len(held)
        if isinstance(held, dict):
            self._counts.add(float(len(held)))
            self._add_series([n for item in held.values() if (n := number_of(item)) is not None])
            self._words |= {word for name in held for word in tokens(str(name))}
            return 0
        text = text_of([held])
        self._texts.append(" ".join(text.casefold().split()))
        words = tokens(text)
        self._words |= set(words) | {_STEM.sub("", word) for word in words}
        for word in words:
            if word in NUMBERS:
                self._numbers[float(NUMBERS[word])] = None
        found = [value for digits in _NUMBER.findall(text) for value in readings(digits)]
        self._numbers |= dict.fromkeys(found)
        self._add_series(found)
        lines = [line for line in re.split(r"[\n.:]", text) if line.strip()]
        self._counts |= {float(len(_LISTED.split(line))) for line in lines} | {float(len(lines))}
        return 0

    def _add_series(self, numbers: list[float]) -> None:
        if numbers and all(map(math.isfinite, numbers)):
            self._series |= {sum(numbers), sum(numbers) / len(numbers), max(numbers) - min(numbers)}

    # -- what is carried -----------------------------------------------------------------------------------------------

    def _names(self, text: str) -> bool:
        plain = " ".join(text.casefold().split())
        if not plain.isalnum() and plain in self._text:
            return True
        parts = tokens(text)
        return bool(parts) and all(p in self._words or _STEM.sub("", p) in self._words for p in parts)

    def _figure(self, value: float, claim: Claim) -> bool:
        if any(_same(value, known, claim) for known in chain(self._numbers, self._series)):
            return True
        if claim.decimals == 0 and value in self._counts:
            return True
        # A whole number is the rounding of a share, but not of any other quotient: there are too many of those.
        exact = claim.decimals == 0 and not claim.share
        width = _EXACT if exact else 0.5 * 10.0 ** -max(0, claim.decimals) + _EXACT
        if claim.rough:
            width = max(width, NEAR * abs(value))
        at = bisect_left(self._derived, value - width)
        return at < len(self._derived) and self._derived[at] <= value + width


def _counted(episode: Episode) -> Iterator[float]:
    """Yields how many calls there were, of a tool, with an outcome, and failed or not."""
    yield float(len(episode.calls))
    failed = Counter(failure(call) is not None for call in episode.calls)
    tools = Counter(call.name for call in episode.calls)
    outcomes = Counter((call.name, call.outcome) for call in episode.calls)
    yield from map(float, chain(failed.values(), tools.values(), outcomes.values()))


def _of_one(one: float) -> Iterator[float]:
    for unit in CONVERSIONS:
        yield from (one * unit, one / unit)
    yield from (one - 12, 100 - one)  # twelve hours, and the rest of a share


def _of_two(one: float, other: float) -> Iterator[float]:
    yield from (one + other, one - other, one * other)
    if other:
        yield from (one / other, 100 * one / other, 100 * (one - other) / other)


def _same(claimed: float, known: float, claim: Claim) -> bool:
    """Whether a claimed number is a known one, to the digits in which it is claimed."""
    if not math.isfinite(known):
        return False
    if claim.rough and abs(claimed - known) <= NEAR * abs(known):
        return True
    return abs(claimed - known) <= 0.5 * 10.0 ** -max(0, claim.decimals) + _EXACT


def _values(value: Any, depth: int) -> Iterator[Any]:  # noqa: ANN401 - any JSON
    """Yields the leaves of a value, and its lists and objects themselves."""
    if value is None or isinstance(value, bool):
        return
    yield value if depth < DEEP or not isinstance(value, dict | list) else ""
    if depth < DEEP and isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _values(item, depth + 1)
