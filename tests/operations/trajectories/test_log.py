"""The log takes only what is an event, and gives back only what was written."""

import hashlib
import subprocess
import sys

import pytest

from operations.trajectories import EventLog, LogProblem, LogWriter
from operations.trajectories.log import Chain, verified
from storage.schema import events as stored

HELLO = {"status": "value", "value": "hello"}


def said(**more):
    return {"kind": "text", "role": "assistant", "content": HELLO, **more}


def a_log():
    log = EventLog()
    log.append({"kind": "text", "role": "user", "content": HELLO})
    for call in "ab":
        arguments = {"status": "value", "value": {"q": call}}
        log.append({"kind": "tool_call", "call_id": call, "name": "find", "group": "g", "arguments": arguments})
    for call in "ba":
        content = {"status": "value", "value": f"of {call} \ud800 {2**70}"}
        log.append({"kind": "tool_result", "call_id": call, "content": content})
    log.append({"kind": "reward", "name": "r", "scope": "episode", "value": None})
    log.append(said())
    log.end("completed", "stop")
    return log


def test_lines_come_back_as_they_were_and_as_a_project_stores_them():
    log = a_log()
    again = EventLog.from_lines(log.lines())
    assert list(again.lines()) == list(log.lines())
    assert [e["call_id"] for e in again if "call_id" in e] == ["a", "b", "b", "a"]
    assert EventLog.from_stored(log.as_stored()).as_stored() == log.as_stored()


@pytest.mark.parametrize("text", [b"{", b"[1]", b"\xff", b"[" * 100_000])
def test_a_line_of_anything_else_is_refused_though_its_hash_fits(text):
    opening = hashlib.sha256(b"atk event log 1").hexdigest()
    line = hashlib.sha256(opening.encode() + b"\n" + text).hexdigest().encode() + b" " + text + b"\n"
    with pytest.raises(LogProblem, match="line 1 is no"):
        [*verified([line])]


def test_the_form_is_that_of_the_schema():
    log = EventLog()
    log.append(said())
    log.end("failed")
    model = stored.EventLog.model_validate(log.as_stored())
    assert EventLog.from_stored(model.model_dump(mode="json")).state == "failed"


def test_whatever_line_is_changed_moved_doubled_or_lost_is_noticed():
    lines = list(a_log().lines())
    for place, line in enumerate(lines):
        for forged in (
            [*lines[:place], *lines[place + 1 :]],
            [*lines[:place], line, *lines[place:]],
            [*lines[:place], line[:-3] + b" " + line[-3:], *lines[place + 1 :]],
            [*lines[:place], *lines[place : place + 2][::-1], *lines[place + 2 :]] if line != lines[-1] else lines[:-1],
        ):
            with pytest.raises(LogProblem):
                EventLog.from_lines(forged)


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        ({"kind": "thought"}, "no known kind"),
        ({"kind": "text", "role": "user"}, "lacks content"),
        (said(seq=3), "has seq 3"),
        (said(content="hello"), "content is an object with status, and this is 'hello'"),
        ({"kind": "reward", "name": "r", "scope": "life", "value": 1}, "scope is one of step, turn, episode"),
        (said(tokens={"token_ids": [1], "logprobs": []}), "0 for 1 tokens"),
        (said(tokens={"token_ids": [1], "logprobs": [0.5]}), "at most 0"),
        (said(tokens={"token_ids": [-1]}), "each an id of a token"),
        (said(at="2026-01-31T12:00:00"), "a time with its offset"),
        (said(at="2026-02-31T12:00:00Z"), "a time with its offset"),
        (said(error={"kind": "odd"}), "an object whose kind is one of tool, model"),
        (said(turns=1), "no field 'turns'; do you mean turn?"),
        (said(parent="x"), "the parent x, which does not stand before it"),
        (said(parent_outside=True), "names no parent"),
        ({"kind": "tool_result", "call_id": "x", "content": HELLO}, "the call x, which does not stand before it"),
        ({"kind": "reward", "name": "r", "scope": "turn", "value": 1}, "it lacks turn"),
        ({"kind": "reward", "name": "r", "scope": "step", "value": 1}, "it lacks parent"),
        ({"kind": "reward", "name": "r", "scope": "episode", "value": "1"}, "value is a number"),
        (said(attributes={"x": float("nan")}), "is JSON"),
        (said(attributes={"x": object()}), "is JSON"),
    ],
)
def test_what_is_no_event_is_refused_and_leaves_the_log_as_it_was(event, problem):
    log = EventLog()
    with pytest.raises(LogProblem, match=problem):
        log.append(event)
    assert len(log) == 0


def test_a_name_twice_and_anything_after_the_end_are_refused():
    log = EventLog()
    log.append(said(id="x"))
    with pytest.raises(LogProblem, match="have the id x"):
        log.append(said(id="x"))
    with pytest.raises(LogProblem, match="is no end"):
        log.end("running")
    log.end("cancelled")
    for late in (lambda: log.append(said()), lambda: log.end("failed")):
        with pytest.raises(LogProblem, match="has ended"):
            late()


def test_a_writer_writes_the_lines_of_the_same_log_and_a_crash_leaves_what_was_before():
    log, written = a_log(), []
    writer = LogWriter(written.append, {"find": {}})
    for event in log:
        with pytest.raises(LogProblem, match="no known kind"):
            writer.append({"kind": "thought"})
        writer.append({k: v for k, v in event.items() if k not in ("seq", "id")})
    with pytest.raises(LogProblem, match="has no end: lines were lost"):
        EventLog.from_lines(written)
    assert len([*verified(written)]) == len(log) + 1
    for state in ("running", "over"):
        with pytest.raises(LogProblem):
            writer.end(state)
    writer.end("completed", "stop")
    for late in (lambda: writer.append(said()), lambda: writer.end("failed")):
        with pytest.raises(LogProblem, match="nothing can follow"):
            late()
    again = EventLog.from_lines(written)
    assert again.tools == {"find": {}}
    assert again.as_stored() == {**log.as_stored(), "tools": {"find": {}}}


def test_nothing_follows_a_line_that_could_not_be_written():
    def write(line):
        if b"hello" in line:
            raise OSError("disk full")

    writer = LogWriter(write)
    with pytest.raises(OSError, match="disk full"):
        writer.append(said())
    with pytest.raises(LogProblem, match="a line could not be written whole; nothing can follow"):
        writer.append({"kind": "turn_complete"})


def test_an_event_without_an_id_gets_one_that_is_free():
    log = EventLog()
    log.append(said(id="e1"))
    log.append(said())
    assert [e["id"] for e in log] == ["e1", "e1'"]


def test_a_call_has_one_result_and_what_answers_none_says_so():
    log = EventLog()
    call = {"kind": "tool_call", "name": "find", "arguments": HELLO}
    result = {"kind": "tool_result", "content": HELLO}
    log.append({**call, "call_id": "a"})
    log.append({**call, "call_id": "b"})
    with pytest.raises(LogProblem, match="two calls have the call_id a"):
        log.append({**call, "call_id": "a"})
    with pytest.raises(LogProblem, match="said to be unpaired, but its call a is open"):
        log.append({**result, "call_id": "a", "unpaired": True})
    log.append({**result, "call_id": "b"})
    assert log.open_calls() == ["a"]
    with pytest.raises(LogProblem, match="the call b, which has its result already"):
        log.append({**result, "call_id": "b"})
    log.append({**result, "call_id": "b", "unpaired": True})
    log.append({**result, "call_id": "c", "unpaired": True})
    log.append({**result, "call_id": "a", "parent": "b"})
    assert log.open_calls() == []
    assert EventLog.from_lines(log.lines()).as_stored() == log.as_stored()


def test_a_parent_is_in_the_log_or_outside_and_never_both():
    log = EventLog()
    log.append(said(parent="p", parent_outside=True))
    with pytest.raises(LogProblem, match="has the id p, which an event before calls outside"):
        log.append(said(id="p"))
    with pytest.raises(LogProblem, match="has the parent p, which an event before calls outside"):
        log.append(said(parent="p"))
    with pytest.raises(LogProblem, match="its parent e0 is outside, but it is in the log"):
        log.append(said(parent="e0", parent_outside=True))
    late = {"events": [said(parent="x"), said(id="x")]}
    assert [e["id"] for e in EventLog.from_stored(late)] == ["e0", "x"]
    with pytest.raises(LogProblem, match="event 0 has the parent x, which is not in the log"):
        EventLog.from_stored({"events": [said(parent="x")]})


def test_the_tools_that_an_agent_was_given_come_back_and_have_a_form():
    tools = {"find": {"parameters": {"type": "object"}, "server": "docs"}, "stop": {}}
    log = EventLog(tools)
    assert EventLog.from_lines(log.lines()).tools == tools
    assert stored.EventLog.model_validate(log.as_stored()).tools.keys() == tools.keys()
    for wrong in ({"find": None}, ["find"], {"find": {"schema": {}}}):
        with pytest.raises(LogProblem):
            EventLog(wrong)


END = {"end": {"state": "completed", "reason": None, "events": 0}}


@pytest.mark.parametrize(
    ("bodies", "why"),
    [
        ([{"format": 1}, {"end": 5}], "line 2 says of the end no object, but '5'"),
        ([{"format": 1}, {"end": {**END["end"], "events": False}}], "line 2 counts False events; there are 0"),
        ([{"format": 1}, {"event": 5}, END], "event 0 is no object: '5'"),
        ([{"format": 1}, {"event": [["kind", "text"]]}, END], "event 0 is no object"),
        ([{"format": True}, END], "line 1 should be the heading of format 1"),
    ],
)
def test_lines_that_were_chained_again_are_held_to_what_a_log_is(bodies, why):
    chain = Chain()
    with pytest.raises(LogProblem, match=why):
        EventLog.from_lines([chain.line(body) for body in bodies])


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (5, "a log is an object, and this is '5'"),
        ({"events": 5}, "events is a list, and this is '5'"),
        ({"events": {"a": 1}}, "events is a list"),
        ({"events": ["text"]}, "event 0 is no object: 'text'"),
        ({"format": True}, "the log has format True; this reads 1"),
    ],
)
def test_a_stored_log_that_is_none_is_refused(given, why):
    with pytest.raises(LogProblem, match=why):
        EventLog.from_stored(given)


def test_an_event_is_the_logs_own_copy():
    event = said(attributes={"x": [1]})
    log = EventLog()
    log.append(event)
    event["attributes"]["x"].append(2)
    assert [e["attributes"] for e in log] == [{"x": [1]}]


def test_a_log_is_full_when_its_events_bear_it_out_and_light_logs_have_no_tokens_to_give():
    log = EventLog()
    assert log.tier == "light"
    with pytest.raises(ValueError, match="it holds none"):
        log.masked_tokens()
    log.append(said(tokens={"token_ids": [5, 6], "logprobs": [-1.0, -0.5], "mask": [True, False]}))
    assert log.tier == "full"
    assert log.masked_tokens() == [(5, True, -1.0), (6, False, -0.5)]
    log.append(said())
    with pytest.raises(ValueError, match="light: events 1 have no tokens"):
        log.masked_tokens()
    with pytest.raises(LogProblem, match="says full"):
        EventLog.from_stored({**log.as_stored(), "tier": "full"})


def test_importing_the_log_loads_the_standard_library_only():
    code = """
import sys
before = {*sys.modules}
import operations.trajectories
import operations.trajectories.metrics.registry
new = {name.partition(".")[0] for name in {*sys.modules} - before}
print(sorted(new - sys.stdlib_module_names))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "['operations', 'storage']\n"
