"""The log takes only what is an event, and gives back only what was written."""

import subprocess
import sys

import pytest

from operations.trajectories import EventLog, LogProblem
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
        (said(content="hello"), "object with a status"),
        ({"kind": "reward", "name": "r", "scope": "life", "value": 1}, "rewards 'life'"),
        (said(tokens={"token_ids": [1], "logprobs": []}), "0 items for 1 tokens"),
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


def test_importing_the_log_loads_neither_models_nor_engines():
    heavy = ("pydantic", "torch", "mcp", "orjson")
    code = f"import sys, operations.trajectories; print([m for m in {heavy} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
