"""Sessions of Claude Code, from its folders and from its stream, become Records that hold all they say."""

from __future__ import annotations

import gzip
import json
import random
import string
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from operations.importers._fields import ValuesConflict
from tests.support import claude_sessions as claude
from tests.support.imports import Imports, event
from tests.support.words import is_plain

SOME = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
SECRET = "ghp_" + "a1B2c3D4e5" * 4
NAME = f"-home-me-repo/{claude.SESSION}.jsonl"


@pytest.fixture
def imports(tmp_path):
    return Imports(tmp_path / "project")


def write(folder, files):
    for name, data in files.items():
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return Path(folder)


def read(imports, tmp_path, files, **arguments):
    """Imports files; returns the response and the Records by session."""
    response = imports.send(write(tmp_path / "projects", files), source_kind="claude_code", **arguments)
    return response, imports.records(response.batch_id)


def only(imports, tmp_path, data, name=NAME):
    response, records = read(imports, tmp_path, {name: data})
    (record,) = records.values()
    return response, record


def test_a_session_is_one_record_with_its_question_answer_calls_tokens_and_model(imports, tmp_path):
    response, record = only(imports, tmp_path, claude.usual().bytes())
    log = record.log.events
    assert record.source.trace_id == claude.SESSION
    assert (record.input.value, record.output.value) == ("Fix the failing test.", "It is fixed.")
    assert [(e.kind, e.call_id, e.name) for e in log if e.kind in ("tool_call", "tool_result")] == [
        ("tool_call", "07c9_1", "Read"),
        ("tool_call", "07c9_2", "Bash"),
        ("tool_result", "07c9_1", "Read"),
        ("tool_result", "07c9_2", "Bash"),
    ]
    assert len({e.group for e in log if e.kind == "tool_call"}) == 1
    assert event(record, "07c9_1", "tool_call").arguments.value == {"file_path": "/home/me/repo/a.py"}
    assert event(record, "07c9_1", "tool_call").model.name == claude.MODEL
    assert event(record, "07c9_1", "tool_result").attributes["tool_use_result"]["file"] == {"numLines": 1}
    assert event(record, "07c9_2", "tool_result").content.value == "1 failed"
    assert event(record, "07c9_2", "tool_result").error.message == "1 failed"
    (thought,) = [e for e in log if e.kind == "reasoning"]
    assert (thought.content.value, thought.attributes["signature"]) == ("Look first.", "EpMC")
    assert (record.metrics["input_tokens"], record.metrics["output_tokens"], record.metrics["model_calls"]) == (
        32,
        97,
        2,
    )
    assert record.log.state == "completed"
    assert response.fields["session.model"] == {"kept": 1}
    assert [e.usage["output_tokens"] for e in log if e.kind == "turn_complete"] == [97]
    assert record.runtime_metadata["version"] == "2.1.200"
    assert event(record, "07c9_1", "tool_call").locator.pointer == "/message/content/0"
    assert response.counts["turns"] == 1


def test_snapshots_of_one_answer_that_grow_are_one(imports, tmp_path):
    made = claude.Session()
    made.ask("Go.")
    for content, answered in (
        ([claude.text("I wi")], 1),
        ([claude.text("I will look"), claude.tool_use("c1", "Read", {})], 5),
        ([claude.text("I will look"), claude.tool_use("c1", "Read", {"path": "a"})], 40),
    ):
        message = {
            "id": "msg_1",
            "role": "assistant",
            "model": "m",
            "content": content,
            "usage": claude.usage(3, answered),
        }
        made.line("assistant", message=message)
    response, record = only(imports, tmp_path, made.bytes())
    assert [e.content.value for e in record.log.events if e.kind == "text"] == ["Go.", "I will look"]
    assert [e.arguments.value for e in record.log.events if e.kind == "tool_call"] == [{"path": "a"}]
    assert record.metrics["output_tokens"] == 40
    assert response.counts["blocks_superseded"] == 3


def test_the_lines_of_a_sub_agent_are_a_group_under_the_call_that_started_it(imports, tmp_path):
    made = claude.Session()
    made.ask("Explore.")
    made.answer(claude.tool_use("task_1", "Task", {"prompt": "Look."}), answered=10)
    agent = claude.Session(prefix="side-")
    agent.line("user", message={"role": "user", "content": "Look."}, isSidechain=True, agentId="ab97f57")
    agent.answer(claude.text("Seen."), answered=30, isSidechain=True, agentId="ab97f57")
    made.result("task_1", "Seen.", toolUseResult={"agentId": "ab97f57", "status": "completed"})
    made.answer(claude.text("All explored."), answered=7)
    files = {NAME: made.bytes(), "-home-me-repo/agent-ab97f57.jsonl": agent.bytes()}
    _, records = read(imports, tmp_path, files)
    (record,) = records.values()
    side = [e for e in record.log.events if e.group == "sidechain:ab97f57"]
    assert [e.content.value for e in side if e.kind == "text"] == ["Look.", "Seen."]
    assert {e.parent for e in side} == {"task_1"}
    assert (record.input.value, record.output.value) == ("Explore.", "All explored.")
    assert (record.metrics["main.output_tokens"], record.metrics["sidechain.output_tokens"]) == (17, 30)


def test_context_that_claude_code_puts_in_is_not_the_question(imports, tmp_path):
    made = claude.Session()
    made.ask("<command-name>/clear</command-name>")
    made.ask([claude.text("Base directory for this skill")], isMeta=True)
    made.ask("The real question.")
    made.answer(claude.text("Yes."))
    _, record = only(imports, tmp_path, made.bytes())
    assert record.input.value == "The real question."
    assert [bool(e.attributes.get("context")) for e in record.log.events if e.kind == "text"] == [
        False,
        True,
        False,
        False,
    ]


def test_an_interrupted_request_has_no_answer_and_says_so(imports, tmp_path):
    made = claude.Session()
    made.ask("Sleep.")
    made.answer(claude.tool_use("c1", "Bash", {"command": "sleep 20"}))
    made.result("c1", "The user doesn't want to proceed.", is_error=True)
    made.line("user", message={"role": "user", "content": [claude.text("[Request interrupted by user for tool use]")]})
    response, record = only(imports, tmp_path, made.bytes())
    assert (record.log.state, record.output.status) == ("interrupted", "not_exported")
    assert "trace_output" in record.missing
    assert response.fields["session.output"] == {"unknown": 1}


def test_an_error_of_the_model_is_no_answer(imports, tmp_path):
    made = claude.Session()
    made.ask("Go.")
    message = {"id": "x", "role": "assistant", "model": "<synthetic>", "content": [claude.text("API Error: 529")]}
    made.line("assistant", message={**message, "usage": claude.usage(0, 0)}, isApiErrorMessage=True)
    _, record = only(imports, tmp_path, made.bytes())
    assert (record.log.state, record.log.end_reason, record.output.status) == (
        "failed",
        "API Error: 529",
        "not_exported",
    )
    assert "model_calls" not in record.metrics


def test_a_summary_stands_after_the_line_that_it_is_about(imports, tmp_path):
    made = claude.usual()
    made.line("system", subtype="compact_boundary", compactMetadata={"trigger": "auto", "preTokens": 167503})
    made.lines[-1] |= {"logicalParentUuid": made.lines[-1]["parentUuid"], "parentUuid": None}
    made.ask("So far it was fixed.", isCompactSummary=True)
    leaf = made.lines[0]["uuid"]
    made.lines.insert(0, {"type": "summary", "summary": "A fix", "leafUuid": leaf})
    _, record = only(imports, tmp_path, made.bytes())
    kinds = [e.type if e.kind == "observation" else e.kind for e in record.log.events]
    assert set(kinds[1:3]) == {"summary", "file-history-snapshot"}
    assert "system.compact_boundary" in kinds
    assert record.output.value == "It is fixed."
    assert not record.missing


def test_lines_of_an_unknown_kind_are_kept_counted_and_named(imports, tmp_path):
    made = claude.usual()
    made.line("dream", depth=3)
    made.answer({"type": "hologram", "shape": "cube"})
    response, record = only(imports, tmp_path, made.bytes())
    assert response.counts["lines_of_unknown_kind"] == 2
    assert any("dream" in warning for warning in response.warnings)
    (kept,) = [e for e in record.log.events if e.kind == "observation" and e.type == "dream"]
    assert kept.output.value == {"depth": 3}
    assert record.log.events[-2].content.value == {"type": "hologram", "shape": "cube"}


def test_the_stream_is_read_with_its_cost(imports, tmp_path):
    response, record = only(imports, tmp_path, claude.jsonl(claude.stream()), "out.jsonl")
    assert (record.input.status, record.output.value) == ("not_exported", "Done.")
    assert (record.metrics["total_cost_usd"], record.metrics["output_tokens"]) == (0.0125, 4)
    assert (record.log.state, record.log.end_reason) == ("completed", "success")
    assert response.fields["session.time"] == {"unknown": 1}


def test_a_stream_beside_its_session_is_left_out_and_counted(imports, tmp_path):
    files = {NAME: claude.usual().bytes(), "out.jsonl": claude.jsonl(claude.stream())}
    response, records = read(imports, tmp_path, files)
    (record,) = records.values()
    assert response.counts["lines_left_out"] == 2
    assert (record.metrics["output_tokens"], record.metrics["total_cost_usd"]) == (97, 0.0125)


@pytest.mark.parametrize("names", [("x", "y", "z"), ("z", "y", "x")])
def test_a_session_resumed_twice_costs_what_it_cost_whatever_its_files_are_called(imports, tmp_path, names):
    first = claude.usual("aaaa-1")
    second, third = claude.Session("bbbb-2"), claude.Session("cccc-3")
    for made, before in ((second, first), (third, second)):
        made.lines = [line | ({"sessionId": made.session} if "sessionId" in line else {}) for line in before.lines]
        made._seconds, made.last = before._seconds + 60, before.last
        made.ask(f"And {made.session}?")
        made.answer(claude.text("So."), answered=3)
    made = (first, second, third)
    files = {f"{name}.jsonl": one.bytes() for name, one in zip(names, made, strict=True)}
    response, records = read(imports, tmp_path, files)
    assert {name: record.metrics["output_tokens"] for name, record in records.items()} == {
        "aaaa-1": 97,
        "bbbb-2": 3,
        "cccc-3": 3,
    }
    assert records["cccc-3"].runtime_metadata["copied_from"] == ["aaaa-1", "bbbb-2"]
    assert response.counts["model_calls"] == 4


def test_a_torn_last_line_is_an_interrupted_append(imports, tmp_path):
    response, record = only(imports, tmp_path, claude.usual().bytes()[:-30])
    assert any("interrupted append" in warning for warning in response.warnings)
    assert record.output.value == "It is fixed."


def test_files_that_hold_no_session_are_named_and_left_alone(imports, tmp_path):
    files = {NAME: claude.usual().bytes(), "history.jsonl": b'{"display": "hi", "timestamp": 1}\n', "memory.md": b"x"}
    response, records = read(imports, tmp_path, files)
    assert list(records) == [claude.SESSION]
    assert response.skipped_files == ["history.jsonl", "memory.md"]


def test_two_lines_of_one_uuid_that_differ_are_refused_with_both(imports, tmp_path):
    made = claude.usual()
    other = json.loads(json.dumps(made.lines))
    other[0]["message"]["content"] = "Something else."
    with pytest.raises(ValuesConflict) as refused:
        read(imports, tmp_path, {NAME: made.bytes(), "copy.jsonl": claude.jsonl(other)})
    assert "Fix the failing test" in str(refused.value)
    assert "Something else" in str(refused.value)


def test_secrets_in_calls_and_results_are_masked_and_stay_equal(imports, tmp_path):
    made = claude.Session()
    made.ask(f"The token is {SECRET}")
    made.answer(claude.tool_use("c1", "http", {"headers": {"Authorization": f"Bearer {SECRET}"}, "body": SECRET}))
    made.result("c1", f"you sent {SECRET}", toolUseResult={"stdout": SECRET})
    response, record = only(imports, tmp_path, made.bytes())
    assert SECRET.encode() not in imports.every_byte()
    assert SECRET not in response.model_dump_json()
    mask = record.input.value.removeprefix("The token is ")
    assert event(record, "c1", "tool_call").arguments.value["body"] == mask
    assert event(record, "c1", "tool_result").attributes["tool_use_result"] == {"stdout": mask}


def test_a_secret_in_place_of_an_id_is_masked_too(imports, tmp_path):
    made = claude.Session(SECRET, prefix="p")
    made.ask("Go.")
    response, _ = only(imports, tmp_path, made.bytes(), "x.jsonl")
    assert SECRET.encode() not in imports.every_byte()
    assert SECRET not in response.model_dump_json()


def test_a_dry_run_knows_sessions_by_what_they_hold(imports, tmp_path):
    for data in (claude.usual().bytes(), claude.jsonl(claude.stream())):
        source = write(tmp_path / "any", {"x.jsonl": data})
        answer = imports.send(source, source_kind="langfuse", dry_run=True)
        assert answer.next[0].arguments["source_kind"] == "claude_code"


# -- for every session -------------------------------------------------------------------------------------------------

TEXT = st.text(string.ascii_letters + " äñ\n{}\"'", min_size=1, max_size=20).filter(lambda t: t.strip() and is_plain(t))
CALL = st.tuples(st.dictionaries(TEXT, st.one_of(TEXT, st.integers(), st.none(), st.booleans())), TEXT, st.booleans())
ANSWER = st.tuples(st.none() | TEXT, st.none() | TEXT, st.lists(CALL, max_size=3), st.integers(0, 999)).filter(
    lambda answer: any(answer[:3])
)
TURNS = st.lists(st.tuples(TEXT, st.lists(ANSWER, max_size=4)), min_size=1, max_size=3)


def built(turns):
    made = claude.Session()
    calls = 0
    for question, answers in turns:
        made.ask(question)
        for thought, said, called, tokens in answers:
            uses = [claude.tool_use(f"c{calls + n}", "tool", arguments) for n, (arguments, _, _) in enumerate(called)]
            blocks = [claude.thinking(thought)] if thought else []
            blocks += [claude.text(said)] if said else []
            made.answer(*blocks, *uses, answered=tokens)
            for result, failed in [(result, failed) for _, result, failed in called]:
                made.result(f"c{calls}", result, is_error=failed)
                calls += 1
    return made


def imported(files):
    with tempfile.TemporaryDirectory() as folder:
        imports = Imports(Path(folder) / "project")
        _, records = read(imports, Path(folder), files)
    return {session: record.model_dump(mode="json") for session, record in records.items()}


def without_places(value):
    if isinstance(value, dict):
        return {k: without_places(v) for k, v in value.items() if k not in ("locator", "locators", "id", "n")}
    return [without_places(item) for item in value] if isinstance(value, list) else value


@SOME
@given(TURNS)
def test_every_value_of_a_session_comes_back(turns):
    (record,) = imported({NAME: built(turns).bytes()}).values()
    events = record["log"]["events"]
    answers = [answer for _, answers in turns for answer in answers]
    said = [e for e in events if e["kind"] == "text"]
    assert [e["content"]["value"] for e in said if e["role"] == "user"] == [question for question, _ in turns]
    assert [e["content"]["value"] for e in said if e["role"] == "assistant"] == [a[1] for a in answers if a[1]]
    assert [e["content"]["value"] for e in events if e["kind"] == "reasoning"] == [a[0] for a in answers if a[0]]
    calls = [call for answer in answers for call in answer[2]]
    called = [e for e in events if e["kind"] == "tool_call"]
    results = {e["call_id"]: e for e in events if e["kind"] == "tool_result"}
    assert [e["arguments"]["value"] for e in called] == [call[0] for call in calls]
    assert [results[e["call_id"]]["content"]["value"] for e in called] == [call[1] for call in calls]
    assert [results[e["call_id"]]["error"] is not None for e in called] == [call[2] for call in calls]
    assert record["metrics"].get("output_tokens", 0) == sum(answer[3] for answer in answers)
    assert record["input"]["value"] == turns[0][0]


@SOME
@given(TURNS, st.integers(0, 2**16), st.integers(1, 3))
def test_splitting_packing_shuffling_and_renaming_change_nothing_but_places(turns, seed, parts):
    lines = built(turns).lines
    whole = imported({NAME: claude.jsonl(lines)})
    rng = random.Random(seed)
    rng.shuffle(lines)
    letters = rng.sample("abcdefgh", parts)
    files = {}
    for number, letter in enumerate(letters):
        packed = rng.random() < 0.5
        data = claude.jsonl(lines[number::parts])
        files[f"{claude.SESSION}.{letter}.jsonl{'.gz' if packed else ''}"] = gzip.compress(data) if packed else data
    again = {name: data for name, data in files.items() if data}
    assert without_places(imported(again)) == without_places(whole)
