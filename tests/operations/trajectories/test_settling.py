"""Whatever ids, calls and parents a source has, its events become a log, and none is dropped or paired by a guess."""

import copy

from hypothesis import given
from hypothesis import strategies as st

from operations.trajectories import EventLog, content
from operations.trajectories.settling import settled


def call(call_id, **more):
    return {"kind": "tool_call", "call_id": call_id, "name": "find", "arguments": content({}), **more}


def result(call_id, said="x", **more):
    return {"kind": "tool_result", "call_id": call_id, "content": content(said), **more}


def seen(**more):
    return {"kind": "observation", "input": content(None), "output": content("x"), **more}


def pairs(events):
    return [(e["kind"], e["call_id"], e.get("unpaired", False)) for e in events]


def test_a_call_id_that_is_used_again_gets_one_of_its_own_and_the_next_result_answers_it():
    events = settled([call("a"), result("a", "first"), call("a"), result("a", "second"), result("a", "third")])
    assert pairs(events) == [
        ("tool_call", "a", False),
        ("tool_result", "a", False),
        ("tool_call", "a~2", False),
        ("tool_result", "a~2", False),
        ("tool_result", "a", True),
    ]


def test_a_result_of_the_same_span_answers_that_call_and_not_an_earlier_one_that_waits():
    events = settled([call("a", id="s1"), call("a", id="s2"), result("a", id="s2"), result("a", id="s1")])
    assert pairs(events)[2:] == [("tool_result", "a~2", False), ("tool_result", "a", False)]


def test_a_result_before_its_call_is_not_made_its_answer():
    assert pairs(settled([result("a"), call("a")])) == [("tool_result", "a", True), ("tool_call", "a", False)]


def test_calls_without_an_id_are_named_after_their_event():
    events = settled([call("", id="s"), result("", id="s"), call(None), seen()])
    assert pairs(events[:3]) == [("tool_call", "s", False), ("tool_result", "s", False), ("tool_call", "e2", False)]


def test_an_id_twice_is_kept_as_an_attribute_and_one_that_is_missing_is_given():
    shared = {"x": 1}
    events = settled(
        [seen(id="o", attributes=shared), seen(id="o", attributes=shared), seen(), seen(id=""), seen(id="e2")]
    )
    assert [e["id"] for e in events] == ["o", "e1", "e2'", "e3", "e2"]
    assert events[1]["attributes"] == {"x": 1, "source_id": "o"}
    assert shared == {"x": 1}


def test_a_parent_is_an_event_or_a_call_of_the_log_or_outside():
    events = settled([seen(id="o", parent="gone"), seen(parent="o"), call("c"), seen(parent="c"), seen(parent="late")])
    assert events[4]["parent_outside"] is True
    late = settled([*events, seen(id="late")])
    assert [e.get("parent_outside") for e in late[:5]] == [True, None, None, None, None]


ids = st.sampled_from(["a", "b", "e0", "e1", "", None])
some = st.fixed_dictionaries({}, optional={"id": ids, "parent": st.sampled_from(["a", "b", "e1", "c"])})
kinds = st.sampled_from([call, result])
events_of_a_source = st.lists(
    st.one_of(
        st.builds(lambda make, call_id, more: make(call_id, **more), kinds, ids, some),
        st.builds(lambda more: seen(**more), some),
    ),
    max_size=8,
)


@given(events_of_a_source)
def test_every_source_becomes_a_log_that_says_the_same_and_settling_again_changes_nothing(events):
    before = copy.deepcopy(events)
    log = EventLog.from_stored({"events": settled(events)})
    assert [(e["kind"], e.get("content"), e.get("arguments")) for e in log] == [
        (e["kind"], e.get("content"), e.get("arguments")) for e in before
    ]
    once = copy.deepcopy(events)
    assert settled(events) == once
