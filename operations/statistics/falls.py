"""Harm that falls on single Cases: the exact chance of as many steep falls as were seen, if nothing changed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache

from operations.statistics.exact import Stratum

STEEP = Fraction(3, 5)
"""A Case that passes by this much less often on the right falls steeply."""

CLEAR = Fraction(1, 20)
"""A steep fall counts double when chance alone deals the Case one as large with this probability or less."""

BLOCKING = 2
"""Weight from which steep falls are worth asking about: one that counts double, or two."""


def weight_of_fall(case: Stratum) -> int:
    """Returns 0 for a Case that did not fall steeply, 2 for a fall that its own runs show, and 1 for another."""
    lost = case.left_passes * case.right_runs - case.right_passes * case.left_runs
    if lost <= 0 or STEEP.denominator * lost < STEEP.numerator * case.left_runs * case.right_runs:
        return 0
    total = case.left_passes + case.right_passes
    least = max(0, total - case.left_runs)
    reached = sum(
        math.comb(case.right_runs, right) * math.comb(case.left_runs, total - right)
        for right in range(least, case.right_passes + 1)
    )
    of = math.comb(case.left_runs + case.right_runs, total)
    return 2 if CLEAR.denominator * reached <= CLEAR.numerator * of else 1


@lru_cache(maxsize=4096)
def _chances(total: int, left_runs: int, right_runs: int) -> tuple[float, float, float]:
    """Returns the chance of each weight for a Case of `total` passes that is the same on both sides."""
    found = [0, 0, 0]
    for right in range(max(0, total - left_runs), min(right_runs, total) + 1):
        weight = weight_of_fall(Stratum(total - right, left_runs, right, right_runs))
        found[weight] += math.comb(right_runs, right) * math.comb(left_runs, total - right)
    of = math.comb(left_runs + right_runs, total)
    return found[0] / of, found[1] / of, found[2] / of


def total_weight(cases: Iterable[Stratum]) -> int:
    """Returns the weight of all steep falls together."""
    return sum(weight_of_fall(case) for case in cases)


def steep_falls_test(cases: Sequence[Stratum]) -> float:
    """Returns the probability of steep falls of at least the observed weight, given each Case's passes over both sides.

    Under the hypothesis that no Case changed, a Case's right passes are hypergeometric given its total, so the weight
    of each is known, and that of all is their convolution. One Case that breaks among many is lost in their mean, and
    shows here. A weight below `BLOCKING` gives 1.
    """
    observed = total_weight(cases)
    if observed < BLOCKING:
        return 1.0
    below = [1.0] + [0.0] * (observed - 1)
    for case in cases:
        if not case.informative:
            continue
        none, one, two = _chances(case.left_passes + case.right_passes, case.left_runs, case.right_runs)
        if none == 1:
            continue
        below = [
            none * below[w] + (one * below[w - 1] if w else 0.0) + (two * below[w - 2] if w > 1 else 0.0)
            for w in range(observed)
        ]
    return max(0.0, 1 - math.fsum(below))
