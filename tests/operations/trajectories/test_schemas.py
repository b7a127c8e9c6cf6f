"""Schemas out of traces are held to arguments in time that their size bounds, whatever is in them."""

import pytest

from operations.trajectories.detectors import Episode, malformed_call, schemas
from operations.trajectories.detectors.schemas import Schemas, TooMuchToCheck
from operations.trajectories.metrics.registry import measured
from tests.support.logs import a_log, call, result, say, user

ENDLESS = {"$defs": {"x": {"anyOf": [{"$ref": "#/$defs/x"}] * 10, "required": ["f"]}}, "$ref": "#/$defs/x"}


def problem(arguments, schema):
    return Schemas({"t": schema}).problem("t", arguments)


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ({"properties": {"a": {"$ref": "other.json#/a"}}, "type": "object", "x": {}}, None),
        ({"required": [{}, ["b"], 5, None, "b"]}, "b is missing"),
        ({"type": {"a": 1}, "enum": 5, "properties": [], "items": 7, "anyOf": {}, "$ref": ["#/x"]}, None),
        ({"properties": {"a": {"pattern": "(1+)+$"}}}, None),
    ],
)
def test_a_schema_that_is_none_in_parts_is_held_to_arguments_as_far_as_it_is_one(schema, found):
    assert problem({"a": 1}, schema) == found


@pytest.mark.parametrize("key", ["allOf", "anyOf"])
def test_a_schema_that_unfolds_without_end_is_given_up(key):
    steps = {f"s{n}": {key: [{"$ref": f"#/s{n + 1}"}] * 10} for n in range(9)}
    last = {"type": "object" if key == "allOf" else "string"}
    with pytest.raises(TooMuchToCheck):
        problem({"a": 1}, {"$ref": "#/s0", **steps, "s9": last})


def test_fields_lists_and_what_is_left_over_are_held_to_their_parts():
    schema = {"properties": {"a": {"items": {"$ref": "#/$defs/n"}}}, "additionalProperties": {"type": "string"},
              "$defs": {"n": {"type": "integer", "minimum": 1}}}  # fmt: skip
    assert problem({"a": [1, 2], "b": "x"}, schema) is None
    assert problem({"a": [1, 0]}, schema) == "a.1 is below 1"
    assert problem({"a": [1, "x"]}, schema) == "a.1 is string, not integer"
    assert problem({"b": 5}, schema) == "b is number, not string"
    assert problem({"b": 5}, {**schema, "additionalProperties": False}) == "b is no field of it"


def test_tools_of_a_hostile_trace_stop_neither_rules_nor_metrics():
    given = ["[" * 5000, "{", 5, None, {"name": ["x"]}, {"name": "find", "parameters": {"required": [{}]}}]
    log = a_log(user("go"), call("c", attributes={"tools": given}), result("c"), say("done"))
    assert malformed_call.DETECTOR(Episode(log)).status == "clean"
    assert measured(log, names=["valid_argument_rate"])["valid_argument_rate"].value == 1.0


def test_a_schema_that_names_itself_is_held_to_what_is_there():
    one = {"anyOf": [{"type": "string"}, {"items": {"$ref": "#/$defs/x"}, "type": "array"}, {"$ref": "#/$defs/not"}]}
    nested = {"$defs": {"x": one, "not": {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}}}}
    log = a_log(call("c", "find", arguments={"q": [["x"], {"a": ["y"]}]}), result("c"), say("done"))
    tools = {"find": {**nested, "type": "object", "properties": {"q": {"$ref": "#/$defs/x"}}}}
    assert measured(log, tools=tools, names=["valid_argument_rate"])["valid_argument_rate"].value == 1.0
    assert malformed_call.DETECTOR(Episode(log, tools=tools)).status == "clean"


def test_a_schema_that_names_itself_as_a_whole_is_held_to_what_is_within():
    tree = {"type": "object", "properties": {"inside": {"items": {"$ref": "#"}}}, "required": ["n"]}
    assert problem({"n": 1, "inside": [{"n": 2}, {"n": 3, "inside": [{}]}]}, tree) == "inside.1.inside.0.n is missing"
    assert problem({"n": 1, "inside": [{"n": 2}, {"n": 3, "inside": []}]}, tree) is None


def test_what_took_too_long_once_is_not_tried_again(monkeypatch):
    held = Schemas({"t": ENDLESS, "u": {"required": ["f"]}})
    for _ in range(2):
        with pytest.raises(TooMuchToCheck):
            held.problem("t", {})
        monkeypatch.setattr(schemas, "_problems", None)
    monkeypatch.undo()
    assert held.problem("u", {}) == "f is missing"


def test_all_calls_of_an_episode_together_have_a_bound(monkeypatch):
    monkeypatch.setattr(schemas, "STEPS_IN_ALL", 4)
    held = Schemas({"t": {"required": ["f"]}, "u": {}})
    assert [held.problem("t", {"f": 1}) for _ in range(4)] == [None] * 4
    with pytest.raises(TooMuchToCheck):
        held.problem("u", {})
