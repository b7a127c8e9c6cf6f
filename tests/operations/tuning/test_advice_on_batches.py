"""What is named next where runs did not complete, and where evidence was imported."""

import pytest

from operations.tuning import advice
from operations.tuning.batches import find_batch, finishing
from storage.projection import UnknownObject
from storage.schema.batches import Batch
from tests.support.projects import AT

NONE = {"datasets": [], "batches": [], "assessments": [], "issues": [], "candidates": [], "validations": []}
DIGEST = "0" * 64


def batch(number, status, *, counts=None, missing=0, **more):
    batch_id = f"batch-{number}-test"
    usual = {
        "phase": "incremental", "dataset_id": "dataset-1-test", "round_id": None, "revision_id": "revision-1-test",
        "commit": "0" * 40, "tree": "0" * 40, "case_ids": ("a", "b"), "repeats": 1, "slots": 2, "concurrency": 1,
        "timeout_seconds": 9, "run_config_digest": DIGEST, "runner_digest": DIGEST, "started_at": AT,
        "started_record": number, "records_sha256": DIGEST,
    }  # fmt: skip
    gone = tuple(f"{batch_id}.{n + 1}" for n in range(missing))
    return Batch(id=batch_id, status=status, counts=counts or {}, missing_record_ids=gone, **{**usual, **more})


def advised(*batches, **more):
    known = {**NONE, "datasets": [type("Stored", (), {"id": "dataset-1-test"})], "batches": list(batches)}
    return [(call.tool, dict(call.arguments)) for call in advice.next_calls(value=None, **{**known, **more})]


@pytest.mark.parametrize("status", ["interrupted", "partial", "contaminated"])
def test_a_run_that_ended_early_is_to_be_continued(status):
    found = advised(batch(1, status, counts={"completed": 1}, missing=1))
    assert found[0] == ("run_evaluation", {"continue_batch_id": "batch-1-test"})
    assert status == "contaminated" or found[1] == ("store_assessment", {"batch_id": "batch-1-test"})


def test_a_run_in_which_nothing_was_confirmed_is_to_be_continued():
    assert advised(batch(1, "interrupted", missing=2)) == [("run_evaluation", {"continue_batch_id": "batch-1-test"})]


def test_attempts_of_unknown_end_ask_for_the_users_word():
    unknown = batch(1, "interrupted", missing=2, unknown_record_ids=("batch-1-test.1",))
    assert "unknown_execution_authorization" in finishing(unknown).supply


def test_what_infrastructure_spoiled_is_to_be_retried():
    spoiled = batch(1, "partial", counts={"completed": 1, "infra_error": 1})
    assert advised(spoiled)[0] == ("run_evaluation", {"retry_batch_id": "batch-1-test"})
    assert finishing(spoiled, retries=0) is None


def test_a_run_that_was_continued_or_is_whole_is_not_continued_again():
    first = batch(1, "interrupted", missing=2)
    second = batch(2, "sealed", counts={"completed": 2}, supersedes_batch_id="batch-1-test")
    assert advised(first, second) == [("store_assessment", {"batch_id": "batch-2-test"})]
    third = batch(3, "partial", counts={"completed": 2})
    assert finishing(third) is None
    assert finishing(batch(4, "running")) is None


def test_the_side_of_a_frozen_round_is_continued_rather_than_run_anew(at):
    target = at("frozen")
    run = target.call("run_evaluation", round_id=target.round_id, revision_id=target.b0, wait_seconds=200)
    made = target.state.get(Batch, run.batch_id)
    missing = (f"{made.id}.1",)
    stopped = made.model_copy(update={"status": "interrupted", "missing_record_ids": missing})
    from tests.support.rounds import store

    store(target, stopped)
    assert target.call("get_status").next[0].arguments == {"continue_batch_id": made.id}


def test_a_batch_is_found_whichever_kind_it_is(at):
    target = at("evaluated")
    assert find_batch(target.state, target.batch_id).id == target.batch_id
    with pytest.raises(UnknownObject) as refused:
        find_batch(target.state, "batch-1-none")
    assert refused.value.known == [target.batch_id]
