"""The EventLog refuses what would not be a log."""

import json

import pytest
from pydantic import ValidationError

from storage.schema.events import Content, EventLog, Reward, Text, TokenSpan, ToolCall, ToolResult, without_tokens

HELLO = Content(status="value", value="hello")
TOKENS = TokenSpan(token_ids=(1, 2), logprobs=(-0.5, -1.0), mask=(True, True))


def said(seq, **more):
    return Text(seq=seq, id=f"e{seq}", role="assistant", content=HELLO, **more)


def called(seq, **more):
    return ToolCall(**{"seq": seq, "id": "c", "call_id": "c", "name": "find", "arguments": HELLO, **more})


def test_concurrent_calls_of_one_name_stay_paired_and_come_back_from_json():
    calls = [ToolCall(seq=i, id=f"c{i}", call_id=f"c{i}", name="search", group="g", arguments=HELLO) for i in range(2)]
    results = [ToolResult(seq=2 + i, id=f"c{1 - i}", call_id=f"c{1 - i}", content=HELLO) for i in range(2)]
    log = EventLog(events=(*calls, *results))
    assert EventLog.model_validate(json.loads(log.model_dump_json())) == log
    assert [event.call_id for event in log.events] == ["c0", "c1", "c1", "c0"]


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ([said(1)], "has seq 1"),
        ([said(0), said(0)], "has seq 0"),
        ([said(0), Text(seq=1, id="e0", role="user", content=HELLO)], "have the id e0"),
        ([ToolResult(seq=0, id="r", call_id="c", content=HELLO)], "the call c, which does not stand before it"),
        ([called(0), called(1, id="other")], "two calls have the call_id c"),
        ([called(0), ToolResult(seq=1, id="r", call_id="c", content=HELLO, unpaired=True)], "its call c is open"),
        ([said(0, parent="gone")], "the parent gone, which is not in the log"),
        ([said(0), said(1, parent="e0", parent_outside=True)], "is outside, but it is in the log"),
        ([Reward(seq=0, id="r", name="r", scope="turn", value=1)], "lacks turn"),
    ],
)
def test_a_log_whose_events_do_not_fit_to_each_other_is_refused(events, problem):
    with pytest.raises(ValidationError, match=problem):
        EventLog(events=events)


def test_a_log_is_full_only_when_every_word_of_the_policy_has_its_tokens():
    light = EventLog(events=(said(0, tokens=TOKENS), said(1)))
    assert without_tokens(light) == [1]
    with pytest.raises(ValidationError, match="event 1 has no tokens"):
        EventLog(tier="full", events=light.events)
    user = Text(seq=1, id="u", role="user", content=HELLO)
    assert EventLog(tier="full", events=(said(0, tokens=TOKENS), user)).tier == "full"


def test_a_span_has_one_figure_for_each_token():
    with pytest.raises(ValidationError, match="logprobs has 1 items for 2 tokens"):
        TokenSpan(token_ids=(1, 2), logprobs=(-0.5,))


def test_what_is_no_kind_of_event_is_refused():
    with pytest.raises(ValidationError, match="kind"):
        EventLog.model_validate({"events": [{"kind": "thought", "seq": 0, "id": "x"}]})
