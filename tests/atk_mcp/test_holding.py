"""`atk run` holds a run after its client has gone, and goes on with what ended early."""

import signal
import subprocess
import sys

import pytest

from tests.faults.story import Wire, atk, environment, until
from tests.support.side_log import Logged


@pytest.fixture
def target(tmp_path):
    return Logged(tmp_path)


def held(target, batch_id):
    """Starts `atk run` as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "atk_mcp.inspector", "run", batch_id, "--project", target.root],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )


def stopped(target):
    target.note("hold-c1")
    begun = target.head_run(concurrency=1, wait_seconds=0)
    until(lambda: ("c1", 1) in target.ran, "the Case that holds")
    target.call("stop_batch", batch_id=begun.batch_id, wait_seconds=100)
    return begun.batch_id


def newest(target):
    return list(target.state.objects["batch"].values())[-1]


def test_a_stopped_run_is_held_stopped_in_order_and_gone_on_with(target):
    first = stopped(target)
    process = held(target, first)
    until(lambda: target.ran["c1", 1] == 2 or target.ran["c2", 1], "the Cases that were left")
    until(lambda: target.ran["c1", 1] == 2, "the Case that holds")
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=100)
    second = newest(target)

    assert process.returncode == 130
    assert (second.supersedes_batch_id, second.status, second.end_reason) == (first, "interrupted", "stopped")
    assert f"Go on with: atk run {second.id}" in said
    target.forget("hold-c1")
    done = atk("run", first, "--project", target.root)
    assert done.returncode == 0, done.stderr
    assert f"{first} was continued as {second.id}." in done.stdout
    assert newest(target).status == "sealed"
    assert target.ran == {("c0", 1): 1, ("c1", 1): 3, ("c2", 1): 1, ("c3", 1): 1}
    assert atk("run", first, "--project", target.root).returncode == 0


def test_a_run_whose_server_died_is_taken_over_by_whoever_holds_it(target):
    target.note("hold-c1")
    with Wire(target.root) as server:
        arguments = {"dataset_id": target.dataset_id, "revision_commit": target.head, "concurrency": 1}
        batch_id = server.done("run_evaluation", wait_seconds=0, **arguments)["batch_id"]
        until(lambda: ("c1", 1) in target.ran, "the Case that holds")
        process = held(target, batch_id)
        server.process.kill()
        server.process.wait()
        target.forget("hold-c1")
        said, trouble = process.communicate(timeout=100)

    assert process.returncode == 0, trouble
    assert f"{batch_id} is interrupted" in said
    assert newest(target).status == "sealed"


def test_unknown_attempts_wait_for_a_person_or_for_a_reason_on_the_command_line(target):
    first = stopped(target)
    target.forget("hold-c1")
    target.change(target.batch(first).model_copy(update={"unknown_record_ids": (f"{first}.3",)}))

    refused = atk("run", first, "--project", target.root, stdin="")
    assert refused.returncode == 1
    assert f"{first}.3" in refused.stderr
    done = atk("run", first, "--rerun-unknown", "it only reads", "--project", target.root)
    assert done.returncode == 0, done.stderr
    assert newest(target).unknown_execution_authorization.reason == "it only reads"


def test_a_batch_that_is_not_there_is_refused_in_words(target):
    done = atk("run", "batch-1-none", "--project", target.root)
    assert done.returncode == 1
    assert "Error [unknown_object]" in done.stderr
