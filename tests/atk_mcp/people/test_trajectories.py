"""A trajectory at a terminal: an event a line, and the metrics that are known."""

import json
from argparse import Namespace

import pytest

from atk_mcp.people.trajectories import trajectory
from tests.support import claude_sessions
from tests.support.imports import Imports


@pytest.fixture
def stored(tmp_path):
    imports = Imports(tmp_path / "project")
    path = tmp_path / "session.jsonl"
    path.write_bytes(claude_sessions.usual().bytes())
    return imports.root, f"{imports.send(path, source_kind='claude_code').batch_id}.1"


def shown(stored, capsys, **options):
    root, record_id = stored
    assert trajectory(Namespace(**{"record_id": record_id, "json": False, "whole": False, **options}), root) == 0
    return capsys.readouterr().out


def test_each_event_has_a_line_and_metrics_and_findings_stand_at_the_end(stored, capsys):
    lines = shown(stored, capsys, whole=True).splitlines()
    (call,) = [line for line in lines if "tool_call Bash" in line]
    assert '"arguments": {"command": "pytest"}' in call
    assert "locator" not in call
    assert lines[-2].startswith("duplicate_call_rate 0, repeated_output_rate 0, failed_call_rate 0.5, ")
    assert lines[-1].startswith(f"found: {stored[1]}/ignored_error.")


def test_for_machines_it_is_the_log_as_it_is_stored_and_every_metric_or_why_it_is_unknown(stored, capsys):
    told = json.loads(shown(stored, capsys, json=True))
    assert (told["record_id"], told["format"], told["state"]) == (stored[1], 1, "completed")
    assert [event["seq"] for event in told["events"]] == list(range(len(told["events"])))
    assert told["metrics"]["tool_calls"] == 2
    assert told["metrics_unknown"]["unknown_tool_rate"] == "the tools that the agent had are not known"


def test_a_name_with_a_line_feed_begins_no_other_line(tmp_path, capsys):
    imports = Imports(tmp_path / "project")
    path = tmp_path / "session.jsonl"
    path.write_bytes(claude_sessions.usual().bytes().replace(b'"Bash"', rb'"Bash\n   9  text assistant"'))
    record_id = f"{imports.send(path, source_kind='claude_code').batch_id}.1"
    lines = shown((imports.root, record_id), capsys).splitlines()
    assert [line for line in lines if "tool_call Bash 9 text assistant" in line] != []
    assert [line for line in lines if line.startswith("   9  text assistant")] == []
