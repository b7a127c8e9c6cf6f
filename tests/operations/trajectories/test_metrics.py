"""Metrics are what their formulas say, obey their laws, and are unknown where something is missing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operations.trajectories import EventLog
from operations.trajectories.metrics.metric import Measurement
from operations.trajectories.metrics.registry import METRICS, NoSuchMetric, measured
from operations.trajectories.metrics.sequences import CELLS, distance

FIND = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
SHARES = [name for name, metric in METRICS.items() if "share" in metric.unit]
UNKNOWN_OF_NOTHING = Measurement(None, "no tool was called")


def content(value):
    return {"status": "value", "value": value}


def log_of(*calls, answer="done", tools=None):
    """Returns a log of calls (tool, arguments, result or error), one after the other, and an answer."""
    log = EventLog(tools)
    for n, (tool, arguments, result) in enumerate(calls):
        status = "unparsable" if isinstance(arguments, str) else "value"
        log.append(
            {"kind": "tool_call", "call_id": f"c{n}", "name": tool}
            | {"arguments": {"status": status, "value": arguments}, "turn": 0}
        )
        if result is None:
            continue
        said = {"kind": "tool_result", "call_id": f"c{n}", "content": {"status": "null"}, "turn": 0}
        if isinstance(result, Exception):
            said |= {"error": {"kind": "tool", "message": str(result)}}
        else:
            said |= {"content": content(result)}
        log.append(said)
    if answer is not None:
        log.append({"kind": "text", "role": "assistant", "content": content(answer), "turn": 0})
    log.end("completed")
    return log


def test_every_metric_of_one_episode():
    log = EventLog({"find": {"parameters": FIND}, "read": {}})
    log.append({"kind": "text", "role": "user", "content": content("q"), "turn": 0, "at": "2026-01-01T00:00:00Z"})
    log.append({"kind": "reasoning", "content": content("hm"), "turn": 0})
    for n, (tool, arguments) in enumerate(
        [("find", {"q": "a"}), ("find", {"q": "a"}), ("find", {"p": "a"}), ("reed", {})]
    ):
        call = {"kind": "tool_call", "call_id": f"c{n}", "name": tool, "arguments": content(arguments)}
        log.append(call | {"group": "g", "turn": 0})
    for n, result in enumerate(["x", "x"]):
        log.append({"kind": "tool_result", "call_id": f"c{n}", "content": content(result), "turn": 0})
    error = {"kind": "tool", "message": "no p"}
    log.append({"kind": "tool_result", "call_id": "c2", "content": {"status": "null"}, "error": error, "turn": 0})
    log.append({"kind": "text", "role": "assistant", "content": content("done"), "turn": 1})
    usage = {"usage": {"input_tokens": 10, "output_tokens": 4}}
    log.append({"kind": "turn_complete", "turn": 1, "at": "2026-01-01T00:00:02.5Z", **usage})
    log.append({"kind": "reward", "name": "r", "scope": "episode", "value": 0.5})
    log.end("completed")
    written = 2 + len('{"q":"a"}') * 2 + len('{"p":"a"}') + len("{}") + 4
    assert measured(log, reference=["find", "read"]) == {
        "valid_argument_rate": Measurement(2 / 3, of=3),
        "unknown_tool_rate": Measurement(1 / 4, of=4),
        "duplicate_call_rate": Measurement(1 / 4, of=4),
        "repeated_output_rate": Measurement(1 / 2, of=2),
        "failed_call_rate": Measurement(1 / 3, of=3),
        "error_recovery_rate": Measurement(0.0, of=1),
        "unanswered_call_rate": Measurement(1 / 4, of=4),
        "tool_calls": Measurement(4),
        "tool_sequence_distance": Measurement(3),
        "tool_sequence_similarity": Measurement(1 / 4, of=4),
        "steps_to_answer": Measurement(2),
        "turns": Measurement(2),
        "reasoning_share": Measurement(2 / written, of=written),
        "input_tokens": Measurement(10.0),
        "output_tokens": Measurement(4.0),
        "cost": Measurement(None, "the source does not state it for the whole episode"),
        "duration_seconds": Measurement(2.5),
        "episode_reward": Measurement(0.5),
    }


def test_of_nothing_every_metric_is_unknown_and_says_why():
    found = measured(EventLog())
    assert {name for name, one in found.items() if one.value is not None or not one.unknown} == set()
    assert found.keys() == METRICS.keys()


@pytest.mark.parametrize(
    ("name", "why", "log"),
    [
        ("valid_argument_rate", "of no call both arguments and schema are known", log_of(("find", {}, "x"))),
        ("unknown_tool_rate", "the tools that the agent had are not known", log_of(("find", {}, "x"))),
        ("error_recovery_rate", "no call failed", log_of(("find", {}, "x"))),
        ("tool_sequence_distance", "no reference was given", log_of(("find", {}, "x"))),
        ("steps_to_answer", "no text of the agent follows the last call", log_of(("find", {}, "x"), answer=None)),
        ("reasoning_share", "no reasoning is in the log, which need not mean that there was none", log_of()),
        ("episode_reward", "the log has 0 rewards for the episode, not one", log_of()),
    ],
)
def test_a_missing_input_makes_a_metric_unknown(name, why, log):
    assert measured(log, names=[name]) == {name: Measurement(None, why)}


def test_arguments_that_were_no_json_are_wrong_whether_or_not_a_schema_is_known():
    log = log_of(("find", "{", "x"), ("find", {"q": "a"}, "y"))
    rate = ["valid_argument_rate"]
    assert measured(log, names=rate)["valid_argument_rate"] == Measurement(0.0, of=1)
    assert measured(log, names=rate, tools={"find": FIND})["valid_argument_rate"] == Measurement(0.5, of=2)


@pytest.mark.parametrize(
    ("arguments", "share"),
    [
        ({"status": "value", "value": '{"q": "x"}'}, 1.0),
        ({"status": "value", "value": '{"q": 5}'}, 0.0),
        ({"status": "value", "value": "x"}, 0.0),
        ({"status": "empty"}, 0.0),
    ],
)
def test_arguments_that_are_the_text_of_an_object_are_held_to_the_schema_as_that(arguments, share):
    log = EventLog()
    log.append({"kind": "tool_call", "call_id": "c", "name": "find", "arguments": arguments})
    assert measured(log, tools={"find": FIND})["valid_argument_rate"] == Measurement(share, of=1)
    fits = measured(log, tools={"find": {"type": "object"}})["valid_argument_rate"].value
    assert fits == (0.0 if arguments.get("value") == "x" else 1.0)


def test_a_schema_of_a_hostile_trace_that_unfolds_without_end_is_as_if_it_were_not_known():
    endless = {"$defs": {"x": {"anyOf": [{"$ref": "#/$defs/x"}] * 10, "required": ["z"]}}, "$ref": "#/$defs/x"}
    tree = {"type": "object", "properties": {"left": {"$ref": "#"}, "children": {"items": {"$ref": "#/$defs/n"}}}}
    tree["$defs"] = {"n": {"required": ["n"], "properties": {"children": {"items": {"$ref": "#/$defs/n"}}}}}
    log = log_of(("find", {"a": 1}, "x"), ("read", {"children": [{"n": 1, "children": [{}]}]}, "x"))
    found = measured(log, tools={"find": endless, "read": tree}, names=["valid_argument_rate"])
    assert found == {"valid_argument_rate": Measurement(0.0, of=1)}


def test_a_failure_is_recovered_from_by_a_later_success_of_the_same_tool_only():
    failed = ("find", {"q": "a"}, ValueError("no"))
    for calls, value in (
        ([failed, ("find", {"q": "b"}, "x")], 1.0),
        ([failed, ("read", {}, "x")], 0.0),
        ([("find", {"q": "b"}, "x"), failed], 0.0),
        ([failed, failed, ("find", {"q": "b"}, "x"), failed], 2 / 3),
    ):
        assert measured(log_of(*calls), names=["error_recovery_rate"])["error_recovery_rate"].value == value


def test_a_call_that_was_made_before_the_failure_was_known_is_no_recovery():
    log = EventLog()
    for call_id in "ab":
        log.append({"kind": "tool_call", "call_id": call_id, "name": "find", "arguments": content({}), "group": "g"})
    error = {"kind": "timeout"}
    log.append({"kind": "tool_result", "call_id": "a", "content": {"status": "null"}, "error": error})
    log.append({"kind": "tool_result", "call_id": "b", "content": content("x")})
    assert measured(log)["error_recovery_rate"] == Measurement(0.0, of=1)


def test_steps_count_what_was_written_between_what_was_given():
    one = ("find", {}, "x")
    for calls, steps in (([], 1), ([one], 2), ([one, one], 3)):
        assert measured(log_of(*calls))["steps_to_answer"].value == steps


@pytest.mark.parametrize(("group", "steps"), [({"group": "g"}, 2), ({}, 3)])
def test_calls_of_one_group_are_one_step_though_results_stand_between_them(group, steps):
    log = EventLog()
    for call_id in "ab":
        call = {"kind": "tool_call", "call_id": call_id, "name": "find", "arguments": content({})}
        log.append(call | group)
        log.append({"kind": "tool_result", "call_id": call_id, "content": content("x")})
    log.append({"kind": "text", "role": "assistant", "content": content("done")})
    assert measured(log)["steps_to_answer"].value == steps


def test_reasoning_that_cannot_be_read_makes_its_share_unknown():
    log = EventLog()
    log.append({"kind": "reasoning", "content": content("x"), "opaque": True})
    assert measured(log)["reasoning_share"].unknown == "the reasoning of event 0 cannot be read"


def test_stated_figures_of_the_episode_win_over_those_of_turns_and_some_turns_are_not_all():
    log = EventLog()
    log.append({"kind": "turn_complete", "usage": {"output_tokens": 3}})
    assert measured(log, stated={"output_tokens": 5})["output_tokens"] == Measurement(5.0)
    log.append({"kind": "turn_complete"})
    assert measured(log)["output_tokens"].value is None


@pytest.mark.parametrize("count", [1e308, 10**308], ids=["a fraction", "a whole number"])
def test_figures_that_add_up_to_no_finite_number_are_unknown(count):
    log = EventLog()
    for _ in range(2):
        log.append({"kind": "turn_complete", "usage": {"input_tokens": count}})
    found = measured(log, names=["input_tokens"])["input_tokens"]
    assert (found.value, found.unknown) == (None, "what is stated is no finite number")


def test_too_many_calls_to_compare_are_unknown_and_not_slow():
    log = log_of(*[("a", {}, "x")] * 1001)
    found = measured(log, reference=["b"] * (CELLS // 1000), names=["tool_sequence_distance"])
    assert found["tool_sequence_distance"].unknown == "1001 calls and a reference of 1000 are too many to compare"


def test_a_metric_that_there_is_not_is_refused_with_those_that_there_are():
    with pytest.raises(NoSuchMetric, match="no metric 'speed'; there are valid_argument_rate, unknown_tool_rate"):
        measured(EventLog(), names=["speed"])


tools = st.sampled_from(["find", "read", "stop"])
results = st.sampled_from([None, "x", "y", ValueError("no")])
arguments = st.sampled_from([{}, {"q": "a"}, {"q": 1}, "{"])
logs = st.lists(st.tuples(tools, arguments, results), max_size=6)
sequences = st.lists(tools, max_size=6)


@given(logs)
def test_shares_lie_between_0_and_1_and_renaming_tools_changes_nothing(calls):
    schemas, reference = {"find": FIND, "read": None}, ["find", "stop"]
    renamed = [(f"{tool}'", *rest) for tool, *rest in calls]
    found = measured(log_of(*calls), tools=schemas, reference=reference)
    assert all(found[name].value is None or 0 <= found[name].value <= 1 for name in SHARES)
    again = measured(
        log_of(*renamed),
        tools={f"{name}'": schema for name, schema in schemas.items()},
        reference=[f"{name}'" for name in reference],
    )
    assert again == found


@given(logs, st.integers(2, 3))
def test_doing_everything_again_makes_every_later_call_a_duplicate(calls, times):
    names = ["duplicate_call_rate"]
    once = measured(log_of(*calls), names=names)["duplicate_call_rate"]
    again = measured(log_of(*calls * times), names=names)["duplicate_call_rate"]
    if once.value is None:
        assert again.value is None
    else:
        distinct = once.of - round(once.value * once.of)
        assert again == Measurement((times * once.of - distinct) / (times * once.of), of=times * once.of)


@given(sequences, sequences, sequences)
def test_the_distance_of_sequences_is_one(left, middle, right):
    assert (distance(left, right) == 0) == (left == right)
    assert distance(left, right) == distance(right, left)
    assert distance(left, right) <= distance(left, middle) + distance(middle, right)
    assert abs(len(left) - len(right)) <= distance(left, right) <= max(len(left), len(right))
