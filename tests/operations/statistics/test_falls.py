"""Steep falls of single Cases: their weights, and the exact chance of as many against enumeration."""

import itertools
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operations.statistics import falls
from operations.statistics.exact import Stratum


@st.composite
def strata(draw):
    left, right = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    return Stratum(draw(st.integers(0, left)), left, draw(st.integers(0, right)), right)


def by_enumeration(cases):
    """Deals every Case's passes to its runs in all ways, and counts those whose falls weigh at least as much."""
    reached = of = 0
    observed = falls.total_weight(cases)
    runs = [range(c.left_runs + c.right_runs) for c in cases]
    totals = [c.left_passes + c.right_passes for c in cases]
    for deal in itertools.product(*(itertools.combinations(r, t) for r, t in zip(runs, totals, strict=True))):
        dealt = [
            Stratum(c.left_passes + c.right_passes - right, c.left_runs, right, c.right_runs)
            for c, chosen in zip(cases, deal, strict=True)
            for right in [sum(i >= c.left_runs for i in chosen)]
        ]
        of += 1
        reached += falls.total_weight(dealt) >= observed
    return Fraction(reached, of)


@settings(deadline=None)
@given(st.lists(strata(), min_size=1, max_size=3))
def test_chance_of_as_many_falls_equals_enumeration(cases):
    wanted = 1.0 if falls.total_weight(cases) < falls.BLOCKING else float(by_enumeration(cases))
    assert falls.steep_falls_test(cases) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize(
    ("left", "right", "runs", "weight"),
    [
        (3, 0, 3, 2),  # one in twenty by chance
        (3, 1, 3, 1),
        (2, 0, 3, 1),
        (3, 2, 3, 0),
        (5, 0, 5, 2),
        (5, 1, 5, 2),
        (4, 0, 5, 2),
        (5, 2, 5, 1),
        (4, 1, 5, 1),
        (5, 3, 5, 0),
        (10, 4, 10, 2),
        (10, 5, 10, 0),
        (1, 5, 5, 0),
        (0, 0, 5, 0),
    ],
)
def test_a_fall_weighs_by_what_its_own_runs_show(left, right, runs, weight):
    assert falls.weight_of_fall(Stratum(left, runs, right, runs)) == weight


def test_one_fall_that_chance_deals_often_is_not_asked_about():
    assert falls.steep_falls_test([Stratum(3, 3, 1, 3)]) == 1


def test_the_same_falls_say_less_among_more_cases_that_vary():
    fell = [Stratum(5, 5, 1, 5)]
    few, many = (falls.steep_falls_test(fell + [Stratum(3, 5, 3, 5)] * n) for n in (4, 400))
    assert few < 0.2 < many


def test_cases_that_cannot_fall_change_nothing():
    fell = [Stratum(5, 5, 1, 5)] * 2
    assert falls.steep_falls_test(fell + [Stratum(5, 5, 5, 5)] * 50) == falls.steep_falls_test(fell)
