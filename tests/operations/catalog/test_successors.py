"""A batch that did not complete is finished by another one, which carries over what was confirmed."""

import os

import pytest

from operations.invocation import invoke
from operations.registry import all_operations
from operations.tuning import budget
from storage.errors import AtkError
from storage.schema.batches import Batch
from tests.faults.story import until
from tests.support.side_log import Logged


@pytest.fixture
def target(tmp_path):
    return Logged(tmp_path)


def stopped(target, **arguments):
    """Runs until one Case holds, then stops the batch: some Records confirmed, one cancelled, others never started."""
    target.note("hold-c1")
    run = target.head_run if "round_id" not in arguments else target.call
    begun = run(concurrency=1, wait_seconds=0, **arguments)
    until(lambda: ("c1", 1) in target.ran, "the Case that holds")
    answer = target.call("stop_batch", batch_id=begun.batch_id, wait_seconds=100)
    assert answer.status == "interrupted"
    target.forget("hold-c1")
    return begun.batch_id


def statuses(records):
    return {r["n"]: r["execution"]["status"] for r in records}


def refused(target, **arguments):
    with pytest.raises(AtkError) as error:
        target.follow(**arguments)
    return error.value


def test_a_stopped_batch_is_finished_in_a_new_one_that_runs_only_what_is_due(target):
    old_id = stopped(target)
    before = target.batch(old_id)
    old_records = target.records(old_id)

    made = target.follow(continue_batch_id=old_id)

    assert (made.status, made.supersedes_batch_id, made.carried) == ("sealed", old_id, 2)
    new = target.batch(made.batch_id)
    assert (new.continuation_kind, new.slots, new.repeats) == ("continue", 5, 1)
    records = target.records(new.id)
    assert [(r["id"], r["case_id"], r["carried_from"], r["execution"]["retry_of"]) for r in records] == [
        (f"{new.id}.1", "c0", f"{old_id}.1", None),
        (f"{new.id}.2", "c1", f"{old_id}.2", None),
        (f"{new.id}.3", "c2", None, None),
        (f"{new.id}.4", "c3", None, None),
        (f"{new.id}.5", "c1", None, f"{new.id}.2"),
    ]
    assert statuses(records) == {1: "completed", 2: "cancelled", 3: "completed", 4: "completed", 5: "completed"}
    assert target.ran == {("c0", 1): 1, ("c1", 1): 2, ("c2", 1): 1, ("c3", 1): 1}
    assert (target.batch(old_id), target.records(old_id)) == (before, old_records)
    assert (budget.spent(before), budget.spent(new)) == (2, 3)


def test_a_batch_has_one_successor_which_can_be_continued_itself(target):
    first = stopped(target)
    target.note("hold-c2")
    second = target.follow(continue_batch_id=first, wait_seconds=0)
    until(lambda: ("c2", 1) in target.ran, "the Case that holds")
    target.call("stop_batch", batch_id=second.batch_id, wait_seconds=100)
    target.forget("hold-c2")

    error = refused(target, continue_batch_id=first)
    third = target.follow(continue_batch_id=second.batch_id)

    assert (error.code, error.facts["successor_id"]) == ("already_followed", second.batch_id)
    assert third.status == "sealed"
    last = {}
    for record in target.records(third.batch_id):
        last[record["case_id"]] = record["execution"]["status"]
    assert last == dict.fromkeys(target.case_ids, "completed")
    assert sum(budget.spent(b) for b in target.state.all(Batch)) == sum(target.ran.values())


def test_a_sealed_or_running_batch_is_not_continued(target):
    sealed = target.head_run()
    codes = [refused(target, continue_batch_id=sealed.batch_id).code]
    target.note("hold-c0")
    running = target.head_run(wait_seconds=0)
    codes.append(refused(target, continue_batch_id=running.batch_id).code)
    target.call("stop_batch", batch_id=running.batch_id, wait_seconds=100)
    assert codes == ["nothing_to_continue", "batch_still_runs"]


def test_unknown_attempts_run_again_with_the_users_word_for_exactly_these(target):
    old_id = stopped(target)
    old = target.batch(old_id)
    unknown = (f"{old_id}.3",)
    target.change(old.model_copy(update={"unknown_record_ids": unknown}))
    word = {"source": "user", "batch_id": old_id, "record_ids": list(unknown), "reason": "it is safe", "risk": "none"}

    for wrong in (None, {**word, "record_ids": []}, {**word, "record_ids": [f"{old_id}.4"]}):
        error = refused(target, continue_batch_id=old_id, unknown_execution_authorization=wrong)
        assert (error.code, error.facts["record_ids"]) == ("unknown_needs_the_user", list(unknown))
    made = target.follow(continue_batch_id=old_id, unknown_execution_authorization=word)

    assert made.status == "sealed"
    told = target.batch(made.batch_id).unknown_execution_authorization.model_dump(mode="json")
    assert told == {**word, "recorded_as": "reported_by_client"}
    assert target.ran[("c2", 1)] == 1


def test_person_is_asked_before_attempts_of_unknown_end_run_again(target):
    old_id = stopped(target)
    unknown = (f"{old_id}.3",)
    target.change(target.batch(old_id).model_copy(update={"unknown_record_ids": unknown}))
    word = {"source": "user", "batch_id": old_id, "record_ids": list(unknown), "reason": "safe", "risk": "a mail twice"}
    again = {"project_path": target.root, "continue_batch_id": old_id, "unknown_execution_authorization": word}
    run, asked = all_operations()["run_evaluation"], []

    def person(answer):
        return lambda question: asked.append(question.text) or answer

    with pytest.raises(AtkError) as refused:
        invoke(run, again, ask=person("decline"))
    assert refused.value.code == "not_confirmed"
    assert ("c2", 1) not in target.ran
    made = invoke(run, {**again, "wait_seconds": 100}, ask=person("accept"))

    assert made.status == "sealed"
    assert target.batch(made.batch_id).unknown_execution_authorization.recorded_as == "confirmed_in_client"
    assert "a mail twice" in asked[0]


def test_what_follows_a_batch_runs_the_same_and_says_which_field_differs(target):
    old_id = stopped(target)
    for given in ({"repeats": 2}, {"concurrency": 7}, {"phase": "final"}, {"case_ids": ["c0"]}):
        error = refused(target, continue_batch_id=old_id, **given)
        assert (error.code, error.facts["field"]) == ("differs_from_predecessor", next(iter(given)))
    target.write("prompt.txt", "another\n")
    target.git("commit", "-q", "-a", "-m", "moved on")
    assert refused(target, continue_batch_id=old_id).code == "revision_mismatch"


def test_arguments_that_do_not_go_together_are_refused(target):
    old_id = stopped(target)
    word = {"source": "user", "batch_id": old_id, "record_ids": [], "reason": "r", "risk": "r"}
    for given in (
        {"continue_batch_id": old_id, "retry_batch_id": old_id},
        {"retry_execution_ids": [f"{old_id}.1"]},
        {"unknown_execution_authorization": word, "retry_batch_id": old_id},
    ):
        assert refused(target, **given).code == "continue_or_retry"


def test_a_contaminated_batch_is_run_again_whole(target):
    target.note("litter")
    old = target.head_run()
    assert old.status == "contaminated"
    assert len(target.records(old.batch_id)) == 4
    target.forget("litter")
    os.unlink(target.path("litter.txt"))

    made = target.follow(continue_batch_id=old.batch_id)

    assert (made.status, made.carried) == ("sealed", 0)
    assert set(target.ran.values()) == {2}


def test_infrastructure_failures_are_retried_linked_and_the_last_attempt_counts(target):
    target.note("infra-c1", "infra-c3")
    old = target.head_run()
    assert (old.status, old.counts["infra_error"]) == ("partial", 2)
    target.forget("infra-c1")

    first = target.follow(retry_batch_id=old.batch_id, retry_execution_ids=[f"{old.batch_id}.2", f"{old.batch_id}.4"])
    target.forget("infra-c3")
    error = refused(target, retry_batch_id=first.batch_id, retry_execution_ids=[f"{first.batch_id}.4"])
    second = target.follow(retry_batch_id=first.batch_id, retry_execution_ids=[f"{first.batch_id}.6"])

    assert (first.status, second.status) == ("partial", "sealed")
    assert (error.code, error.facts["problem"]) == ("not_retryable", "it was tried again already")
    records = target.records(second.batch_id)
    chain = {r["n"]: (r["case_id"], r["execution"]["retry_of"], r["execution"]["status"]) for r in records}
    assert chain[5] == ("c1", f"{second.batch_id}.2", "completed")
    assert chain[6] == ("c3", f"{second.batch_id}.4", "infra_error")
    assert chain[7] == ("c3", f"{second.batch_id}.6", "completed")
    assert second.counts == {"planned": 7, "done": 7, "completed": 4, "infra_error": 3}
    assert target.ran == {("c0", 1): 1, ("c1", 1): 2, ("c2", 1): 1, ("c3", 1): 3}


def test_what_says_something_of_the_agent_is_never_retried(target):
    target.note("infra-c3")
    old = target.head_run()
    for given, problem in (
        ([f"{old.batch_id}.1"], "its status is completed"),
        ([f"{old.batch_id}.9"], "the batch has no such Record"),
        ([], "retry_execution_ids names nothing"),
        ([f"{old.batch_id}.4"] * 2, "retry_execution_ids names one twice"),
    ):
        error = refused(target, retry_batch_id=old.batch_id, retry_execution_ids=given)
        assert (error.code, error.facts["problem"]) == ("not_retryable", problem)


def test_a_slot_is_retried_as_often_as_the_plan_says(target):
    target.open_round(max_retries_per_slot=1)
    target.note("infra-c3")
    old = target.round_run()
    made = target.follow(retry_batch_id=old.batch_id, retry_execution_ids=[f"{old.batch_id}.4"])
    error = refused(target, retry_batch_id=made.batch_id, retry_execution_ids=[f"{made.batch_id}.5"])
    assert (error.code, error.facts["attempts"], error.facts["limit"]) == ("retries_used_up", 2, 1)


def test_a_run_of_a_round_that_is_cut_off_once_and_continued_is_charged_for_its_slots_alone(target):
    target.open_round()
    free = budget.account(target.round, target.round.plan, target.state.all(Batch)).used
    target.note("hold-c1")
    begun = target.round_run(wait_seconds=0)
    until(lambda: ("c1", 1) in target.ran, "the Case that holds")
    target.call("stop_batch", batch_id=begun.batch_id, wait_seconds=100)
    target.forget("hold-c1")
    made = target.follow(continue_batch_id=begun.batch_id)
    used = budget.account(target.round, target.round.plan, target.state.all(Batch)).used
    assert made.status == "sealed"
    assert sum(target.ran.values()) > len(target.ran)  # what was under way ran again
    assert used - free == len(target.ran)
    again = sum(target.ran.values()) - len(target.ran)
    take = "takes" if again == 1 else "take"
    assert made.message.endswith(f" are done. {again} of them {take} the place of others, which stay on record.")


def test_a_run_stops_itself_after_infrastructure_failures_in_a_row_and_is_continued(target):
    target.note("infra-c0", "infra-c1")
    old = target.head_run(concurrency=1, stop_after_infra_failures=2)
    assert (old.status, old.end_reason) == ("interrupted", "infra_failures")
    assert "2 infrastructure failures in a row" in old.warnings[-1]
    assert target.ran == {("c0", 1): 1, ("c1", 1): 1}
    target.forget("infra-c0", "infra-c1")

    rest = target.follow(continue_batch_id=old.batch_id)
    done = target.follow(retry_batch_id=rest.batch_id, retry_execution_ids=[f"{rest.batch_id}.1", f"{rest.batch_id}.2"])

    assert (rest.status, done.status) == ("partial", "sealed")
    assert set(target.ran.values()) == {1, 2}


def test_a_run_stops_itself_at_its_spend_limit_and_says_whose_figures_these_are(target):
    target.note("cost")
    old = target.head_run(concurrency=1, spend_limit={"metric": "cost", "limit": 5})
    assert (old.status, old.end_reason, old.counts["done"]) == ("interrupted", "spend_limit", 2)
    assert old.spending == {
        "metric": "cost",
        "limit": 5.0,
        "spent": 5.0,
        "source": "agent_sidecar",
        "trust": "self_reported",
    }
    assert any("what the agent itself reports" in warning for warning in old.warnings)
    rest = target.follow(continue_batch_id=old.batch_id)
    assert (rest.status, target.batch(rest.batch_id).totals["cost"]) == ("sealed", 10.0)


def test_the_next_call_of_an_unfinished_batch_finishes_it(target):
    old_id = stopped(target)
    step = target.call("wait_for_batch", batch_id=old_id).next[0]
    assert (step.tool, step.arguments, step.supply) == ("run_evaluation", {"continue_batch_id": old_id}, {})
    made = target.call(step.tool, **step.arguments, wait_seconds=100)
    followed = target.call("wait_for_batch", batch_id=old_id).next[0]
    assert (made.status, followed.arguments) == ("sealed", {"batch_id": made.batch_id})


def test_a_final_side_that_was_interrupted_is_finished_and_costs_one_side(at):
    target = at("kept")
    target.ids["spec_id"], target.ids["judger_id"] = target.round.plan.spec_id, target.round.plan.judger_id
    before = account_of(target)
    given = {"round_id": target.round_id, "revision_id": target.b0, "phase": "final", "wait_seconds": 100}
    lost = target.call("run_evaluation", spend_limit={"metric": "duration_seconds", "limit": 1e-9}, **given)
    assert (lost.status, account_of(target).used) == ("interrupted", before.used)
    made = target.call("run_evaluation", continue_batch_id=lost.batch_id, wait_seconds=100)

    after = account_of(target)
    side = budget.side(target.round.plan)
    assert (made.status, made.phase, made.counts["done"]) == ("sealed", "final", side)
    assert (after.used, after.reserve) == (before.used + side, before.reserve - side)
    assert target.refusal("run_evaluation", **given).code == "final_side_stands"
    assert target.judge(made.batch_id)


def account_of(target):
    return budget.account(target.round, target.round.plan, target.state.all(Batch))


def test_a_retry_that_the_plan_refuses_is_not_offered(tmp_path):
    target = Logged(tmp_path)
    target.open_round(budget={"executions": 100})
    target.note("infra-c1")

    run = target.round_run()

    assert (run.status, run.counts["infra_error"]) == ("partial", 1)
    assert [step.tool for step in run.next] == ["store_assessment", "read_record"]
