"""A probe that changes the target is found out, and a hostile one is ended, bounded and cleaned away."""

import os
import threading

import pytest

from atk_mcp.results import of_response
from operations.tuning.diagnosis import DiagnosisRefused
from storage.transaction import ResourceBusy
from tests.operations.execution.conftest import survivors
from tests.support.probes import Probed, clean


@pytest.fixture
def probed(at):
    return lambda script, **more: Probed(at("evaluated"), script, **more)


def until(condition):
    """Returns once `condition` holds; a bound on what is broken, not a measurement."""
    for _ in range(3_000):
        if condition():
            return
        threading.Event().wait(0.02)
    raise AssertionError("never came")


@pytest.mark.parametrize(
    ("does", "path"),
    [
        ("open('prompt.txt', 'a').write('x')", "prompt.txt"),
        ("open('stray.txt', 'w').write('x')", "stray.txt"),
        ("__import__('os').remove('agent.sh')", "agent.sh"),
        ("__import__('os').system('git commit -q --allow-empty -m x')", "HEAD"),
    ],
)
def test_a_probe_that_changes_files_is_contaminated_and_carries_nothing(probed, does, path):
    made = probed(does + "\nprint('done')\n")
    answer = made.ask(case_ids=["refund-1"])

    assert (answer.status, answer.changed_paths) == ("contaminated", [path])
    assert answer.executions[0]["output"] == "done\n"
    cited = [{"batch_id": answer.probe_id, "evidence_id": f"{answer.probe_id}.1"}]
    issue = {"id": "a", "symptom": "s", "hypothesis": "h", "case_ids": ["refund-1"], "evidence_refs": cited}
    with pytest.raises(DiagnosisRefused, match="contaminated"):
        made.target.call("store_diagnosis", round_id=made.round_id, issues=[issue])


def test_a_probe_of_a_draft_sees_it_and_leaves_it(at):
    target = at("evaluated")
    made = Probed(target, "print(open('prompt.txt').read())\n")
    target.write("prompt.txt", "draft -> here\n")
    answer = made.ask()
    assert (answer.status, answer.executions[0]["output"]) == ("completed", "draft -> here\n\n")
    assert target.read("prompt.txt") == "draft -> here\n"


def test_nobody_else_moves_the_worktree_meanwhile(probed):
    made = probed("import os, time\nopen('begun', 'w')\nwhile not os.path.exists('go'):\n    time.sleep(0.02)\n")
    target = made.target
    target.write(".git/info/exclude", "begun\ngo\n")
    answers = []
    asking = threading.Thread(target=lambda: answers.append(made.ask()))
    asking.start()
    try:
        until(lambda: os.path.exists(target.path("begun")))
        with pytest.raises(ResourceBusy, match="probe-"):
            target.call("run_evaluation", revision_commit=target.head, wait_seconds=0)
        with pytest.raises(ResourceBusy):
            made.ask()
        assert target.call("read_record", record_id=made.probes[-1].id).value["status"] == "running"
    finally:
        target.write("go", "")
        asking.join()
    assert answers[0].status == "completed"
    assert target.call("run_evaluation", revision_commit=target.head, wait_seconds=100).status == "sealed"


# ---- hostile probes ------------------------------------------------------------------------------------------------

DAEMON = """\
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open(sys.argv[1] + ".pid", "w") as file:
            file.write(str(os.getpid()))
        os.rename(sys.argv[1] + ".pid", PID)
        time.sleep(600)
    os._exit(0)
while not os.path.exists(PID):
    time.sleep(0.01)
print("started it")
"""


def test_a_daemon_does_not_outlive_its_execution(probed, tmp_path):
    pid = tmp_path / "pid"
    made = probed(f"PID = {str(pid)!r}\n{DAEMON}")
    answer = made.ask()
    assert (answer.status, answer.executions[0]["output"]) == ("completed", "started it\n")
    assert survivors([int(pid.read_text())]) == []
    assert clean(made.target)


def test_endless_output_is_bounded_and_ended_at_the_limit(probed):
    made = probed("while True:\n    print('flood ' * 1000)\n", timeout_seconds=1)
    answer = made.ask()
    kept = made.whole(answer)[0]
    assert (answer.status, answer.executions[0]["status"]) == ("completed", "timeout")
    assert len(made.target.call("read_record", record_id=f"{answer.probe_id}.1").model_dump_json()) < 8_000
    assert kept["output_bytes"] > 100_000
    assert len(answer.model_dump_json()) < 8_000
    size = os.path.getsize(made.target.path(f".atk/evidence/{answer.probe_id}/records.jsonl"))
    assert size < 20_000


def test_bytes_that_are_no_text_are_kept_and_shown_replaced(probed):
    made = probed("import sys\nsys.stdout.buffer.write(b'a\\xff\\xfeb\\x00')\n")
    answer = made.ask()
    assert answer.executions[0]["output"] == "a\ufffd\ufffdb\x00"
    assert made.whole(answer)[0]["output_replaced"] == 2


def test_a_probe_that_ignores_its_end_is_killed(probed):
    made = probed(
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)\n", timeout_seconds=0.5
    )
    answer = made.ask()
    assert answer.executions[0]["status"] == "timeout"


def test_a_probe_that_kills_what_watches_it_is_ended_with_all_that_it_started(probed, tmp_path):
    pid = tmp_path / "pid"
    kill = "os.kill(os.getppid(), 9)\ntime.sleep(600)\n"
    made = probed(f"PID = {str(pid)!r}\n{DAEMON}{kill}")
    answer = made.ask(case_ids=["refund-1", "refund-2"])
    assert [each["status"] for each in answer.executions] == ["infra_error", "infra_error"]
    assert (answer.status, answer.executions_left) == ("completed", 3)
    assert survivors([int(pid.read_text())]) == []
    assert clean(made.target)


def test_a_probe_that_takes_its_own_folder_away_spoils_only_itself(probed):
    made = probed(
        "import os, shutil, sys\nshutil.rmtree(os.path.dirname(os.path.dirname(sys.argv[1])))\nprint('gone')\n"
    )
    answer = made.ask(case_ids=["refund-1", "refund-2"])
    assert [each["exit_code"] for each in answer.executions] == [0, 2]
    assert clean(made.target)


def test_twenty_noisy_executions_fit_one_answer(at):
    target = at("blank")
    target.write_cases([(f"case-{n}-" + "x" * 200, "é" * 10, "x") for n in range(20)])
    target.initialize(command=["sh", "agent.sh", "{input_file}"], components=[], protected_paths=[])
    target.store_cases()
    made = Probed(target, "print('é€' * 5000)\n", max_calls=20, timeout_seconds=10)
    answer = made.ask(case_ids=[f"case-{n}-" + "x" * 200 for n in range(20)])
    assert len(answer.executions) == 20
    of_response(answer, strict=True)
