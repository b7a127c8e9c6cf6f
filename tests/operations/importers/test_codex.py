"""Sessions of Codex, as rollouts of every age and as its stream, become Records that hold all they say."""

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
from operations.importers._folders import RoleWithoutFile
from tests.support import codex_sessions as codex
from tests.support.imports import Imports, event
from tests.support.words import is_plain

SOME = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
SECRET = "ghp_" + "a1B2c3D4e5" * 4


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
    response = imports.send(write(tmp_path / "sessions", files), source_kind="codex", **arguments)
    return response, imports.records(response.batch_id)


def only(imports, tmp_path, data, name=None):
    response, records = read(imports, tmp_path, {name or codex.name(): data})
    (record,) = records.values()
    return response, record


@pytest.mark.parametrize("options", [{}, {"ordinals": False}, {"ordinals": False, "mirrors": False}])
def test_a_session_is_one_record_with_its_question_answer_calls_tokens_and_model(imports, tmp_path, options):
    _, record = only(imports, tmp_path, codex.usual(**options).bytes())
    log = record.log.events
    assert record.source.trace_id == codex.THREAD
    assert (record.input.value, record.output.value) == ("Fix the failing test.", "It is fixed.")
    assert [(e.kind, e.call_id) for e in log if e.kind in ("tool_call", "tool_result")] == [
        ("tool_call", "c1"),
        ("tool_call", "c2"),
        ("tool_result", "c2"),
        ("tool_result", "c1"),
    ]
    assert event(record, "c1", "tool_call").arguments.value == {"cmd": "pytest -q"}
    assert event(record, "c1", "tool_result").error.code == "exit_1"
    assert event(record, "c2", "tool_result").error is None
    assert event(record, "rs_1").content.value == "I should run the tests."
    assert event(record, "rs_1").attributes["encrypted_content"] == "gAAA"
    assert (event(record, "c1", "tool_call").model.name, event(record, "c1", "tool_call").model.provider) == (
        codex.MODEL,
        codex.PROVIDER,
    )
    assert record.metrics == {"input_tokens": 250, "cached_input_tokens": 0, "output_tokens": 27, "total_tokens": 277}
    assert set(record.runtime_metadata["metric_sources"].values()) == {"token_count.last_token_usage"}
    assert record.runtime_metadata["git"] == {"commit_hash": "0d3f", "branch": "main"}
    ends = [e for e in log if e.kind == "turn_complete"]
    assert record.log.state == ("completed" if ends else "unknown")
    assert [e.usage["output_tokens"] for e in ends] == ([27] if options.get("mirrors", True) else [])
    assert {e.turn for e in log} <= {0, None}
    assert len([e for e in log if e.kind == "text" and e.role == "assistant"]) == 1
    assert log[-1].locator.line == log[-1].locator.row > 10


def test_what_repeats_a_message_is_put_to_it(imports, tmp_path):
    response, record = only(imports, tmp_path, codex.usual().bytes())
    assert [one["type"] for one in event(record, "msg_1").attributes["also"]] == ["user_message"]
    assert [one["type"] for one in event(record, "out_2").attributes["also"]] == ["agent_message"]
    assert response.counts["lines_that_repeat"] == 3


def test_context_that_codex_puts_in_is_not_the_question(imports, tmp_path):
    _, record = only(imports, tmp_path, codex.usual().bytes())
    said = [e for e in record.log.events if e.kind == "text" and e.role == "user"]
    assert [bool(e.attributes.get("context")) for e in said] == [True, False]


def test_newer_lines_say_themselves_what_is_context(imports, tmp_path):
    made = codex.usual()
    made.lines[2]["payload"]["content"][0]["text"] = "Anything at all"
    kinds = {"content_item_kinds": ["environments.environment_context"]}
    made.lines[2]["payload"]["internal_chat_message_metadata_passthrough"] |= kinds
    _, record = only(imports, tmp_path, made.bytes())
    assert record.input.value == "Fix the failing test."


def test_tokens_are_counted_once_from_the_most_exact_statement(imports, tmp_path):
    made = codex.usual()
    for response_id in ("r1", "r2", "r2"):
        usage = {"input_tokens": 5, "output_tokens": 2}
        made.line("token_usage_record", {"response_id": response_id, "usage": usage, "thread_token_usage": {}})
    _, record = only(imports, tmp_path, made.bytes())
    assert record.metrics == {"input_tokens": 10, "output_tokens": 4}
    assert record.runtime_metadata["metric_sources"]["output_tokens"] == "token_usage_record"
    assert record.runtime_metadata["reported_total_tokens"]["output_tokens"] == 27


def test_a_resumed_session_has_the_turns_of_both_and_the_last_answer(imports, tmp_path):
    made = codex.usual()
    made.ask("And the docs?")
    made.say("Written.")
    made.done("Written.")
    response, record = only(imports, tmp_path, made.bytes())
    assert (record.input.value, record.output.value) == ("Fix the failing test.", "Written.")
    assert response.counts["turns"] == 2
    assert [e.turn for e in record.log.events if e.kind == "turn_complete"] == [0, 1]


def test_an_interrupted_turn_has_no_answer_and_says_so(imports, tmp_path):
    made = codex.Rollout()
    made.ask("Sleep.")
    made.call("c1", "exec_command", '{"cmd": "sleep 20"}')
    made.answer("c1", "Wall time: 4.5 seconds\naborted by user")
    made.event("turn_aborted", reason="interrupted", turn_id=f"{codex.THREAD}-turn-1")
    _, record = only(imports, tmp_path, made.bytes())
    assert (record.output.status, record.log.state) == ("not_exported", "interrupted")
    assert "trace_output" in record.missing
    assert event(record, "c1", "tool_result").error.kind == "cancelled"


def test_a_failed_turn_has_the_error(imports, tmp_path):
    made = codex.Rollout()
    made.ask("Do.")
    made.done(None, error={"message": "bad request here", "codex_error_info": "other"})
    _, record = only(imports, tmp_path, made.bytes())
    assert (record.output.status, record.log.state, record.log.end_reason) == ("null", "failed", "bad request here")
    assert record.log.events[-1].error.code == "other"


def test_a_turn_without_an_end_is_not_called_complete(imports, tmp_path):
    made = codex.Rollout()
    made.ask("Do.")
    made.say("Working on it.")
    _, record = only(imports, tmp_path, made.bytes())
    assert record.log.state == "unknown"


def test_a_fork_that_repeats_its_parent_is_one_session_of_its_own(imports, tmp_path):
    child = "01a229a1-f975-7ee2-a19d-26824b4668d1"
    made = codex.Rollout(child, ordinals=False, forked_from_id=codex.THREAD)
    made.lines += codex.usual(ordinals=False).lines
    made.ask("Go on.")
    made.say("Gone on.")
    _, records = read(imports, tmp_path, {codex.name(): codex.usual().bytes(), codex.name(child): made.bytes()})
    assert set(records) == {codex.THREAD, child}
    assert "fork_boundary" in records[child].missing
    assert (
        len(records[codex.THREAD].log.events)
        == len([e for e in records[child].log.events if e.locator.row <= len(codex.usual().lines) + 1]) - 1
    )


def test_a_fork_that_does_not_repeat_its_parent_says_what_is_missing(imports, tmp_path):
    made = codex.Rollout(forked_from_id="01a229a1-f975-7ee2-a19d-26824b4668d1")
    made.ask("Go on.")
    _, record = only(imports, tmp_path, made.bytes())
    assert "forked_history" in record.missing


def test_a_sub_agent_names_the_session_that_it_is_part_of(imports, tmp_path):
    parent = "01a229a1-f975-7ee2-a19d-26824b4668d1"
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": parent, "depth": 1}}}
    _, record = only(imports, tmp_path, codex.usual(session_id=parent, source=spawned).bytes())
    assert (record.source.trace_id, record.source.session_id) == (codex.THREAD, parent)
    assert record.runtime_metadata["source"] == spawned


def test_a_compacted_history_stays_and_the_summary_is_kept(imports, tmp_path):
    made = codex.usual()
    made.line("compacted", {"message": "So far: fixed.", "replacement_history": [{"type": "message"}]})
    made.ask("More.")
    made.say("Done more.")
    _, record = only(imports, tmp_path, made.bytes())
    (kept,) = [e for e in record.log.events if e.kind == "observation" and e.type == "compacted"]
    assert kept.output.value == {"message": "So far: fixed.", "replacement_history": [{"type": "message"}]}
    assert event(record, "c1", "tool_call").arguments.value == {"cmd": "pytest -q"}


def test_lines_of_an_unknown_kind_are_kept_counted_and_named(imports, tmp_path):
    made = codex.usual()
    made.line("dream", {"depth": 3})
    made.item("hologram", shape="cube")
    made.event("quantum_leap", to="1985")
    response, record = only(imports, tmp_path, made.bytes())
    assert response.counts["lines_of_unknown_kind"] == 3
    assert any("dream" in warning for warning in response.warnings)
    kept = {e.type: e.output.value for e in record.log.events if e.kind == "observation"}
    assert kept["dream"] == {"depth": 3}
    assert kept["response_item.hologram"]["shape"] == "cube"
    assert kept["event_msg.quantum_leap"] == {"to": "1985"}


def test_arguments_that_are_no_json_stay_as_text_and_are_marked(imports, tmp_path):
    made = codex.Rollout()
    made.ask("Do.")
    made.call("c4", "nonesuch", "{broken")
    made.answer("c4", "unsupported call: nonesuch")
    response, record = only(imports, tmp_path, made.bytes())
    call = event(record, "c4", "tool_call")
    assert (call.arguments.status, call.arguments.value, call.marks) == (
        "unparsable",
        "{broken",
        {"arguments": "unparsable"},
    )
    assert event(record, "c4", "tool_result").error.code == "unsupported_call"
    assert response.fields["tool_call.arguments"] == {"unparsable": 1}


def test_calls_with_one_id_keep_their_own_results(imports, tmp_path):
    made = codex.Rollout()
    made.ask("Do.")
    for number in (1, 2):
        made.call("c", "read", f'{{"n": {number}}}')
        made.answer("c", f"result {number}")
    _, record = only(imports, tmp_path, made.bytes())
    calls = {e.call_id: e.arguments.value["n"] for e in record.log.events if e.kind == "tool_call"}
    results = {e.call_id: e.content.value for e in record.log.events if e.kind == "tool_result"}
    assert {n: results[call] for call, n in calls.items()} == {1: "result 1", 2: "result 2"}


@pytest.mark.parametrize(
    ("end", "error"),
    [
        ({"type": "exec_command_end", "call_id": "c1", "exit_code": 3, "aggregated_output": "no"}, "exit_3"),
        ({"type": "mcp_tool_call_end", "call_id": "c1", "result": {"Err": "gone"}}, None),
        ({"type": "item_completed", "item": {"type": "McpToolCall", "id": "c1", "status": "failed"}}, None),
    ],
)
def test_the_end_of_a_call_tells_its_error(imports, tmp_path, end, error):
    made = codex.Rollout()
    made.ask("Do.")
    made.call("c1", "tool", "{}")
    made.line("event_msg", end)
    made.answer("c1", "what the model saw")
    _, record = only(imports, tmp_path, made.bytes())
    result = event(record, "c1", "tool_result")
    assert (result.content.value, result.error.kind, result.error.code) == ("what the model saw", "tool", error)
    assert result.attributes["also"][0]["type"] == end["type"]


@pytest.mark.parametrize("model", [[], {"name": "m"}, 7])
def test_a_model_that_has_no_name_is_passed_over(imports, tmp_path, model):
    session = codex.usual()
    for line in session.lines:
        if line["type"] == "turn_context":
            line["payload"]["model"] = model
    _, record = only(imports, tmp_path, session.bytes())
    call = event(record, "c1", "tool_call").model
    assert (call.name, call.provider) == (None, codex.PROVIDER)


def test_calls_that_code_of_the_model_made_are_calls_within_it(imports, tmp_path):
    made = codex.Rollout()
    made.ask("Do.")
    made.item("custom_tool_call", name="exec", call_id="j1", input="await tools.exec_command({cmd: 'ls'})")
    run = {"type": "CommandExecution", "id": "exec-1", "command": ["ls"], "status": "failed", "exit_code": 2}
    tool = {"type": "McpToolCall", "id": "mcp-1", "server": "atk", "tool": "get_status", "arguments": {"n": 1}}
    for item in (run, {**tool, "status": "completed", "result": {"content": [], "isError": False}}):
        made.event("item_completed", item=item, started_at_ms=1795997259474, completed_at_ms=1795997259544)
    made.item("custom_tool_call_output", call_id="j1", output=[{"type": "input_text", "text": "Script completed"}])
    made.say("Done.")
    response, record = only(imports, tmp_path, made.bytes())
    calls = [(e.kind, e.call_id, e.parent) for e in record.log.events if e.kind in ("tool_call", "tool_result")]
    assert calls == [
        ("tool_call", "j1", None),
        ("tool_call", "exec-1", "j1"),
        ("tool_result", "exec-1", "j1"),
        ("tool_call", "mcp-1", "j1"),
        ("tool_result", "mcp-1", "j1"),
        ("tool_result", "j1", None),
    ]
    assert event(record, "mcp-1", "tool_call").arguments.value == {"n": 1}
    assert event(record, "mcp-1", "tool_call").at_text == "1795997259474"
    assert event(record, "exec-1", "tool_result").error.code == "exit_2"
    assert response.counts["tool_calls"] == response.counts["tool_results"] == 3


def test_a_message_that_only_an_event_holds_keeps_its_place(imports, tmp_path):
    made = codex.Rollout()
    made.ask("Do.")
    made.event("agent_message", message="Only here.", turn_id=f"{codex.THREAD}-turn-1")
    made.say("Done.")
    _, record = only(imports, tmp_path, made.bytes())
    said = [e.content.value for e in record.log.events if e.kind == "text" and e.role == "assistant"]
    assert said == ["Only here.", "Done."]


def test_the_oldest_rollouts_are_read(imports, tmp_path):
    lines = [
        {"id": codex.THREAD, "timestamp": "2025-05-07T17:24:21.123Z", "instructions": None, "git": {}},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "local_shell_call", "call_id": "c1", "status": "completed", "action": {"command": ["ls"]}},
        {"type": "function_call_output", "call_id": "c1", "output": '{"output": "a", "metadata": {"exit_code": 2}}'},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "bye"}]},
    ]
    response, record = only(imports, tmp_path, codex.jsonl(lines), "old.jsonl")
    assert (record.source.trace_id, record.input.value, record.output.value) == (codex.THREAD, "hi", "bye")
    assert event(record, "c1", "tool_call").arguments.value == {"command": ["ls"]}
    assert event(record, "c1", "tool_result").error.code == "exit_2"
    assert response.fields["text.time"] == {"unknown": 2}


def test_the_stream_of_exec_is_read(imports, tmp_path):
    response, record = only(imports, tmp_path, codex.jsonl(codex.stream()), "events.jsonl")
    assert (record.source.trace_id, record.input.status, record.output.value) == (
        codex.THREAD,
        "not_exported",
        "Done.",
    )
    assert record.metrics == {"input_tokens": 30, "cached_input_tokens": 4, "output_tokens": 15}
    assert event(record, "item_1", "tool_call").arguments.value == "bash -lc ls"
    assert event(record, "item_1", "tool_result").error.code == "exit_2"
    assert record.log.state == "completed"
    assert response.counts["tool_calls"] == response.counts["tool_results"] == 1


def test_a_stream_beside_its_rollout_is_left_out_and_counted(imports, tmp_path):
    files = {codex.name(): codex.usual().bytes(), "events.jsonl": codex.jsonl(codex.stream())}
    response, records = read(imports, tmp_path, files)
    assert list(records) == [codex.THREAD]
    assert response.counts["lines_left_out"] == 7
    assert response.fields["line.stream"] == {"lossy": 7}


def test_a_torn_last_line_is_an_interrupted_append(imports, tmp_path):
    data = codex.usual().bytes()
    response, record = only(imports, tmp_path, data[:-30])
    assert any("interrupted append" in warning for warning in response.warnings)
    assert record.output.value == "It is fixed."


def test_files_that_hold_no_session_are_named_and_left_alone(imports, tmp_path):
    files = {codex.name(): codex.usual().bytes(), "history.jsonl": b'{"session_id": "s", "ts": 1, "text": "hi"}\n'}
    response, records = read(imports, tmp_path, {**files, "log/codex-tui.log": b"x"})
    assert list(records) == [codex.THREAD]
    assert response.skipped_files == ["history.jsonl", "log/codex-tui.log"]


def test_a_file_can_be_left_out_and_what_is_not_used_is_said(imports, tmp_path):
    other = "01a229a1-f975-7ee2-a19d-26824b4668d1"
    files = {codex.name(): codex.usual().bytes(), codex.name(other): codex.usual(other).bytes()}
    response, records = read(imports, tmp_path, files, file_roles={codex.name(other): "ignore"}, json_columns=["input"])
    assert list(records) == [codex.THREAD]
    assert response.skipped_files == [codex.name(other)]
    assert any("json_columns" in warning for warning in response.warnings)


def test_a_role_for_a_file_that_is_not_there_is_refused(imports, tmp_path):
    with pytest.raises(RoleWithoutFile):
        read(imports, tmp_path, {codex.name(): codex.usual().bytes()}, file_roles={"x.jsonl": "ignore"})


def test_two_lines_of_one_place_that_differ_are_refused_with_both(imports, tmp_path):
    made = codex.usual()
    other = json.loads(json.dumps(made.lines))
    other[3]["payload"]["content"][0]["text"] = "Something else."
    with pytest.raises(ValuesConflict) as refused:
        read(imports, tmp_path, {codex.name(): made.bytes(), codex.name(part="-copy"): codex.jsonl(other)})
    assert "Fix the failing test" in str(refused.value)
    assert "Something else" in str(refused.value)


def test_secrets_in_calls_and_results_are_masked_and_stay_equal(imports, tmp_path):
    made = codex.Rollout(base_instructions={"text": f"use {SECRET}"})
    made.ask(f"The token is {SECRET}")
    made.call("c1", "http", json.dumps({"headers": {"Authorization": f"Bearer {SECRET}"}, "body": SECRET}))
    made.answer("c1", f"you sent {SECRET}")
    response, record = only(imports, tmp_path, made.bytes())
    assert SECRET.encode() not in imports.every_byte()
    assert SECRET not in response.model_dump_json()
    mask = record.input.value.removeprefix("The token is ")
    assert event(record, "c1", "tool_call").arguments.value["body"] == mask
    assert event(record, "c1", "tool_result").content.value == f"you sent {mask}"


def test_a_secret_in_place_of_an_id_is_masked_too(imports, tmp_path):
    made = codex.Rollout(SECRET)
    made.ask("Go.")
    response, _ = only(imports, tmp_path, made.bytes(), "x.jsonl")
    assert SECRET.encode() not in imports.every_byte()
    assert SECRET not in response.model_dump_json()


def test_a_dry_run_knows_sessions_by_what_they_hold(imports, tmp_path):
    for data in (codex.usual().bytes(), codex.jsonl(codex.stream())):
        source = write(tmp_path / "any", {"x.jsonl": data})
        answer = imports.send(source, source_kind="langfuse", dry_run=True)
        assert answer.next[0].arguments["source_kind"] == "codex"


# -- for every session -------------------------------------------------------------------------------------------------

TEXT = st.text(string.ascii_letters + " äñ\n{}\"'", min_size=1, max_size=20).filter(lambda t: t.strip() and is_plain(t))
STEP = st.one_of(
    st.tuples(st.just("think"), TEXT),
    st.tuples(st.just("call"), st.dictionaries(TEXT, st.one_of(TEXT, st.integers(), st.none(), st.booleans())), TEXT),
    st.tuples(st.just("tokens"), st.integers(0, 9999), st.integers(0, 9999)),
    st.tuples(st.just("say"), TEXT),
)
TURNS = st.lists(st.tuples(TEXT, st.lists(STEP, max_size=6)), min_size=1, max_size=3)


def built(turns, **options):
    made = codex.Rollout(**options)
    calls = 0
    for question, steps in turns:
        made.ask(question)
        for step in steps:
            if step[0] == "call":
                calls += 1
                made.call(f"c{calls}", "tool", json.dumps(step[1]))
                made.answer(f"c{calls}", step[2])
            else:
                getattr(made, step[0])(*step[1:])
        made.done(None)
    return made


def imported(files):
    with tempfile.TemporaryDirectory() as folder:
        imports = Imports(Path(folder) / "project")
        _, records = read(imports, Path(folder), files)
    return {session: record.model_dump(mode="json") for session, record in records.items()}


def without_places(value):
    if isinstance(value, dict):
        return {k: without_places(v) for k, v in value.items() if k not in ("locator", "locators", "line", "id", "n")}
    return [without_places(item) for item in value] if isinstance(value, list) else value


@SOME
@given(TURNS, st.booleans(), st.booleans())
def test_every_value_of_a_session_comes_back(turns, ordinals, mirrors):
    (record,) = imported({codex.name(): built(turns, ordinals=ordinals, mirrors=mirrors).bytes()}).values()
    events = record["log"]["events"]
    said = [e for e in events if e["kind"] == "text" and not e["attributes"].get("context")]
    steps = [step for _, steps in turns for step in steps]
    assert [e["content"]["value"] for e in said if e["role"] == "user"] == [question for question, _ in turns]
    assert [e["content"]["value"] for e in said if e["role"] == "assistant"] == [s[1] for s in steps if s[0] == "say"]
    assert [e["content"]["value"] for e in events if e["kind"] == "reasoning"] == [
        s[1] for s in steps if s[0] == "think"
    ]
    calls = [e for e in events if e["kind"] == "tool_call"]
    assert [e["arguments"]["value"] for e in calls] == [s[1] for s in steps if s[0] == "call"]
    results = {e["call_id"]: e["content"]["value"] for e in events if e["kind"] == "tool_result"}
    assert [results[e["call_id"]] for e in calls] == [s[2] for s in steps if s[0] == "call"]
    assert record["metrics"].get("output_tokens", 0) == sum(s[2] for s in steps if s[0] == "tokens")
    assert record["input"]["value"] == turns[0][0]


@SOME
@given(TURNS, st.integers(0, 2**16), st.integers(1, 3), st.booleans())
def test_splitting_packing_and_renaming_change_nothing_but_places(turns, seed, parts, ordinals):
    lines = built(turns, ordinals=ordinals).lines
    whole = imported({codex.name(): codex.jsonl(lines)})
    rng = random.Random(seed)
    cuts = sorted(rng.sample(range(1, len(lines)), min(parts, len(lines) - 1)))
    pieces = [lines[a:b] for a, b in zip([0, *cuts], [*cuts, len(lines)], strict=True)]
    names = [f".{letter}" for letter in rng.sample("abcdefgh", len(pieces))]
    files = {}
    for letter, piece in zip(names, pieces, strict=True):
        packed = rng.random() < 0.5
        name = codex.name(part=letter) + (".gz" if packed else "")
        files[name] = gzip.compress(codex.jsonl(piece)) if packed else codex.jsonl(piece)
    again = dict(rng.sample(list(files.items()), len(files)))
    assert without_places(imported(again)) == without_places(whole)
