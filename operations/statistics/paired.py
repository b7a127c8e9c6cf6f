"""Paired differences by Case, with the Case or its source group as the unit of evidence."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from operations.statistics.distributions import t_quantile, t_tail, zero_event_bound

_LOG_DIGITS = 12
"""Digits of a logarithm that count, so that rounding is not taken for variance."""

_WIDEST = 700.0
"""Logarithms of a bound beyond this, either way, are shown as this: its ratio would not be a float, and excludes
nothing that could be measured."""


@dataclass(frozen=True)
class PairedEstimate:
    """A mean of paired differences.

    `standard_error` is zero when no unit differs from another, and None with fewer than two units; neither says that
    the mean is certain, so bounds go through `lower` and `upper`.
    """

    n: int
    units: int
    mean: float
    standard_error: float | None

    @property
    def df(self) -> int:
        """Degrees of freedom: one less than the units."""
        return self.units - 1

    @property
    def deviation(self) -> float | None:
        """The standard deviation of the differences that belongs to the standard error."""
        return None if self.standard_error is None else self.standard_error * math.sqrt(self.n)

    @property
    def t(self) -> float | None:
        """The mean in standard errors, where there is one."""
        return self.mean / self.standard_error if self.standard_error else None

    def p_above(self, null: float = 0.0) -> float | None:
        """Returns the one-sided probability of a mean this large if it truly were `null`; None without variance."""
        return t_tail((self.mean - null) / self.standard_error, self.df) if self.standard_error else None

    def lower(self, alpha: float = 0.05) -> float:
        """Returns the one-sided lower bound of the mean of differences that lie between -1 and 1.

        Without variance the bound is not the mean itself: up to 1 - alpha^(1/units) of all units may be ones that were
        not met, and each of those may lie at the worst value.
        """
        if self.standard_error:
            return max(-1.0, self.mean - t_quantile(1 - alpha, self.df) * self.standard_error)
        return self.mean - zero_event_bound(self.units, alpha) * (1 + self.mean)

    def upper(self, alpha: float = 0.05) -> float:
        """Returns the one-sided upper bound, as `lower` does."""
        if self.standard_error:
            return min(1.0, self.mean + t_quantile(1 - alpha, self.df) * self.standard_error)
        return self.mean + zero_event_bound(self.units, alpha) * (1 - self.mean)

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Returns the two-sided interval."""
        tail = (1 - confidence) / 2
        return self.lower(tail), self.upper(tail)


def paired_mean(differences: Sequence[Fraction | float], groups: Sequence[Hashable] | None = None) -> PairedEstimate:
    """Returns the mean difference over Cases, its standard error clustered by `groups` where they are given.

    By Case: s/sqrt(n). By group: Miller 2024 (arXiv 2411.00640), SE^2 = sum over groups of the squared sum of
    residuals, over n^2, times G/(G-1); with one Case per group both agree. Sums are exact, so that a standard error of
    zero means that nothing varied and not that rounding hid it.
    """
    values = [d if isinstance(d, Fraction) else Fraction(d) for d in differences]
    n = len(values)
    if n == 0:
        return PairedEstimate(0, 0, 0.0, None)
    scale = math.lcm(*{v.denominator for v in values})
    whole = [v.numerator * (scale // v.denominator) for v in values]
    total = sum(whole)
    mean = float(Fraction(total, n * scale))
    residuals: dict[Hashable, int] = {}
    for unit, value in zip(range(n) if groups is None else groups, whole, strict=True):
        residuals[unit] = residuals.get(unit, 0) + n * value - total
    units = len(residuals)
    if units < 2:  # noqa: PLR2004 - one unit has no spread
        return PairedEstimate(n, units, mean, None)
    squares = sum(r * r for r in residuals.values())
    return PairedEstimate(n, units, mean, math.sqrt(Fraction(squares * units, (n * n * scale) ** 2 * (units - 1))))


@dataclass(frozen=True)
class RatioEstimate:
    """A geometric mean ratio of right to left, with its two-sided interval and both one-sided bounds."""

    ratio: float
    standard_error_log: float | None
    lower: float | None
    upper: float | None
    lower_one_sided: float | None
    upper_one_sided: float | None
    units: int
    p_below: float | None
    """The one-sided probability of a ratio this small if it truly were one."""

    @property
    def log_ratio(self) -> float:
        """The mean of the logarithms."""
        return math.log(self.ratio)

    @property
    def log_upper_one_sided(self) -> float | None:
        """The logarithm of the one-sided bound."""
        return None if self.upper_one_sided is None else math.log(self.upper_one_sided)


def paired_log_ratio(
    left: Sequence[float], right: Sequence[float], alpha: float = 0.05, groups: Sequence[Hashable] | None = None
) -> RatioEstimate:
    """Returns how many times the left value the right one is, from paired logarithms of positive values.

    The unit is the Case, or its group where `groups` are given. Where nothing varies, the sign test bounds the median
    by the value that all units share, once there are so many that half to their power is at most `alpha`. A ratio is
    unbounded, so below that there is no bound, and the fields are None.
    """
    logs = [round(math.log(r / x), _LOG_DIGITS) for x, r in zip(left, right, strict=True)]
    estimate = paired_mean(logs, groups)
    error, centre, units = estimate.standard_error, estimate.mean, estimate.units
    if error:
        wide, narrow = (t_quantile(1 - a, estimate.df) * error for a in (alpha / 2, alpha))
        low, high, least, most = (_ratio(centre + d) for d in (-wide, wide, -narrow, narrow))
        p = t_tail(-centre / error, estimate.df)
        return RatioEstimate(math.exp(centre), error, low, high, least, most, units, p)
    ratio, sure = math.exp(centre), units > 0 and 0.5**units <= alpha
    one, two = (ratio if sure else None), (ratio if sure and 0.5**units <= alpha / 2 else None)
    least_p = (0.5**units if centre < 0 else 1.0) if units else None
    return RatioEstimate(ratio, error, two, two, one, one, units, least_p)


def _ratio(logarithm: float) -> float:
    return math.exp(min(_WIDEST, max(-_WIDEST, logarithm)))
