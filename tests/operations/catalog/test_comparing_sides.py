"""Comparisons of a stochastic agent: which sides count, what a look costs, and which Validation a decision rests on."""

import shutil

import pytest

from storage.schema.validations import Validation
from tests.operations.catalog.evidence import store_batch
from tests.operations.catalog.stages import EXACT, SPEC, issue

CASES = [(f"c{n}", f"ticket {n}", "yes") for n in range(26)]
TARGETS = ("c0", "c1")


def before(case_id, repeat):
    """The agent fails the targets, and one Case now and then."""
    return "no" if case_id in TARGETS or (case_id == "c9" and repeat == 2) else "yes"


def fixed(case_id, repeat):
    return "no" if case_id == "c9" and repeat == 3 else "yes"


def broken(case_id, _):
    return "yes" if case_id in TARGETS else "no"


@pytest.fixture(scope="module")
def prepared(stages, tmp_path_factory):
    target = stages.copy("initialized", str(tmp_path_factory.mktemp("sides") / "target"))
    target.write_cases(CASES)
    target.ids["dataset_id"] = target.store_cases()
    target.ids["batch_id"] = store_batch(target, "revision-1-head", before)
    found = target.call("store_assessment", batch_id=target.batch_id, evaluation_spec=SPEC, judger=EXACT)
    target.ids |= {"assessment_id": found.assessment_id, "spec_id": found.spec_id, "judger_id": found.judger_id}
    begin(target)
    return target


@pytest.fixture
def target(prepared, tmp_path):
    shutil.copytree(prepared.root, tmp_path / "target", symlinks=True)
    return type(prepared)(str(tmp_path / "target"), dict(prepared.ids))


def begin(target):
    made = target.call("create_round", batch_ids=[target.batch_id], assessment_ids=[target.assessment_id])
    target.ids |= {"round_id": made.round_id, "b0": made.revision_id}
    found = target.call("store_diagnosis", round_id=made.round_id, issues=[issue("targets", *TARGETS)])
    target.ids["issue_id"] = found.issue_id
    target.ids["old_batch_id"] = store_batch(target, made.revision_id, before, repeats=5, round_id=made.round_id)
    target.ids["frozen"] = target.call("freeze_round", round_id=made.round_id, plan={"budget": {"candidates": 3}})
    side(target, "left", target.b0, before)


def side(target, name, revision_id, answer):
    batch = store_batch(target, revision_id, answer, repeats=5, round_id=target.round_id)
    target.ids[f"{name}_batch_id"], target.ids[f"{name}_assessment_id"] = batch, target.judge(batch)


def candidate(target, answer=fixed):
    made = target.call("prepare_candidate", round_id=target.round_id, primary_issue_id=target.issue_id)
    target.ids["candidate_id"] = made.candidate_id
    target.write("prompt.txt", f"{made.candidate_id}\n")
    target.seal()
    side(target, "right", target.revision_id, answer)


def looks(target):
    return [v.look for v in target.state.all(Validation)]


def test_true_fix_passes_and_says_what_it_spent(target):
    candidate(target)

    found = target.compare()

    assert (found.result, looks(target)) == ("pass", [1])
    assert found.summary["error_budget"]["spent"] == pytest.approx(0.025)


def test_unchanged_candidate_does_not_pass_and_harm_is_a_regression(target):
    candidate(target, before)
    assert target.compare().result == "no_effect"
    target.decide("reject")

    candidate(target, broken)

    assert target.compare().result == "regression"


def test_same_comparison_is_the_same_validation_and_costs_no_look(target):
    candidate(target)

    first, again = target.compare(), target.compare()

    assert (again.validation_id, again.result, looks(target)) == (first.validation_id, first.result, [1])
    assert again.summary == first.summary


def test_superseded_assessment_is_refused_and_the_newest_validation_decides(target):
    candidate(target)
    first = target.compare().validation_id
    old = target.right_assessment_id
    target.ids["right_assessment_id"] = target.judge(target.right_batch_id, supersede_reason="once more")

    sides = {"left_assessment_id": target.left_assessment_id, "right_assessment_id": old}
    error = target.refusal("compare_and_gate", round_id=target.round_id, **sides)
    second = target.compare().validation_id

    assert (error.code, "superseded" in error.facts["problem"]) == ("sides_not_comparable", True)
    named = {"round_id": target.round_id, "candidate_id": target.candidate_id, "action": "reject", "reason": "r"}
    refused = target.refusal("decide_candidate", **named, validation_id=first)
    assert (refused.code, refused.facts["newest"]) == ("not_newest_validation", second)
    assert target.decide("reject").validation_id == second


def test_keep_is_refused_on_verdicts_that_others_took_the_place_of_and_the_status_leads_to_comparing(target):
    candidate(target)
    first = target.compare()
    assert first.result == "pass"
    old = target.right_assessment_id
    target.ids["right_assessment_id"] = newer = target.judge(target.right_batch_id, supersede_reason="once more")

    refused = target.refusal(
        "decide_candidate", round_id=target.round_id, candidate_id=target.candidate_id, action="keep", reason="r"
    )
    target.judge(target.old_batch_id)
    lead = target.call("get_status", round_id=target.round_id).next[0]

    assert (refused.code, refused.facts["replaced_by"]) == ("validation_outdated", newer)
    assert (lead.tool, lead.arguments["right_assessment_id"]) == ("compare_and_gate", newer)
    found = target.compare()
    (said,) = (s for s in target.state.get(Validation, found.validation_id).limitations if "earlier judgements" in s)
    assert old in said
    assert target.decide("keep").validation_id == found.validation_id


def test_only_the_last_run_of_a_side_counts_and_the_validation_names_the_others(target):
    candidate(target)
    batch, judged = target.right_batch_id, target.right_assessment_id
    side(target, "right", target.revision_id, before)

    sides = {"left_assessment_id": target.left_assessment_id, "right_assessment_id": judged}
    refused = target.refusal("compare_and_gate", round_id=target.round_id, **sides)
    found = target.compare()

    assert (refused.code, target.right_batch_id in refused.facts["problem"]) == ("sides_not_comparable", True)
    assert found.result == "no_effect"
    limitations = target.state.get(Validation, found.validation_id).limitations
    assert f"right: Other runs of {target.revision_id} do not count here: {batch} (sealed)." in limitations


def test_cases_that_are_stored_again_under_other_names_keep_their_looks(target):
    candidate(target, before)
    target.compare()
    target.decide("reject")
    target.call("finish_round", round_id=target.round_id, action="close_without_adoption", reason="no luck")
    target.write_cases([(f"again-{name}", f" {asked} ", expected) for name, asked, expected in CASES], "again.csv")
    other = target.call("store_dataset", source="again.csv").dataset_id
    made = target.call("create_round", batch_ids=[target.batch_id])
    target.call("store_diagnosis", round_id=made.round_id, issues=[issue("again", *(f"again-{c}" for c in TARGETS))])
    plan = {"dataset_id": other, "spec_id": target.spec_id, "judger_id": target.judger_id}

    shown = target.call("freeze_round", round_id=made.round_id, plan=plan, preview=True)

    assert shown.detectable["targets"][0]["alpha"] == pytest.approx(0.05 / 6, rel=1e-3)


def test_looks_add_up_across_candidates_and_rounds(target):
    candidate(target, before)
    target.compare()
    target.decide("reject")
    candidate(target, before)
    target.compare()
    target.decide("reject")
    target.call("finish_round", round_id=target.round_id, action="close_without_adoption", reason="no luck")
    begin(target)

    candidate(target)
    found = target.compare()

    assert looks(target) == [1, 2, 3]
    assert found.summary["error_budget"]["alpha_of_this_look"] == pytest.approx(0.05 / 12, rel=1e-4)


def test_run_from_before_the_freeze_is_never_a_side(target):
    candidate(target)
    target.ids["left_assessment_id"] = target.judge(target.old_batch_id)
    sides = {k: target.ids[k] for k in ("left_assessment_id", "right_assessment_id")}

    error = target.refusal("compare_and_gate", round_id=target.round_id, **sides)

    assert error.code == "sides_not_comparable"
    assert "before the plan was frozen" in error.facts["problem"]
    assert error.next[0].arguments["revision_id"] == target.b0


def test_freeze_needs_only_the_round_and_shows_every_default(prepared):
    plan, defaults = prepared.frozen.plan, set(prepared.frozen.defaults)

    assert plan["repeatability"] == "unknown"
    assert (plan["decision_rule"], plan["margin"], plan["alpha"]) == ("statistical", 0.15, 0.05)
    assert (plan["incremental_repeats"], plan["final_repeats"]) == (5, 5)
    assert plan["target_case_ids_by_issue"] == {prepared.issue_id: list(TARGETS)}
    assert plan["commit_authorized"] is True
    assert prepared.frozen.executions == {
        "limit": 2 * 26 * 5 + 4 * 26 * 5,
        "reserve": 2 * 26 * 5,
        "incremental_side": 26 * 5,
        "final_side": 26 * 5,
    }
    assert {"case_ids", "issue_ids", "spec_id", "margin", "alpha", "budget.executions"} - defaults <= {"spec_id"}
    assert "commits to your branch" in prepared.frozen.message


def test_preview_freezes_nothing(at):
    target = at("diagnosed")
    before_it = target.facts()

    shown = target.call("freeze_round", round_id=target.round_id, preview=True, plan={"repeatability": "deterministic"})
    frozen = target.call("freeze_round", round_id=target.round_id, plan={"repeatability": "deterministic"})

    assert (shown.frozen, frozen.frozen) == (False, True)
    assert {k: v for k, v in shown.plan.items() if k != "frozen_after_record"} == {
        k: v for k, v in frozen.plan.items() if k != "frozen_after_record"
    }
    assert target.changed_since(before_it)
