"""`atk`: what a person sees, and what a script can rely on."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from atk_mcp import inspector, snapshot
from tests.atk_mcp import toys


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working folder that is no project, and the toy operations in the place of the catalog."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("operations.registry.all_operations", lambda: toys.OPERATIONS)
    monkeypatch.setattr(snapshot, "load", lambda: snapshot.tools(toys.OPERATIONS))
    return tmp_path


def test_call_prints_the_answer_as_json(folder, capsys):
    request = folder / "request.json"
    request.write_text('{"length": 1}', encoding="utf-8")
    assert inspector.main(["call", "get_status", "--request", str(request), "--project", str(folder)]) == 0
    assert json.loads(capsys.readouterr().out)["lines"] == ["line 0"]


def test_call_reads_its_request_from_stdin_and_prints_one_line(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"cases": [{"name": "退款"}]}'))
    assert inspector.main(["call", "store_dataset", "--request", "-", "--json"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("\n") == 1
    assert '"echo":{"name":"退款"}' in shown


def test_a_refusal_goes_to_stderr_with_what_leads_on(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"cases": []}'))
    assert inspector.main(["call", "store_dataset", "--request", "-"]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        "Error [cases_missing] There are no Cases in dataset-1: give at least 1.",
        "Next:",
        "  atk status",
        """  atk call store_dataset --request '{"name": "dataset-1"}'   (add cases: the tasks)""",
    ]


def test_a_refusal_as_json_is_one_object_on_stderr(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"cases": []}'))
    assert inspector.main(["call", "store_dataset", "--request", "-", "--json"]) == 1
    assert json.loads(capsys.readouterr().err)["facts"] == {"dataset_id": "dataset-1"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nonsense", "is not UTF-8 JSON"),
        ("[1]", "must be a JSON object"),
        ("[" * 100_000 + "]" * 100_000, "is nested too deep"),
    ],
)
def test_a_request_that_is_no_object_is_wrong_usage(capsys, monkeypatch, text, said):
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    assert inspector.main(["call", "get_status", "--request", "-"]) == 2
    assert said in capsys.readouterr().err


def test_a_request_may_begin_with_the_mark_of_an_editor(folder, capsys):
    (folder / "request.json").write_text('{"length": 1}', encoding="utf-8-sig")
    assert inspector.main(["call", "get_status", "--request", "request.json"]) == 0
    assert json.loads(capsys.readouterr().out)["lines"] == ["line 0"]


def test_where_stdin_is_closed_a_command_runs_and_a_request_from_it_is_empty(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert inspector.main(["status"]) == 0
    monkeypatch.setattr(sys, "stdin", None)
    assert inspector.main(["call", "get_status", "--request", "-"]) == 2
    assert "the request - is not UTF-8 JSON" in capsys.readouterr().err


def test_a_command_in_a_folder_that_was_removed_says_so(folder, capsys, monkeypatch):
    gone = folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for command in ("journal", "rounds", "verify", "status"):
        assert inspector.main([command]) == 1
        assert capsys.readouterr().err.startswith("Error [folder_missing] project_path '(the folder in which ATK was ")


def test_a_request_may_stand_on_the_command_line(capsys):
    assert inspector.main(["call", "get_status", "--request", ' {"length": 1}']) == 0
    assert json.loads(capsys.readouterr().out)["lines"] == ["line 0"]
    assert inspector.main(["call", "get_status", "--request", '{"length": 1']) == 2
    assert "the request given inline is not UTF-8 JSON" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["call", "store-datasets"], ["tools", "Store_Dataset"], ["call", "-h", "dataset"]])
def test_an_unknown_operation_suggests_the_nearest(capsys, command):
    assert inspector.main(command) == 2
    assert "Did you mean store_dataset? `atk tools` lists them." in capsys.readouterr().err


def test_the_help_of_call_shows_an_example_and_with_an_operation_what_that_takes(capsys):
    assert inspector.main(["call", "--help"]) == 0
    shown = capsys.readouterr().out
    assert 'atk call store_dataset --request \'{"source": "cases.csv"}\'' in shown
    assert "wait_seconds does not matter here" in shown
    assert "exit status is then 130" in " ".join(shown.split())
    assert inspector.main(["tools", "store_dataset"]) == 0
    told = capsys.readouterr().out
    assert "Example: One" in told
    for command in (["call", "store_dataset", "--help"], ["call", "-h", "store_dataset"]):
        assert inspector.main(command) == 0
        assert capsys.readouterr().out == told


def test_a_call_without_an_operation_is_wrong_usage(capsys):
    assert inspector.main(["call"]) == 2
    assert "name an operation to call" in capsys.readouterr().err


def test_progress_reaches_a_file_but_not_where_only_json_is_wanted(capsys):
    assert inspector.main(["call", "wait_for_batch", "--request", '{"steps": 3}']) == 0
    assert capsys.readouterr().err.splitlines() == ["1/3 step 1", "done"]  # the others came within 10 s
    assert inspector.main(["call", "wait_for_batch", "--request", '{"steps": 3}', "--json"]) == 0
    assert capsys.readouterr().err.splitlines() == ["done"]


def test_a_call_that_waits_for_a_run_says_that_it_stays(capsys, monkeypatch):
    class Waiting(toys.WaitRequest):
        wait_seconds: float = 0

    waiting = replace(toys.OPERATIONS["wait_for_batch"], request=Waiting)
    monkeypatch.setattr("operations.registry.all_operations", lambda: {"wait_for_batch": waiting})
    assert inspector.main(["call", "wait_for_batch"]) == 0
    assert capsys.readouterr().err.splitlines()[0] == (
        "atk: wait_for_batch stays until what it starts has ended, whatever wait_seconds says; Ctrl-C ends that."
    )


def test_an_unknown_operation_and_a_missing_file_are_wrong_usage(capsys):
    assert inspector.main(["call", "get_stats"]) == 2
    assert inspector.main(["call", "get_status", "--request", "missing.json"]) == 2
    assert inspector.main([]) == 2
    assert "usage: atk" in capsys.readouterr().err


def test_a_crash_shows_its_incident_only_and_lies_masked_in_the_log(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"cases": [{}], "expected": "crash"}'))
    assert inspector.main(["call", "store_dataset", "--request", "-"]) == 3
    shown = capsys.readouterr().err
    entry = json.loads(shown.splitlines()[0])  # no project here, so the record goes to stderr
    assert entry["error"] == "RuntimeError"
    assert "sk-proj" not in shown
    assert f"on record as {entry['incident_id']}" in shown.splitlines()[1]


def test_status_is_said_in_words(capsys):
    assert inspector.main(["status"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "All is well.",
        "lines: line 0, line 1",
        "",
        "Next:",
        "  atk call store_dataset",
    ]


def test_tools_lists_them_and_describes_one(capsys):
    assert inspector.main(["tools"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "get_status      Says how things are."
    assert inspector.main(["tools", "store_dataset"]) == 0
    assert "  cases (list of object, required): The Cases." in capsys.readouterr().out.splitlines()
    assert inspector.main(["tools", "nope"]) == 2
    assert inspector.main(["tools", "get_status", "--toolsets"]) == 2


def test_tools_as_json_have_set_annotations_and_sizes(capsys):
    assert inspector.main(["tools", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)["tools"][0]
    tool = snapshot.load()[0]
    assert (first["name"], first["toolset"], first["annotations"]) == ("get_status", "core", tool["annotations"])
    assert inspector.main(["tools", "get_status", "--json"]) == 0
    one = json.loads(capsys.readouterr().out)
    assert {name: one[name] for name in tool} == tool
    assert one["bytes"] == first["bytes"]
    assert one["bytes"]["definition"] == len(json.dumps(tool, separators=(",", ":"), ensure_ascii=False).encode())
    assert 0 < one["bytes"]["input_codex"] <= one["bytes"]["input"]
    assert one["examples"] == [{"summary": "One.", "arguments": {}}]
    assert inspector.main(["tools", "get_status"]) == 0
    assert f"{one['bytes']['input_codex']} as Codex passes it on" in capsys.readouterr().out


def test_the_sets_of_tools_are_listed_in_words_and_as_json(capsys):
    assert inspector.main(["tools", "--toolsets", "--json"]) == 0
    sets = {found["name"]: found for found in json.loads(capsys.readouterr().out)["toolsets"]}
    assert {name: found["tools"] for name, found in sets.items()} == snapshot.load_toolsets()
    assert inspector.main(["tools", "--toolsets"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown and found["about"] in shown for name, found in sets.items())


def test_a_journal_of_no_project_is_refused(capsys):
    assert inspector.main(["journal"]) == 1
    assert "Error [project_not_initialized]" in capsys.readouterr().err


def test_what_the_system_refuses_is_a_refusal_of_every_command(folder, capsys):
    (folder / ".atk").write_text("no folder", encoding="utf-8")
    for command in ("journal", "rounds", "verify", "approve", "gc"):
        assert inspector.main([command, "--project", "."]) == 1
        assert "internal_error" not in capsys.readouterr().err


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_asks_to_stop_and_the_answer_is_shown_and_the_status_tells_of_it(capsys, monkeypatch, number, status):
    monkeypatch.setattr(toys.threading, "Event", signalling(number))
    before = signal.getsignal(signal.SIGINT)
    assert inspector.main(["call", "wait_for_batch", "--request", '{"forever": true}']) == status
    shown = capsys.readouterr()
    assert "Waited." in shown.out
    assert "Stopping; press Ctrl-C again to leave at once." in shown.err.splitlines()
    assert signal.getsignal(signal.SIGINT) is before


def test_a_refusal_after_ctrl_c_is_told_and_the_status_tells_of_the_ctrl_c(capsys, monkeypatch):
    def refuse(*_):
        os.kill(os.getpid(), signal.SIGINT)
        raise toys.CasesMissing(dataset_id="dataset-1")

    refusing = replace(toys.OPERATIONS["wait_for_batch"], handler=refuse)
    monkeypatch.setattr("operations.registry.all_operations", lambda: {"wait_for_batch": refusing})
    assert inspector.main(["call", "wait_for_batch"]) == 130
    assert "Error [cases_missing]" in capsys.readouterr().err


def test_a_second_ctrl_c_leaves_at_once_and_says_how_the_worktree_is_put_back(folder, capsys, monkeypatch):
    def hang(*_):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    hanging = replace(toys.OPERATIONS["wait_for_batch"], handler=hang)
    monkeypatch.setattr("operations.registry.all_operations", lambda: {"wait_for_batch": hanging})
    assert inspector.main(["call", "wait_for_batch", "--project", str(folder)]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"atk: left at once. What was recorded stays. `atk recover --project {folder}` ends what was left open and "
        f"puts the worktree back; `atk status --project {folder}` says what is open."
    )


def signalling(number):
    """An event class whose first wait sends this process a signal."""

    class Signalling(threading.Event):
        def wait(self, timeout=None):
            os.kill(os.getpid(), number)
            return super().wait(timeout)

    return Signalling


def test_what_is_stored_cannot_act_on_the_terminal(capsys, monkeypatch):
    hostile = "\x1b[2J\u202e\x9b31m"
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps({"cases": [{"a": hostile}]})))
    assert inspector.main(["call", "store_dataset", "--request", "-"]) == 0
    shown = capsys.readouterr().out
    assert not set(shown) & set(hostile[:1] + "\u202e\x9b")
    assert json.loads(shown)["echo"] == {"a": hostile.replace("\u202e", "{U+202E}")}


def test_help_shows_an_example_of_each_command_and_the_exit_status(capsys):
    with pytest.raises(SystemExit):
        inspector.main(["--help"])
    shown = capsys.readouterr().out
    for command in ("demo", "status", "tools", "call", "run", "journal", "recover"):
        assert f"  atk {command}" in shown
    assert "exit status: 0 done; 1 refused" in shown


def test_the_inspector_never_imports_mcp(tmp_path):
    code = (
        "import sys; from atk_mcp import inspector; inspector.main(['call', 'get_status']);"
        "print([m for m in sys.modules if m.split('.')[0] == 'mcp'])"
    )
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path, env={"PYTHONPATH": root}
    )
    assert done.stdout.splitlines()[-1] == "[]"
