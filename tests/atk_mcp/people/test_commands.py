"""The commands for people: what they print is what is stored, as text, and their exit status can be relied on."""

import json
import os
import re
import subprocess
import sys
import types
from xml.etree import ElementTree as ET

import pytest

from atk_mcp.inspector import main
from storage.schema.batches import Batch
from storage.schema.rounds import Round
from storage.schema.validations import Validation
from tests.operations.catalog.evidence import store_batch
from tests.operations.catalog.test_following_batches import begin, slow, until_begun
from tests.support.projects import CASES
from tests.support.rounds import store

__all__ = ["slow"]
HOSTILE = "\x1b[2J\x1b]0;owned\x07[bold red]x[/] \u202egnp"


@pytest.fixture
def run(capsys):
    """Returns a function that runs a command and gives its status, stdout and stderr."""

    def made(target, *words):
        try:
            status = main([*words, "--project", target.root])
        except SystemExit as left:
            status = left.code
        return status, *capsys.readouterr()

    return made


@pytest.fixture
def completed(at):
    return at("completed")


def answered(target, answer):
    """Stores a judged batch of the baseline that was answered as given. Returns its id."""
    batch_id = store_batch(target, target.b0, answer, round_id=target.round_id)
    target.ids["last_assessment_id"] = target.judge(batch_id)
    return batch_id


# ---- the verdict -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "status"), [("pass", 0), ("no_effect", 1), ("regression", 1), ("insufficient", 2), ("invalid", 2)]
)
def test_the_status_of_a_gate_says_the_result(completed, run, result, status):
    from tests.support.rounds import store

    newest = completed.state.get(Validation, completed.final_validation_id)
    store(completed, newest.model_copy(update={"result": result}))
    told = run(completed, "gate", completed.round_id, "--json")
    assert (told[0], json.loads(told[1])["result"]) == (status, result)
    assert run(completed, "gate", completed.round_id)[0] == status


def test_a_gate_that_cannot_say_has_another_status_than_one_that_fails(at, run):
    opened = at("opened")
    assert run(opened, "gate", opened.round_id)[:2] == (2, f"{opened.round_id}: nothing was compared yet.\n")
    status, out, err = run(opened, "gate", "round-99-none")
    assert (status, out) == (3, "")
    assert "unknown_object" in err
    assert run(opened, "gate", opened.round_id, "--nonsense")[0] == 3
    assert run(opened, "gate")[0] == 3
    os.rename(opened.path(".atk"), opened.path(".atk-away"))
    assert run(opened, "gate", opened.round_id)[0] == 3


def test_a_gate_writes_what_ci_reads(completed, run, tmp_path):
    junit, markdown = str(tmp_path / "j.xml"), str(tmp_path / "r.md")
    assert run(completed, "gate", completed.round_id, "--junit", junit, "--markdown", markdown)[0] == 0
    assert ET.parse(junit).getroot().get("name") == completed.round_id
    with open(markdown, encoding="utf-8") as file:
        assert file.read().startswith(f"## Pass: {completed.round_id}")
    assert run(completed, "gate", completed.round_id, "--junit", str(tmp_path / "none" / "j.xml"))[0] == 3


def test_a_gate_shows_an_override_and_is_not_moved_by_it(at, run):
    target = at("kept")
    word = {"source": "user", "action": "retain_without_final_pass", "reason": "we need it", "risk": "it may be worse"}
    target.call(
        "finish_round",
        round_id=target.round_id,
        action="complete_with_override",
        reason="now",
        override_authorization=word,
        validation_missing_reason="no time",
    )
    status, out, _ = run(target, "gate", target.round_id)
    assert status == 0  # the candidate's own comparison passed; no final one was made
    assert "overrides it: now" in out


def test_a_pass_that_was_rolled_back_is_no_pass_of_what_stands(at, run):
    target = at("kept")
    assert run(target, "gate", target.round_id)[0] == 0
    b0 = target.state.get(Round, target.round_id).baseline_commit
    target.call("rollback_to", round_id=target.round_id, target_commit=b0, reason="it failed in the field")
    gone = f"What passed, {target.candidate_id}, was withdrawn: nothing of it is kept."
    for end in (None, "close_without_adoption"):
        if end is not None:
            target.call("finish_round", round_id=target.round_id, action=end, reason="nothing is kept")
        status, out, _ = run(target, "gate", target.round_id)
        assert status == 2
        assert out.startswith(f"Pass, and taken back: {target.round_id}, incremental ")
        assert gone in out
        assert json.loads(run(target, "gate", target.round_id, "--json")[1])["taken_back"] == gone


def test_a_report_says_where_it_lies(completed, run):
    status, out, _ = run(completed, "report", completed.round_id)
    assert (status, os.path.basename(out.strip())) == (0, "report.html")
    assert os.path.getsize(out.strip()) > 10_000
    status, out, _ = run(completed, "report", completed.final_left_assessment_id, "--json")
    assert json.loads(out)["assessment_id"] == completed.final_left_assessment_id
    assert run(completed, "report", completed.final_left_assessment_id, "--format", "junit")[0] == 2
    assert run(completed, "report", "nothing")[0] == 1


def ended(target, *words, **how):
    """Runs a command as a process of its own. Returns its status and what it wrote to stderr."""
    command = [sys.executable, "-m", "atk_mcp.inspector", *words, "--project", target.root]
    done = subprocess.run(command, check=False, stderr=subprocess.PIPE, text=True, **how)
    return done.returncode, done.stderr


def test_a_gate_whose_words_reach_nobody_does_not_pass_and_shows_no_stack(completed):
    alone = {"env": {**os.environ, "PYTHONUNBUFFERED": "1"}}
    with open("/dev/full", "wb") as full:
        told = ended(completed, "gate", completed.round_id, stdout=full, **alone)
    assert told == (3, "atk: stdout takes no more: No space left on device.\n")
    reader, writer = os.pipe()
    os.close(reader)
    assert ended(completed, "gate", completed.round_id, stdout=writer, **alone) == (3, "")
    assert ended(completed, "rounds", stdout=writer, **alone) == (0, "")
    os.close(writer)


def test_a_terminal_without_the_letters_gets_them_escaped(completed):
    ascii_only = {"env": {**os.environ, "PYTHONIOENCODING": "ascii"}, "stdout": subprocess.DEVNULL}
    assert ended(completed, "diff", completed.final_left_batch_id, completed.final_right_batch_id, **ascii_only) == (
        1,
        "",
    )


def test_a_gate_that_crashes_ends_as_an_error_and_the_crash_is_on_record(completed, run, monkeypatch):
    crashing = types.SimpleNamespace(gate=lambda *_: 1 // 0)
    monkeypatch.setitem(sys.modules, "atk_mcp.people.verdicts", crashing)
    status, out, err = run(completed, "gate", completed.round_id, "--json")
    told = json.loads(err)
    assert (status, out, told["code"]) == (3, "", "internal_error")
    with open(completed.path(".atk/log/incidents.jsonl"), encoding="utf-8") as file:
        (entry,) = map(json.loads, file)
    assert (entry["incident_id"], entry["operation"]) == (told["facts"]["incident_id"], "atk gate")


# ---- tables ------------------------------------------------------------------------------------------------------


def test_rounds_are_listed_with_their_newest_result(completed, run):
    status, out, _ = run(completed, "rounds")
    assert status == 0
    assert re.search(rf"{completed.round_id}\s+completed\s.*\s1\s+1\s+pass\s", out)
    assert json.loads(run(completed, "rounds", "--json")[1])[0]["result"] == "pass"


def test_more_records_than_a_number_can_count_are_all_of_them(completed, run):
    whole = run(completed, "journal", "--last", "1000")
    assert run(completed, "journal", "--last", "9" * 30) == whole


def test_an_object_is_shown_to_its_end(completed, run):
    status, out, _ = run(completed, "show", completed.dataset_id, "--field", "cases")
    assert status == 0
    assert all(case in out for case in ("refund-1", "refund-2", "crash-1"))
    assert run(completed, "show", "nothing")[0] == 1


def test_json_of_an_object_is_all_of_it_and_a_long_text_is_not_broken_where_a_page_ends(completed, run, tmp_path):
    long = "".join(f"{n} kilom\u00e8tres " for n in range(1000))
    cases = [{"id": f"far-{n}", "input": f"{n} {long}", "expected": "x", "usage": "optimization"} for n in range(40)]
    source = tmp_path / "far.jsonl"
    source.write_text("".join(f"{json.dumps(case)}\n" for case in cases))
    dataset_id = completed.call("store_dataset", source=str(source)).dataset_id

    def shown(field):
        answer = json.loads(run(completed, "show", dataset_id, "--field", field, "--json")[1])
        assert (answer["next_cursor"], answer["next"]) == (None, [])
        return answer["value"]

    assert [case["id"] for case in shown("cases")] == [case["id"] for case in cases]
    assert shown("cases.7.input") == cases[7]["input"]
    assert run(completed, "show", dataset_id, "--field", "cases.7.input")[1].count("\n") == 2


def test_only_failed_attempts_are_shown_when_asked(completed, run):
    wanted = json.loads(run(completed, "cases", completed.final_left_batch_id, "--json")[1])
    failed = json.loads(run(completed, "cases", completed.final_left_batch_id, "--json", "--failed")[1])
    assert failed["attempts"] == [a for a in wanted["attempts"] if a["verdicts"] != {"correct": "pass"}]
    assert 0 < len(failed["attempts"]) < len(wanted["attempts"])
    one = json.loads(run(completed, "cases", completed.final_left_batch_id, "--json", "--case", "refund-1")[1])
    assert {a["case"] for a in one["attempts"]} == {"refund-1"}
    right = {name: expected for name, _, expected in CASES}
    assert {a["case"]: a["expected"] for a in wanted["attempts"]} == {
        a["case"]: right[a["case"]] for a in wanted["attempts"]
    }
    shown = run(completed, "cases", completed.final_left_batch_id, "--failed", "--first", "1")[1].splitlines()
    assert (shown[1].split()[-1], shown[2].split()[-1]) == ("Expected", right[failed["attempts"][0]["case"]])
    assert "Expected" not in run(completed, "cases", completed.final_left_batch_id)[1]
    assert "and" in run(completed, "cases", completed.final_left_batch_id, "--first", "1")[1].splitlines()[-1]
    first = json.loads(run(completed, "cases", completed.final_left_batch_id, "--first", "1", "--json")[1])
    assert (len(first["attempts"]), first["left_out"]) == (1, len(wanted["attempts"]) - 1)
    assert run(completed, "cases", completed.final_left_batch_id, "--first", "0")[0] == 2


def test_attempts_that_a_cut_run_lacks_are_counted_with_what_goes_on_with_them(at, run):
    target = at("evaluated")
    ran = target.state.get(Batch, target.batch_id)
    left = tuple(f"{ran.id}.{n}" for n in (1, 2))
    cut = ran.model_copy(update={"status": "interrupted", "missing_record_ids": left, "unknown_record_ids": left[:1]})
    store(target, cut)

    last = run(target, "cases", ran.id)[1].splitlines()[-1]
    store(target, ran.model_copy(update={"id": "batch-9-next", "supersedes_batch_id": ran.id}))
    followed = run(target, "cases", ran.id)[1].splitlines()[-1]

    told = f"2 of {ran.slots} attempts missing, 1 of them of unknown end;"
    assert (last, followed) == (f"{told} `atk run {ran.id}` goes on with it", f"{told} batch-9-next goes on with it")


def test_further_lines_of_what_an_agent_says_are_set_in(completed, run):
    batch_id = answered(completed, lambda *_: "x\nfound: nothing\nEverything is as it was recorded.")
    for words in (["trajectory", f"{batch_id}.1"], ["show", f"{batch_id}.1"]):
        lines = run(completed, *words)[1].splitlines()
        assert "      Everything is as it was recorded." in lines
        assert not any(line.startswith(("Everything", "found: nothing")) for line in lines)


def test_a_diff_of_runs_says_which_cases_moved_and_its_status_whether_any_did(completed, run):
    sides = completed.final_left_batch_id, completed.final_right_batch_id
    status, out, _ = run(completed, "diff", *sides, "--json")
    assert status == 1
    assert {row["case"]: row["moved"] for row in json.loads(out)} == {"refund-1": "fixed", "refund-2": "fixed"}
    back = json.loads(run(completed, "diff", *reversed(sides), "--json")[1])
    assert {row["moved"] for row in back} == {"regressed"}
    assert run(completed, "diff", sides[0], sides[0])[:2] == (0, "They do not differ.\n")


def test_a_diff_of_attempts_is_by_line(completed, run):
    batch_id = answered(completed, lambda case, _: "same\nleft\n" if case == "refund-1" else "same\nright\n")
    records = json.loads(run(completed, "cases", batch_id, "--json")[1])["attempts"]
    left = next(a["id"] for a in records if a["case"] == "refund-1")
    right = next(a["id"] for a in records if a["case"] == "refund-2")
    status, out, _ = run(completed, "diff", left, right, "--json")
    assert status == 1
    assert json.loads(out) == [
        {"left": "same", "right": "same", "kind": "same"},
        {"left": "left", "right": "right", "kind": "changed"},
    ]
    assert run(completed, "diff", left, "nothing")[0] == 2


@pytest.mark.parametrize("command", ["cases", "diff", "trajectory"])
def test_nothing_that_an_agent_says_acts_on_the_terminal(completed, run, command):
    batch_id = answered(completed, lambda *_: HOSTILE)
    words = {
        "cases": [batch_id],
        "diff": [f"{batch_id}.1", f"{completed.batch_id}.1"],
        "trajectory": [f"{batch_id}.1"],
    }[command]
    _, out, _ = run(completed, command, *words)
    assert "\\u001b[2J" in out
    assert "[bold red]x[/]" in out
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", out)


def test_a_trajectory_without_events_says_so_and_one_that_is_unknown_is_refused(completed, run):
    assert "No event is recorded" in run(completed, "trajectory", f"{completed.batch_id}.1")[1]
    for name in (f"{completed.batch_id}.99", "nothing", "nothing.1"):
        assert run(completed, "trajectory", name)[0] == 1


def test_a_trajectory_begins_with_what_was_asked_what_is_right_and_what_came_of_it(completed, run):
    case_id, asked, right, *_ = CASES[0]
    record_id = next(
        r["id"]
        for r in json.loads(run(completed, "cases", completed.batch_id, "--json")[1])["attempts"]
        if r["case"] == case_id
    )
    lines = run(completed, "trajectory", record_id)[1].splitlines()
    assert lines[:2] == [f"input: {asked}", f"expected: {right}"]
    assert lines[2].startswith("output: ")


def test_a_trajectory_ends_with_the_failures_that_rules_find_in_it(completed, run):
    call = {"kind": "tool_call", "call_id": "c", "name": "lookup", "arguments": {"q": "fax"}}
    batch_id = store_batch(
        completed,
        completed.b0,
        lambda case_id, _: case_id,
        record=lambda made: made.model_copy(update={"events": (call, {"kind": "reasoning", "content": "Hm."})}),
    )
    _, out, _ = run(completed, "trajectory", f"{batch_id}.1")
    assert out.splitlines()[-1] == (
        f"found: {batch_id}.1/premature_end.1/0-0: the run ended while 1 of its calls had no result"
    )
    _, out, _ = run(completed, "trajectory", f"{batch_id}.1", "--json")
    assert [found["finding_id"] for found in json.loads(out)["findings"]] == [f"{batch_id}.1/premature_end.1/0-0"]


# ---- watching, freeing, carrying ---------------------------------------------------------------------------------


def test_a_watch_ends_with_the_run_and_says_how_it_ended(slow, run, monkeypatch):
    batch_id = begin(slow)
    until_begun(slow)
    from atk_mcp.people import watching

    looks = []

    def look(root, name):
        looks.append(found := original(root, name))
        slow.write("release", "")  # once it has been seen running
        return found

    original = watching._look
    monkeypatch.setattr(watching, "_look", look)
    status, out, _ = run(slow, "watch", batch_id)
    assert (status, looks[0]["status"], looks[-1]["status"]) == (0, "running", "sealed")
    assert out.splitlines()[-1] == looks[-1]["message"]
    assert run(slow, "watch")[0] == 2


def test_a_project_at_work_is_not_exported(slow, run, tmp_path):
    batch_id = begin(slow)
    until_begun(slow)
    status, _, err = run(slow, "export", str(tmp_path / "x.atk"))
    assert (status, batch_id in err) == (1, True)
    assert not os.path.exists(tmp_path / "x.atk")
    slow.write("release", "")
    slow.call("wait_for_batch", batch_id=batch_id, wait_seconds=100)
    assert run(slow, "export", str(tmp_path / "x.atk"))[0] == 0


def test_a_project_that_was_carried_elsewhere_is_verified_there_and_has_the_same_report(completed, run, tmp_path):
    class There:
        root = str(tmp_path / "there")

    os.mkdir(There.root)
    assert run(completed, "export", str(tmp_path / "x.atk"))[0] == 0
    status, out, _ = run(There, "import-project", str(tmp_path / "x.atk"))
    assert (status, "Everything is what it was." in out) == (0, True)
    here, there = (json.loads(run(t, "gate", completed.round_id, "--json")[1]) for t in (completed, There))
    assert here == there
    assert run(There, "import-project", str(tmp_path / "x.atk"))[0] == 1


def test_a_disk_that_refuses_is_told_of_as_any_refusal(completed, run, tmp_path):
    there = type("There", (), {"root": str(tmp_path)})
    for target, command in ((completed, "export"), (there, "import-project")):
        status, out, err = run(target, command, str(tmp_path / "none" / "x.atk"), "--json")
        assert (status, out, json.loads(err)["code"]) == (1, "", "storage_failed")


def test_what_is_freed_is_said_before_and_evidence_stays(completed, run):
    run(completed, "report", completed.round_id)
    os.makedirs(completed.path(".atk/evidence/.staging-0123456789abcdef/part"))
    _, out, _ = run(completed, "gc", "--dry-run", "--json")
    told = json.loads(out)
    assert {entry["path"] for entry in told["freed"]} == {
        f"reports/{completed.round_id}",
        "evidence/.staging-0123456789abcdef",
    }
    assert os.path.exists(completed.path(".atk/reports"))
    before = told["kept"]
    assert run(completed, "gc")[0] == 0
    again = json.loads(run(completed, "gc", "--dry-run", "--json")[1])
    assert (again["freed"], again["bytes"]) == ([], 0)
    assert again["kept"] == before
    assert run(completed, "verify")[0] == 0
