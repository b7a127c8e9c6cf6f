"""A holdout is run once, at the end, and what was seen of it is no fresh one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operations.tuning import holdout
from storage.schema.batches import Batch
from storage.schema.datasets import Case, CaseSource
from storage.schema.exposures import Exposure
from storage.schema.rounds import Plan, Round

AT = "2024-05-06T07:08:09+00:00"
D = "0" * 64


def case(name, usage="holdout", group=None):
    usual = {"input": None, "expected_present": False, "expected": None, "initial_conditions": None, "attachments": ()}
    source = CaseSource(path="cases.csv", row=1)
    return Case(id=name, usage=usage, source_group_id=group, source=source, fingerprint=D, **usual)


def batch(number, *, holdouts=("a",), status="sealed", phase="final", counts=None, round_id="round-1-a"):
    return Batch.model_construct(
        id=f"batch-{number}-a",
        round_id=round_id,
        phase=phase,
        status=status,
        holdout_case_ids=holdouts,
        counts={"completed": 1} if counts is None else counts,
    )


def plan(**more):
    usual = {"holdout_case_ids": ("a", "b"), "source_groups": {"a": "ga", "b": "gb", "c": "gc"}}
    targets = {"protection_case_ids": (), "target_case_ids_by_issue": {"issue-1-a": ("c",)}}
    return Plan.model_construct(**{**usual, **targets, **more})


def a_round(**more):
    return Round.model_construct(id="round-1-a", plan=plan(**more))


def exposure(how="final_run", groups=("ga", "gb"), **more):
    usual = {"dataset_id": "dataset-1-a", "round_id": "round-1-a", "created_at": AT}
    return Exposure(id="exposure-1-a", how=how, source_groups=groups, **{**usual, **more})


def test_holdout_runs_in_no_run_but_a_final_one():
    cases = {"a": case("a"), "c": case("c", "protection")}
    assert holdout.others(cases, "dataset-1-a") == ["c"]
    holdout.require_final(["a", "c"], cases, final=True)
    with pytest.raises(holdout.HoldoutOnlyFinal) as refused:
        holdout.require_final(["a", "c"], cases, final=False)
    assert refused.value.case_ids == ["a"]
    with pytest.raises(holdout.NoCaseButHoldout):
        holdout.others({"a": case("a")}, "dataset-1-a")


@pytest.mark.parametrize(
    ("made", "ran"),
    [
        ([], False),
        ([batch(1)], True),
        ([batch(1, status="running", counts={})], True),
        ([batch(1, status="interrupted", counts={})], False),
        ([batch(1, holdouts=())], False),
        ([batch(1, round_id="round-2-b")], False),
    ],
)
def test_a_round_takes_no_candidate_once_a_holdout_case_was_attempted(made, ran):
    if not ran:
        holdout.require_not_run(a_round(), made)
        return
    with pytest.raises(holdout.HoldoutWasRun, match="batch-1-a"):
        holdout.require_not_run(a_round(), made)


def test_status_says_how_a_round_stands_with_its_holdout():
    value = a_round().model_copy(update={"baseline_revision_id": "revision-1-a", "external_fix": None})
    left = batch(1).model_copy(update={"revision_id": "revision-1-a"})
    right = batch(2).model_copy(update={"revision_id": "revision-2-b"})
    found = holdout.standing(value, [], [])
    assert (found["cases"], found["stands"], found["takes_candidates"]) == (2, "unseen", True)
    assert holdout.standing(value, [left], [exposure()])["stands"] == "run on one side, unseen"
    opened = holdout.standing(value, [left, right], [exposure()])
    assert (opened["stands"], opened["exposure_id"], opened["takes_candidates"]) == ("opened", "exposure-1-a", False)
    assert holdout.standing(a_round(holdout_case_ids=()), [], []) == {}


def test_groups_are_seen_by_runs_lessons_known_inputs_and_cases_that_are_no_holdout():
    others = [case("c", "optimization", "gc"), case("d", "holdout", "gd")]
    lesson = exposure("knowledge", ("ge",), seen_in=("knowledge-1-a",), round_id=None)
    input_known = exposure("known_input", ("gf",), seen_in=("batch-1-a.1",), round_id=None)
    seen = holdout.seen_groups([exposure(), lesson, input_known], others)
    assert set(seen) == {"ga", "gb", "gc", "ge", "gf"}
    assert "round-1-a" in seen["ga"]
    assert "knowledge-1-a" in seen["ge"]
    assert "batch-1-a.1" in seen["gf"]


def test_a_plan_with_a_seen_group_is_refused_with_groups_and_cases():
    holdout.require_fresh(a_round(), plan(), {"gc": "is no holdout"})
    with pytest.raises(holdout.HoldoutExposed) as refused:
        holdout.require_fresh(a_round(), plan(), {"gb": "round-0-z ran it"})
    assert (refused.value.groups, refused.value.case_ids, refused.value.fresh) == (["gb"], ["b"], 1)
    assert "round-0-z ran it" in str(refused.value)


def test_a_holdout_run_fits_its_plan_and_its_exposure():
    assert holdout.problems(a_round(), [batch(1)], [exposure()]) == []
    assert holdout.problems(a_round(), [], []) == []
    wrong = [
        ([batch(1)], []),
        ([batch(1)], [exposure(groups=("ga",))]),
        ([], [exposure()]),
        ([batch(1, holdouts=("z",))], [exposure()]),
        ([batch(1, phase="incremental")], [exposure()]),
    ]
    for batches, exposures in wrong:
        assert len(holdout.problems(a_round(), batches, exposures)) == 1
    assert holdout.problems(a_round(holdout_case_ids=()), [batch(1)], [])
    assert holdout.problems(a_round(protection_case_ids=("a",)), [], [])


GROUPS = st.sets(st.sampled_from("abcdef"), min_size=1, max_size=3)


@given(st.lists(st.tuples(GROUPS, st.booleans()), max_size=8), st.sets(st.sampled_from("abcdef"), max_size=2))
def test_no_sequence_of_rounds_exposes_a_group_twice(rounds, usual):
    """Each Round asks for some groups as its holdout, and some of them run what they may."""
    exposures, ran = [], []
    elsewhere = [case(f"usual-{group}", "optimization", group) for group in usual]
    for number, (groups, runs) in enumerate(rounds, 1):
        value = a_round().model_copy(update={"id": f"round-{number}-a"})
        wanted = plan(holdout_case_ids=tuple(groups), source_groups={group: group for group in groups})
        try:
            holdout.require_fresh(value, wanted, holdout.seen_groups(exposures, elsewhere))
        except holdout.HoldoutExposed as refused:
            assert set(refused.groups) & (set().union(*ran) | usual)  # noqa: PT017 - why it was refused
            continue
        if runs:
            ran.append(groups)
            exposures.append(exposure(groups=holdout.groups_of(wanted), round_id=value.id))
    assert sum(map(len, ran)) == len(set().union(*ran))
    assert not set().union(*ran) & usual
