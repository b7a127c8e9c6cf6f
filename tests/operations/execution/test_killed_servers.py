"""A server killed at any moment of a run costs only the attempts under way: counted by the agent itself."""

import os
import signal
from collections import Counter

import pytest

from operations.tuning import budget
from storage.schema.batches import Batch
from tests.faults.story import Wire, until
from tests.support.side_log import Logged

CASES = 40
UNCERTAIN = ("cancelled", "unknown")
"""Ends of attempts that were killed when they were about to begin or had begun: they ran once or not at all."""


def children(pid):
    """Returns the processes that `pid` started, with how they were called."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
            if parent == pid:
                with open(f"/proc/{name}/cmdline", encoding="utf-8", errors="replace") as file:
                    found[int(name)] = file.read()
        except OSError:
            continue
    return found


def living_in(root):
    """Returns the living processes whose folder is `root`: what agents of the target there are."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                dead = file.read().rpartition(")")[2].split()[0] in "ZX"
            if not dead and os.readlink(f"/proc/{name}/cwd") == root and int(name) != os.getpid():
                found.append(int(name))
        except OSError:
            continue
    return found


def killed_when(target, done, *, supervisor):
    """Starts a run through a server and kills that once so many agents have begun. Returns the batch's id."""
    before = sum(target.ran.values())
    with Wire(target.notes) as server:
        given = {"project_path": target.root, "round_id": target.round_id, "wait_seconds": 0}
        batch_id = server.done("run_evaluation", **given)["batch_id"]
        until(lambda: sum(target.ran.values()) - before >= done, f"{done} agents")
        if supervisor:
            for pid, called in children(server.process.pid).items():
                if "operations.execution.supervisor" in called:
                    os.kill(pid, signal.SIGKILL)
        server.process.kill()
        server.process.wait()
    until(lambda: not living_in(target.root), "the agents' end")
    return batch_id


def finished(target, batch_id):
    """Seals what is there and continues it, with the user's word for what is unknown. Returns all its batches."""
    target.call("wait_for_batch", batch_id=batch_id)
    old = target.batch(batch_id)
    if old.status == "sealed":
        return [old]
    given = {"continue_batch_id": old.id}
    if old.unknown_record_ids:
        word = {"source": "user", "batch_id": old.id, "record_ids": list(old.unknown_record_ids)}
        given["unknown_execution_authorization"] = {**word, "reason": "the test says so", "risk": "none"}
    made = target.follow(**given)
    assert made.status == "sealed", made
    return [old, target.batch(made.batch_id)]


def executions(target, batches):
    """Returns what ATK says was run: slot → the ends of its Executions."""
    cases = {f"{batches[0].id}.{n}": case_id for n, case_id in enumerate(batches[0].case_ids, 1)}
    said = {(case_id, 1): [] for case_id in cases.values()}
    for record in target.records(batches[-1].id):
        said[record["case_id"], record["repeat"]].append(record["execution"]["status"])
    for record_id in batches[0].unknown_record_ids if len(batches) > 1 else ():
        said[cases[record_id], 1].append("unknown")
    return said


def killed_and_continued(tmp_path, moments):
    target = Logged(tmp_path, cases=CASES)
    target.note("slow")
    for number, moment in enumerate(moments):
        # A side is run once for a comparison, so each moment has a Round of its own.
        target.open_round(budget={"executions": 600}, concurrency=4)
        ran_before = target.ran
        used_before = budget.account(target.round, target.round.plan, target.state.all(Batch)).used
        batches = finished(target, killed_when(target, moment, supervisor=number % 3 == 2))
        said = executions(target, batches)
        ran = Counter(target.ran)
        ran.subtract(ran_before)
        for slot, ends in said.items():
            certain = [end for end in ends if end not in UNCERTAIN]
            assert certain == ["completed"], (moment, slot, ends)  # measured once
            assert len(certain) <= ran[slot] <= len(ends), (moment, slot, ends, ran[slot])
        used = budget.account(target.round, target.round.plan, target.state.all(Batch)).used
        assert used - used_before == len(said)  # what was under way is made again, and charged once
        assert living_in(target.root) == []
        assert target.call("get_status").running_batches == []
        target.call("finish_round", round_id=target.round_id, action="abandon", reason="the next moment")


def test_a_server_killed_at_four_moments_loses_nothing_that_was_confirmed(tmp_path):
    killed_and_continued(tmp_path, [0, 9, 20, 35])


@pytest.mark.slow
def test_a_server_killed_at_many_moments_loses_nothing_that_was_confirmed(tmp_path):
    """A dozen moments; all fifty by ATK_EVERY_MOMENT=1."""
    moments = 50 if os.environ.get("ATK_EVERY_MOMENT") else 12
    killed_and_continued(tmp_path, [number * CASES // moments for number in range(moments)])
