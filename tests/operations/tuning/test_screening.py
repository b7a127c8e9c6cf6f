"""Screening: optimization targets end a look that is not worth it, and nothing is charged; the others confirm."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from operations.tuning.freezing import PlanInvalid
from operations.tuning.gate import GateQuestion, decide
from operations.tuning.goals import settled
from storage.schema.projects import MetricSource
from storage.schema.rounds import MetricLimit

P, F = ("pass",) * 5, ("fail",) * 5
GUARDS = {f"g{i}": (*("pass",) * 4, ("pass", "fail")[i % 2]) for i in range(20)}
SCREEN, CONFIRM = ("s0", "s1"), ("t0", "t1")
FAILING = GUARDS | dict.fromkeys((*SCREEN, *CONFIRM), F)


def asked(right, **more):
    question = GateQuestion(
        rule="statistical",
        mode="incremental",
        primary_dimension="d",
        required_dimensions=("d",),
        left={"d": FAILING},
        right={"d": FAILING | right},
        case_ids=tuple(FAILING),
        repeats=5,
        target_case_ids=(*SCREEN, *CONFIRM),
        protected_case_ids=tuple(GUARDS),
        screening_case_ids=SCREEN,
    )
    return decide(replace(question, **more))


def names(result):
    return [(q.question, q.answer) for q in result.statistics.questions][:2]


def test_both_parts_improve_and_the_claim_is_made_of_those_that_confirm():
    result = asked(dict.fromkeys((*SCREEN, *CONFIRM), P))
    assert (result.result, names(result)) == ("pass", [("screen", "yes"), ("improvement", "yes")])
    assert result.statistics.questions[1].n == 2
    assert result.statistics.alpha_spent == pytest.approx(0.025)
    assert any("only screened" in said for said in result.limitations)


def test_screening_that_fails_costs_nothing_and_asks_no_more():
    result = asked(dict.fromkeys(CONFIRM, P))
    assert (result.result, result.screened_out) == ("no_effect", True)
    assert "nothing of the error budget was spent" in result.reasons[0]
    assert [q.question for q in result.statistics.questions if q.question in ("screen", "improvement")] == ["screen"]
    assert result.statistics.alpha_spent == 0


def test_screening_alone_is_no_improvement_and_is_charged():
    result = asked(dict.fromkeys(SCREEN, P))
    assert (result.result, result.screened_out) == ("no_effect", False)
    assert result.statistics.alpha_spent == pytest.approx(0.025)


def test_harm_is_found_although_the_screening_failed():
    assert asked(dict.fromkeys(GUARDS, F)).result == "regression"


def test_unknown_outcome_of_a_screening_target_never_passes():
    unknown = ("unknown",) * 5
    assert asked(dict.fromkeys((*SCREEN, *CONFIRM), P) | {"s0": unknown}).result == "insufficient"


def test_final_validation_asks_all_targets():
    result = asked(dict.fromkeys((*SCREEN, *CONFIRM), P), mode="final")
    assert (result.statistics.questions[0].question, result.statistics.questions[0].n) == ("improvement", 4)


# What a plan makes of it.


class Plan(SimpleNamespace):
    def model_copy(self, *, update):
        return Plan(**{**vars(self), **update})


def plan_for(given, *, usages="oopp", repeats=5, rule="statistical", project=None, issues=None):
    cases = [
        SimpleNamespace(id=f"c{i}", usage={"o": "optimization", "p": "protection"}[u]) for i, u in enumerate(usages)
    ]
    named = issues or {"issue-1": tuple(c.id for c in cases)}
    plan = Plan(
        target_case_ids_by_issue=named, incremental_repeats=repeats, alpha=0.05, decision_rule=rule, defaults=(),
        case_ids=tuple(c.id for c in cases), final_repeats=repeats, timeout_seconds=60,
    )  # fmt: skip
    settings = {"metric_sources": {}, "components": (), "loading_verification": {}, "adapter": "command"}
    stored = SimpleNamespace(
        round=SimpleNamespace(id="round-1-a"),
        cases=cases,
        project=SimpleNamespace(**(settings | {"command": ("sh", "{output_dir}")} | (project or {}))),
    )
    return settled(plan, given, stored)


@pytest.mark.parametrize(
    ("settings", "screening"),
    [
        ({"usages": "oopppp"}, {"issue-1": ("c0", "c1")}),
        ({"usages": "oopp"}, {}),
        ({"usages": "oopp", "repeats": 10}, {"issue-1": ("c0", "c1")}),
        ({"usages": "oooo"}, {}),
        ({"usages": "pppp"}, {}),
        ({"usages": "ooop"}, {}),
        ({"usages": "ooop", "repeats": 20}, {"issue-1": ("c0", "c1", "c2")}),
        ({"usages": "opp", "repeats": 1}, {}),
        ({"rule": "counts"}, {}),
    ],
)
def test_targets_are_parted_by_themselves_where_those_that_confirm_suffice(settings, screening):
    plan = plan_for({}, **settings)
    assert plan.screening_case_ids_by_issue == screening
    assert "screening" in plan.defaults


def test_caller_can_part_them_or_not():
    assert plan_for({"screening": False}).screening_case_ids_by_issue == {}
    assert plan_for({"screening": True}, usages="ooop").screening_case_ids_by_issue == {"issue-1": ("c0", "c1", "c2")}
    with pytest.raises(PlanInvalid, match="which confirm"):
        plan_for({"screening": True}, usages="oooo")


PROXY = {"metric_sources": {"cost": MetricSource(source="proxy", evidence_ref="invoice")}}


def test_metrics_are_taken_from_whom_the_project_names_and_durations_from_the_supervisor():
    given = {
        "objective": "efficiency",
        "efficiency_metric": "duration_seconds",
        "metric_limits": {"cost": {"ratio": 2}},
    }
    plan = plan_for(given, project=PROXY)
    assert plan.metric_sources == {"cost": "proxy", "duration_seconds": "supervisor"}
    assert plan.metric_limits == {"cost": MetricLimit(ratio=2)}
    assert plan.screening_case_ids_by_issue == {}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"metric_limits": {"cost": {"total": 1}}}, "metric_limits"),
        ({"metric_limits": {"duration_seconds": {}}}, "metric_limits.duration_seconds"),
        ({"metric_limits": {"duration_seconds": {"ratio": -1}}}, "metric_limits.duration_seconds"),
        ({"objective": "efficiency"}, "efficiency_metric"),
        ({"efficiency_metric": "cost"}, "efficiency_metric"),
        ({"objective": "efficiency", "efficiency_metric": "cost"}, "efficiency_metric"),
        ({"required_loaded_component_ids": ["prompt"]}, "required_loaded_component_ids"),
    ],
)
def test_what_nobody_independent_measures_or_proves_is_refused(given, field):
    with pytest.raises(PlanInvalid) as refused:
        plan_for(given)
    assert refused.value.field == field


def test_loading_has_to_be_proved_where_the_project_says_how():
    project = {
        "loading_verification": {"prompt": "loading.json"},
        "components": (SimpleNamespace(component_id="prompt", source_path="prompt.txt"),),
    }
    assert plan_for({}, project=project).required_loaded_component_ids == ("prompt",)
    assert plan_for({"required_loaded_component_ids": []}, project=project).required_loaded_component_ids == ()
    with pytest.raises(PlanInvalid, match="output_dir"):
        plan_for({}, project=project | {"command": ("sh", "agent.sh")})


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"metric_limits": {"duration_seconds": {"total": 0}}}, "metric_limits.duration_seconds"),
        ({"metric_limits": {"duration_seconds": {"ratio": 0}}}, "metric_limits.duration_seconds"),
        ({"metric_limits": {"cost": {"total": 1e308}}}, "metric_limits.cost"),
        (
            {"objective": "efficiency", "efficiency_metric": "duration_seconds", "min_efficiency_delta": 4 * 5 * 60},
            "min_efficiency_delta",
        ),
        (
            {"objective": "efficiency", "efficiency_metric": "cost", "min_efficiency_delta": 1e308},
            "min_efficiency_delta",
        ),
    ],
)
def test_what_no_agent_could_spend_or_save_is_refused(given, field):
    with pytest.raises(PlanInvalid) as refused:
        plan_for(given, project=PROXY)
    assert refused.value.field == field
