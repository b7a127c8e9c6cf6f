"""`atk`: what a person sees, and what a script can rely on."""

import io
import json
import os
import signal
import subprocess
import sys
import threading

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
        'Next: get_status; or store_dataset with name="dataset-1" (you supply cases: the tasks).',
    ]


def test_a_refusal_as_json_is_one_object_on_stderr(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"cases": []}'))
    assert inspector.main(["call", "store_dataset", "--request", "-", "--json"]) == 1
    assert json.loads(capsys.readouterr().err)["facts"] == {"dataset_id": "dataset-1"}


@pytest.mark.parametrize(
    ("text", "said"),
    [("nonsense", "is not UTF-8 JSON"), ("[1]", "must be a JSON object")],
)
def test_a_request_that_is_no_object_is_wrong_usage(capsys, monkeypatch, text, said):
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    assert inspector.main(["call", "get_status", "--request", "-"]) == 2
    assert said in capsys.readouterr().err


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
        "  store_dataset",
    ]


def test_tools_lists_them_and_describes_one(capsys):
    assert inspector.main(["tools"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "get_status      Says how things are."
    assert inspector.main(["tools", "store_dataset"]) == 0
    assert "  cases (list of object, required): The Cases." in capsys.readouterr().out.splitlines()
    assert inspector.main(["tools", "nope"]) == 2


def test_a_journal_of_no_project_is_refused(capsys):
    assert inspector.main(["journal"]) == 1
    assert "Error [project_not_initialized]" in capsys.readouterr().err


def test_ctrl_c_asks_the_operation_to_stop_and_its_answer_is_still_shown(capsys, monkeypatch):
    toys.ended.clear()
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"forever": true}'))
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    before = signal.getsignal(signal.SIGINT)
    assert inspector.main(["call", "wait_for_batch", "--request", "-"]) == 0
    assert "Waited." in capsys.readouterr().out
    assert signal.getsignal(signal.SIGINT) is before


def test_what_is_stored_cannot_act_on_the_terminal(capsys, monkeypatch):
    hostile = "\x1b[2J\u202e\x9b31m"
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps({"cases": [{"a": hostile}]})))
    assert inspector.main(["call", "store_dataset", "--request", "-"]) == 0
    shown = capsys.readouterr().out
    assert not set(shown) & set(hostile[:1] + "\u202e\x9b")
    assert json.loads(shown)["echo"] == {"a": hostile}


def test_help_shows_an_example_of_each_command_and_the_exit_status(capsys):
    with pytest.raises(SystemExit):
        inspector.main(["--help"])
    shown = capsys.readouterr().out
    for command in ("demo", "status", "tools", "call", "journal", "recover"):
        assert f"  atk {command}" in shown or f"| atk {command}" in shown
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
