"""A plan freezes whether a timeout is the agent's failure: then it is judged, else it is unknown and may be retried."""

import pytest

from storage.errors import AtkError
from tests.support.side_log import Logged

RULE = {
    "evaluation_spec": {"dimensions": ["correctness"], "dimension_rules": {"correctness": "the answer is expected"}},
    "judger": {"method": "exact"},
}


@pytest.fixture
def late(tmp_path):
    """Opens a Round in whose run one Case does not end in time."""

    def made(*, failure):
        target = Logged(tmp_path)
        target.open_round(timeout_is_failure=failure, timeout_seconds=1, max_retries_per_slot=1)
        target.note("hold-c3")
        return target, target.round_run()

    return made


def verdicts(target, batch_id):
    made = target.call("store_assessment", batch_id=batch_id, **RULE)
    rows = target.call("read_record", record_id=made.assessment_id, field="rows").value
    return {row["record_id"]: row["verdict"] for row in rows}


def test_a_timeout_that_is_the_agents_failure_is_judged_and_never_retried(late):
    target, run = late(failure=True)
    assert (run.status, run.counts["timeout"]) == ("sealed", 1)
    with pytest.raises(AtkError) as refused:
        target.follow(retry_batch_id=run.batch_id, retry_execution_ids=[f"{run.batch_id}.4"])
    assert refused.value.code == "not_retryable"
    assert verdicts(target, run.batch_id)[f"{run.batch_id}.4"] == "fail"


def test_a_timeout_that_is_not_is_unknown_and_its_retry_is_linked_and_counts(late):
    target, run = late(failure=False)
    assert verdicts(target, run.batch_id)[f"{run.batch_id}.4"] == "unknown"
    target.forget("hold-c3")
    made = target.follow(retry_batch_id=run.batch_id, retry_execution_ids=[f"{run.batch_id}.4"])
    last = target.records(made.batch_id)[-1]["execution"]
    assert (made.status, last["status"], last["retry_of"]) == ("sealed", "completed", f"{made.batch_id}.4")
