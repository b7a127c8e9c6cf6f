"""A Record has an EventLog, whichever agent wrote its events and however."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operations.importers.event_logs import LogNotWhole, log_of
from operations.trajectories import EventLog
from storage.frames import canonical
from tests.support import claude_sessions, codex_sessions

ABSENT = {"status": "not_exported"}


def ran(*events, status="completed", error=None):
    now = datetime(2026, 1, 1, tzinfo=UTC).isoformat()
    execution = {"status": status, "error": error, "started_at": now, "ended_at": now}
    return {"id": "batch-1-abcd.1", "case_id": "c", "events": list(events), "execution": execution}


def value(given):
    return {"status": "value", "value": given}


def place(row):
    return {"file": "events.jsonl", "row": row}


def test_simple_events_of_an_agent_become_a_log_and_calls_that_follow_each_other_are_paired():
    log = log_of(
        ran(
            {"kind": "text", "role": "user", "content": "find a"},
            {"kind": "tool_call", "name": "find", "arguments": {"q": "a"}},
            {"kind": "tool_result", "name": "find", "content": ""},
            {"kind": "text", "role": "assistant", "content": "nothing"},
        )
    )
    called = {"call_id": "call-2", "name": "find"}
    assert log.as_stored() == {
        "format": 1,
        "tier": "light",
        "state": "completed",
        "end_reason": None,
        "events": [
            {"seq": 0, "id": "e0", "kind": "text", "role": "user", "content": value("find a"), "locator": place(1)},
            {"seq": 1, "id": "e1", "kind": "tool_call", "arguments": value({"q": "a"}), "locator": place(2), **called},
            {"seq": 2, "id": "e2", "kind": "tool_result", "content": {"status": "empty"}, "locator": place(3)} | called,
            {"seq": 3, "id": "e3", "kind": "text", "role": "assistant"}
            | {"content": value("nothing"), "locator": place(4)},
        ],
    }


def test_of_two_calls_without_ids_nothing_says_which_one_a_result_answers():
    calls = [{"kind": "tool_call", "name": "find", "arguments": {"q": q}} for q in "ab"]
    log = log_of(ran(*calls, {"kind": "tool_result", "content": "of one of them"}))
    assert [(e["call_id"], e.get("unpaired", False)) for e in log] == [
        ("call-1", False),
        ("call-2", False),
        ("call-3", True),
    ]


def test_what_is_no_event_is_kept_whole_and_says_why():
    log = log_of(ran({"type": "tool", "n": 1}, {"kind": "text", "role": "robot", "content": "x"}, {"kind": "reward"}))
    assert [(e["type"], e["output"]["value"], e.get("attributes")) for e in log] == [
        ("tool", {"type": "tool", "n": 1}, None),
        (
            "text",
            {"kind": "text", "role": "robot", "content": "x"},
            {
                "problem": "the event: role is one of system, developer, user, assistant, tool, unknown, "
                "and this is 'robot'"
            },
        ),
        ("reward", {"kind": "reward"}, {"problem": "the event, a reward, lacks name, scope, value"}),
    ]


@pytest.mark.parametrize(
    ("status", "error", "end"),
    [
        ("completed", None, ("completed", None)),
        ("agent_error", None, ("failed", "agent_error")),
        ("timeout", None, ("interrupted", "timeout")),
        ("infra_error", "no such program", ("failed", "no such program")),
        ("unknown", None, ("unknown", None)),
    ],
)
def test_a_log_ends_as_its_execution_did(status, error, end):
    log = log_of(ran(status=status, error=error))
    assert (log.state, log.end_reason) == end


def test_a_log_that_an_agent_wrote_is_taken_as_it_is():
    log = EventLog({"find": {}})
    log.append({"kind": "tool_call", "call_id": "x", "name": "find", "arguments": value({})})
    log.end("failed", "gave up")
    bodies = [json.loads(line.partition(b" ")[2]) for line in log.lines()]
    written = [body.get("event", body) for body in bodies]
    assert log_of(ran(*written)).as_stored() == log.as_stored()
    assert log_of(ran(*written, status="timeout")).end_reason == "timeout"
    assert [e["kind"] for e in log_of(ran(*written[:-1]))] == ["tool_call"]


def test_the_streams_of_coding_agents_are_read_as_their_sessions_are():
    calls = claude_sessions.usual()
    streamed = [*claude_sessions.stream()[:1], *calls.lines, *claude_sessions.stream()[1:]]
    for log in (log_of(ran(*codex_sessions.stream())), log_of(ran(*streamed))):
        made = [e["call_id"] for e in log if e["kind"] == "tool_call"]
        assert made
        assert made == [e["call_id"] for e in log if e["kind"] == "tool_result"]
        assert log.open_calls() == []
    assert log_of(ran(*claude_sessions.stream())).tools == {"Bash": {}}


@pytest.mark.parametrize("levels", [90, 101, 900])
def test_what_an_agent_nested_too_deeply_is_named_and_breaks_nothing(levels):
    deep = {}
    for _ in range(levels):
        deep = {"a": deep}
    given_ = [{"kind": "tool_call", "name": "find", "arguments": deep}, {"type": "thread.started", "thread_id": "x"}]
    found = [e.get("attributes", {}).get("problem") for e in log_of(ran(*given_))]
    assert found[0] == (None if levels < 100 else "the event nests deeper than 100; the Record has it whole")


def test_the_log_of_an_import_is_the_stored_one():
    stored = {"events": [{"kind": "text", "role": "user", "seq": 0, "id": "t", "content": value("x")}]}
    assert log_of({"log": stored}).as_stored()["events"] == stored["events"]
    with pytest.raises(LogNotWhole) as refused:
        log_of({"id": "batch-1-abcd.2", "log": {"format": 2}})
    assert refused.value.facts == {"record_id": "batch-1-abcd.2", "problem": "the log has format 2; this reads 1"}


names = st.sampled_from(["kind", "call_id", "content", "name", "parent", "id", "scope", "value", "type", "at", "seq"])
said = st.sampled_from(["text", "tool_call", "tool_result", "reward", "step", "x", "", None, 3, {"status": "value"}])
objects = st.dictionaries(names, said, max_size=6)


@given(st.lists(objects, max_size=8))
def test_whatever_an_agent_wrote_becomes_a_log_with_an_event_for_each_line(given_):
    log = log_of(ran(*given_))
    assert len(log) == len(given_)
    assert canonical(EventLog.from_lines(log.lines()).as_stored()) == canonical(log.as_stored())


pieces = st.one_of(said, st.lists(said, max_size=2), st.dictionaries(names, said, max_size=2))
junk = st.dictionaries(
    st.sampled_from(["type", "subtype", "item", "message", "msg", "uuid", "usage", "error", "tools", "format", "end"]),
    st.one_of(
        pieces, st.sampled_from(["item.completed", "turn.failed", "assistant", "user", "result", "system", "init"])
    ),
    max_size=5,
)
heads = st.sampled_from(
    [
        {"type": "thread.started", "thread_id": "t"},
        {"type": "system", "subtype": "init", "session_id": "s"},
        {"format": 1},
        {"format": 1, "tools": {"x": {}}},
        codex_sessions.stream()[2],
        claude_sessions.stream()[1],
    ]
)


@given(st.lists(st.one_of(heads, junk), max_size=8))
def test_streams_with_anything_in_between_become_logs_that_hold_to_the_rules(given_):
    log = log_of(ran(*given_))
    assert canonical(EventLog.from_lines(log.lines()).as_stored()) == canonical(log.as_stored())
