"""A run records each attempt as it was, and the trouble of one attempt stays its own."""

import fcntl
import json
import os
import resource
import stat
import sys
import threading

import pytest

from operations.execution.launch import launch
from operations.execution.plan import STOP_FILE, agent_environment, write_plan
from operations.execution.processes import MARKER
from storage.frames import encode

BY_CASE = """
case "$0" in
c0) echo fine;;
c1) echo wrong >&2; exit 1;;
c2) exit 75;;
c3) kill -KILL $$;;
c4) echo begun; sleep 60;;
esac
"""


SAY_MUCH = "yes | head -c 200000; while [ ! -e $0/../stdout ]; do :; done"
"""A long output goes to a file, which is there once the agent's guardian has read enough of it."""


def statuses(records):
    return [record.execution.status for record in records]


def test_each_ending_has_its_status(bench):
    records = bench.run(
        ["sh", "-c", BY_CASE, "{case_id}"], "abcde", infrastructure_exit_codes=(75,), timeout_seconds=1, concurrency=2
    )
    assert statuses(records) == ["completed", "agent_error", "infra_error", "agent_error", "timeout"]
    assert [r.execution.end for r in records] == ["exited", "exited", "exited", "exited", "timeout"]
    assert [r.execution.exit_code for r in records] == [0, 1, 75, None, None]
    assert [r.execution.signal for r in records] == [None, None, None, 9, 15]
    assert [r.output_status for r in records] == ["value", "empty", "empty", "empty", "value"]
    assert records[1].stderr_tail == "wrong\n"
    assert records[4].output == "begun\n"
    assert all(r.execution.started_at <= r.execution.ended_at for r in records)
    assert dict(bench.attempts().counts) == {"completed": 1, "agent_error": 2, "infra_error": 1, "timeout": 1}
    assert bench.attempts().ended == "all_done"


def test_a_program_that_is_missing_is_an_infrastructure_failure_that_names_it(bench):
    [record] = bench.run(["no-such-program", "{input}"])
    assert (record.execution.status, record.execution.end) == ("infra_error", "not_started")
    assert "no-such-program" in record.execution.error
    assert (record.output, record.output_status, record.metrics) == (None, "not_exported", {})


def test_a_missing_working_directory_is_named(bench):
    [record] = bench.run(["true"], working_directory=os.path.join(bench.folder, "nowhere"))
    assert record.execution.status == "infra_error"
    assert "nowhere" in record.execution.error


def test_an_agent_gets_its_input_as_it_is_and_never_what_is_expected(bench):
    inputs = ["naïve {case_id} {{x}} $HOME `id`\n", {"b": [1, None, "ü"]}, 7]
    script = (
        "import json,sys; print(json.dumps([sys.argv[1:], json.load(open(sys.argv[2])), open(sys.argv[3]).read()]))"
    )
    command = [*bench.python(script), "{input}", "{input_file}", "{attachments_file}", "{repeat_index}"]
    records = bench.run(command, inputs, repeats=2, attachments=[{"path": "a.txt"}])
    assert [(r.case_id, r.repeat) for r in records] == [(f"c{n}", m) for n in range(3) for m in (1, 2)]
    for record, given in zip(records, [x for x in inputs for _ in (1, 2)], strict=True):
        argv, from_file, attachments = json.loads(record.output)
        assert argv[0] == (
            given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, separators=(",", ":"))
        )
        assert from_file == given
        (told,) = json.loads(attachments)
        assert os.path.isabs(told["path"])
        assert os.path.basename(told["path"]) == "a.txt"
        assert argv[3] == str(record.repeat)
        assert "SECRET" not in record.output


@pytest.mark.parametrize(("text", "says"), [("a\0b", "NUL"), ("x" * 200_000, "too long"), ("\ud800", "surrogates")])
def test_an_input_that_no_argument_can_hold_fails_its_own_attempt(bench, text, says):
    records = bench.run(["echo", "{input}"], [text, "fine"])
    assert statuses(records) == ["infra_error", "completed"]
    assert says in records[0].execution.error


def test_output_that_is_not_utf8_is_shown_with_replacements_and_counted(bench):
    records = bench.run(["printf", "{input}"], [r"a\377\376b\303\274", "fine"])
    assert [(r.output, r.output_replaced_bytes) for r in records] == [("a\ufffd\ufffdbü", 2), ("fine", 0)]
    assert statuses(records) == ["completed", "completed"]


def test_secrets_are_masked_in_all_that_an_agent_left(bench):
    key = "sk-proj-" + "aB3" * 14
    script = f"""echo "key {key}"; echo "key {key}" >&2; echo '[{{"token": "{key}"}}]' > "$0/loading.json" """
    [record] = bench.run(["sh", "-c", script, "{output_dir}"])
    assert record.loading_evidence
    with open(os.path.join(bench.evidence, "attempts.log")) as file:
        assert key not in file.read()


def test_side_files_become_evidence_that_says_who_measured(bench):
    script = """
    echo '[{"component": "skill"}]' > "$0/loading.json"
    echo '{"cost": 0.5, "tool_calls": 3, "x": 1}' > "$0/metrics.json"
    """
    [record] = bench.run(["sh", "-c", script, "{output_dir}"])
    assert record.loading_evidence == ({"component": "skill"},)
    assert record.metrics == {"cost": 0.5, "tool_calls": 3, "duration_seconds": record.execution.duration_seconds}
    assert record.metric_sources == {
        "cost": "agent_sidecar",
        "tool_calls": "agent_sidecar",
        "duration_seconds": "supervisor",
    }
    assert record.notes == ()


def test_a_collector_that_the_side_file_names_is_on_record(bench):
    script = """echo '{"cost": 0.5, "tool_calls": 3, "sources": {"cost": "proxy"}}' > "$0/metrics.json" """
    [record] = bench.run(["sh", "-c", script, "{output_dir}"])
    assert record.metric_sources == {"cost": "proxy", "tool_calls": "agent_sidecar", "duration_seconds": "supervisor"}


@pytest.mark.parametrize(
    ("script", "note"),
    [
        ("echo '{' > $0/loading.json", "loading.json is not used: it is not JSON (line"),
        ("echo '{}' > $0/loading.json", "loading.json is not used: it is not a list"),
        ("echo '[1]' > $0/loading.json", "loading.json is not used: it is not a list"),
        (r"printf '\377' > $0/loading.json", "loading.json is not used: it is not UTF-8"),
        (r"""echo '[{"a": "\\ud800"}]' > $0/loading.json""", "loading.json is not used: it is not UTF-8"),
        ("""echo '[{"a": 1e999}]' > $0/loading.json""", "loading.json is not used: it has a number"),
        ("mkfifo $0/loading.json", "loading.json is not used: it is not a regular file"),
        ("mkdir $0/loading.json", "loading.json is not used: it is not a regular file"),
        ("ln -s /etc/passwd $0/loading.json", "loading.json is not used: it cannot be opened"),
        ("head -c 2000000 /dev/zero > $0/loading.json", "loading.json is not used: it is larger"),
        ("yes [ | head -c 600000 | tr -d '\\n' > $0/loading.json", "loading.json is not used: it is nested too deeply"),
        ("rmdir $0; ln -s /etc $0", "loading.json is not used: it cannot be opened"),
        ("""echo '{"cost": NaN}' > $0/metrics.json""", "metrics.json is not used: it has a number"),
        ("""echo '{"cost": true}' > $0/metrics.json""", "metrics.json is not used: cost is not a number"),
        ("""echo '{"tool_calls": -1}' > $0/metrics.json""", "metrics.json is not used: tool_calls is not a number"),
        ("echo '[]' > $0/metrics.json", "metrics.json is not used: it is not an object"),
        (f"{SAY_MUCH}; rm $0/../stdout", "stdout was removed"),
        (f"{SAY_MUCH}; rm -r $(dirname $0)", "stdout was removed"),
        (f"{SAY_MUCH}; rm $0/../stdout; ln -s /etc/passwd $0/../stdout", "stdout is not used"),
    ],
)
def test_what_an_agent_left_broken_becomes_a_note_and_the_next_attempt_is_made(bench, script, note):
    records = bench.run(["sh", "-c", script, "{output_dir}"], ["a", "b"])
    assert statuses(records) == ["completed", "completed"]
    for record in records:
        assert any(note in said for said in record.notes), record.notes
        assert record.loading_evidence is None
        assert list(record.metrics) == ["duration_seconds"]
        assert "root:" not in (record.output or "")


def test_a_flood_of_output_is_stopped_at_its_limit_and_stored_in_part(bench):
    [record] = bench.run(["yes"], max_output_bytes=1 << 20, stored_output_bytes=10_000)
    assert record.execution.stdout_bytes == 1 << 20
    assert record.execution.stdout_truncated
    assert record.execution.status == "agent_error"
    assert len(record.output) <= 10_000
    assert record.output.endswith("y\n")
    assert any("reached its limit" in note for note in record.notes)
    assert bench.attempts().ended == "all_done"


def test_an_agent_may_write_files_that_are_larger_than_its_output_may_be(bench):
    script = "head -c 3000000 /dev/zero > cache && wc -c < cache"
    [record] = bench.run(bench.sh(script), max_output_bytes=1 << 20)
    assert (record.execution.status, record.output) == ("completed", "3000000\n")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_flood_ends_with_what_was_allowed_on_the_disk(bench, stream):
    script = f"import os; [os.write({1 if stream == 'stdout' else 2}, b'x' * 65536) for _ in range(1600)]"
    [record] = bench.run(bench.python(script), max_output_bytes=1 << 20)
    assert record.execution.status == "agent_error"
    assert getattr(record.execution, f"{stream}_truncated")
    kept = [os.path.getsize(os.path.join(where, name)) for where, _, files in os.walk(bench.work) for name in files]
    assert (1 << 20) in kept
    assert sum(kept) < 1.1 * (1 << 20)


def test_an_output_that_cannot_be_kept_is_an_infrastructure_failure(bench):
    script = 'mkdir "$0/../stdout"; yes | head -c 200000'
    [record] = bench.run(["sh", "-c", script, "{output_dir}"])
    assert record.execution.status == "infra_error"
    assert "could not be kept: File exists" in record.execution.error


def test_an_output_that_is_cut_loses_its_last_word_and_no_more(bench):
    [record] = bench.run(["printf", "{input}"], ["ü" * 5 + " " + "secret" * 10], stored_output_bytes=30)
    assert record.output == "ü" * 5 + " "
    assert record.output_replaced_bytes == 0
    assert record.execution.stdout_truncated


def test_an_agent_reads_an_empty_standard_input_and_inherits_nothing(bench):
    script = "import os,sys; print(repr(sys.stdin.read()), sorted(int(x) for x in os.listdir('/proc/self/fd'))[:-1])"
    [record] = bench.run(bench.python(script))
    assert record.output == "'' [0, 1, 2]\n"


def test_an_agent_gets_the_environment_of_the_plan_and_nothing_else(bench, monkeypatch):
    monkeypatch.setenv("ATK_TEST_SECRET", "hidden")
    environment = agent_environment(["ATK_TEST_UNSET"], {"MODE": "test"})
    [record] = bench.run(bench.python("import json,os; print(json.dumps(dict(os.environ)))"), environment=environment)
    seen = json.loads(record.output)
    assert seen.pop(MARKER) == os.path.realpath(bench.work)
    assert {k: v for k, v in seen.items() if k != "LC_CTYPE"} == {
        k: v for k, v in environment.items() if k != "LC_CTYPE"
    }
    assert "ATK_TEST_SECRET" not in seen


def test_an_agent_has_default_signals_and_a_session_of_its_own(bench):
    script = (
        "import os,signal; print([signal.getsignal(s) == signal.SIG_DFL for s in (signal.SIGTERM, signal.SIGHUP)], "
        "os.getsid(0) == os.getpid())"
    )
    [record] = bench.run(bench.python(script))
    assert record.output == "[True, True] True\n"


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


def test_files_of_an_attempt_are_their_owners_and_a_long_output_is_kept_whole(bench):
    script = 'yes | head -c 200000; cat "$0" "$1" >&2; touch "$2/kept"'
    [record] = bench.run(
        ["sh", "-c", script, "{input_file}", "{attachments_file}", "{output_dir}"], stored_output_bytes=1000
    )
    assert record.stderr_tail == '"hello"[]'
    folder = os.path.join(bench.work, "0")
    assert sorted(os.listdir(folder)) == ["attachments.json", "input.json", "output", "stdout"]
    assert mode(folder) == mode(os.path.join(folder, "output")) == 0o700
    for name in ("stdout", "input.json", "attachments.json"):
        assert mode(os.path.join(folder, name)) == 0o600
    with open(os.path.join(folder, "stdout")) as file:
        assert file.read() == "y\n" * 100_000


def test_an_attempt_finds_nothing_of_another_in_its_folder(bench):
    script = 'find "$(dirname "$0")" -type f | wc -l; cat "$0"; [ "$1" = c1 ] && touch "$2/left"; true'
    inputs = ["long " * 100, "second", {"third": 3}, 4]
    records = bench.run(["sh", "-c", script, "{input_file}", "{case_id}", "{output_dir}"], inputs)
    assert [record.output for record in records] == [f"1\n{json.dumps(value)}" for value in inputs]
    assert os.path.exists(os.path.join(bench.work, "1", "output", "left"))


@pytest.mark.parametrize(
    "trick", ["ln -sf /etc/hostname $0", "ln $0 ../again-$1", "chmod 666 $0", "mkdir $0.d", "rm $0"]
)
def test_a_folder_that_an_agent_has_changed_is_not_used_again(bench, trick):
    bench.run(["sh", "-c", f"{trick}; true", "{input_file}", "{case_id}"], "ab")
    assert os.path.isdir(os.path.join(bench.work, "0"))
    assert os.path.isdir(os.path.join(bench.work, "1"))


MEET = """
import os, sys, time
mine, wanted = sys.argv[1], int(sys.argv[2])
open("here-" + mine, "w").close()
most = 0
end = time.monotonic() + 20
while time.monotonic() < end:
    here = len([x for x in os.listdir(".") if x.startswith("here-")])
    most = max(most, here)
    if most >= wanted:
        break
    time.sleep(0.01)
time.sleep(0.05)
most = max(most, len([x for x in os.listdir(".") if x.startswith("here-")]))
os.unlink("here-" + mine)
print(most)
"""


def test_as_many_attempts_run_at_once_as_the_plan_says_and_no_more(bench):
    records = bench.run([*bench.python(MEET), "{case_id}", "3"], "abcdef", concurrency=3)
    seen = [int(record.output) for record in records]
    assert max(seen) == 3
    assert seen[:3] == [3, 3, 3]


def test_one_at_a_time_is_one_at_a_time(bench):
    records = bench.run([*bench.python(MEET), "{case_id}", "1"], "abc")
    assert [record.output for record in records] == ["1\n"] * 3


def test_a_stopped_run_records_what_ran_and_starts_nothing_more(bench):
    handle = bench.start(bench.plan(bench.sh("echo $$ >> pids; sleep 60"), "abc", concurrency=2))
    bench.pids(2)
    handle.stop()
    handle.stop()
    assert handle.wait(30)
    assert statuses(bench.records()) == ["cancelled", "cancelled"]
    assert bench.attempts().ended == "stopped"
    handle.stop()


def test_a_batch_ends_when_its_time_is_up(bench):
    records = bench.run(bench.sh("sleep 60"), "ab", batch_timeout_seconds=1)
    assert statuses(records) == ["cancelled"]
    assert bench.attempts().ended == "batch_timeout"


def test_infrastructure_failures_in_a_row_end_the_run(bench):
    script = 'case "$0" in c1) exit 0;; *) exit 75;; esac'
    settings = {"infrastructure_exit_codes": (75,), "stop_after_infra_failures": 2}
    records = bench.run(["sh", "-c", script, "{case_id}"], "abcdef", **settings)
    assert statuses(records) == ["infra_error", "completed", "infra_error", "infra_error"]
    assert bench.attempts().ended == "infra_failures"


def test_a_case_that_is_missing_fails_its_own_attempt(bench):
    plan = bench.plan(["echo", "{case_id}"], "ab")
    slots = (plan.slots[0].model_copy(update={"case_id": "gone"}), plan.slots[1])
    records = bench.run(["echo", "{case_id}"], "ab", slots=slots)
    assert statuses(records) == ["infra_error", "completed"]
    assert "'gone'" in records[0].execution.error


def log_path(bench):
    return os.path.join(bench.evidence, "attempts.log")


def test_a_run_continues_after_the_confirmed_attempts_and_a_torn_tail(bench):
    bench.run(bench.sh("echo $0 first"), "ab")
    with open(log_path(bench), "ab") as file:
        file.write(encode({"kind": "started", "record_id": "b.2", "n": 2, "at": "", "prev": ""})[0][:-9])
    records = bench.run(bench.sh("echo second"), "abc")
    assert [record.output for record in records] == ["sh first\n", "sh first\n", "second\n"]
    assert bench.attempts().ended == "all_done"


def test_an_attempt_with_an_unknown_end_is_made_again_only_when_the_user_said_so(bench):
    handle = bench.start(bench.plan(bench.sh("echo $$ >> pids; sleep 60"), "ab"))
    bench.pids(1)
    os.kill(handle.pid, 9)
    assert handle.wait(30)
    assert list(bench.attempts().unfinished) == ["b.0"]
    records = bench.run(["echo", "again"], "ab")
    assert [record.id for record in records] == ["b.1"]
    assert list(bench.attempts().unfinished) == ["b.0"]
    records = bench.run(["echo", "allowed"], "ab", rerun_unknown_ids=("b.0",))
    assert [(record.id, record.output) for record in records] == [("b.0", "allowed\n"), ("b.1", "again\n")]
    assert os.path.isdir(os.path.join(bench.work, "0.earlier-1"))


def test_retries_stay_linked_to_what_they_try_again(bench):
    plan = bench.plan(["true"])
    slot = plan.slots[0].model_copy(update={"n": 7, "record_id": "b.7", "retry_of": "b.0"})
    [record] = bench.run(["true"], slots=(slot,))
    assert (record.id, record.n, record.execution.retry_of) == ("b.7", 7, "b.0")


@pytest.mark.skipif(sys.platform != "linux", reason="limits another process")
def test_a_log_that_cannot_be_written_ends_the_run_and_its_agents(bench, left_alive):
    command = ["sh", "-c", "echo $$ >> pids; while [ ! -e go-$0 ]; do sleep 0.02; done", "{case_id}"]
    handle = bench.start(bench.plan(command, "ab", concurrency=2))
    pids = bench.pids(2)
    size = os.path.getsize(log_path(bench))
    resource.prlimit(handle.pid, resource.RLIMIT_FSIZE, (size + 10, size + 10))
    open(os.path.join(bench.target, "go-c0"), "w").close()
    assert handle.wait(30)
    assert handle.returncode == 1
    assert "The run ended: " in bench.supervisor_log()
    assert left_alive(pids) == []
    assert bench.attempts().ended is None
    assert set(bench.attempts().unfinished) == {"b.0", "b.1"}
    assert statuses(bench.run(["true"], "ab", rerun_unknown_ids=("b.0", "b.1"))) == ["completed", "completed"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"command": ("echo", "{inptu}")}, "{inptu}"),
        ({"mask_key_path": "/nowhere/key"}, "/nowhere/key"),
        ({"cases_path": "/nowhere/cases"}, "/nowhere/cases"),
        ({"evidence_folder": "/nowhere/evidence"}, "/nowhere/evidence"),
    ],
)
def test_a_run_that_cannot_begin_says_why_and_starts_nothing(bench, change, says):
    handle = bench.start(bench.plan(**{"command": ["echo"], **change}))
    assert handle.wait(30)
    assert handle.returncode == 1
    assert says in bench.supervisor_log()
    assert "Traceback" not in bench.supervisor_log()
    assert bench.records() == []


def test_a_supervisor_and_its_guardians_share_the_owners_lock(bench):
    path = os.path.join(bench.folder, "owner")
    with open(path, "w") as ours:
        fcntl.flock(ours, fcntl.LOCK_EX)
        handle = bench.start(bench.plan(bench.sh("echo $$ >> pids; sleep 60")), ours.fileno())
        bench.pids(1)
    with open(path, "w") as others:
        with pytest.raises(BlockingIOError):
            fcntl.flock(others, fcntl.LOCK_EX | fcntl.LOCK_NB)
        handle.stop()
        assert handle.wait(30)
        fcntl.flock(others, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_run_can_be_launched_and_waited_for_in_any_thread(bench):
    path = write_plan(bench.plan(["true"], "abc"))
    ended = []

    def work():
        handle = launch(path)
        ended.append(handle.wait(30))
        handle.close()
        handle.close()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ended == [True]
    assert statuses(bench.records()) == ["completed"] * 3


def test_waiting_has_a_bound(bench):
    handle = bench.start(bench.plan(bench.sh("sleep 60")))
    assert handle.wait(0.01) is False
    assert handle.returncode is None
    open(os.path.join(bench.work, STOP_FILE), "w").close()
    assert handle.wait(30)
    assert handle.returncode == 0


def test_an_output_of_exactly_the_limit_is_whole(bench):
    records = bench.run(
        [*bench.sh('head -c "$((1048575 + $0))" /dev/zero | tr "\\0" x'), "{input}"],
        [1, 2],
        max_output_bytes=1 << 20,
        stored_output_bytes=2 << 20,
    )
    assert [r.execution.stdout_bytes for r in records] == [1 << 20, 1 << 20]
    assert [r.execution.stdout_truncated for r in records] == [False, True]
    assert statuses(records) == ["completed", "agent_error"]
    assert len(records[0].output) == 1 << 20
