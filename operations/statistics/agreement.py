"""How far a judge's verdicts can be trusted, and what they say about the true pass rate."""

from __future__ import annotations

import math
from dataclasses import dataclass

from operations.statistics.distributions import normal_quantile


def kappa(table: tuple[tuple[int, int], tuple[int, int]]) -> float:
    """Returns Cohen's kappa of two judges' pass and fail counts, rows and columns in the same order."""
    n = sum(map(sum, table))
    observed = (table[0][0] + table[1][1]) / n
    chance = sum(sum(table[i]) * (table[0][i] + table[1][i]) for i in range(2)) / n**2
    return (observed - chance) / (1 - chance)


def corrected_rate(observed: float, *, sensitivity: float, specificity: float) -> float:
    """Returns the true pass rate behind a judge's (Rogan and Gladen 1978), within 0 and 1."""
    return min(1.0, max(0.0, (observed + specificity - 1) / (sensitivity + specificity - 1)))


@dataclass(frozen=True)
class PoweredRate:
    """A pass rate from many judged and few human verdicts."""

    rate: float
    standard_error: float

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Returns the two-sided normal interval."""
        half = normal_quantile((1 + confidence) / 2) * self.standard_error
        return self.rate - half, self.rate + half


@dataclass(frozen=True)
class Verdicts:
    """A mean of verdicts, their number and their variance."""

    mean: float
    n: int
    variance: float


def prediction_powered(judged: Verdicts, correction: Verdicts) -> PoweredRate:
    """Returns the judge's mean plus the mean of human minus judge where both spoke (Angelopoulos et al. 2023)."""
    error = math.sqrt(judged.variance / judged.n + correction.variance / correction.n)
    return PoweredRate(judged.mean + correction.mean, error)


def pass_at(k: int, *, passes: int, runs: int) -> float:
    """Returns the chance that at least one of `k` of the runs passed."""
    return 1 - math.comb(runs - passes, k) / math.comb(runs, k)


def pass_all(k: int, *, passes: int, runs: int) -> float:
    """Returns the chance that all of `k` of the runs passed."""
    return math.comb(passes, k) / math.comb(runs, k)
