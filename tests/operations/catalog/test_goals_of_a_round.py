"""What a plan wants and limits, through the tools: metrics, proof of loading, screening, and what a size can tell."""

import shutil

import pytest

from operations.verification import verify
from storage.project import Project
from storage.schema.rounds import Round
from storage.schema.validations import Validation
from tests.operations.catalog.evidence import store_batch
from tests.operations.catalog.stages import EXACT, SPEC, Staged, issue
from tests.operations.test_verification import _changes, _forge
from tests.support.projects import Target

CASES = [(f"c{n:02}", f"ticket {n}", "yes") for n in range(26)]
TARGETS = ("c00", "c01", "c02", "c03")
PROXY = {"cost": {"source": "proxy", "evidence_ref": "the invoices"}}
LOADED = {"component_id": "prompt", "state": "loaded", "fingerprint": "a" * 64}
OBSERVED = ({"component_id": "prompt", "sha256": "a" * 64},)


def before(case_id, repeat):
    return "no" if case_id in TARGETS or (case_id == "c09" and repeat == 2) else "yes"


def fixed(case_id, repeat):
    return "no" if case_id == "c09" and repeat == 3 else "yes"


def costs(amount, source="proxy"):
    """Each attempt costs so much, a little more for some Cases."""

    def change(record):
        cost = amount * (1 + int(record.case_id[1:]) % 4 / 50)
        sources = {"cost": source, "duration_seconds": "supervisor"}
        metrics = {"cost": cost, "duration_seconds": 10 * cost}
        return record.model_copy(update={"metrics": metrics, "metric_sources": sources, "loading_evidence": (LOADED,)})

    return change


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """A Round with a diagnosis, B0 run three times before it; half of the targets are for optimization."""
    root = str(tmp_path_factory.mktemp("goals") / "target")
    Target(root, initialize=False)
    target = Staged(root, {})
    target.write("agent.sh", "echo other\n")
    target.git("add", ".")
    target.git("commit", "-q", "--amend", "-m", "The agent")
    target.initialize(
        command=["sh", "agent.sh", "{input_file}", "{output_dir}"],
        components=[
            {"component_id": "prompt", "role": "prompt", "change_role": "variable", "source_path": "prompt.txt"}
        ],
        metric_sources=PROXY,
        protected_paths=["agent.sh"],
    )
    usage = {c: "optimization" if c in TARGETS[:2] else "protection" for c, _, _ in CASES}
    with open(target.path("cases.csv"), "w", encoding="utf-8") as file:
        file.write("id,input,expected,usage\n")
        file.writelines(f"{c},{text},{wanted},{usage[c]}\n" for c, text, wanted in CASES)
    target.ids["dataset_id"] = target.store_cases()
    batch_id = store_batch(target, "revision-1-head", before, repeats=3)
    found = target.call("store_assessment", batch_id=batch_id, evaluation_spec=SPEC, judger=EXACT)
    target.ids |= {"batch_id": batch_id, "spec_id": found.spec_id, "judger_id": found.judger_id}
    made = target.call("create_round", batch_ids=[batch_id], assessment_ids=[found.assessment_id])
    target.ids |= {"round_id": made.round_id, "b0": made.revision_id}
    diagnosed = target.call("store_diagnosis", round_id=made.round_id, issues=[issue("targets", *TARGETS)])
    target.ids["issue_id"] = diagnosed.issue_id
    return target


@pytest.fixture
def target(opened, tmp_path):
    shutil.copytree(opened.root, tmp_path / "target", symlinks=True)
    return Staged(str(tmp_path / "target"), dict(opened.ids))


def compared(target, plan, left, right, **side):
    """Freezes, and compares a candidate. `left` and `right` are (answers, what becomes of each Record)."""
    target.call("freeze_round", round_id=target.round_id, plan={"budget": {"candidates": 3}, **plan})
    run(target, "left", target.b0, *left)
    return candidate(target, *right, **side)


def candidate(target, *right, **side):
    made = target.call("prepare_candidate", round_id=target.round_id, primary_issue_id=target.issue_id)
    target.ids["candidate_id"] = made.candidate_id
    target.write("prompt.txt", f"{made.candidate_id}\n")
    target.seal()
    run(target, "right", target.revision_id, *right, **side)
    return target.compare()


def run(target, name, revision_id, answer, record=lambda made: made, **fields):
    given = {"repeats": 5, "round_id": target.round_id, "components": OBSERVED, **fields}
    batch_id = store_batch(target, revision_id, answer, record=record, **given)
    target.ids[f"{name}_assessment_id"] = target.judge(batch_id)


def clean(target):
    return verify(Project.open(target.root)).findings


EFFICIENCY = {"objective": "efficiency", "efficiency_metric": "cost"}


@pytest.mark.parametrize(
    ("plan", "after", "result"),
    [
        (EFFICIENCY, costs(0.5), "pass"),
        (EFFICIENCY, costs(1.0), "no_effect"),
        (EFFICIENCY | {"min_efficiency_delta": 1000.0}, costs(0.5), "no_effect"),
        (EFFICIENCY, costs(0.5, "agent_sidecar"), "insufficient"),
    ],
    ids=["cheaper", "as dear", "too little cheaper", "self-reported"],
)
def test_efficiency_wants_an_independent_metric_to_fall_and_nothing_harmed(target, plan, after, result):
    found = compared(target, plan, (before, costs(1.0)), (before, after))

    assert found.result == result
    assert found.summary["metrics"][0]["source"] == "proxy"
    assert set(target.state.all(Validation)[-1].charged_case_ids) == {c for c, _, _ in CASES}
    assert clean(target) == []


def test_forged_metric_and_forged_charge_are_found_out(target):
    compared(target, EFFICIENCY, (before, costs(1.0)), (before, costs(0.5)))

    def cheaper(value):
        value["statistics"]["metrics"][0]["right_total"] = 0.0

    for change, told in ((cheaper, "says statistics"), (lambda v: v.update(charged_case_ids=[]), "charged_case_ids")):
        _forge(target.root, _changes("validation", change))
        assert any(told in finding.problem for finding in clean(target))


@pytest.mark.parametrize(
    ("limit", "after", "result"),
    [
        ({"ratio": 1.2}, costs(1.1), "pass"),
        ({"ratio": 1.05}, costs(1.1), "regression"),
        ({"total": 100.0}, costs(1.1), "regression"),
        ({"ratio": 1.2}, lambda made: made, "insufficient"),
    ],
    ids=["held", "ratio exceeded", "total exceeded", "missing"],
)
def test_metric_limit_holds_for_a_pass(target, limit, after, result):
    plan = {"metric_limits": {"cost": limit}, "screening": False}
    found = compared(target, plan, (before, costs(1.0)), (fixed, after))

    assert found.result == result
    assert clean(target) == []


def test_metric_that_nobody_independent_measures_is_refused_before_any_run(target):
    plan = {"metric_limits": {"tool_calls": {"total": 9}}}
    error = target.refusal("freeze_round", round_id=target.round_id, plan=plan)
    assert (error.code, error.facts["given"]) == ("plan_invalid", ["tool_calls"])
    assert "independent collector" in str(error)


@pytest.mark.parametrize(
    ("right", "side", "result"),
    [
        (costs(1.0), {}, "pass"),
        (lambda made: made, {}, "insufficient"),
        (costs(1.0), {"components": ({"component_id": "prompt", "sha256": "b" * 64},)}, "insufficient"),
        (costs(1.0), {"components": ()}, "insufficient"),
        (costs(1.0), {"problems": ("The version of model is not what it has to be: 2.",)}, "insufficient"),
        (costs(1.0), {"status": "partial"}, "insufficient"),
    ],
    ids=["proved", "no proof", "another content", "nothing observed", "wrong version", "partial"],
)
def test_what_was_not_proved_to_be_loaded_or_is_of_another_version_never_passes(target, right, side, result):
    plan = {"required_loaded_component_ids": ["prompt"], "screening": False}
    found = compared(target, plan, (before, costs(1.0)), (fixed, right), **side)

    assert found.result == result
    assert clean(target) == []


def test_look_that_screening_ends_is_not_charged_and_the_next_one_is_the_first(target):
    def only_confirming(case_id, repeat):
        return fixed(case_id, repeat) if case_id in TARGETS[2:] else before(case_id, repeat)

    first = compared(target, {"screening": True}, (before,), (only_confirming,))
    assert target.state.get(Round, target.round_id).plan.screening_case_ids_by_issue == {target.issue_id: TARGETS[:2]}
    assert (first.result, first.summary["error_budget"]["spent"]) == ("no_effect", 0)
    target.decide("reject")

    second = candidate(target, fixed)

    assert (second.result, second.summary["error_budget"]["look"]) == ("pass", 1)
    validations = target.state.all(Validation)
    assert [v.charged_case_ids for v in validations] == [(), TARGETS[2:]]
    assert [v.alpha_spent for v in validations] == [0, pytest.approx(0.025)]
    assert clean(target) == []


def test_freeze_says_what_the_noise_of_b0_hides_and_what_a_wanted_effect_takes(target):
    shown = target.call(
        "freeze_round", round_id=target.round_id, preview=True, plan={"screening": False}, wanted_effect=0.3
    )

    assert shown.detectable["b0_batch_id"] == target.batch_id
    assert shown.detectable["assumed"] == "the variance of B0's repeats"
    sizes = shown.detectable["targets"][0]
    assert sizes["by_b0"] < sizes["smallest_detectable_effect"]
    assert sizes["repeats_for_wanted_effect"] == 11
    assert shown.detectable["cases_needed_for_wanted_effect"] >= 5


def test_answer_has_all_figures_and_both_table_digests(target):
    found = compared(target, {"screening": False}, (before,), (fixed,))

    stored = target.state.get(Validation, found.validation_id)
    digests = (stored.left_table_digest, stored.right_table_digest)
    assert (found.left_table_digest, found.right_table_digest) == digests
    asked = {q["question"]: q for q in found.summary["questions"]}
    assert {"unit", "n", "groups", "difference", "p", "smallest_detectable_effect", "coverage"} <= set(
        asked["improvement"]
    )
    assert {"lower", "upper", "margin"} <= set(asked["non_inferiority"])
    assert set(found.summary["error_budget"]) == {"look", "alpha", "alpha_of_this_look", "spent", "left"}
    assert found.summary["repeats"] == 5
