"""Intervals of a mean difference that are shown beside a test: Tango's score interval and the exact Case bootstrap."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from operations.statistics.distributions import normal_quantile

_BISECTIONS = 100
_EDGE = 1e-9


def tango(regressions: int, fixes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Returns the score interval of the difference of two paired proportions (Tango 1998, Stat. Med. 17:891)."""
    z = normal_quantile((1 + confidence) / 2)
    estimate = (fixes - regressions) / n

    def crossing(low: float, high: float, level: float) -> float:
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if _score(regressions, fixes, n, middle) > level else (low, middle)
        return (low + high) / 2

    lower = crossing(-1 + _EDGE, estimate, z) if estimate > -1 else -1.0
    upper = crossing(estimate, 1 - _EDGE, -z) if estimate < 1 else 1.0
    return lower, upper


def _score(regressions: int, fixes: int, n: int, difference: float) -> float:
    """Returns the standardised distance from `difference`, its variance estimated under that difference."""
    gain = fixes - regressions
    linear = (2 * n - gain) * difference - regressions - fixes
    root = linear * linear + 8 * n * regressions * difference * (1 - difference)
    lost = (math.sqrt(max(root, 0.0)) - linear) / (4 * n)
    variance = n * (2 * lost + difference * (1 - difference))
    return (
        (gain - n * difference) / math.sqrt(variance)
        if variance > 0
        else math.copysign(math.inf, gain - n * difference)
    )


def case_bootstrap(differences: Sequence[Fraction], confidence: float = 0.95) -> tuple[float, float]:
    """Returns the exact percentile interval of the mean over Cases drawn with replacement, by convolution.

    It covers too little below about ten Cases: to show, not to decide by.
    """
    n = len(differences)
    scale = math.lcm(*{d.denominator for d in differences})
    single = Counter(int(d * scale) for d in differences)
    ways: dict[int, int] = {0: 1}
    for _ in range(n):
        wider: dict[int, int] = {}
        for total, count in ways.items():
            for step, times in single.items():
                wider[total + step] = wider.get(total + step, 0) + count * times
        ways = wider
    tail = Fraction(1 - Fraction(str(confidence)), 2)
    lower, upper = (Fraction(_quantile(ways, p, n**n), n * scale) for p in (tail, 1 - tail))
    return float(lower), float(upper)


def _quantile(ways: dict[int, int], probability: Fraction, of: int) -> int:
    reached = 0
    for total in sorted(ways):
        reached += ways[total]
        if reached >= probability * of:
            return total
    return max(ways)
