"""What reaches a terminal."""

import gc
import io
import json
import shlex
import sys

import pytest

from atk_mcp.exits import refused
from atk_mcp.inspector import build_parser
from atk_mcp.terminal import (
    ProgressLine,
    command,
    in_words,
    neutralised,
    say,
    take_streams,
    typed,
    with_commands,
)
from operations.importers._cases_records import RecordsUnknown


@pytest.mark.parametrize(
    "character", ["\x00", "\x07", "\x1b", "\r", "\x7f", "\x9b", "\u202e", "\u2066", "\ud800", "\u200b", "\U000e0041"]
)
def test_a_character_that_acts_on_a_terminal_is_written_out(character):
    shown = neutralised(f"a{character}b\n\tc")
    assert character not in shown
    assert json.loads(f'"{shown[:-3]}"') == f"a{character}b"
    assert shown.endswith("b\n\tc")


def test_ordinary_text_of_any_script_stays():
    text = "退款 Größe עברית 👍"
    assert neutralised(text) == text


def test_an_answer_is_said_in_words():
    payload = {
        "message": "Two Cases.",
        "dataset_id": "dataset-1",
        "counts": {"cases": 2, "holdout": None},
        "cases": [{"id": "a", "passed": True}, {"id": "b", "passed": False}],
        "warnings": [],
        "next": [{"tool": "create_round", "arguments": {"dataset_id": "dataset-1"}, "supply": {"targets": "Cases"}}],
    }
    assert in_words(payload).splitlines() == [
        "Two Cases.",
        "dataset id: dataset-1",
        "counts:",
        "  cases: 2",
        "  holdout: nothing",
        "cases: 2",
        "  - id a, passed yes",
        "  - id b, passed no",
        "",
        "Next:",
        """  atk call create_round --request '{"dataset_id": "dataset-1"}'   (add targets: Cases)""",
    ]


def test_what_leads_on_is_a_command_that_can_be_pasted():
    step = {"tool": "get_status", "arguments": {"round_id": "it's \x1b[2J"}, "supply": {}}
    assert in_words({"next": [step, {"tool": "get_status"}]}, "/tmp/my agent").splitlines()[-2:] == [
        """  atk call get_status --project '/tmp/my agent' --request '{"round_id": "it'"'"'s \\u001b[2J"}'""",
        "  atk status --project '/tmp/my agent'",
    ]


@pytest.mark.parametrize(
    ("tool", "arguments", "supply", "told"),
    [
        ("read_record", {"record_id": "round-1-a"}, {}, "atk show --project here round-1-a"),
        (
            "read_record",
            {"record_id": "a; b", "field": "x y"},
            {},
            "atk show --project here 'a; b' --field 'x y'",
        ),
        ("inspect_trajectory", {"record_id": "batch-1-a.7"}, {}, "atk trajectory --project here batch-1-a.7"),
        ("render_round_report", {"round_id": "round-1-a"}, {}, "atk report --project here round-1-a"),
        ("inspect_or_recover_operation", {}, {}, "atk recover --project here"),
        ("get_status", {"project_path": "/there"}, {}, "atk status --project /there"),
        ("initialize_project", {"project_path": "/there"}, {"command": "how"}, "atk init --project /there"),
        (
            "run_evaluation",
            {"continue_batch_id": "batch-1-a"},
            {"unknown_execution_authorization": "a word"},
            "atk run --project here batch-1-a",
        ),
        (
            "initialize_project",
            {"revise": True},
            {"arguments": "all"},
            """atk call initialize_project --project here --request '{"revise": true}'   (add arguments: all)""",
        ),
    ],
)
def test_what_leads_on_is_the_command_for_it_where_there_is_one(tool, arguments, supply, told):
    step = {"tool": tool, "arguments": arguments, "supply": supply}
    assert command(step, "here") == told
    build_parser().parse_args(shlex.split(told.partition("   ")[0])[1:])


def test_sentences_for_people_name_commands_and_leave_facts_and_commands_as_they_are():
    told = "get_status says more than {get_status}; `atk watch get_status` and my_get_status stay. Go on with try_case."
    assert with_commands(told, ["get_status", "try_case"]) == (
        "`atk status` says more than {get_status}; `atk watch get_status` and my_get_status stay. "
        "Go on with `atk call try_case`."
    )
    assert (
        with_commands("Make one with try_case (`atk init` in a terminal).", ["try_case"]) == "Make one with `atk init`."
    )


def test_a_refusal_names_commands_to_a_person_and_tools_to_a_program_and_what_was_given_as_it_was(capsys):
    def told(*, as_json):
        assert refused(RecordsUnknown(batch_id="batch-1-a", given=("get_status",)), as_json=as_json) == 1
        return capsys.readouterr().err

    said = "batch-1-a has no Records get_status. Records are named as `atk call find_records` names them."
    assert told(as_json=False).splitlines() == [
        f"Error [records_unknown] {said}",
        "Next:",
        """  atk call find_records --request '{"batch_id": "batch-1-a"}'""",
    ]
    for_agents = said.replace("`atk call find_records`", "find_records")
    assert json.loads(told(as_json=True))["message"] == for_agents


class Clock:
    """A clock that is set by hand."""

    now = 100.0

    def __call__(self):
        return self.now


def test_progress_goes_to_a_file_in_whole_lines_at_most_one_in_so_many_seconds(capsys):
    clock = Clock()
    progress = ProgressLine(10, clock)
    for second in range(25):
        clock.now = 100.0 + second
        progress(second, 25, "attempts\x1b[2J are done\nand more")
    progress.clear()
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"{done}/25 attempts\\u001b[2J are done" for done in (0, 10, 20)]


def test_progress_that_nobody_wants_in_a_file_is_not_written(capsys):
    progress = ProgressLine()
    progress(1, None, "")
    progress.clear()
    assert capsys.readouterr().err == ""


def test_what_is_typed_and_is_no_text_is_an_answer_as_any(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9 \n"), encoding="utf-8"))
    assert typed("Why? ") == "caf\ufffd"
    assert capsys.readouterr() == ("", "Why? ")


def test_progress_counts_in_whole_figures_and_counts_nothing_where_nothing_is_counted(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "20")
    with ProgressLine() as progress:
        progress(1_234_567.0, 2_000_000.0, "rows")
        progress(0.5, None, "")
        progress(0, None, "what is longer than a line")
    shown = capsys.readouterr().err.split("\r\x1b[K")
    assert shown == ["", "1234567/2000000 rows"[:19], "0.5", "what is longer than", ""]


def test_progress_on_a_terminal_is_one_line_that_is_taken_away(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    progress = ProgressLine(10)
    progress(1, 2, "one")
    progress(2, 2, "two")
    progress.clear()
    assert capsys.readouterr().err == "\r\x1b[K1/2 one\r\x1b[K2/2 two\r\x1b[K"


def test_a_stream_that_nobody_else_holds_stays_open_when_it_is_taken(monkeypatch, tmp_path):
    path = tmp_path / "out"
    monkeypatch.setattr(sys, "stdout", path.open("w", encoding="utf-8"))
    take_streams()
    gc.collect()
    say("still there")
    sys.stdout.close()
    assert path.read_text(encoding="utf-8") == "still there\n"
