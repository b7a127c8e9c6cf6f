"""A server killed at any moment of a probe leaves no process, and charges what had begun and nothing more."""

import os
import signal

import pytest

from storage.schema.probes import Probe
from tests.faults.story import Wire, alive, until
from tests.operations.execution.test_killed_servers import children
from tests.support.projects import Target

SCRIPT = """\
import json, os, sys, time
given = json.load(open(sys.argv[1]))
print("given", given, flush=True)
if "crash" in given:
    for number in range(2):
        if os.fork() == 0:
            os.setsid()
            if number and os.fork():
                os._exit(0)
            open(NOTES + f"/{os.getpid()}", "w").close()
            time.sleep(600)
    open(NOTES + f"/{os.getpid()}", "w").close()
    time.sleep(600)
"""
"""Ends at once for most Cases; for a crash it stays, with a child in a session of its own and a daemon."""

PROCESSES = 3
CASES = ["refund-1", "crash-1", "refund-2"]
ASK = {"probe_authorization_id": "look", "question": "What is given?", "case_ids": CASES, "request_id": "once"}


class Killable:
    def __init__(self, folder):
        self.notes = str(folder / "notes")
        os.mkdir(self.notes)
        self.target = Target(folder / "target")
        self.target.store_cases()
        self.target.write(".atk/probes/look.py", f"NOTES = {self.notes!r}\n{SCRIPT}")
        permission = {"id": "look", "script_path": ".atk/probes/look.py", "isolation_ref": "none", "max_calls": 9}
        self.round_id = self.target.call("create_round", probe_permissions=[permission]).round_id

    @property
    def given(self):
        return {**ASK, "round_id": self.round_id}

    @property
    def pids(self):
        return [int(name) for name in os.listdir(self.notes)]

    def kill(self, *, attendant):
        """Begins the probe through a real server and kills that while the second Execution stays."""
        with Wire(self.notes) as server:
            server.begin("diagnostic_probe", project_path=self.target.root, **self.given)
            until(lambda: len(self.pids) == PROCESSES, "the probe's processes")
            if attendant:
                for pid, called in children(server.process.pid).items():
                    if "operations.execution.attendant" in called:
                        os.kill(pid, signal.SIGKILL)
            server.process.kill()
            server.process.wait()

    def living(self):
        return [pid for pid in self.pids if alive(pid)]


@pytest.fixture
def killable(tmp_path):
    made = Killable(tmp_path)
    yield made
    for pid in made.living():
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("attendant", [False, True])
def test_a_killed_server_costs_what_had_begun_and_leaves_nothing(killable, attendant):
    target = killable.target
    killable.kill(attendant=attendant)
    if not attendant:
        until(lambda: not killable.living(), "the probe's end")

    status = target.call("get_status")
    assert len(status.open_operations) == 1
    assert "its process is gone" in status.open_operations[0]
    probe_id = target.state.all(Probe)[0].id
    assert probe_id in status.open_operations[0]
    assert status.next[0].tool == "inspect_or_recover_operation"

    settled = target.call("inspect_or_recover_operation")
    assert any(probe_id in line for line in settled.open_before)
    assert settled.open_now == []
    until(lambda: not killable.living(), "the probe's end")

    probe = target.state.get(Probe, probe_id)
    assert (probe.status, probe.end_reason, probe.counts) == ("interrupted", "server_gone", {"completed": 1})
    assert probe.unknown_record_ids == (f"{probe_id}.2",)
    assert probe.missing_record_ids == (f"{probe_id}.2", f"{probe_id}.3")
    assert probe.charged == 2
    assert "files may have changed" in probe.notes[0]
    kept = target.call("read_record", record_id=probe_id, field="records").value
    assert [record["output"] for record in kept] == ["given I want a refund\n"]
    assert target.call("read_record", record_id=f"{probe_id}.1").value["case_id"] == "refund-1"
    assert os.listdir(target.path(".atk/work")) == os.listdir(target.path(".atk/owners")) == []


def test_the_same_request_after_the_kill_says_what_came_of_it(killable):
    target = killable.target
    killable.kill(attendant=False)

    again = target.call("diagnostic_probe", **killable.given)

    assert (again.status, again.end_reason, again.executions_left) == ("interrupted", "server_gone", 7)
    assert again.unknown == [f"{again.probe_id}.2"]
    assert len(target.state.all(Probe)) == 1
    until(lambda: not killable.living(), "the probe's end")


def test_another_probe_after_the_kill_is_not_held_up(killable):
    target = killable.target
    killable.kill(attendant=True)

    answer = target.call("diagnostic_probe", **{**killable.given, "case_ids": ["refund-1"], "request_id": "twice"})

    assert (answer.status, answer.executions_left) == ("completed", 6)
    assert [probe.status for probe in target.state.all(Probe)] == ["interrupted", "completed"]
    assert not killable.living()
