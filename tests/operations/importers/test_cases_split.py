"""Dividing Cases: no group is cut, the order of rows does not matter, the seed does, and the source's word stands."""

from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operations.importers._cases_split import Split, SplitRefused, group_key

cases = st.lists(
    st.tuples(st.sampled_from("abcdefghij"), st.sampled_from([None, None, None, "optimization", "protection"])),
    min_size=1,
    max_size=60,
)
shares = st.floats(0.01, 0.99)
seeds = st.integers(0, 2**40)


def divided(rows, share, seed):
    split = Split(share, seed)
    for key, usage in rows:
        assert split.note(key, usage) == (usage or "optimization")
    split.decide()
    return [(key, usage, split.usage(key, usage)) for key, usage in rows], split


@given(cases, shares, seeds)
def test_a_group_is_on_one_side_unless_the_source_itself_cut_it(rows, share, seed):
    found, split = divided(rows, share, seed)
    given_sides, sides = defaultdict(set), defaultdict(set)
    for key, usage, side in found:
        given_sides[key] |= {usage} - {None}
        sides[key].add(side)
    cut = {key for key in sides if len(sides[key]) > 1}
    assert cut == {key for key in sides if len(given_sides[key]) > 1}
    counts = split.group_counts()
    assert (sum(counts.values()), counts["both_by_source"]) == (len(sides), len(cut))


@given(cases, shares, seeds)
def test_a_usage_that_the_source_gives_stands_and_draws_its_group_along(rows, share, seed):
    found, _ = divided(rows, share, seed)
    given_sides = defaultdict(set)
    for key, usage, side in found:
        if usage is not None:
            assert side == usage
            given_sides[key].add(usage)
    for key, usage, side in found:
        if usage is None and key in given_sides:
            assert side == ("protection" if given_sides[key] == {"protection"} else "optimization")


@given(cases, shares, seeds, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows, share, seed, random):
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert Counter(divided(rows, share, seed)[0]) == Counter(divided(shuffled, share, seed)[0])


@given(st.lists(st.integers(1, 5), min_size=2, max_size=30), shares, seeds)
def test_the_share_is_met_as_nearly_as_one_group(sizes, share, seed):
    rows = [(str(number), None) for number, size in enumerate(sizes) for _ in range(size)]
    found, _ = divided(rows, share, seed)
    protected = sum(side == "protection" for _, _, side in found)
    assert abs(protected - share * len(rows)) <= max(sizes) / 2 + 1e-9 or protected < share * len(rows)
    smallest = min(sizes)
    if protected < share * len(rows) - max(sizes):
        assert smallest > 1


@given(st.lists(st.integers(1, 5), min_size=2, max_size=30), st.floats(0.05, 0.45), st.floats(0.05, 0.45), seeds)
def test_a_holdout_share_is_dealt_beside_a_protected_one_and_what_was_seen_is_left_out(sizes, share, held, seed):
    split = Split(share, seed, held)
    rows = [(str(number), None) for number, size in enumerate(sizes) for _ in range(size)]
    for key, usage in rows:
        split.note(key, usage)
    split.decide(seen={"0", "1"})
    sides = [split.usage(key, None) for key, _ in rows]
    assert {key for key, side in zip(rows, sides, strict=True) if side == "holdout"}.isdisjoint({"0", "1"})
    assert sides.count("holdout") <= held * len(rows) + max(sizes) / 2
    assert sides.count("protection") <= share * len(rows) + max(sizes) / 2
    assert sum(split.group_counts().values()) == len(sizes)


@pytest.mark.parametrize(("protection", "holdout"), [(0, 0), (0.5, 0.5), (0.2, 0.9)])
def test_shares_that_leave_nothing_to_divide_or_to_optimize_on_are_refused(protection, holdout):
    with pytest.raises(SplitRefused) as raised:
        Split(protection, 1, holdout)
    assert "together above 0 and below 1" in str(raised.value)


def test_another_seed_divides_otherwise():
    rows = [(str(number), None) for number in range(40)]
    assert divided(rows, 0.5, 1)[0] == divided(rows, 0.5, 1)[0]
    assert divided(rows, 0.5, 1)[0] != divided(rows, 0.5, 2)[0]


def test_without_a_group_cases_of_the_same_content_stay_together_whatever_their_ids():
    first = {"id": "a", "input": {"q": 1, "p": 2}, "expected_present": False, "expected": None}
    assert group_key(None, first) == group_key(None, {**first, "id": "b", "input": {"p": 2, "q": 1}})
    assert group_key(None, first) != group_key(None, {**first, "input": {"q": 1}})
    assert group_key("a", first) == group_key("a", {**first, "input": 3})
    assert group_key("a", first) != group_key("b", first)
