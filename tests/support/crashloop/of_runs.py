"""Scenarios of what starts the agent, and of what ends or follows a run whose server died."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from storage import contents
from storage.owners import is_alive
from storage.projection import State
from storage.schema.batches import Batch
from storage.schema.probes import Probe
from tests.operations.catalog.stages import Staged
from tests.support.crashloop.scenario import Scenario
from tests.support.projects import PROMPT

_PATIENCE_SECONDS = 60


def _of_head(target: Staged) -> Mapping[str, Any]:
    return {"revision_commit": target.head, "concurrency": 1}


def _of_the_baseline(target: Staged) -> Mapping[str, Any]:
    """The candidate's files are put away for the run, and come back."""
    return {"round_id": target.round_id, "revision_id": target.b0, "phase": "incremental"}


def _apart(target: Staged) -> Mapping[str, Any]:
    target.call("freeze_round", round_id=target.round_id, plan={"repeatability": "deterministic", "replay": "isolated"})
    return _of_the_baseline(target)


def _with_holdouts(target: Staged) -> Mapping[str, Any]:
    """What is sealed is opened for the run alone."""
    from tests.support.crashloop.of_evidence import lines

    rows = [{"id": "a", "input": "a crash"}, {"id": "blind", "input": "a crash too", "usage": "holdout"}]
    target.write("cases.jsonl", lines(*rows))
    target.ids["dataset_id"] = target.call("store_dataset", source="cases.jsonl").dataset_id
    return {"revision_commit": target.head, "dataset_id": target.dataset_id, "concurrency": 1}


def _left_by_a_dead_server(target: Staged) -> str:
    """Starts a run in a process that ends while the first Case holds. Returns the batch's id."""
    target.write("hold.csv", "")
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            target.call("run_evaluation", revision_commit=target.head, concurrency=1, wait_seconds=0)
            _until(lambda: os.path.exists(target.path("begun.csv")), "the Case that holds")
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    (run,) = target.state.runs.values()
    _until(lambda: not is_alive(target.project.store, run.owner), "the end of the supervisor")
    for name in ("hold.csv", "begun.csv"):
        os.unlink(target.path(name))
    return run.batch_id


def _until(met: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not met():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


def _dead(target: Staged) -> Mapping[str, Any]:
    return {"batch_id": _left_by_a_dead_server(target)}


def _dead_and_nothing_named(target: Staged) -> Mapping[str, Any]:
    _left_by_a_dead_server(target)
    return {}


def _interrupted(target: Staged) -> Mapping[str, Any]:
    batch_id = _left_by_a_dead_server(target)
    assert target.call("wait_for_batch", batch_id=batch_id).status == "interrupted"
    return _continuing(target.state.get(Batch, batch_id))


def _continuing(batch: Batch) -> dict[str, Any]:
    unknown = list(batch.unknown_record_ids)
    word = {"source": "user", "batch_id": batch.id, "record_ids": unknown, "reason": "it only reads", "risk": "none"}
    return {"continue_batch_id": batch.id, **({"unknown_execution_authorization": word} if unknown else {})}


def _failed_for_infrastructure(target: Staged) -> Mapping[str, Any]:
    target.write("infra.csv", "")
    made = target.call("run_evaluation", **_of_head(target), case_ids=["refund-1", "crash-1"], wait_seconds=100)
    os.unlink(target.path("infra.csv"))
    return {"retry_batch_id": made.batch_id, "retry_execution_ids": [f"{made.batch_id}.1", f"{made.batch_id}.2"]}


def _complete_in_the_end(target: Staged, state: State, response: Mapping[str, Any]) -> None:
    """The run ended, or is continued from what was confirmed: no attempt is lost, every slot gets its own."""
    batch = state.get(Batch, response["batch_id"])
    known = len(list(contents.raw_records(target.project, state, batch.id)))
    for _ in range(2):
        if batch.status != "interrupted":
            break
        followed = target.call("run_evaluation", **_continuing(batch), wait_seconds=100)
        batch = target.state.get(Batch, followed.batch_id)
        assert batch.supersedes_batch_id is not None
    if batch.status == "partial":  # what the disk refused to an attempt is on record as no fault of the agent's
        assert batch.counts["infra_error"]
        return
    if batch.status == "contaminated":  # a folder of its own that is lost can show nobody what ran in it
        assert any("(which is gone)" in note for note in batch.notes), batch.notes
        assert _records(target, batch.id) >= known
        return
    assert batch.status == "sealed", (batch.status, batch.end_reason)
    records = list(contents.raw_records(target.project, target.state, batch.id))
    last = {(record["case_id"], record["repeat"]): record["execution"]["status"] for record in records}
    assert set(last.values()) == {"completed"}, last
    assert len(last) == len(batch.case_ids) * batch.repeats
    assert len(records) >= known


def _complete_or_lost_with_its_folder(target: Staged, state: State, response: Mapping[str, Any]) -> None:
    """As above; but nothing flushes a folder that goes with its run, so a power cut may leave some of it."""
    batch = state.get(Batch, response["batch_id"])
    if batch.status != "contaminated":
        _complete_in_the_end(target, state, response)
        return
    assert batch.notes
    assert _records(target, batch.id) == sum(batch.counts.values())


def _records(target: Staged, batch_id: str) -> int:
    return len(list(contents.raw_records(target.project, target.state, batch_id)))


def _ended(target: Staged, state: State, response: Mapping[str, Any]) -> None:
    """The run is sealed, once, by whoever came first."""
    del target, response
    (batch,) = [made for made in state.all(Batch) if made.status != "sealed"]
    assert (batch.status, batch.end_reason) == ("interrupted", "server_gone"), (batch.status, batch.end_reason)


def _stopped(target: Staged, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """What has ended cannot be stopped."""
    assert target.refusal("stop_batch", **arguments).code == "batch_ended"
    return {}


def _asking(target: Staged) -> Mapping[str, Any]:
    permission = {"id": "look", "command": ["cat", "prompt.txt"], "isolation_ref": "it reads", "max_calls": 2}
    round_id = target.call("create_round", probe_permissions=[permission]).round_id
    return {"round_id": round_id, "probe_authorization_id": "look", "question": "What is in force?"}


def _probed(target: Staged, state: State, response: Mapping[str, Any]) -> None:
    (probe,) = state.all(Probe)
    assert probe.id == response["probe_id"]
    kept = target.call("read_record", record_id=probe.id, field="records").value
    assert [record["output"] for record in kept] == [PROMPT] * probe.counts.get("completed", 0)
    assert probe.charged == 2 - response["executions_left"] <= 1
    if probe.status == "completed":
        assert (probe.end_reason, probe.charged, len(kept)) == ("all_done", 1, 1)
    else:
        assert (probe.status, probe.end_reason) == ("interrupted", "server_gone")


def _scenario(operation: str, stage: str, arguments: Any, name: str = "", **more: Any) -> Scenario:
    return Scenario(name=name or operation, operation=operation, stage=stage, arguments=arguments, **more)


def _run(stage: str, arguments: Any, name: str, **more: Any) -> Scenario:
    return _scenario("run_evaluation", stage, arguments, name, done=_complete_in_the_end, runs=True, waits=True, **more)


SCENARIOS = (
    _run("stored", _of_head, "run_evaluation", edited=False),
    _run("sealed", _of_the_baseline, "run_in_a_round", writes=("prompt.txt", "notes")),
    _run("diagnosed", _apart, "run_isolated", after_power=_complete_or_lost_with_its_folder),
    _run("initialized", _with_holdouts, "run_with_holdouts", edited=False),
    _run("stored", _interrupted, "continue_run", edited=False),
    _run("stored", _failed_for_infrastructure, "retry_run", edited=False),
    _scenario("try_case", "initialized", lambda _: {"input": "a crash"}, runs=True, keyed=False),
    _scenario("diagnostic_probe", "evaluated", _asking, done=_probed, runs=True),
    _scenario("wait_for_batch", "stored", _dead, done=_ended, waits=True, keyed=False, edited=False),
    _scenario("stop_batch", "stored", _dead, done=_ended, again=_stopped, keyed=False, edited=False),
    _scenario(
        "inspect_or_recover_operation", "stored", _dead_and_nothing_named, done=_ended, keyed=False, edited=False
    ),
)
