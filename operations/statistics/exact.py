"""Exact tests for few Cases: over repeats within Cases, over the signs of Case differences, over discordant pairs.

Both convolutions count arrangements in integers. One that would take more than `EXACT_STEPS` elementary steps is
replaced by the normal approximation with a continuity correction, and the result says so in `method`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Literal, NamedTuple

from operations.statistics.distributions import binomial_tail, normal_tail

EXACT_STEPS = 100_000
"""Elementary steps that one exact test may take before the normal approximation stands in."""

REFINED_STEPS = 30_000
"""Elementary steps that breaking ties in the total may take."""

LEAST_P = 1e-300
"""What a probability too small for a float is reported as: no finite evidence has probability zero."""

Method = Literal["exact", "exact_ties_broken", "normal"]
_State = tuple[int, int]


class Stratum(NamedTuple):
    """One Case's passes and runs on both sides."""

    left_passes: int
    left_runs: int
    right_passes: int
    right_runs: int

    @property
    def swapped(self) -> Stratum:
        """The same Case with its sides exchanged."""
        return Stratum(self.right_passes, self.right_runs, self.left_passes, self.left_runs)

    @property
    def informative(self) -> bool:
        """Whether the Case's total leaves any choice of which side the passes fell on."""
        total = self.left_passes + self.right_passes
        return 0 < total < self.left_runs + self.right_runs and self.left_runs > 0 and self.right_runs > 0


class ExactTest(NamedTuple):
    """A one-sided probability, how it was found, and how many units could have moved it."""

    p: float
    method: Method
    informative: int


class _Margin(NamedTuple):
    """What the conditional test holds fixed of one Case."""

    total: int
    left_runs: int
    right_runs: int


def conditional_test(strata: Iterable[Stratum], *, break_ties: bool = False) -> ExactTest:
    """Returns the probability of at least as many right passes, given each Case's total passes over both sides.

    Under the hypothesis that a Case passes equally often on both sides, its right passes are hypergeometric given its
    total, so their sum over Cases has the convolution as its distribution (the exact test of a common odds ratio of
    one; Gart 1970). No informative Case gives p = 1.

    `break_ties` orders arrangements of the same sum by the sum of squared excesses over the Cases. The test stays
    exact and becomes less coarse, so that it rejects nearer to its level (a backup statistic; Cohen and Sackrowitz
    1992); it falls back to the sum alone beyond `REFINED_STEPS`.
    """
    cases = [s for s in strata if s.informative]
    if not cases:
        return ExactTest(1.0, "exact", 0)
    margins = tuple(sorted(_Margin(s.left_passes + s.right_passes, s.left_runs, s.right_runs) for s in cases))
    observed = sum(s.right_passes for s in cases)
    if break_ties and (refined := _distribution(margins, refine=True)) is not None:
        squares = sum(_excess(s.right_passes, _Margin(s.left_passes + s.right_passes, s[1], s[3])) ** 2 for s in cases)
        return ExactTest(_tail(refined, (observed, squares)), "exact_ties_broken", len(cases))
    if (plain := _distribution(margins, refine=False)) is not None:
        return ExactTest(_tail(plain, (observed, 0)), "exact", len(cases))
    mean = math.fsum(m.total * m.right_runs / (m.left_runs + m.right_runs) for m in margins)
    deviation = math.sqrt(math.fsum(_variance(m) for m in margins))
    return ExactTest(max(normal_tail((observed - 0.5 - mean) / deviation), LEAST_P), "normal", len(cases))


def _excess(right: int, margin: _Margin) -> int:
    """Returns the right passes beyond their expectation, in units of one run of both sides, so that it is whole."""
    return right * (margin.left_runs + margin.right_runs) - margin.total * margin.right_runs


def _variance(margin: _Margin) -> float:
    runs = margin.left_runs + margin.right_runs
    spread = margin.total * (runs - margin.total) * margin.left_runs * margin.right_runs
    return spread / (runs * runs * (runs - 1))


@lru_cache(maxsize=4096)
def _distribution(margins: tuple[_Margin, ...], *, refine: bool) -> Mapping[_State, int] | None:
    """Returns how many arrangements give each (sum, sum of squares), or None where that takes too many steps."""
    budget = REFINED_STEPS if refine else EXACT_STEPS
    ways: dict[_State, int] = {(0, 0): 1}
    for margin in margins:
        choices = [
            (
                right,
                _excess(right, margin) ** 2 if refine else 0,
                math.comb(margin.right_runs, right) * math.comb(margin.left_runs, margin.total - right),
            )
            for right in range(max(0, margin.total - margin.left_runs), min(margin.right_runs, margin.total) + 1)
        ]
        budget -= len(ways) * len(choices)
        if budget < 0:
            return None
        wider: dict[_State, int] = {}
        for (passes, squares), count in ways.items():
            for right, square, weight in choices:
                state = (passes + right, squares + square)
                wider[state] = wider.get(state, 0) + count * weight
        ways = wider
    return ways


def _tail(ways: Mapping[_State, int], observed: _State) -> float:
    return _probability(sum(count for state, count in ways.items() if state >= observed), sum(ways.values()))


def _probability(count: int, of: int) -> float:
    return max(float(Fraction(count, of)), LEAST_P)


def least_attainable_p(runs: Iterable[tuple[int, int]]) -> float:
    """Returns the least p that `conditional_test` can reach over Cases of (left, right) runs.

    It is reached when every run on the left fails and every run on the right passes.
    """
    return _probability(1, math.prod(math.comb(left + right, right) for left, right in runs))


def sign_flip(differences: Sequence[Fraction]) -> ExactTest:
    """Returns the one-sided sign-flip permutation probability that the mean difference is this large or larger.

    Exact when left and right are exchangeable within each Case: the share of the 2^n sign assignments whose sum is at
    least the observed one. Ties (zeros) change nothing and are left out.
    """
    moved = [d for d in differences if d]
    if not moved:
        return ExactTest(1.0, "exact", 0)
    unit = math.lcm(*(d.denominator for d in moved))
    moves = [d.numerator * (unit // d.denominator) for d in moved]
    steps, observed = [abs(m) for m in moves], sum(moves)
    ways: dict[int, int] = {0: 1}
    budget = EXACT_STEPS
    for step in steps:
        budget -= 2 * len(ways)
        if budget < 0:
            deviation = math.sqrt(sum(s * s for s in steps))
            return ExactTest(max(normal_tail((observed - math.gcd(*steps)) / deviation), LEAST_P), "normal", len(moved))
        wider: dict[int, int] = {}
        for total, count in ways.items():
            wider[total + step] = wider.get(total + step, 0) + count
            wider[total - step] = wider.get(total - step, 0) + count
        ways = wider
    reached = sum(count for total, count in ways.items() if total >= observed)
    return ExactTest(_probability(reached, 2 ** len(moved)), "exact", len(moved))


def sign_test(wins: int, losses: int) -> tuple[float, float]:
    """Returns the one-sided (more wins) and two-sided exact sign test probabilities; ties do not enter."""
    one_sided = binomial_tail(wins, wins + losses)
    return one_sided, min(1.0, 2 * binomial_tail(max(wins, losses), wins + losses))


def mcnemar(regressions: int, fixes: int) -> tuple[float, float, float]:
    """Returns McNemar's exact one-sided (more fixes), two-sided and one-sided mid-p probabilities."""
    one_sided, two_sided = sign_test(fixes, regressions)
    point = math.comb(regressions + fixes, fixes) / 2 ** (regressions + fixes)
    return one_sided, two_sided, one_sided - point / 2
