"""Two texts beside each other, line by line, with what differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

LINES = 120
"""Lines of each side that are compared; what follows is said and not shown."""


@dataclass(frozen=True)
class Pair:
    """A line of the left and of the right; None where a side has none."""

    left: str | None
    right: str | None
    kind: Literal["same", "changed", "removed", "added"]


def side_by_side(left: str, right: str) -> tuple[Pair, ...]:
    """Returns both texts as pairs of lines; each side is cut after `LINES` lines and says so in its last one."""
    a, b = _lines(left), _lines(right)
    pairs: list[Pair] = []
    for tag, a0, a1, b0, b1 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag == "equal":
            pairs += [Pair(line, line, "same") for line in a[a0:a1]]
        else:
            pairs += _changed(a[a0:a1], b[b0:b1])
    return tuple(pairs)


def _changed(left: Sequence[str], right: Sequence[str]) -> list[Pair]:
    both = min(len(left), len(right))
    pairs = [Pair(x, y, "changed") for x, y in zip(left, right, strict=False)]
    pairs += [Pair(x, None, "removed") for x in left[both:]]
    return [*pairs, *(Pair(None, y, "added") for y in right[both:])]


def _lines(text: str) -> list[str]:
    lines = text.splitlines()
    return lines if len(lines) <= LINES else [*lines[:LINES], f"… and {len(lines) - LINES} more lines"]
