"""A runtime is brought to a Revision and proved to be there, and nothing that it started outlives its batch."""

import json
import os
import signal
import subprocess
import sys

import pytest

from operations.execution.attending import AttendantLost, Attending
from operations.execution.preparing import prepare
from storage.masking import Masker
from storage.schema.projects import Preparation

MASKER = Masker(b"k" * 32)
ENVIRONMENT = {"PATH": os.environ["PATH"]}
TREE = "a" * 40
SERVICE = 'echo $$ >> pids; echo "$ATK_TREE" > running; exec sleep 600'


def prepared(folder, tree=TREE, **spec):
    given = Preparation.model_validate({"mode": "command", "ready_seconds": 5, **spec})
    return prepare(given, tree=tree, commit="c" * 40, cwd=str(folder), environment=ENVIRONMENT, masker=MASKER)


def sh(script):
    return ("sh", "-c", script)


def pids(folder):
    return [int(line) for line in (folder / "pids").read_text().split()]


def test_nothing_is_started_where_nothing_has_to_follow(tmp_path):
    with prepared(tmp_path, mode="stateless") as runtime:
        assert (runtime.result.ready, runtime.check().ready) == (True, True)


def test_the_service_runs_during_the_batch_names_its_tree_and_is_gone_afterwards(tmp_path, left_alive):
    argv = sh("echo built {tree} {commit} > built")
    with prepared(tmp_path, argv=argv, service=sh(SERVICE), probe=sh("cat running")) as runtime:
        assert runtime.result.ready, runtime.result
        assert [step.name for step in runtime.result.steps] == ["prepare", "probe"]
        assert (tmp_path / "built").read_text() == f"built {TREE} {'c' * 40}\n"
        assert runtime.check().ready
        assert left_alive(pids(tmp_path), 0) == pids(tmp_path)
    assert left_alive(pids(tmp_path)) == []


def test_a_runtime_that_was_not_restarted_is_stale(tmp_path):
    (tmp_path / "running").write_text("b" * 40)
    runtime = prepared(tmp_path, argv=("true",), probe=sh("cat running"), ready_seconds=0.3)
    assert runtime.result.outcome == "stale"
    assert runtime.result.notes == (
        f"The probe answered {'b' * 40}, but the Revision's tree is {TREE}: another content is running.",
    )


def test_a_runtime_that_becomes_another_during_the_batch_is_found_by_the_second_look(tmp_path, monkeypatch):
    monkeypatch.setattr("operations.execution.preparing._PROBE_AGAIN_SECONDS", 0.0)
    with prepared(tmp_path, service=sh(SERVICE), probe=sh("cat running")) as runtime:
        assert runtime.result.ready
        (tmp_path / "running").write_text("b" * 40)
        assert runtime.check().outcome == "stale"


def test_an_old_server_may_answer_while_the_new_one_starts(tmp_path):
    (tmp_path / "running").write_text("b" * 40)
    probe = sh('cat running; echo "$ATK_TREE" > running')
    with prepared(tmp_path, argv=("true",), probe=probe) as runtime:
        assert runtime.result.ready


@pytest.mark.parametrize(
    ("spec", "outcome", "said"),
    [
        ({"argv": sh("echo no disk >&2; exit 3")}, "failed", "failed (exit code 3)"),
        ({"argv": ("no-such-program",)}, "failed", "could not be started"),
        ({"argv": sh("sleep 600 & sleep 600"), "timeout_seconds": 0.3}, "timeout", "did not end within 0.3 s"),
        ({"service": ("no-such-program",)}, "failed", "could not be started"),
        ({"service": sh("exit 4"), "probe": sh("sleep 0.2; false")}, "service_ended", "exit code 4"),
        ({"argv": ("true",), "probe": ("false",), "ready_seconds": 0.1}, "failed", "The probe failed"),
    ],
)
def test_what_goes_wrong_is_said(tmp_path, spec, outcome, said):
    result = prepared(tmp_path, **spec).result
    assert result.outcome == outcome, result
    assert said in result.notes[0]


def test_output_is_kept_to_its_end_and_masked(tmp_path):
    script = 'seq 100000; echo "password=hunter22horse" >&2; echo last; exit 1'
    (step,) = prepared(tmp_path, argv=sh(script)).result.steps
    assert "hunter22horse" not in step.output
    assert "[masked:" in step.output
    assert step.output.endswith("last\n")
    assert len(step.output) <= 4000


def test_a_preparation_that_is_given_up_ends_with_all_it_started(tmp_path, left_alive):
    seen = []

    def cancelled():
        seen.append((tmp_path / "pids").exists())
        return seen[-1]

    runtime = prepare(
        Preparation(mode="command", argv=sh("echo $$ > pids; sleep 600")),
        tree=TREE,
        commit="c" * 40,
        cwd=str(tmp_path),
        environment=ENVIRONMENT,
        masker=MASKER,
        cancelled=cancelled,
    )
    assert runtime.result.outcome == "stopped"
    assert left_alive(pids(tmp_path)) == []


def test_a_daemon_that_a_preparation_started_lives_until_the_batch_has_ended(tmp_path, left_alive):
    with prepared(
        tmp_path, argv=sh("(setsid sh -c 'echo $$ >> pids; sleep 600' &); until [ -s pids ]; do :; done")
    ) as r:
        assert r.result.ready, r.result
        assert left_alive(pids(tmp_path), 0) == pids(tmp_path)
    assert left_alive(pids(tmp_path)) == []


SERVER = """\
import json, os, sys
from operations.execution.preparing import prepare
from storage.masking import Masker
from storage.schema.projects import Preparation
spec = Preparation.model_validate(json.loads(sys.argv[1]))
runtime = prepare(spec, tree="a" * 40, commit="c" * 40, cwd=sys.argv[2], environment=dict(os.environ),
                  masker=Masker(b"k" * 32))
print(runtime.result.outcome, runtime._attending._process.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("killed", ["server", "attendant"])
def test_a_service_does_not_outlive_the_server_or_its_attendant(tmp_path, left_alive, killed):
    spec = {"mode": "command", "service": sh(SERVICE), "probe": sh("cat running")}
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, json.dumps(spec), str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        outcome, attendant = server.stdout.readline().decode().split()
        assert outcome == "ready"
        os.kill(server.pid if killed == "server" else int(attendant), signal.SIGKILL)
        assert left_alive(pids(tmp_path)) == []
        server.kill()
    assert left_alive([int(attendant)]) == []


def test_a_lost_attendant_is_said_and_later_closing_does_no_harm(tmp_path):
    runtime = prepared(tmp_path, service=sh(SERVICE), probe=sh("cat running"))
    assert runtime.result.ready
    os.kill(runtime._attending._process.pid, signal.SIGKILL)
    assert runtime.check().outcome == "lost"
    runtime.close()


def test_programs_get_no_pipe_of_the_attendant(tmp_path):
    with Attending() as attending:
        script = "import os; print(sorted(int(fd) for fd in os.listdir('/proc/self/fd'))[:4])"
        outcome = attending.run(
            [sys.executable, "-c", script], cwd=str(tmp_path), environment=ENVIRONMENT, timeout_seconds=30
        )
        assert outcome.output.strip() == "[0, 1, 2, 3]"  # 3 is the listing itself
        attending.close()
        with pytest.raises(AttendantLost):
            attending.run(["true"], cwd=str(tmp_path), environment=ENVIRONMENT, timeout_seconds=1)


def test_closing_ends_a_program_that_is_still_run(tmp_path, left_alive):
    attending = Attending()
    order = {"do": "run", "argv": sh("echo $$ > pids; sleep 600"), "cwd": str(tmp_path), "env": ENVIRONMENT}
    attending._send({**order, "timeout": 600}, "start a program")
    while not (tmp_path / "pids").exists() or not pids(tmp_path):
        assert attending._process.poll() is None
    attending.close()
    assert left_alive(pids(tmp_path)) == []


def test_orphans_of_a_service_are_collected_and_its_own_ending_is_not_lost(tmp_path):
    script = "(true &) ; (true &) ; echo up > running; sleep 0.3; exit 7"
    with prepared(tmp_path, service=sh(script), probe=sh(f"cat running; echo {TREE}")) as runtime:
        assert runtime.result.ready, runtime.result
        attendant = runtime._attending._process.pid
        while runtime._attending.services()[0].end == "serving":
            pass
        with open(f"/proc/{attendant}/task/{attendant}/children") as file:
            assert file.read().split() == []
        assert runtime.check().notes == ("The service ended by itself (exit code 7).",)
