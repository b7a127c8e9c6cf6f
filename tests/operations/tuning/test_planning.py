"""Plans that no outcome could pass are refused with what would help; the others are told what they can detect."""

import json
import re
from types import SimpleNamespace

import pytest

from operations.tuning.freezing import PlanInvalid
from operations.tuning.gate import GateQuestion, decide
from operations.tuning.planning import PlanCannotPass, check_plan, check_repeatability


def plan(targets=4, others=16, **settings):
    named = tuple(f"t{i}" for i in range(targets))
    protected = tuple(f"p{i}" for i in range(others))
    fields = {
        "case_ids": named + protected,
        "protection_case_ids": protected,
        "source_groups": {},
        "target_case_ids_by_issue": {"issue-1": named},
        "decision_rule": "statistical",
        "margin": 0.15,
        "alpha": 0.05,
        "min_fixed_cases": 1,
        "min_primary_delta": 0.0,
        "incremental_repeats": 5,
        "final_repeats": 5,
        "objective": "quality",
        "screening_case_ids_by_issue": {},
        "budget": SimpleNamespace(candidates=1),
    }
    return SimpleNamespace(**(fields | settings))


@pytest.mark.parametrize(
    ("impossible", "needed"),
    [
        ({"targets": 0, "others": 0}, "at least one"),
        ({"targets": 1, "incremental_repeats": 3}, "4 repeats or 2 target Cases"),
        ({"targets": 1, "final_repeats": 2}, "3 repeats or 2 target Cases"),
        ({"targets": 2, "others": 4}, "5"),
        ({"source_groups": {f"p{i}": f"g{i % 3}" for i in range(16)}}, "5"),
        ({"min_fixed_cases": 5}, "min_fixed_cases of at most 4"),
        (
            {"min_fixed_cases": 2, "target_case_ids_by_issue": {"issue-1": ("t0", "t1"), "issue-2": ("t2",)}},
            "min_fixed_cases of at most 1",
        ),
        ({"min_primary_delta": 1.0}, "less than 1"),
        ({"decision_rule": "counts", "min_fixed_cases": 21}, "min_fixed_cases of at most 20"),
    ],
)
def test_a_plan_that_no_outcome_could_pass_is_refused(impossible, needed):
    with pytest.raises(PlanCannotPass) as refused:
        check_plan(plan(**impossible))
    assert refused.value.needed == needed
    assert refused.value.next[0].tool == "freeze_round"
    assert "{" not in str(refused.value)


@pytest.mark.parametrize("repeats", [1, 2, 3, 5])
@pytest.mark.parametrize("targets", [1, 2, 4, 6])
@pytest.mark.parametrize("others", [3, 5, 6])
def test_a_plan_is_accepted_just_when_some_outcome_passes(targets, others, repeats):
    made = plan(targets, others, incremental_repeats=repeats, final_repeats=repeats)
    # The most favourable outcome: targets repaired throughout, the others a little better and not all alike.
    left = dict.fromkeys(made.case_ids, ("fail",) * repeats)
    right = left | {c: ("pass",) * repeats for c in made.case_ids if c != "p0"}
    asked = GateQuestion(
        rule="statistical",
        mode="incremental",
        primary_dimension="d",
        required_dimensions=("d",),
        left={"d": left},
        right={"d": right},
        case_ids=made.case_ids,
        repeats=repeats,
        target_case_ids=made.target_case_ids_by_issue["issue-1"],
        protected_case_ids=made.protection_case_ids,
    )
    try:
        check_plan(made)
    except PlanCannotPass:
        accepted = False
    else:
        accepted = True
    assert accepted == (decide(asked).result == "pass")


def test_looks_already_spent_are_counted():
    one = plan(targets=1)
    check_plan(one, looks={"t0": 2})
    with pytest.raises(PlanCannotPass):
        check_plan(one, looks={"t0": 3})


def test_figures_say_what_is_detectable():
    found = check_plan(plan())
    assert found["targets"][0]["least_attainable_p"] == pytest.approx(1 / 252**4, rel=1e-3)
    assert 0.3 < found["targets"][0]["smallest_detectable_effect"] < 0.6
    assert found["protection"]["bound_when_nothing_varies"] == pytest.approx(0.1707, abs=1e-4)
    assert any("19 such units" in w for w in found["warnings"])
    assert len(json.dumps(found)) < 2000


@pytest.mark.parametrize("margin", [0.05, 0.1, 0.15, 0.17])
def test_the_margin_that_a_warning_names_would_do(margin):
    warned = check_plan(plan(margin=margin))["warnings"]
    assert len(warned) == 2
    for said, of in zip(warned, ("bound", "tie"), strict=True):
        named = max(float(number) for number in re.findall(r"a margin of (0\.\d+)", said))
        others = check_plan(plan(margin=named))["warnings"]
        assert named > margin
        assert not any(("however many repeats" in one) == (of == "tie") for one in others)


def test_quiet_repeats_of_the_baseline_lower_the_excludable_loss():
    quiet = {f"p{i}": ("pass",) * 9 + ("fail",) for i in range(16)}
    noisy = check_plan(plan())["protection"]["loss_excluded_when_unchanged"]
    found = check_plan(plan(), baseline=quiet)
    assert found["protection"]["loss_excluded_when_unchanged"] < noisy
    assert "B0" in found["assumed"]
    assert check_plan(plan(), baseline={"p0": ("pass",)})["assumed"].startswith("the noisiest")


def test_a_wanted_effect_is_turned_into_cases():
    small, large = (check_plan(plan(), wanted_effect=e)["cases_needed_for_wanted_effect"] for e in (0.05, 0.2))
    assert small > large >= 5


def test_counts_need_no_size():
    assert check_plan(plan(targets=1, others=0, decision_rule="counts", incremental_repeats=1))["rule"] == "counts"


def test_b0_compared_with_itself_says_what_its_own_noise_hides():
    steady = {f"t{i}": ("fail",) * 9 + ("pass",) for i in range(4)}
    sizes = check_plan(plan(), baseline=steady)["targets"][0]
    assert sizes["by_b0"] < sizes["smallest_detectable_effect"]
    assert "by_b0" not in check_plan(plan(), baseline={"t0": steady["t0"]})["targets"][0]


def test_wanted_effect_is_turned_into_repeats_of_each_issues_targets():
    few, many = (check_plan(plan(), wanted_effect=e)["targets"][0]["repeats_for_wanted_effect"] for e in (0.6, 0.3))
    assert (few, many) == (3, 11)
    assert check_plan(plan(), wanted_effect=0.01)["targets"][0]["repeats_for_wanted_effect"] is None


def test_budget_of_more_looks_than_the_targets_can_reach_is_told():
    told = check_plan(plan(targets=1, budget=SimpleNamespace(candidates=5)))["warnings"]
    assert any("Look 4 at issue-1" in said and "3 candidates" in said for said in told)


def test_screening_and_confirming_targets_have_a_size_of_their_own():
    found = check_plan(plan(screening_case_ids_by_issue={"issue-1": ("t0", "t1")}), looks={"t0": 9, "t2": 1})
    assert [(s["comparison"], s["targets"], s["alpha"]) for s in found["targets"]] == [
        ("issue-1, screening", 2, 0.2),
        ("issue-1", 2, pytest.approx(0.05 / 6, rel=1e-3)),
        ("issue-1 at the final validation", 4, 0.05),
    ]


def test_efficiency_asks_no_size_of_targets_and_needs_units_all_the_same():
    assert check_plan(plan(targets=1, others=4, objective="efficiency", incremental_repeats=1))["targets"] == []
    with pytest.raises(PlanCannotPass):
        check_plan(plan(targets=1, others=3, objective="efficiency"))


@pytest.mark.parametrize("said", ["deterministic", "unknown"])
def test_agent_whose_own_repeats_differ_is_not_taken_for_deterministic(said):
    made = plan(repeatability=said)
    same = {"t0": ("pass", "pass"), "t1": ("fail", "unknown")}
    check_repeatability("round-1-a", made, "batch-1-a", same)
    differing = {**same, "p3": ("pass", "fail", "pass")}
    if said == "unknown":
        check_repeatability("round-1-a", made, "batch-1-a", differing)
        return
    with pytest.raises(PlanInvalid, match="p3") as refused:
        check_repeatability("round-1-a", made, "batch-1-a", differing)
    assert refused.value.field == "repeatability"
