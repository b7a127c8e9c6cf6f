"""What happened to each Case, from two outcome tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operations.tuning.comparison import compare, mismatches

P, F, U, N = "pass", "fail", "unknown", "not_applicable"
OUTCOMES = st.sampled_from((P, F, U, N))


def one(left, right, repeats=3):
    return compare("d", {"c": left}, {"c": right}, case_ids=("c",), repeats=repeats)


@pytest.mark.parametrize(
    ("left", "right", "movement"),
    [
        ((F, F, F), (P, F, F), "fixed"),
        ((P, P, P), (P, F, P), "regressed"),
        ((F, F, F), (F, F, F), "persistent_failure"),
        ((P, P, P), (P, P, P), "stable_success"),
        ((P, F, P), (F, P, P), "unchanged_mixed"),
        ((P, F, U), (P, P, P), "unknown"),
        ((P, P, P), (P, P), "unknown"),
        ((P, P, N), (P, P, P), "unknown"),
        ((P, F, N), (P, P, N), "fixed"),
    ],
)
def test_movement(left, right, movement):
    assert one(left, right).facts[0].movement == movement


def test_what_applies_on_neither_side_is_left_out():
    found = one((N, N, N), (N, N, N))
    assert (found.facts, found.excluded, found.delta) == ((), ("c",), None)
    assert found.counts.not_applicable == 1


def test_what_applies_on_one_side_only_is_unknown():
    fact = one((N, N, N), (P, P, P)).facts[0]
    assert (fact.movement, fact.left_unknown, fact.known) == ("unknown", 3, False)


def test_a_case_without_outcomes_is_unknown_and_not_left_out():
    found = compare("d", {}, {}, case_ids=("a", "b"), repeats=2)
    assert found.unknown == ("a", "b")


def test_fell_to_nothing_needs_all_and_then_none():
    assert one((P, P, P), (F, F, F)).lists.fell_to_nothing == ("c",)
    assert one((P, F, P), (F, F, F)).lists.fell_to_nothing == ()
    assert one((P, P, P), (F, F, P)).lists.fell_to_nothing == ()


def test_the_mean_weighs_cases_and_not_runs():
    found = compare("d", {"a": (F,), "b": (P, P)}, {"a": (P, U), "b": (P, P)}, case_ids=("a", "b"), repeats=2)
    assert found.delta == 0.5


def test_cases_and_repeats_that_no_plan_asked_for_are_named():
    found = mismatches("d", {"c": (P, P), "x": (P,)}, {"c": (P,)}, case_ids=("c",), repeats=1)
    assert len(found) == 2
    assert "such as x" in found[0]
    assert "the planned 1 repeat of 1 Case in" in found[1]


@given(st.lists(st.tuples(OUTCOMES, OUTCOMES), min_size=1, max_size=4))
def test_swapping_sides_negates_the_difference(slots):
    left, right = zip(*slots, strict=True)
    there, back = one(left, right, len(slots)), one(right, left, len(slots))
    assert there.delta == (None if back.delta is None else -back.delta)
    assert (there.counts.fixed, there.counts.regressed) == (back.counts.regressed, back.counts.fixed)


@given(st.lists(st.tuples(OUTCOMES, OUTCOMES), min_size=1, max_size=4))
def test_bounds_enclose_the_difference(slots):
    left, right = zip(*slots, strict=True)
    for fact in one(left, right, len(slots)).facts:
        worst, best = fact.filled(favour="left").difference, fact.filled(favour="right").difference
        assert worst <= best
        if fact.known:
            assert worst <= fact.difference <= best
