"""What an answer says besides its result: what was left out, what cannot be paid, and with which arguments to go on."""

import pytest

from operations.tuning import budget
from storage.schema.batches import Batch
from storage.schema.rounds import Round
from tests.operations.catalog.evidence import store_batch
from tests.operations.catalog.stages import EXACT, SPEC, issue
from tests.support.projects import CASES, call_of
from tests.support.rounds import store

PLAN = {"repeatability": "deterministic", "incremental_repeats": 2, "margin": 0.2}


def with_plan(target, **fields):
    """Stores another budget for the frozen plan, as if it had been frozen so."""
    value = target.round
    plan = value.plan.model_copy(update=fields)
    with target.project.transaction(call_of()) as tx:
        tx.put(value.model_copy(update={"plan": plan}))
        tx.commit(target.call("get_status"))


def test_preview_leads_on_with_the_plan_that_it_showed(at):
    target = at("diagnosed")

    preview = target.call("freeze_round", round_id=target.round_id, plan=PLAN, preview=True)
    frozen = target.call("freeze_round", **preview.next[0].arguments)

    assert preview.next[0].arguments == {"round_id": target.round_id, "plan": PLAN}
    assert frozen.frozen
    assert frozen.plan["margin"] == 0.2
    assert {"dataset_id", "spec_id", "judger_id"} <= set(preview.defaults)


def test_what_a_plan_can_hardly_detect_is_a_warning_with_what_to_give(at):
    target = at("diagnosed")

    plan = {"issue_ids": [target.other_issue_id], "protection_case_ids": [name for name, *_ in CASES]}
    repeats = {"incremental_repeats": 12, "final_repeats": 12}
    preview = target.call("freeze_round", round_id=target.round_id, plan={**plan, **repeats}, preview=True)

    assert preview.detectable["warnings"]
    assert len(preview.warnings) == len(preview.detectable["warnings"])
    assert all("plan.margin" in warning for warning in preview.warnings)


def test_a_default_judger_among_several_is_named(at):
    target = at("diagnosed")
    other = {**EXACT, "version": "2"}
    second = target.call("store_assessment", batch_id=target.batch_id, evaluation_spec=SPEC, judger=other).judger_id

    preview = target.call("freeze_round", round_id=target.round_id, plan=PLAN, preview=True)

    assert any(target.judger_id in w and second in w for w in preview.warnings)


def test_a_round_that_is_open_already_is_named(at):
    target = at("opened")

    assert any(target.round_id in warning for warning in target.call("create_round").warnings)


def test_an_issue_is_found_by_the_name_that_its_caller_gave(at):
    target = at("frozen")

    made = target.call("prepare_candidate", round_id=target.round_id, primary_issue_id="refunds")

    assert made.issue_id == target.issue_id


def test_the_only_issue_of_a_plan_needs_no_name_and_a_refusal_names_one_of_several_in_its_round(at):
    target = at("frozen")
    error = target.refusal("prepare_candidate", round_id=target.round_id)
    assert error.next[0].arguments == {"round_id": target.round_id, "primary_issue_id": target.issue_id}
    with_plan(target, issue_ids=(target.other_issue_id,))
    assert target.call("prepare_candidate", round_id=target.round_id).issue_id == target.other_issue_id


def test_a_candidate_whose_side_cannot_be_paid_is_refused(at):
    target = at("frozen")
    reserve = 2 * budget.side(target.round.plan)
    with_plan(target, budget=target.round.plan.budget.model_copy(update={"executions": reserve + 3}))

    error = target.refusal("prepare_candidate", round_id=target.round_id, primary_issue_id=target.issue_id)

    assert (error.code, error.facts["left"]) == ("budget_exhausted", 3)


def test_a_candidate_whose_parent_cannot_be_paid_besides_is_warned_of_and_can_be_rejected(at):
    target = at("frozen")
    plan = target.round.plan
    with_plan(target, budget=plan.budget.model_copy(update={"executions": 2 * budget.side(plan) + 7}))

    made = target.call("prepare_candidate", round_id=target.round_id, primary_issue_id=target.issue_id)
    target.ids["candidate_id"] = made.candidate_id
    target.write("prompt.txt", "refund -> billing\n")
    target.seal()
    advised = target.call("get_status").next[0]

    assert "only one of the two sides" in made.warnings[0]
    assert (advised.tool, advised.arguments["action"]) == ("decide_candidate", "reject")
    target.call("decide_candidate", **advised.arguments, reason="unpaid", validation_missing_reason="unpaid")
    assert target.round.pending_candidate_id is None


@pytest.mark.parametrize("unknown", [0, 2])
def test_a_candidates_run_that_was_cut_off_leads_on_to_its_end_where_a_second_run_could_not_be_paid(at, unknown):
    target = at("judged")
    plan = target.round.plan
    ran = target.state.get(Batch, target.right_batch_id)
    paid = 2 * budget.side(plan) + 2 * ran.slots
    with_plan(target, budget=plan.budget.model_copy(update={"executions": paid}))
    left = tuple(f"{ran.id}.{n}" for n in range(1, 3))
    cut = {"status": "interrupted", "missing_record_ids": left, "unknown_record_ids": left[:unknown]}
    store(target, ran.model_copy(update={**cut, "counts": {"completed": ran.slots - 3, "cancelled": 1}}))

    advised = target.call("get_status").next[0]

    assert (advised.tool, advised.arguments) == ("run_evaluation", {"continue_batch_id": ran.id})
    assert ("unknown_execution_authorization" in advised.supply) is bool(unknown)


def test_a_case_that_nobody_has_is_named_with_the_closest(at):
    target = at("opened")

    error = target.refusal("store_diagnosis", round_id=target.round_id, issues=[issue("one", "refund-11")])

    assert "refund-11 (did you mean refund-1?)" in str(error)


def test_a_comparison_names_the_cases_of_other_issues(at):
    target = at("judged")

    compared = target.compare()

    assert any("crash-1" in w and target.other_issue_id in w for w in compared.warnings)
    assert not (set(compared.next[0].arguments) & set(compared.next[0].supply))


def test_judging_is_advised_under_the_frozen_specification(at):
    target = at("frozen")
    ran = target.call("run_evaluation", round_id=target.round_id, revision_id=target.b0, wait_seconds=200)

    advised = target.call("get_status").next[0]

    assert ran.next[0] == advised
    assert target.call("wait_for_batch", batch_id=ran.batch_id).next[0] == advised
    assert advised.tool == "store_assessment"
    assert (advised.arguments["spec_id"], advised.arguments["judger_id"]) == (target.spec_id, target.judger_id)
    target.call("store_assessment", **advised.arguments)


def test_both_parts_of_a_judgement_are_asked_for_at_once(at):
    target = at("evaluated")

    text = str(target.refusal("store_assessment", batch_id=target.batch_id))

    assert "evaluation_spec" in text
    assert "judger_id" in text
    assert "none is stored yet" in text


def test_a_batch_of_a_closed_round_leads_nowhere(at):
    target = at("frozen")
    target.call("run_evaluation", round_id=target.round_id, revision_id=target.b0, wait_seconds=200)
    target.call("finish_round", round_id=target.round_id, action="close_without_adoption", reason="enough")

    assert [step.tool for step in target.call("get_status").next] == ["create_round"]


def test_a_batch_that_was_run_anew_is_not_waiting_to_be_judged(at):
    target = at("assessed")
    whole = target.state.get(Batch, target.batch_id)
    lost = whole.model_copy(update={"id": "batch-0-lost", "status": "interrupted"})
    with target.project.transaction(call_of()) as tx:
        tx.put(lost)
        tx.put(whole.model_copy(update={"id": "batch-9-anew"}))
        tx.commit(target.call("get_status"))

    assert target.call("get_status").next[0].arguments["batch_id"] == "batch-9-anew"
    assert not target.state.all(Round)


def test_a_batch_that_infrastructure_spoiled_says_why_first(at):
    target = at("blank")
    target.write("agent.sh", "exit 75\n")
    target.git("commit", "-q", "-a", "-m", "It cannot reach anything")
    target.initialize(command=["sh", "agent.sh", "{input_file}"], infrastructure_exit_codes=[75])
    target.store_cases()
    batch = target.call("run_evaluation", revision_commit=target.head, wait_seconds=200)

    found = target.call("wait_for_batch", batch_id=batch.batch_id)

    assert "failed by infrastructure" in found.message
    assert "75" in found.message
    assert found.next[0].arguments == {"record_id": f"{batch.batch_id}.1"}


def test_a_file_that_cannot_be_read_leads_back_to_its_own_operation(at):
    error = at("stored").refusal("store_dataset", source="nowhere.csv")

    assert [call.tool for call in error.next] == ["store_dataset"]


def test_a_run_of_a_round_is_judged_as_its_plan_says_unless_something_else_is_said(at):
    target = at("sealed")
    batch_id = store_batch(target, target.b0, lambda *_: "no", round_id=target.round_id)

    judged = target.call("store_assessment", batch_id=batch_id)
    other = target.call("store_assessment", batch_id=batch_id, judger={**EXACT, "version": "2"})

    assert (judged.spec_id, judged.judger_id) == (target.spec_id, target.judger_id)
    assert other.spec_id == target.spec_id
    assert other.judger_id not in (None, target.judger_id)


def begins(found):
    """The calls among `found.next` that begin a candidate."""
    return [step for step in found.next if step.tool == "prepare_candidate"]


def test_a_decision_leads_on_to_the_issue_that_nothing_kept_answers(at):
    target = at("compared")

    decided = target.decide("keep")

    other = {"round_id": target.round_id, "primary_issue_id": target.other_issue_id}
    assert [step.arguments for step in begins(decided)] == [other]
    assert [step.arguments for step in begins(target.call("get_status"))] == [other]
    assert target.call("prepare_candidate", **other).issue_id == target.other_issue_id


@pytest.mark.parametrize("field", ["candidates", "executions"])
def test_nothing_leads_on_to_a_candidate_that_could_not_be_drafted_or_paid(at, field):
    target = at("compared")
    value, plan = target.round, target.round.plan
    now = budget.account(value, plan, target.state.all(Batch))
    tight = {"candidates": 1} if field == "candidates" else {"executions": now.used + now.reserve}
    with_plan(target, budget=plan.budget.model_copy(update=tight))

    decided = target.decide("keep")

    assert begins(decided) == begins(target.call("get_status")) == []
    undone = target.call("rollback_to", round_id=target.round_id, target_commit=value.baseline_commit, reason="no")
    assert begins(undone) == []
    error = target.refusal("prepare_candidate", round_id=target.round_id, primary_issue_id=target.other_issue_id)
    assert error.code == "budget_exhausted"


def test_issues_that_are_left_are_named_where_there_are_several(at):
    target = at("compared")

    rejected = target.decide("reject")

    (step,) = begins(rejected)
    assert step.arguments == {"round_id": target.round_id}
    assert step.supply == {"primary_issue_id": f"one of {target.issue_id}, {target.other_issue_id}"}
