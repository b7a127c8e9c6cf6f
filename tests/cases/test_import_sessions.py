"""Sessions from the wild: each fact of the case, and what must not happen."""

import json
from pathlib import Path

import pytest

from tests.support.imports import Imports

CASE = Path(__file__).parent / "imports" / "29_claude_code_stream_duplicates"


@pytest.fixture
def imports(tmp_path):
    return Imports(tmp_path / "project")


def test_29_a_streamed_answer_is_one_and_its_tokens_count_once(imports, tmp_path):
    folder = tmp_path / "sessions"
    folder.mkdir()
    for name in ("s-1.jsonl", "s-2.jsonl"):
        (folder / name).write_bytes((CASE / name).read_bytes())
    response = imports.send(folder, source_kind="claude_code")
    records = imports.records(response.batch_id)
    first, second = records["s-1"], records["s-2"]
    events = first.log.events
    calls = [e for e in events if e.kind == "tool_call"]
    results = {e.call_id: e.content.value for e in events if e.kind == "tool_result"}
    of_message = [e for e in events if e.attributes.get("message_id") == "msg_1"]
    kinds = {"reasoning": "thinking", "text": "text", "tool_call": "tool_use"}
    found = {
        "distinct model calls in s-1 main thread": first.metrics["main.model_calls"],
        "output tokens s-1 main thread": first.metrics["main.output_tokens"],
        "output tokens s-1 sidechain": first.metrics["sidechain.output_tokens"],
        "output tokens over both files, each response once": first.metrics["output_tokens"]
        + second.metrics["output_tokens"],
        "tool calls": [{"id": e.call_id, "name": e.name, "result": results[e.call_id]} for e in calls],
        "msg_1 content blocks in order": [kinds[e.kind] for e in of_message],
    }
    facts = json.loads((CASE / "case.json").read_text())["expected"]["facts"]
    assert found == {fact["what"]: fact["equals"] for fact in facts}


def test_29_lines_that_a_resumed_file_repeats_are_history_and_no_cost(imports):
    response = imports.send(CASE, source_kind="claude_code")
    second = imports.records(response.batch_id)["s-2"]
    copied = [e.attributes.get("copied_from") for e in second.log.events]
    assert copied == ["s-1", "s-1", None]
    assert (second.input.value, second.output.value) == ("fix it", "more")
    assert second.metrics["output_tokens"] == 3
    assert response.skipped_files == ["case.json"]


def test_29_each_file_alone_counts_what_it_holds(imports):
    response = imports.send(CASE / "s-2.jsonl", source_kind="claude_code")
    (record,) = imports.records(response.batch_id).values()
    assert record.metrics["output_tokens"] == 10
    assert response.counts["parents_unknown"] == 1
