"""How small an effect a plan can detect, and how many Cases or repeats a wanted effect needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from operations.statistics.distributions import normal_quantile, t_quantile
from operations.statistics.exact import least_attainable_p

POWER = 0.8
"""The chance of detection that a smallest detectable effect is stated for."""

MOST_REPEATS = 200
"""Beyond this many repeats no plan is suggested."""


@dataclass(frozen=True)
class VarianceComponents:
    """Where the variance of Case differences comes from: repeats of each side, and Cases that differ in effect."""

    left_within: float
    right_within: float
    differences: float
    between: float

    def standard_error(self, cases: int, repeats: int) -> float:
        """Returns the standard error of the mean difference over `cases` Cases of `repeats` repeats."""
        return math.sqrt((self.between + (self.left_within + self.right_within) / repeats) / cases)

    def floor(self, cases: int) -> float:
        """Returns the standard error that no number of repeats gets below."""
        return math.sqrt(self.between / cases)


def variance_components(left: Sequence[Sequence[int]], right: Sequence[Sequence[int]]) -> VarianceComponents:
    """Returns the components for Cases of equally many repeats, each 0 or 1: omega^2 = max(0, s_d^2 - within/K)."""
    repeats = len(left[0])
    left_within, right_within = (sum(_variance(case) for case in side) / len(side) for side in (left, right))
    spread = _variance([Fraction(sum(b) - sum(a), repeats) for a, b in zip(left, right, strict=True)])
    between = max(spread - (left_within + right_within) / repeats, 0.0)
    return VarianceComponents(left_within, right_within, spread, between)


def _variance(values: Sequence[Fraction | int]) -> float:
    mean = sum(values, Fraction()) / len(values)
    return float(sum(((v - mean) ** 2 for v in values), Fraction()) / (len(values) - 1))


def detectable_effect(standard_error: float, alpha: float, df: int | None = None, power: float = POWER) -> float:
    """Returns the effect that a one-sided test at `alpha` finds with `power`: SE times the sum of both quantiles.

    The quantile of 1 - alpha is Student's with `df` and the normal one without.
    """
    critical = normal_quantile(1 - alpha) if df is None else t_quantile(1 - alpha, df)
    return (critical + normal_quantile(power)) * standard_error


def cases_needed(effect: float, *, between: float, within: float, repeats: int, alpha: float = 0.05) -> int:
    """Returns the Cases for `POWER` at one-sided `alpha`; `within` is the sum of both sides' within-Case variances."""
    quantiles = normal_quantile(1 - alpha) + normal_quantile(POWER)
    return math.ceil(quantiles**2 * (between + within / repeats) / effect**2)


def repeats_for_p(cases: int, alpha: float) -> int | None:
    """Returns the fewest repeats with which `cases` target Cases can reach `alpha`; None where none is sensible."""
    return next(
        (k for k in range(1, MOST_REPEATS + 1) if least_attainable_p([(k, k)] * cases) <= alpha) if cases else iter(()),
        None,
    )


def repeats_for_effect(effect: float, *, cases: int, variance: float, alpha: float) -> int | None:
    """Returns the fewest repeats with which `cases` Cases show a mean difference of `effect` with `POWER`.

    `variance` is that of one run, on either side. None where it takes more than `MOST_REPEATS`.
    """
    quantiles = normal_quantile(1 - alpha) + normal_quantile(POWER)
    repeats = math.ceil(quantiles**2 * 2 * variance / (cases * effect**2)) if cases and effect > 0 else MOST_REPEATS + 1
    return repeats if repeats <= MOST_REPEATS else None


def cases_for_p(repeats: int, alpha: float) -> int:
    """Returns the fewest target Cases that can reach `alpha` with `repeats` repeats on each side."""
    count = 1
    while least_attainable_p([(repeats, repeats)] * count) > alpha:
        count += 1
    return count


def error_of_rates(left: Sequence[tuple[int, int]], right: Sequence[tuple[int, int]]) -> float:
    """Returns the standard error of the mean difference over the named Cases, from (passes, runs) of both sides.

    Both sides share a Case's rate, with half a pass and half a failure added: an observed rate of 0 or 1 has no
    variance and is still not certain.
    """
    total = 0.0
    for (left_passes, left_runs), (right_passes, right_runs) in zip(left, right, strict=True):
        rate = (left_passes + right_passes + 0.5) / (left_runs + right_runs + 1)
        total += rate * (1 - rate) * (1 / left_runs + 1 / right_runs)
    return math.sqrt(total) / len(left)


def paired_deviation(left: float, right: float, correlation: float) -> float:
    """Returns the standard deviation of a paired difference of two values with these deviations."""
    return math.sqrt(left * left + right * right - 2 * correlation * left * right)
