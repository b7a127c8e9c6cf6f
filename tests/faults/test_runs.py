"""Faults of runs: kills, stray files, broken attempts, separators, stdin and floods (A6-A9, B3, B4, B6, B7)."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from operations.tuning.running import FinalSideStands
from storage.errors import AtkError
from storage.lock import ProjectBusy, exclusive
from storage.transaction import ResourceBusy
from tests.faults.story import AGENT, PROMPT, PYTHON, REFUNDS, ROOT, Story, Wire, alive, atk, environment, parent, until
from tests.support.projects import Target

SLOW = """\
import os, sys, time
with open(os.path.join(sys.argv[2], str(os.getpid())), "w"):
    pass
while not os.path.exists(os.path.join(sys.argv[2], "go-" + sys.argv[3])):
    time.sleep(0.02)
print("billing")
"""
"""Notes its process, and answers once a file lets its Case go."""


class Slow:
    """A project whose agents wait until they are let go."""

    def __init__(self, tmp_path):
        self.notes = tmp_path / "notes"
        self.notes.mkdir()
        self.story = Story(
            tmp_path, agent=SLOW, command=[*PYTHON, "agent.py", "{input_file}", str(self.notes), "{case_id}"]
        )

    def go(self, *case_ids):
        for case_id in case_ids or ("invoice-1", "crash-1", "refund-1", "login-1"):
            (self.notes / f"go-{case_id}").touch()

    def agents(self):
        return [int(name) for name in os.listdir(self.notes) if name.isdigit()]

    def begin(self, **arguments):
        """Starts a run and returns it as running, with two agents at work."""
        begun = self.story.evaluate_head(wait_seconds=0, **arguments)
        assert begun.status == "running"
        until(lambda: len(self.agents()) >= 2, "two agents")
        return begun


@pytest.fixture
def slow(tmp_path):
    made = Slow(tmp_path)
    yield made
    made.go()
    until(lambda: not any(alive(pid) for pid in made.agents()), "the agents' end")


def begun_by(server, slow):
    """Starts a run through a server, with one Execution confirmed and two agents at work. Returns the batch's id."""
    slow.go("invoice-1")
    arguments = {"dataset_id": slow.story.dataset_id, "revision_commit": slow.story.target.head}
    made = server.done("run_evaluation", concurrency=2, wait_seconds=0, **arguments)
    until(lambda: len(slow.agents()) >= 3, "three agents")
    until(lambda: slow.story.call("wait_for_batch", batch_id=made["batch_id"], wait_seconds=0).counts["done"], "one")
    return made["batch_id"]


def assert_sealed_with_what_was_confirmed(story, batch_id):
    found = story.call("wait_for_batch", batch_id=batch_id)
    assert found.status == "interrupted"
    assert found.counts["completed"] == 1
    assert story.outputs(batch_id)["invoice-1"] == "billing"
    assert story.call("get_status").running_batches == []
    assert story.dirty() == ""
    again = story.evaluate_head(wait_seconds=0)
    assert again.status == "running"
    story.call("stop_batch", batch_id=again.batch_id)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a6_agents_die_with_their_server_and_the_next_call_seals_what_was_confirmed(slow, number):
    """ATK 1.0.0's runner lived on without a lock, and its batch could be neither sealed nor continued."""
    with Wire(slow.story.target.root) as server:
        batch_id = begun_by(server, slow)
        agents = [pid for pid in slow.agents() if alive(pid)]
        assert agents
        server.process.send_signal(number)
        server.process.wait()
        until(lambda: not any(alive(pid) for pid in agents), "the agents' end")
    assert_sealed_with_what_was_confirmed(slow.story, batch_id)


def test_a6_a_killed_supervisor_leaves_no_agent_and_its_batch_is_sealed(slow):
    """ATK 1.0.0 had no process that noticed: the batch stayed without a manifest for ever."""
    with Wire(slow.story.target.root) as server:
        batch_id = begun_by(server, slow)
        agents = [pid for pid in slow.agents() if alive(pid)]
        os.kill(parent(parent(agents[0])), signal.SIGKILL)
        until(lambda: not any(alive(pid) for pid in agents), "the agents' end")
        assert server.done("wait_for_batch", batch_id=batch_id)["status"] == "interrupted"
        assert server.process.poll() is None
    assert_sealed_with_what_was_confirmed(slow.story, batch_id)


def test_a6_a_killed_replay_of_the_baseline_is_undone_and_the_sealed_candidate_is_there_again(slow):
    """ATK 1.0.0 left the baseline's files in the worktree until somebody knew the operation's id to recover it."""
    story = slow.story
    slow.go()
    story.open()
    candidate_id = story.draft()
    story.target.write("prompt.txt", REFUNDS)
    sealed = story.seal(candidate_id)
    for name in os.listdir(slow.notes):
        os.remove(slow.notes / name)
    with Wire(story.target.root) as server:
        given = {"round_id": story.round_id, "revision_id": story.baseline, "wait_seconds": 0}
        batch_id = server.done("run_evaluation", **given)["batch_id"]
        until(lambda: len(slow.agents()) >= 2, "two agents")
        assert story.target.read("prompt.txt") == PROMPT
        server.process.kill()
        server.process.wait()
        until(lambda: not any(alive(pid) for pid in slow.agents()), "the agents' end")
    assert story.call("wait_for_batch", batch_id=batch_id).status == "interrupted"
    assert story.target.read("prompt.txt") == REFUNDS
    assert story.dirty() == " M prompt.txt"
    slow.go()
    assert story.run(sealed.revision_id).status == "sealed"


def test_a7_a_stray_file_contaminates_a_batch_whose_evidence_stays(tmp_path):
    """ATK 1.0.0 refused the batch after all Cases had run, because of one `__pycache__`, and left it unsealed."""
    littering = AGENT + 'open("litter.txt", "w").close()\n'
    story = Story(tmp_path, agent=littering)
    run = story.evaluate_head()
    assert run.status == "contaminated"
    assert run.notes == ["litter.txt was not the Revision's when the run had ended"]
    assert story.outputs(run.batch_id)["invoice-1"] == "billing"
    assert story.call("read_record", record_id=story.assess(run.batch_id), field="rows").value
    again = story.evaluate_head()
    assert again.status == "sealed"  # the file lay there before and after: these are other surroundings
    assert again.revision_id != run.revision_id


def test_a7_a_contaminated_final_side_is_run_again_and_charged_once(tmp_path):
    """In ATK 1.0.0 the second try was 'already run': one stray write lost the final side, and the Round, for good."""
    mark = tmp_path / "litter-now"
    littering = AGENT + f'if os.path.exists({str(mark)!r}): open("litter.txt", "w").close()\n'
    story = Story(tmp_path, agent=littering).open()
    story.keep(lambda: story.target.write("prompt.txt", REFUNDS))
    used = story.account.used
    mark.touch()
    spoiled = story.run(phase="final")
    assert spoiled.status == "contaminated"
    assert story.target.read("prompt.txt") == REFUNDS
    assert (story.account.used, story.account.reserve) == (used, 8)
    mark.unlink()
    os.remove(story.target.path("litter.txt"))
    left = story.side(phase="final")
    with pytest.raises(FinalSideStands):
        story.run(phase="final")
    right = story.side(story.round.current_revision_id, phase="final")
    assert story.compare(left, right, mode="final").result == "pass"


def test_a8_a_bad_byte_and_bad_side_files_stay_the_trouble_of_their_own_attempts(tmp_path):
    """In ATK 1.0.0 one bad byte of six ended the runner: one completed, four not started; side files did the same."""
    agent = """
import os, sys
case, folder = sys.argv[1:]
if case == "c0": os.write(1, b"bad \\xff\\xfe byte\\n")
if case == "c1": open(os.path.join(folder, "loading.json"), "w").write("{")
if case == "c2": open(os.path.join(folder, "metrics.json"), "wb").write(b"\\xff")
if case == "c3": os.mkdir(os.path.join(folder, "loading.json"))
if case == "c4": sys.exit(3)
print("fine")
"""
    cases = [(f"c{n}", "text", "fine") for n in range(6)]
    story = Story(tmp_path, agent=agent, cases=cases, command=[*PYTHON, "agent.py", "{case_id}", "{output_dir}"])
    run = story.evaluate_head()
    assert (run.status, run.counts["done"]) == ("sealed", 6)
    found = {r["case_id"]: r for r in story.call("read_record", record_id=run.batch_id, field="records").value}
    assert found["c0"]["output"] == "bad \ufffd\ufffd byte\nfine\n"
    assert found["c0"]["output_replaced_bytes"] == 2
    assert [found[f"c{n}"]["execution"]["status"] for n in range(6)] == [*["completed"] * 4, "agent_error", "completed"]
    assert all(found[f"c{n}"]["notes"] for n in (1, 2, 3))
    assert story.assess(run.batch_id)


def test_a8_braces_of_a_command_are_checked_when_the_project_is_made(tmp_path):
    """ATK 1.0.0 took a literal JSON argument, and every batch ended with its runner's exit code 1."""
    with pytest.raises(AtkError) as refused:
        Story(tmp_path / "a", command=["echo", "{inptu_file}"])
    assert refused.value.code == "unknown_placeholder"
    assert "{input_file}" in str(refused.value)
    story = Story(tmp_path / "b", command=["echo", '{"a": 1, "b": {"case": "{case_id}"}}', "{{case_id}}"])
    run = story.evaluate_head()
    assert run.status == "sealed"
    assert story.outputs(run.batch_id)["crash-1"] == '{"a": 1, "b": {"case": "crash-1"}} {case_id}'


SEPARATORS = "a\u2028b\u2029c\u0085d\x0be\x1cf"


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a9_unicode_line_separators_pass_through_every_store_unchanged(tmp_path, kind):
    """ATK 1.0.0 split on them: the dataset, or the sealed evidence, could never be read again; JSONL was refused."""
    echo = "import json, sys\nsys.stdout.write(json.load(open(sys.argv[1], encoding='utf-8')))\n"
    story = Story(tmp_path, agent=echo)
    if kind == "csv":
        story.target.write_cases([("s-1", SEPARATORS, SEPARATORS)])
    else:
        row = {"id": "s-1", "input": SEPARATORS, "expected": SEPARATORS}
        story.target.write("cases.csv", "")
        story.target.write("cases.jsonl", json.dumps(row, ensure_ascii=False) + "\n")
        story.target.git("add", "cases.jsonl")
        story.target.git("commit", "-q", "-m", "Cases")
    story.dataset_id = story.call("store_dataset", source=f"cases.{kind}").dataset_id
    run = story.evaluate_head()
    [record] = story.call("read_record", record_id=run.batch_id, field="records").value
    assert (record["output"], record["case_id"]) == (SEPARATORS, "s-1")
    assessment_id = story.assess(run.batch_id)
    [row] = story.call("read_record", record_id=assessment_id, field="rows").value
    assert row["verdict"] == "pass"
    assert story.call("read_record", record_id=f"{story.dataset_id}/s-1").value["input"] == SEPARATORS
    journal = atk("journal", "--json", "--project", story.target.root)
    assert all(json.loads(line) for line in journal.stdout.split("\n")[:-1])


def test_b3_b4_the_rest_goes_on_during_a_run_and_what_cannot_names_who_is_in_the_way(slow):
    """ATK 1.0.0 blocked for up to an hour and refused every locked operation meanwhile, without saying for whom."""
    story = slow.story
    slow.go()
    first = story.evaluate_head()
    for name in os.listdir(slow.notes):
        os.remove(slow.notes / name)
    made = story.call("create_round", batch_ids=[first.batch_id])
    with Wire(story.target.root) as server:
        arguments = {"dataset_id": story.dataset_id, "revision_commit": story.target.head, "wait_seconds": 0}
        begun = server.done("run_evaluation", concurrency=2, **arguments)
        assert begun["status"] == "running"
        issue = {"id": "refunds", "symptom": "s", "hypothesis": "h", "case_ids": ["refund-1"]}
        assert server.done("store_diagnosis", round_id=made.round_id, issues=[issue])["issue_id"]
        spec = {"dimensions": ["correct"], "dimension_rules": {"correct": "equal"}}
        judged = {"batch_id": first.batch_id, "evaluation_spec": spec, "judger": {"method": "exact"}}
        assert server.done("store_assessment", **judged)["row_count"] == 4
        assert server.done("store_dataset", source="cases.csv")["case_count"] == 4
        assert server.done("read_record", record_id=first.batch_id)["kind"] == "batch"
        status = server.done("get_status")
        assert [b["batch_id"] for b in status["running_batches"]] == [begun["batch_id"]]
        assert status["next"][0]["tool"] == "wait_for_batch"
        refused = server.call("run_evaluation", **arguments)
        assert refused["isError"]
        assert refused["structuredContent"]["code"] == "resource_busy"
        assert begun["batch_id"] in refused["content"][0]["text"]
        with pytest.raises(ResourceBusy):
            story.evaluate_head()
        waiting = server.begin("wait_for_batch", batch_id=begun["batch_id"], wait_seconds=240)
        assert server.done("get_status")["running_batches"]
        slow.go()
        assert server.answer(waiting)["result"]["structuredContent"]["status"] == "sealed"


def test_b4_a_call_waits_for_a_lock_and_one_that_waited_too_long_is_told_for_whom(tmp_path):
    """ATK 1.0.0 refused at once, whoever held its lock and however briefly, and did not say who."""
    target = Target(tmp_path / "target")
    store = target.project.store
    with ThreadPoolExecutor(1) as pool, exclusive(store, "decide_candidate", "2024-05-06T07:08:09Z"):
        waiting = pool.submit(target.store_cases)
        until(lambda: os.listdir(target.path(".atk/datasets")), "what is prepared without the lock")
        with pytest.raises(ProjectBusy) as refused, exclusive(store, "seal_candidate", "later", patience=0.05):
            raise AssertionError("two held the lock")
        assert f"process {os.getpid()}" in str(refused.value)
        assert "decide_candidate since 2024-05-06T07:08:09Z" in str(refused.value)
        assert target.call("get_status").initialized
        assert not waiting.done()
    assert waiting.result() in target.state.objects["dataset"]


def test_b3_a_run_is_ended_from_another_process(slow):
    """ATK 1.0.0 had no cancel: a run was killed by its process number, and its batch lost."""
    begun = slow.begin()
    request = json.dumps({"batch_id": begun.batch_id})
    stopped = atk("call", "stop_batch", "--request", "-", "--json", "--project", slow.story.target.root, stdin=request)
    assert stopped.returncode == 0, stopped.stderr
    assert json.loads(stopped.stdout)["status"] == "interrupted"
    assert not any(alive(pid) for pid in slow.agents())


READS_STDIN = "import sys\nprint(repr(sys.stdin.read()), sys.stdin.fileno())\n"


def test_b6_an_agent_finds_its_stdin_empty_and_the_servers_wire_untouched(tmp_path):
    """ATK 1.0.0's agents inherited the operation's stdin: over stdio they would read the client's next calls."""
    story = Story(tmp_path, agent=READS_STDIN)
    with Wire(story.target.root) as server:
        arguments = {"dataset_id": story.dataset_id, "revision_commit": story.target.head, "wait_seconds": 100}
        running = server.begin("run_evaluation", **arguments)
        others = [server.begin("get_status") for _ in range(20)]
        batch_id = server.answer(running)["result"]["structuredContent"]["batch_id"]
        assert all(server.answer(number)["result"]["structuredContent"]["initialized"] for number in others)
    assert set(story.outputs(batch_id).values()) == {"'' 0"}
    request = json.dumps(arguments)
    called = atk("call", "run_evaluation", "--request", "-", "--json", "--project", story.target.root, stdin=request)
    assert set(story.outputs(json.loads(called.stdout)["batch_id"]).values()) == {"'' 0"}


FLOOD = """\
import os, sys
block = b"x" * (1 << 20)
for _ in range(300):
    os.write(int(sys.argv[1]), block)
"""


def test_b7_a_flood_of_output_is_cut_with_flat_memory_and_the_batch_goes_on(tmp_path):
    """ATK 1.0.0 read it all: 100 MB of output became a record of 100 MB and took 499 MiB."""
    cases = [("1", "stdout", "x"), ("2", "stderr", "x"), ("1b", "both", "x")]
    story = Story(
        tmp_path,
        agent=FLOOD,
        cases=cases,
        command=["sh", "-c", 'exec "$0" -S agent.py "${1%b}"', sys.executable, "{case_id}"],
    )
    request = json.dumps({"dataset_id": story.dataset_id, "revision_commit": story.target.head})
    measured = (
        "import resource, runpy, sys; sys.argv = ['atk', *sys.argv[1:]]\n"
        "try: runpy.run_module('atk_mcp.inspector', run_name='__main__')\n"
        "finally:\n"
        "    own = next(l.split()[1] for l in open('/proc/self/status') if l.startswith('VmHWM'))\n"  # since its exec
        "    sys.stderr.write(own + ' ' + str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))"
    )
    arguments = ["call", "run_evaluation", "--request", "-", "--json", "--project", story.target.root]
    done = subprocess.run(
        [sys.executable, "-c", measured, *arguments],
        input=request, capture_output=True, text=True, cwd=ROOT, env=environment(), check=True,
    )  # fmt: skip
    answer = json.loads(done.stdout)
    assert answer["counts"]["done"] == 3
    peaks = [int(text) for text in done.stderr.split()[-2:]]  # KiB: of `atk`, and of the largest of its children
    assert max(peaks) < 200 * 1024, peaks
    size = os.path.getsize(story.target.path(f".atk/evidence/{answer['batch_id']}/records.jsonl"))
    assert size < 8 << 20
    found = story.call("read_record", record_id=f"{answer['batch_id']}.1", field="execution").value
    assert found["stdout_truncated"]
