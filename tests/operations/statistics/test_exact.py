"""The exact tests against enumeration, and where they give way to an approximation."""

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operations.statistics import exact
from operations.statistics.exact import Stratum


@st.composite
def strata(draw):
    left, right = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    return Stratum(draw(st.integers(0, left)), left, draw(st.integers(0, right)), right)


def by_enumeration(cases, key):
    """Deals every Case's passes to its runs in all ways, and counts those at least as extreme."""
    reached = of = 0
    observed = key(cases, [c.right_passes for c in cases])
    totals = [c.left_passes + c.right_passes for c in cases]
    runs = [range(c.left_runs + c.right_runs) for c in cases]
    for deal in itertools.product(*(itertools.combinations(r, t) for r, t in zip(runs, totals, strict=True))):
        right = [sum(i >= c.left_runs for i in chosen) for c, chosen in zip(cases, deal, strict=True)]
        of += 1
        reached += key(cases, right) >= observed
    return Fraction(reached, of)


def total(_cases, right):
    return sum(right)


def total_and_squares(cases, right):
    excess = [
        r * (c.left_runs + c.right_runs) - (c.left_passes + c.right_passes) * c.right_runs
        for c, r in zip(cases, right, strict=True)
    ]
    return sum(right), sum(e * e for e in excess)


@settings(deadline=None)
@given(st.lists(strata(), min_size=1, max_size=3))
def test_conditional_test_equals_enumeration(cases):
    assert exact.conditional_test(cases).p == pytest.approx(float(by_enumeration(cases, total)), abs=1e-12)


@settings(deadline=None)
@given(st.lists(strata(), min_size=1, max_size=3))
def test_conditional_test_with_ties_broken_equals_enumeration(cases):
    found = exact.conditional_test(cases, break_ties=True).p
    assert found == pytest.approx(float(by_enumeration(cases, total_and_squares)), abs=1e-12)


@settings(deadline=None)
@given(st.lists(strata(), min_size=1, max_size=4))
def test_breaking_ties_never_raises_p(cases):
    assert exact.conditional_test(cases, break_ties=True).p <= exact.conditional_test(cases).p


@settings(deadline=None)
@given(st.lists(st.fractions(-1, 1, max_denominator=6), min_size=1, max_size=6))
def test_sign_flip_equals_enumeration(differences):
    total = sum(differences)
    ways = list(itertools.product((1, -1), repeat=len(differences)))
    reached = sum(sum(s * d for s, d in zip(signs, differences, strict=True)) >= total for signs in ways)
    assert exact.sign_flip(differences).p == pytest.approx(reached / len(ways), abs=1e-12)


def test_nothing_informative_is_no_evidence():
    assert exact.conditional_test([]).p == 1
    assert exact.conditional_test([Stratum(3, 3, 3, 3), Stratum(0, 3, 0, 3), Stratum(0, 0, 3, 3)]).p == 1
    assert exact.sign_flip([]).p == 1


def test_least_p_is_reached_and_never_zero():
    assert exact.conditional_test([Stratum(0, 3, 3, 3)] * 2).p == exact.least_attainable_p([(3, 3)] * 2) == 1 / 400
    assert exact.least_attainable_p([(5, 5)] * 1000) > 0
    assert exact.conditional_test([Stratum(0, 5, 5, 5)] * 1000).p > 0


@pytest.mark.parametrize(("times", "method"), [(2, "exact_ties_broken"), (12, "exact")])
def test_ties_in_the_total_stay_where_breaking_them_takes_too_long(times, method):
    cases = [Stratum(2, 5, 3, 5), Stratum(1, 5, 4, 5)] * times
    found = exact.conditional_test(cases, break_ties=True)
    assert (found.method, found.informative) == (method, 2 * times)


@pytest.mark.parametrize("gain", [0, 1])
def test_normal_approximation_is_near_the_exact_value(gain, monkeypatch):
    cases = [Stratum(2, 5, 2 + gain, 5), Stratum(4, 5, 4, 5)] * 20
    precise = exact.conditional_test(cases)
    monkeypatch.setattr(exact, "EXACT_STEPS", 0)
    exact._distribution.cache_clear()
    rough = exact.conditional_test(cases)
    exact._distribution.cache_clear()
    assert (precise.method, rough.method) == ("exact", "normal")
    assert rough.p == pytest.approx(precise.p, rel=0.05)


def test_normal_sign_flip_is_near_the_exact_value(monkeypatch):
    differences = [Fraction(x, 5) for x in (1, -1, 2, -2, 1, 0, 3, -1)] * 8
    precise = exact.sign_flip(differences)
    monkeypatch.setattr(exact, "EXACT_STEPS", 0)
    rough = exact.sign_flip(differences)
    assert (precise.method, rough.method) == ("exact", "normal")
    assert rough.p == pytest.approx(precise.p, rel=0.05)


@pytest.mark.parametrize(("cases", "method"), [(60, "exact"), (1000, "normal"), (4000, "normal")])
def test_many_cases_give_way_to_the_normal_approximation(cases, method):
    found = exact.conditional_test([Stratum(2, 5, 3, 5)] * cases)
    assert found.method == method
    assert math.isfinite(found.p)
