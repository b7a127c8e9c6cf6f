"""What a killed run left is taken away before anybody waits for the lock, and nothing that its sealing needs."""

import os

from operations.execution.sweeping import sweep_dead
from storage.owners import Owner
from storage.schema.batches import Batch
from tests.support.projects import call_of


def left_by(target, owner):
    """Records a run of `owner` that nobody sealed, with files of two attempts. Returns the batch's id."""
    project = target.project
    sealed = target.state.get(Batch, target.batch_id)
    with project.transaction(call_of("run_evaluation")) as tx:
        batch_id = tx.new_id("batch")
        running = {"id": batch_id, "status": "running", "records_sha256": None, "counts": {}}
        tx.put(sealed.model_copy(update=running))
        tx.start_run({"batch_id": batch_id, "owner": owner}, target.call("get_status"))
    for name in ("1/deep/er", "2.spoiled"):
        os.makedirs(project.store.full(f"work/{batch_id}/{name}"))
    project.store.replace(f"work/{batch_id}/remarks.json", b"[]")
    return batch_id


def test_the_attempts_of_a_dead_run_are_cleared_and_the_run_is_left_to_be_sealed(at):
    target = at("evaluated")
    batch_id = left_by(target, "0" * 16)
    before = target.project.state().position
    sweep_dead(target.project)
    assert list(target.project.store.names(f"work/{batch_id}")) == ["remarks.json"]
    assert target.project.state().position == before
    assert batch_id in target.project.state().runs


def test_a_living_run_is_left_alone(at):
    target = at("evaluated")
    owner = Owner(target.project.store)
    try:
        batch_id = left_by(target, owner.nonce)
        sweep_dead(target.project)
        assert set(target.project.store.names(f"work/{batch_id}")) == {"1", "2.spoiled", "remarks.json"}
    finally:
        owner.release()
