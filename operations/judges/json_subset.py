"""The judge `json_subset`: passes when everything in the expected JSON value is in the output's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from operations.judges._json_sides import DocumentSettings, document, wanted
from operations.judges._judge import Comparison, Judgement, judge_with, same

_PAIRS = 250_000
"""Pairs of items that are compared for lists in any order, in one Record."""


class SubsetSettings(DocumentSettings):
    """What of a list has to be there."""

    lists: Literal["same_length", "any_order"] = "same_length"
    """Item by item; or, `any_order`, each expected item has an item of its own, wherever it stands."""


class _TooMany(Exception):
    """The lists are too long to be compared in any order."""


@judge_with(SubsetSettings)
def json_subset(sides: Comparison[SubsetSettings]) -> Judgement:
    """Passes when every field and item of the expected value is in the output; what else is there does not matter."""
    found, said = document(sides)
    if said is not None:
        return said
    inside = _Inside(any_order=sides.settings.lists == "any_order")
    try:
        passed = any(inside.holds(one, found) for one in wanted(sides.expected, sides.settings))
    except _TooMany:
        return Judgement("unknown", "The lists are too long to be compared in any order.")
    if passed:
        return Judgement("pass", "The output holds everything that was expected.")
    return Judgement("fail", "The output lacks something that was expected.")


class _Inside:
    def __init__(self, *, any_order: bool) -> None:
        self._any_order = any_order
        self._left = _PAIRS

    def holds(self, part: Any, whole: Any) -> bool:  # noqa: ANN401 - JSON
        """Returns whether `part` is in `whole`."""
        if isinstance(part, dict) and isinstance(whole, dict):
            return all(name in whole and self.holds(item, whole[name]) for name, item in part.items())
        if isinstance(part, list) and isinstance(whole, list):
            if self._any_order:
                return len(part) <= len(whole) and self._matched(part, whole)
            return len(part) == len(whole) and all(map(self.holds, part, whole))
        return same(part, whole)

    def _matched(self, part: Sequence[Any], whole: Sequence[Any]) -> bool:
        """Returns whether each item of `part` has one of `whole` to itself: augmenting paths in a bipartite graph."""
        self._left -= len(part) * len(whole)
        if self._left < 0:
            raise _TooMany
        fits = [[n for n, item in enumerate(whole) if self.holds(wanted_item, item)] for wanted_item in part]
        taken: dict[int, int] = {}
        return all(_placed(n, fits, taken) for n in range(len(part)))


def _placed(start: int, fits: list[list[int]], taken: dict[int, int]) -> bool:
    """Gives item `start` a place, moving others where that makes room. Breadth first, so that nothing recurses."""
    came: dict[int, int] = {}
    waiting = [start]
    for item in waiting:
        for place in fits[item]:
            if place in came:
                continue
            came[place] = item
            if place not in taken:
                _moved(place, start, came, taken)
                return True
            waiting.append(taken[place])
    return False


def _moved(place: int, start: int, came: dict[int, int], taken: dict[int, int]) -> None:
    held = {item: where for where, item in taken.items()}
    while True:
        item = came[place]
        taken[place] = item
        if item == start:
            return
        place = held[item]
