"""The distributions that the tests and bounds are read from: normal, Student's t, beta and binomial."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

_NORMAL = NormalDist()
_BISECTIONS = 200
_FRACTION_STEPS = 500
_TINY = 1e-300


def normal_quantile(probability: float) -> float:
    """Returns the standard normal quantile of `probability`, strictly between 0 and 1."""
    return _NORMAL.inv_cdf(probability)


def normal_tail(z: float) -> float:
    """Returns P(Z >= z) for a standard normal Z."""
    return 0.5 * math.erfc(z / math.sqrt(2))


def beta_cdf(x: float, a: float, b: float) -> float:
    """Returns the regularised incomplete beta function I_x(a, b).

    Continued fraction of Abramowitz and Stegun 26.5.8, evaluated by Lentz's method on the side where it converges fast.
    """
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_cdf(1 - x, b, a)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(scale) * _beta_fraction(x, a, b) / a


def _beta_fraction(x: float, a: float, b: float) -> float:
    c, d = 1.0, 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _FRACTION_STEPS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _away_from_zero(1 + term * d)
            c = _away_from_zero(1 + term / c)
            value *= c * d
        if abs(c * d - 1) < 1e-16:  # noqa: PLR2004 - one unit in the last place
            break
    return value


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


@lru_cache(maxsize=4096)
def beta_quantile(probability: float, a: float, b: float) -> float:
    """Returns the x with I_x(a, b) = `probability`."""
    return _bisect(lambda x: beta_cdf(x, a, b) - probability, 0.0, 1.0)


def t_tail(t: float, df: float) -> float:
    """Returns P(T >= t) for Student's t on `df` degrees of freedom."""
    half = 0.5 * beta_cdf(df / (df + t * t), df / 2, 0.5)
    return half if t >= 0 else 1 - half


def t_quantile(probability: float, df: float) -> float:
    """Returns the quantile of Student's t on `df` degrees of freedom; `probability` is strictly between 0 and 1."""
    if probability < 0.5:  # noqa: PLR2004 - the median, about which t is symmetric
        return -t_quantile(1 - probability, df)
    x = beta_quantile(2 * (1 - probability), df / 2, 0.5)
    return math.sqrt(df * (1 - x) / x)


def binomial_tail(successes: int, trials: int) -> float:
    """Returns P(X >= `successes`) for X binomial over `trials` fair coins, exactly until the last rounding."""
    reached = sum(math.comb(trials, k) for k in range(max(successes, 0), trials + 1))
    return float(Fraction(reached, 2**trials))


def clopper_pearson(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Returns the exact two-sided interval of a proportion (Clopper and Pearson 1934)."""
    tail = (1 - confidence) / 2
    lower = beta_quantile(tail, successes, trials - successes + 1) if successes else 0.0
    upper = beta_quantile(1 - tail, successes + 1, trials - successes) if successes < trials else 1.0
    return lower, upper


def wilson(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Returns the two-sided score interval of a proportion (Wilson 1927)."""
    z = normal_quantile((1 + confidence) / 2)
    rate = successes / trials
    centre = (rate + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    return centre - half, centre + half


def zero_event_bound(units: int, alpha: float = 0.05) -> float:
    """Returns the one-sided upper bound on a rate of which no event was seen in `units` units: 1 - alpha^(1/units)."""
    return 1 - alpha ** (1 / units) if units else 1.0


def units_for_zero_events(rate: float, alpha: float = 0.05) -> int:
    """Returns the fewest units without an event that bound the rate below `rate`."""
    return math.floor(math.log(alpha) / math.log1p(-rate)) + 1 if rate < 1 else 1


def _bisect(function: Callable[[float], float], low: float, high: float) -> float:
    """Returns the root of a rising `function` between `low` and `high`, as near as floats come."""
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return (low + high) / 2
