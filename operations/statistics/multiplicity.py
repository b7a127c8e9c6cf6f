"""Corrections for asking several questions, or the same one repeatedly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from operations.statistics.distributions import beta_cdf


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Returns p values adjusted so that the chance of any false rejection stays below alpha (Holm 1979)."""
    n = len(p_values)
    adjusted, largest = [0.0] * n, 0.0
    for rank, index in enumerate(sorted(range(n), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (n - rank) * p_values[index]))
        adjusted[index] = largest
    return tuple(adjusted)


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """Returns p values adjusted for the share of false ones among rejections; for exploration, not for gates."""
    n = len(p_values)
    adjusted, least = [0.0] * n, 1.0
    for rank, index in reversed(list(enumerate(sorted(range(n), key=p_values.__getitem__), start=1))):
        least = min(least, p_values[index] * n / rank)
        adjusted[index] = least
    return tuple(adjusted)


def discordant_e_value(fixes: int, regressions: int) -> float:
    """Returns 2^(b+c+1) times the integral of t^c (1-t)^b from 1/2 to 1: evidence that may be read at any time.

    At least 20 rejects at 0.05, whenever one looks (Ville 1939). It holds for one candidate on fresh Cases, not for
    new candidates on the same Cases.
    """
    a, b = fixes + 1, regressions + 1
    beta = math.exp(math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b))
    return float(2.0 ** (fixes + regressions + 1) * beta * (1 - beta_cdf(0.5, a, b)))


def betting_e_value(differences: Sequence[float], stake: float) -> float:
    """Returns the product of 1 + stake * difference, for differences in [-1, 1] and a stake in [0, 1)."""
    return math.prod(1 + stake * d for d in differences)


def any_false_rejection(alpha: float, looks: int) -> float:
    """Returns the chance of at least one false rejection in independent looks at `alpha` each."""
    return 1 - (1 - alpha) ** looks


def best_of_optimism(candidates: int) -> float:
    """Returns the expected maximum of as many standard normal values: the winner's curse, in standard errors.

    Simpson's rule over the density of the maximum, between -10 and 10.
    """
    normal, steps = NormalDist(), 4000
    width = 20 / steps
    total = 0.0
    for i in range(steps + 1):
        x = -10 + i * width
        weight = 1 if i in (0, steps) else 4 if i % 2 else 2
        total += weight * x * candidates * normal.pdf(x) * normal.cdf(x) ** (candidates - 1)
    return total * width / 3
