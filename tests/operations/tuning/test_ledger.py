"""The error ledger: looks are counted for each Case and their levels sum to alpha."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operations.tuning.ledger import after_look, alpha_left, alpha_of_look, alpha_spent, next_look
from storage.schema.validations import Look


def test_levels_of_the_first_looks():
    levels = [alpha_of_look(0.05, i) for i in range(1, 9)]
    assert levels[:4] == pytest.approx([0.025, 0.008333, 0.004167, 0.0025], abs=5e-7)
    assert sum(levels) == pytest.approx(0.044444, abs=5e-7)


@pytest.mark.parametrize("looks", [0, 1, 8, 100])
def test_spent_is_the_sum_and_left_is_the_rest(looks):
    assert alpha_spent(0.05, looks) == pytest.approx(sum(alpha_of_look(0.05, i) for i in range(1, looks + 1)))
    assert alpha_spent(0.05, looks) + alpha_left(0.05, looks) == pytest.approx(0.05)


def test_a_comparison_is_the_latest_look_of_any_target():
    looks = (Look(case_id="a", count=3), Look(case_id="b", count=1))
    assert next_look(looks, ["b"]) == 2
    assert next_look(looks, ["a", "b"]) == 4
    assert next_look(looks, ["new"]) == 1
    assert next_look((), []) == 1


def test_a_look_counts_for_its_targets_alone():
    looks = after_look((Look(case_id="a", count=3),), ["b", "a", "b"])
    assert {x.case_id: x.count for x in looks} == {"a": 4, "b": 1}


@given(st.lists(st.sets(st.sampled_from("abc"), min_size=1), max_size=12))
def test_no_case_is_ever_charged_more_than_alpha(comparisons):
    looks, charged = (), dict.fromkeys("abc", 0.0)
    for targets in comparisons:
        for case in targets:
            charged[case] += alpha_of_look(0.05, next_look(looks, targets))
        looks = after_look(looks, targets)
    assert all(x <= 0.05 for x in charged.values())
