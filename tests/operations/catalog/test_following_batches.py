"""A run is followed, stopped and sealed from anywhere, and its status says what its evidence is worth."""

import json
import os
import subprocess
import sys
import threading

import pytest

from operations.invocation import invoke
from operations.registry import all_operations
from storage.lock import exclusive
from storage.schema.batches import Batch


@pytest.fixture
def slow(at):
    """A target whose agent waits until a file of its own is there."""
    target = at("blank")
    target.write(".gitignore", "cases.csv\nbegun\nrelease\n")
    target.write("agent.sh", "touch begun; while [ ! -e release ]; do sleep 0.05; done; echo billing\n")
    target.git("commit", "-q", "-a", "-m", "a slow agent")
    target.initialize(command=["sh", "agent.sh", "{input_file}"], components=[], protected_paths=["agent.sh"])
    target.store_cases()
    return target


def begin(target, **more):
    return target.call("run_evaluation", revision_commit=target.head, wait_seconds=0, **more).batch_id


def until_begun(target):
    """Waits for the agent's own sign, which comes before it waits for ours."""
    while not os.path.exists(target.path("begun")):
        threading.Event().wait(0.02)


def elsewhere(target, operation, **arguments):
    """Calls an operation in another process. Returns its answer."""
    code = (
        "import json,sys;from operations.invocation import invoke;from operations.registry import all_operations;"
        "name,given=json.loads(sys.argv[1]);"
        "print(invoke(all_operations()[name],given).model_dump_json())"
    )
    given = json.dumps([operation, {"project_path": target.root, **arguments}])
    done = subprocess.run([sys.executable, "-c", code, given], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def test_batch_is_followed_and_stopped_from_another_process(slow):
    batch_id = begin(slow)
    until_begun(slow)

    followed = elsewhere(slow, "wait_for_batch", batch_id=batch_id, wait_seconds=0)
    stopped = elsewhere(slow, "stop_batch", batch_id=batch_id, wait_seconds=60)

    assert followed["status"] == "running"
    assert [step["tool"] for step in followed["next"]] == ["wait_for_batch", "stop_batch"]
    assert stopped["status"] == "interrupted"
    batch = slow.state.get(Batch, batch_id)
    assert batch.counts.get("agent_error", 0) == 0
    assert slow.refusal("stop_batch", batch_id=batch_id).code == "batch_ended"


def test_what_agents_left_is_taken_away_without_the_lock(slow):
    slow.write("agent.sh", 'touch "$2/left" begun; while [ ! -e release ]; do sleep 0.05; done; echo billing\n')
    slow.git("commit", "-q", "-a", "-m", "an agent that leaves a file")
    command = ["sh", "agent.sh", "{input_file}", "{output_dir}"]
    slow.initialize(revise=True, command=command, components=[], protected_paths=["agent.sh"])
    batch_id = begin(slow)
    until_begun(slow)
    work = slow.path(f".atk/work/{batch_id}")
    with exclusive(slow.project.store, "test", "now"):
        slow.write("release", "")
        while any(name.isdigit() for name in os.listdir(work)):
            threading.Event().wait(0.02)
        assert batch_id in slow.state.runs
    assert slow.call("wait_for_batch", batch_id=batch_id, wait_seconds=100).status == "sealed"


@pytest.mark.slow  # a call waits ten seconds for the lock
def test_a_wait_for_a_dead_run_goes_on_while_somebody_holds_the_lock(slow):
    batch_id = elsewhere(slow, "run_evaluation", revision_commit=slow.head, wait_seconds=0)["batch_id"]
    with exclusive(slow.project.store, "test", "now"):
        assert slow.call("wait_for_batch", batch_id=batch_id, wait_seconds=0).status == "running"
    assert slow.call("wait_for_batch", batch_id=batch_id, wait_seconds=100).status == "interrupted"


def test_giving_up_the_starting_call_stops_the_batch(slow):
    answer = cancelled(slow, "run_evaluation", revision_commit=slow.head, wait_seconds=100)

    assert answer.status == "interrupted"


def test_giving_up_at_a_terminal_waits_for_the_end_however_long_it_takes(slow, monkeypatch):
    monkeypatch.setattr("operations.catalog.evidence.run_evaluation.STOPPED_WITHIN_SECONDS", 0.0)

    answer = cancelled(slow, "run_evaluation", stays=True, revision_commit=slow.head)

    assert answer.status == "interrupted"


def test_giving_up_a_wait_leaves_the_batch_running(slow):
    batch_id = begin(slow)

    answer = cancelled(slow, "wait_for_batch", batch_id=batch_id, wait_seconds=100)

    assert answer.status == "running"
    slow.write("release", "")
    assert slow.call("wait_for_batch", batch_id=batch_id, wait_seconds=100).status == "sealed"


def cancelled(target, operation, *, stays=False, **arguments):
    """Makes a call that is given up once the agent has begun."""
    given = {"project_path": target.root, **arguments}
    begun = target.path("begun")
    return invoke(all_operations()[operation], given, cancelled=lambda: os.path.exists(begun), stays=stays)


def test_batch_of_which_nothing_was_confirmed_is_not_judged_and_not_offered(slow):
    batch_id = begin(slow)
    error = slow.refusal("store_assessment", batch_id=batch_id)
    assert (error.code, error.facts["status"]) == ("batch_not_readable", "running")
    slow.call("stop_batch", batch_id=batch_id, wait_seconds=60)

    status = slow.call("get_status")

    batch = slow.state.get(Batch, batch_id)
    offered = [step.arguments.get("batch_id") for step in status.next if step.tool == "store_assessment"]
    assert offered == ([batch_id] if any(batch.counts.values()) else [])


def test_worktree_is_busy_while_a_run_relies_on_it(slow):
    batch_id = begin(slow)

    for operation, arguments in (("run_evaluation", {"revision_commit": slow.head}), ("create_round", {})):
        error = slow.refusal(operation, **arguments)
        assert error.code == "resource_busy"
        assert batch_id in error.facts["holder"]
        assert (error.next[0].tool, error.next[0].arguments) == ("wait_for_batch", {"batch_id": batch_id})
        assert error.next[1].tool == "stop_batch"
    assert slow.call("store_dataset", source="cases.csv").case_count == 6
    slow.write("release", "")
    assert slow.call("wait_for_batch", batch_id=batch_id, wait_seconds=100).status == "sealed"


def with_agent(at, script, **settings):
    target = at("blank")
    target.write("agent.sh", script)
    target.git("commit", "-q", "-a", "-m", "another agent")
    usual = {"command": ["sh", "agent.sh", "{input_file}"], "components": [], "protected_paths": ["agent.sh"]}
    target.initialize(**{**usual, **settings})
    target.store_cases()
    return target.call("run_evaluation", revision_commit=target.head, wait_seconds=100)


def test_failure_of_the_infrastructure_makes_a_batch_partial_and_is_not_the_agents(at):
    found = with_agent(
        at, 'case "$(cat "$1")" in *refund*) exit 75;; esac; echo billing\n', infrastructure_exit_codes=[75]
    )

    assert (found.status, found.counts) == ("partial", {"planned": 6, "done": 6, "completed": 4, "infra_error": 2})


def test_failure_of_the_agent_is_evidence_and_seals(at):
    found = with_agent(at, "exit 3\n")

    assert (found.status, found.counts["agent_error"]) == ("sealed", 6)


def test_agent_that_writes_a_stray_file_contaminates_the_batch_and_loses_no_evidence(at):
    found = with_agent(at, "echo x > stray.txt; echo billing\n")

    assert (found.status, found.counts["completed"]) == ("contaminated", 6)
    assert "stray.txt" in found.notes[0]
    assert [w for w in found.warnings if "each further run will be contaminated as well" in w]


def test_agent_that_commits_or_leaves_the_branch_is_told_of(at):
    moves = "git checkout -q -b other 2>/dev/null || git checkout -q other; "
    commits = "git -c user.name=a -c user.email=a@example.org commit -q --allow-empty -m mine; echo billing\n"
    found = with_agent(at, moves + commits)

    assert (found.status, found.counts["done"]) == ("sealed", 6)
    assert len([note for note in found.notes if "(refs/heads/main) when the run began" in note]) == 1


def test_agent_that_edits_a_tracked_file_contaminates_the_batch(at):
    found = with_agent(at, "echo x >> prompt.txt; echo billing\n")

    assert found.status == "contaminated"
    assert "prompt.txt" in found.notes[0]


def test_run_over_its_time_is_interrupted(at):
    target = at("blank")
    target.write("agent.sh", "sleep 60\n")
    target.git("commit", "-q", "-a", "-m", "a slow agent")
    target.initialize(command=["sh", "agent.sh", "{input_file}"], components=[], protected_paths=["agent.sh"])
    target.store_cases()

    found = target.call(
        "run_evaluation", revision_commit=target.head, batch_timeout_seconds=1, wait_seconds=100, concurrency=6
    )

    assert (found.status, found.counts.get("completed", 0)) == ("interrupted", 0)
