"""Whatever an agent starts is gone when its attempt, its run or its server has ended."""

import fcntl
import os
import signal
import subprocess
import sys

import pytest

from operations.execution.plan import STOP_FILE, write_plan
from operations.execution.processes import sweep_batch

HOSTILE = os.path.join(os.path.dirname(__file__), "..", "..", "support", "agents", "hostile.py")

PROCESSES = {
    "plain": 1,
    "ignore_term": 1,
    "tree": 5,
    "setsid": 2,
    "setsid_ignore": 2,
    "daemon": 2,
    "daemon_holds_output": 2,
    "daemon_clean_environment": 2,
    "flood": 1,
    "forks": 51,
    "respawn": 2,
    "stopped": 2,
    "threads": 2,
}
"""How many processes each kind has when it is complete."""
QUICK = ("ignore_term", "tree", "daemon_clean_environment", "respawn")
QUICK_TOO = {("setsid", "guardian_killed"), ("tree", "supervisor_killed"), ("daemon_holds_output", "all_killed")}
EXPECTED = {
    "timeout": ("timeout", "timeout", "all_done"),
    "stop": ("cancelled", "cancelled", "stopped"),
    "stop_file": ("cancelled", "cancelled", "stopped"),
    "server_killed": ("cancelled", "server_gone", "server_gone"),
    "guardian_killed": ("infra_error", "cancelled", "all_done"),
    "supervisor_killed": None,
    "all_killed": None,
}
"""How a run can be ended, and what is then recorded: status and end of the attempt, end of the run."""


SERVER = """
import sys, threading, time
sys.path.insert(0, sys.argv[1])
from operations.execution.launch import launch
threading.Thread(target=lambda: launch(sys.argv[2]), daemon=True).start()
time.sleep(600)
"""

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers and pidfds")
pytestmark = needs_linux


def hostile(kind, folder):
    return [sys.executable, "-S", "-E", os.path.abspath(HOSTILE), kind, folder]


def cases():
    for kind in PROCESSES:
        for ending in EXPECTED:
            if (kind, ending) == ("daemon_clean_environment", "all_killed"):
                continue  # has no trace of its run left; only a cgroup would find it
            quick = (kind in QUICK and ending in {"timeout", "stop", "server_killed"}) or (kind, ending) in QUICK_TOO
            yield pytest.param(kind, ending, marks=[] if quick else [pytest.mark.slow], id=f"{kind}-{ending}")


def children(pid):
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    if int(file.read().rpartition(")")[2].split()[1]) == pid:
                        found.append(int(name))
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


@pytest.fixture
def server(bench):
    """Launches a plan in a process of its own, as a server does, and returns that process."""
    started = []

    def start(plan):
        root = os.path.abspath(os.path.join(os.path.dirname(HOSTILE), "..", "..", ".."))
        started.append(subprocess.Popen([sys.executable, "-c", SERVER, root, write_plan(plan)]))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
    if started:
        bench.until(lambda: not running(bench), "the end of the supervisor")


def running(bench):
    """Returns whether a supervisor still has the run's log for itself."""
    with open(os.path.join(bench.evidence, "attempts.log")) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def bring_about(ending, bench, handle):
    """Ends a run in the way that is called `ending`, and returns when the run has ended."""
    guardians = children(handle.pid)
    if ending == "stop":
        handle.stop()
    elif ending == "stop_file":
        open(os.path.join(bench.work, STOP_FILE), "w").close()
    killed = {
        "supervisor_killed": [handle.pid],
        "guardian_killed": guardians,
        "all_killed": [handle.pid, *guardians],
    }
    for pid in killed.get(ending, ()):
        os.kill(pid, signal.SIGKILL)
    assert handle.wait(30)


def run_to_its_end(bench, server, plan, kind, ending):
    if ending == "server_killed":
        process = server(plan)
        bench.pids(PROCESSES[kind])
        process.kill()
        bench.until(lambda: bench.attempts().ended, "the end of the run")
    else:
        handle = bench.start(plan)
        bench.pids(PROCESSES[kind])
        bring_about(ending, bench, handle)
    if ending == "all_killed":  # nobody is left to sweep; the next to act does
        sweep_batch(bench.work)


@pytest.mark.parametrize(("kind", "ending"), list(cases()))
def test_no_process_of_a_hostile_agent_survives_the_end_of_its_run(bench, server, left_alive, kind, ending):
    limit = 1.5 if ending == "timeout" else 60
    run_to_its_end(bench, server, bench.plan(hostile(kind, bench.target), timeout_seconds=limit), kind, ending)
    left = left_alive(bench.pids())
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []
    assert [r for r in bench.records() if r.execution.status == "completed"] == []
    if EXPECTED[ending] and kind != "flood":  # a flood may have reached its limit before
        [record] = bench.records()
        assert (record.execution.status, record.execution.end, bench.attempts().ended) == EXPECTED[ending]


def test_agents_end_when_the_process_that_launched_the_run_is_killed(bench, server, left_alive):
    process = server(bench.plan(hostile("tree", bench.target), ["a", "b"], concurrency=2))
    pids = bench.pids(10)
    process.kill()
    assert left_alive(pids) == []
    bench.until(lambda: bench.attempts().ended, "the end of the run")
    assert bench.attempts().ended == "server_gone"
    assert [r.execution.end for r in bench.records()] == ["server_gone", "server_gone"]


@pytest.mark.parametrize("kind", ["exits_and_leaves_daemon", "exits_and_child_holds_output"])
def test_what_an_agent_leaves_behind_is_killed_and_counted_and_does_not_delay_it(bench, left_alive, kind):
    [record] = bench.run(hostile(kind, bench.target))
    assert record.execution.status == "completed"
    assert record.output == "done\n"
    assert record.execution.leftovers_killed == 1
    assert any("1 had to be killed" in note for note in record.notes)
    assert left_alive(bench.pids(2)) == []


def test_one_guardian_makes_many_attempts_and_none_sees_what_another_left(bench):
    records = bench.run(bench.sh("sleep 60 & echo $PPID"), ["a", "b", "c"])
    assert len({record.output for record in records}) == 1
    assert [record.execution.leftovers_killed for record in records] == [1, 1, 1]


def test_a_run_goes_on_after_one_of_its_guardians_was_killed(bench):
    script = 'if [ "$0" = c0 ]; then echo $PPID >> pids; sleep 60; fi; echo fine'
    handle = bench.start(bench.plan(["sh", "-c", script, "{case_id}"], ["a", "b", "c"]))
    [guardian] = bench.pids(1)
    os.kill(guardian, signal.SIGKILL)
    assert handle.wait(30)
    assert [r.execution.status for r in bench.records()] == ["infra_error", "completed", "completed"]


@pytest.mark.parametrize("ending", [None, "stop", "close"])
def test_an_agent_that_stops_its_guardian_is_ended_all_the_same(bench, left_alive, ending):
    script = "echo $$ >> pids; kill -STOP $PPID; sleep 60"
    given = {"timeout_seconds": 60 if ending else 0.5, "answer_seconds": 60 if ending == "close" else 0.5}
    handle = bench.start(bench.plan(bench.sh(script), ["a"] if ending else ["a", "b"], **given))
    bench.pids(1)
    if ending:
        getattr(handle, ending)()
    assert handle.wait(50)
    assert {r.execution.status for r in bench.records()} == {"infra_error"}
    assert left_alive(bench.pids(1)) == []


def test_an_agent_that_ends_in_its_grace_is_not_killed(bench):
    script = "trap 'echo saved; exit 3' TERM; echo $$ >> pids; while :; do sleep 0.05; done"
    handle = bench.start(bench.plan(bench.sh(script), grace_seconds=30))
    bench.pids(1)
    handle.stop()
    assert handle.wait(30)
    [record] = bench.records()
    assert (record.execution.status, record.execution.exit_code, record.execution.signal) == ("cancelled", 3, None)
    assert record.output == "saved\n"


def test_a_terminated_supervisor_stops_in_order(bench, left_alive):
    handle = bench.start(bench.plan(hostile("plain", bench.target)))
    pids = bench.pids(1)
    os.kill(handle.pid, signal.SIGTERM)
    assert handle.wait(30)
    assert left_alive(pids) == []
    assert bench.attempts().ended == "stopped"


def test_what_a_dead_run_left_is_found_by_its_folder_and_nothing_else_is_hit(bench, left_alive, tmp_path):
    other = {**os.environ, "ATK_ATTEMPT_OF": str(tmp_path)}
    stranger = subprocess.Popen(["sleep", "60"], env=other, start_new_session=True)
    try:
        handle = bench.start(bench.plan(hostile("tree", bench.target)))
        pids = bench.pids(5)
        for pid in (handle.pid, *children(handle.pid)):
            os.kill(pid, signal.SIGKILL)
        assert handle.wait(30)
        assert sweep_batch(bench.work) == 5
        assert left_alive(pids) == []
        assert sweep_batch(bench.work) == 0
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
