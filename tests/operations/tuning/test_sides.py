"""A side is run once: what stands is not run again, what says something is continued, what was spoiled may be anew."""

from types import SimpleNamespace

import pytest

from operations.tuning import sides
from storage.schema.batches import Batch
from tests.support.projects import AT

ROUND = SimpleNamespace(id="round-1-a", plan=SimpleNamespace(frozen_after_record=10))
CASES = ("a", "b")


def batch(n, status="sealed", **fields):
    usual = {
        "id": f"batch-{n}-x", "status": status, "phase": "incremental", "dataset_id": "dataset-1-x",
        "round_id": "round-1-a", "revision_id": "revision-1-x", "commit": "0" * 40, "tree": "0" * 40,
        "case_ids": CASES, "repeats": 1, "slots": 2, "concurrency": 1, "timeout_seconds": 1,
        "run_config_digest": "0" * 64, "runner_digest": "0" * 64, "started_at": AT, "started_record": n,
        "counts": {"completed": 2},
    }  # fmt: skip
    return Batch.model_validate({**usual, **fields})


def refusal(*batches, follows=None, compared=()):
    try:
        sides.require_open(ROUND, "revision-1-x", "incremental", CASES, batches, compared=compared, follows=follows)
    except (sides.SideStands, sides.SideToContinue) as refused:
        return refused.code, refused.batch_id
    return None


@pytest.mark.parametrize("status", ["sealed", "running"])
def test_side_that_was_run_or_runs_stands(status):
    assert refusal(batch(11, status)) == ("side_stands", "batch-11-x")


def test_run_that_was_compared_may_be_followed_by_one_for_a_further_look():
    assert refusal(batch(11), compared=("batch-11-x",)) is None
    assert refusal(batch(11), batch(12), compared=("batch-11-x",)) == ("side_stands", "batch-12-x")


@pytest.mark.parametrize("status", ["partial", "interrupted"])
def test_run_that_ended_early_and_says_something_is_continued(status):
    ended = batch(11, status, counts={"timeout": 1, "cancelled": 1})
    assert refusal(ended) == ("side_to_continue", "batch-11-x")
    assert refusal(ended, follows=ended.id) is None


@pytest.mark.parametrize(
    "other",
    [
        batch(9),
        batch(11, round_id="round-2-b"),
        batch(11, revision_id="revision-2-y"),
        batch(11, phase="final"),
        batch(11, case_ids=("a",)),
        batch(11, counts={"completed": 1, "infra_error": 1}),
        batch(11, problems=("the version moved",)),
        batch(11, "contaminated"),
        batch(11, "partial", counts={"cancelled": 2}),
        batch(11, "interrupted", unknown_record_ids=("batch-11-x.2",), counts={"completed": 1}),
    ],
    ids=["visible", "round", "revision", "phase", "cases", "infra", "drift", "contaminated", "nothing", "unknown"],
)
def test_run_that_is_no_side_or_cannot_count_is_no_obstacle(other):
    assert refusal(other) is None


def test_run_that_another_continued_is_judged_by_that_one():
    first = batch(11, "partial", counts={"completed": 1})
    assert refusal(first, batch(12, supersedes_batch_id=first.id)) == ("side_stands", "batch-12-x")


def test_contaminated_run_cannot_be_continued_beside_one_that_stands():
    contaminated = batch(11, "contaminated")
    assert refusal(contaminated, batch(12), follows=contaminated.id) == ("side_stands", "batch-12-x")


def test_last_whole_run_of_a_side_counts():
    first, part, last = batch(11), batch(12, case_ids=("a",)), batch(13)
    assert sides.newer(first, CASES, [first, part], [ROUND]) is None
    assert sides.newer(first, CASES, [first, part, last], [ROUND]) == last.id
    assert sides.newer(last, CASES, [first, part, last], [ROUND]) is None


def test_runs_and_judgements_that_do_not_count_are_told():
    first, second, last = batch(11, "contaminated"), batch(12, "partial"), batch(13, supersedes_batch_id="batch-12-x")
    told = sides.other_runs(last, [first, second, last], [ROUND])
    assert told == "Other runs of revision-1-x do not count here: batch-11-x (contaminated)."
    assert sides.other_runs(first, [first], [ROUND]) is None
    one, two = (SimpleNamespace(id=f"assessment-{n}", supersedes=s) for n, s in ((1, None), (2, "assessment-1")))
    assert sides.earlier_judgements(one, [one, two]) is None
    assert "assessment-1" in str(sides.earlier_judgements(two, [one, two]))
