"""A log that is written in the format it came from and imported again is the same log, in all that it claims."""

import json

import pytest

from operations.importers.event_logs import log_of
from tests.support import claude_sessions, codex_sessions, inspect_logs, rewriting
from tests.support.claude_sessions import text, tool_use
from tests.support.imports import Imports

WHERE = ("locator", "locators")
SAID = ("kind", "role", "name", "type", "call_id", "content", "arguments", "input", "output", "prompt", "opaque")
OF_A_SESSION = (*SAID, "at", "turn", "error", "model", "finish_reason", "unpaired")


@pytest.fixture
def logs(tmp_path):
    """Imports one file or folder. Returns the events of each log."""
    made = []

    def read(content, kind, name="export.jsonl", **arguments):
        imports = Imports(tmp_path / f"project{len(made)}")
        made.append(tmp_path / f"export{len(made)}")
        path = made[-1] / name
        path.parent.mkdir(parents=True)
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        response = imports.send(made[-1], source_kind=kind, **arguments)
        read.made.append((imports, response.batch_id))
        assert imports.records(response.batch_id)
        return [[*log_of(record)] for record in imports.raw(response.batch_id)]

    read.made = []
    return read


def without_places(events):
    return [{name: value for name, value in event.items() if name not in WHERE} for event in events]


def claims(events, names=OF_A_SESSION):
    """Returns what each event says; calls are named by the order of their first mention."""
    calls = {}
    found = []
    for event in events:
        said = {name: event[name] for name in names if event.get(name) not in (None, False)}
        if "call_id" in said:
            said["call_id"] = calls.setdefault(said["call_id"], len(calls))
        found.append(said)
    return found


def observation(number, kind, parent="", **more):
    begun = f"2026-11-29 12:00:{number:02}.000000"
    row = {"id": f"o{number}", "trace_id": "t", "parent_observation_id": parent, "type": kind, "name": f"n{number}"}
    row |= {"start_time": begun, "end_time": f"2026-11-29 12:01:{number:02}.000000", "input": {"n": number}}
    return row | {"output": "", "level": "DEFAULT", "status_message": None, "metadata": {"deep": [1, None]}, **more}


def test_langfuse_observations_come_back_in_every_field(logs):
    model = {"provided_model_name": "m-1", "model_parameters": {"temperature": 0}, "usage_details": {"total": 3}}
    rows = [
        observation(1, "AGENT"),
        observation(2, "GENERATION", "o1", output={"text": "é"}, **model),
        *(observation(3, "TOOL", "o2", name="find", output=[n], id=f"same{n}") for n in (1, 2)),
        observation(5, "TOOL", "o1", level="ERROR", status_message="no", input=None),
        observation(6, "SPAN", "elsewhere", start_time=None, end_time=None),
    ]
    (first,) = logs(rewriting.jsonl(rows), "langfuse", adapter_profile="langfuse_observation_rows")
    assert [e["call_id"] for e in first if e["kind"] == "tool_call"] == ["same1", "same2", "o5"]
    written = rewriting.langfuse(first, "t")
    (second,) = logs(written, "langfuse", adapter_profile="langfuse_observation_rows")
    assert without_places(second) == without_places(first)


def test_an_inspect_sample_comes_back_with_its_transcript(logs):
    made = inspect_logs.sample()
    (first,) = logs(inspect_logs.log(made), "inspect_ai", "log.json")
    again = rewriting.inspect_ai(first, made)
    (second,) = logs(inspect_logs.log(again), "inspect_ai", "log.json")
    names = (*SAID, "at", "ended_at", "error", "group", "parent", "id")
    assert claims(second, names) == claims(first, names)
    assert len(first) > 6


def test_the_tools_that_a_source_names_stand_at_the_head_of_the_log(logs):
    add = {"name": "add", "parameters": {"type": "object", "properties": {}}}
    definitions = {
        "key": "gen_ai.tool.definitions",
        "value": {"stringValue": json.dumps([{"type": "function", **add}])},
    }
    operation = {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}
    span = {"traceId": "1" * 32, "spanId": "2" * 16, "name": "chat", "attributes": [operation, definitions]}
    span |= {"startTimeUnixNano": "1785000000000000000", "endTimeUnixNano": "1785000001000000000"}
    logs({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}, "otel", "spans.json")
    logs(inspect_logs.log(inspect_logs.sample()), "inspect_ai", "log.json")
    logs(rewriting.jsonl(claude_sessions.stream()), "claude_code")
    logs(claude_session().bytes(), "claude_code")
    found = [log_of(imports.raw(batch_id)[0]).tools for imports, batch_id in logs.made]
    assert found == [{"add": {"parameters": add["parameters"]}}] * 2 + [{"Bash": {}}, None]


def test_concurrent_calls_of_one_tool_stay_paired_in_an_inspect_sample(logs):
    made = inspect_logs.sample()
    calls = [inspect_logs.call(n, x=n) for n in (1, 2)]
    asked, said = made["messages"][0], {**made["messages"][1], "tool_calls": calls}
    told = [inspect_logs.message("tool", f"is {n}", 4 + n, tool_call_id=f"c{n}", function="add") for n in (2, 1)]
    plain = {**made, "events": [], "messages": [asked, said, *told]}
    (first,) = logs(inspect_logs.log(plain), "inspect_ai", "log.json")
    assert [(e["call_id"], e["content"]["value"]) for e in first if e["kind"] == "tool_result"] == [
        ("c2", "is 2"),
        ("c1", "is 1"),
    ]
    (second,) = logs(inspect_logs.log(rewriting.inspect_ai(first, made)), "inspect_ai", "log.json")
    assert claims(second, SAID) == claims(first, SAID)


def codex_rollout():
    made = codex_sessions.usual()
    made.ask("And now twice?")
    for call_id in ("p", "q"):
        made.call(call_id, "shell", json.dumps({"command": ["ls"]}))
    for call_id in ("q", "p"):
        made.answer(call_id, f"of {call_id}")
    made.call("broken", "shell", "{")
    made.say("Done twice.")
    made.done("Done twice.")
    return made


@pytest.mark.parametrize("mirrors", [True, False])
def test_a_codex_session_comes_back_in_what_was_said_called_and_answered(logs, mirrors):
    made = codex_rollout() if mirrors else codex_sessions.usual(mirrors=False)
    (first,) = logs(made.bytes(), "codex", codex_sessions.name())
    written = rewriting.codex(first, codex_sessions.THREAD)
    (second,) = logs(written, "codex", codex_sessions.name())
    assert claims(second) == claims(first)


def claude_session():
    made = claude_sessions.usual()
    made.ask("Both at once.")
    made.answer(tool_use("x", "Read", {"p": 1}), tool_use("y", "Read", {"p": 1}))
    made.result("y", "of y")
    made.result("x", "", is_error=True)
    made.answer(text("Read."))
    return made


def test_a_claude_code_session_comes_back_in_what_was_said_called_and_answered(logs):
    (first,) = logs(claude_session().bytes(), "claude_code")
    written = rewriting.claude_code(first, claude_sessions.SESSION)
    (second,) = logs(written, "claude_code")
    assert claims(second) == claims(first)
