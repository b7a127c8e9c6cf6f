"""What the real Codex CLI writes of its sessions is imported as the model and the person saw it."""

from __future__ import annotations

import os
import shutil
import signal

import pytest

from tests.support.codexlab.driver import CodexLab
from tests.support.imports import Imports, event

CODEX = os.environ.get("CODEX_BIN") or shutil.which("codex")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CODEX is None, reason="no Codex: npm install -g @openai/codex, or name it in CODEX_BIN"),
]


@pytest.fixture
def lab(tmp_path):
    return CodexLab(CODEX, tmp_path / "lab")


def imported(tmp_path):
    """Imports all rollouts of the lab; returns the response and the Records by session."""
    imports = Imports(tmp_path / "project")
    response = imports.send(tmp_path / "lab" / "codex_home" / "sessions", source_kind="codex")
    return response, imports.records(response.batch_id)


def shell(call_id, command):
    return {"function": {"name": "exec_command", "arguments": {"cmd": command}}, "id": call_id}


def test_calls_results_answer_and_tokens_are_those_of_the_session(tmp_path, lab):
    turns = [
        {"steps": [{"say": "I will look."}, shell("c1", "echo one"), shell("c2", "exit 3")]},
        {"steps": [{"say": "All done."}]},
    ]
    run = lab.run({"turns": turns}, prompt="Look around.")
    assert run.ok
    response, records = imported(tmp_path)
    (record,) = records.values()
    assert response.counts.get("lines_of_unknown_kind") is None
    assert (record.input.value, record.output.value) == ("Look around.", "All done.")
    shown = {call_id: result.text for call_id, result in run.tool_results.items()}
    kept = {e.call_id: e.content.value for e in record.log.events if e.kind == "tool_result"}
    assert kept == shown
    assert event(record, "c1", "tool_call").arguments.value == {"cmd": "echo one"}
    assert event(record, "c2", "tool_result").error.code == "exit_3"
    (usage,) = [e["usage"] for e in run.events if e["type"] == "turn.completed"]
    assert record.metrics["output_tokens"] == usage["output_tokens"]
    assert record.log.state == "completed"


def test_a_resumed_session_is_one_record_and_its_fork_another(tmp_path, lab):
    first = lab.run({"turns": [{"steps": [{"say": "First."}]}]}, name="first", prompt="Begin.")
    thread = next(e["thread_id"] for e in first.events if e["type"] == "thread.started")
    again = {"turns": [{"steps": [{"say": "Second."}]}]}
    assert lab.run(again, name="again", codex_args=("resume", thread), prompt="Go on.").ok
    assert lab.run(again, name="fork", codex_args=("fork", thread), prompt="Differ.").ok
    _, records = imported(tmp_path)
    assert (records[thread].input.value, records[thread].output.value) == ("Begin.", "Second.")
    (fork,) = [record for session, record in records.items() if session != thread]
    assert fork.runtime_metadata["forked_from_id"] == thread
    assert fork.output.value == "Second."


def test_calls_of_code_mode_are_within_the_call_that_ran_the_code(tmp_path, lab):
    code = {"javascript": "const r = await tools.exec_command({cmd: 'echo hi'}); text(r.output);", "id": "j1"}
    assert lab.run({"turns": [{"steps": [code]}, {"steps": [{"say": "Done."}]}]}, model="gpt-6.2-sol").ok
    _, records = imported(tmp_path)
    (record,) = records.values()
    (inner,) = [e for e in record.log.events if e.kind == "tool_call" and e.parent == "j1"]
    assert inner.arguments.value[-1] == "echo hi"
    assert event(record, inner.call_id, "tool_result").content.value == "hi\n"


def test_an_interrupted_session_says_so(tmp_path, lab):
    lab.run({"turns": [{"steps": [shell("c1", "sleep 30")]}]}, signal_after=(4, signal.SIGINT))
    _, records = imported(tmp_path)
    (record,) = records.values()
    assert (record.log.state, record.output.status) == ("interrupted", "not_exported")
