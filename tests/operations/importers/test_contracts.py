"""A contract's check says what was agreed and what is found, and changes nothing on the way."""

import pytest

from operations.importers.contracts import ContractCheck
from storage.projection import State
from storage.schema.contracts import ContractField, SourceContract


def check(*fields, version="1", asked="1"):
    contract = SourceContract(
        id="contract-3-abcd",
        source_namespace="ns",
        version=version,
        fields=tuple(ContractField.model_validate({"meaning": "m", **one}) for one in fields),
        digest="0" * 64,
        created_at="2026-01-01T00:00:00Z",
    )
    told = []
    state = State(objects={"contract": {contract.id: contract}})
    return ContractCheck(state, "ns", asked, told), told


def record(**more):
    return {
        "input": {"status": "value", "value": "q"},
        "output": {"status": "not_exported"},
        "source": {"namespace": "ns", "trace_id": "t"},
        "log": {"events": []},
        "at_text": "2026-01-01T00:00:00Z",
        "metrics": {"latency": 2.5},
        "runtime_metadata": {"region": "north", "n": {"deep": 3}},
        "scores": [{"name": "quality", "status": "value", "value": 0.5}],
        **more,
    }


@pytest.mark.parametrize(
    ("field", "sentence"),
    [
        ({"field": "input", "required": True, "type": "text"}, None),
        ({"field": "input", "type": "object"}, "input: expected object, found text in 2"),
        ({"field": "output"}, None),
        ({"field": "output", "required": True}, "output: expected in every Record, found in 0 of 2"),
        ({"field": "expected", "required": True}, "expected: expected in every Record, found in 0 of 2"),
        ({"field": "trace_id", "required": True}, None),
        ({"field": "session_id", "required": True}, "session_id: expected in every Record, found in 0 of 2"),
        ({"field": "at", "type": "time"}, None),
        ({"field": "metadata.region", "type": "time"}, "metadata.region: expected time, found text in 2"),
        ({"field": "metadata.region", "values": ["north", "south"]}, None),
        (
            {"field": "metadata.region", "values": ["east"]},
            "metadata.region: expected one of east, found 2 beside them, such as north",
        ),
        ({"field": "metadata.n.deep", "type": "number", "min": 3, "max": 3}, None),
        (
            {"field": "metrics.latency", "unit": "s", "max": 2},
            "metrics.latency: expected at most 2 s, found 2 beyond, such as 2.5",
        ),
        (
            {"field": "metrics.latency", "min": 3},
            "metrics.latency: expected at least 3, found 2 beyond, such as 2.5",
        ),
        (
            {"field": "scores.quality", "min": 1, "max": 5},
            "scores.quality: expected 1 to 5, found 2 beyond, such as 0.5",
        ),
        ({"field": "scores.quality", "type": "number", "required": True}, None),
        ({"field": "scores.other", "required": True}, "scores.other: expected in every Record, found in 0 of 2"),
        ({"field": "tags", "type": "list"}, None),
    ],
)
def test_what_is_not_kept_is_named_with_what_is_found(field, sentence):
    watched, told = check(field)
    records = [record(), record()]
    assert list(watched.over(records)) == records
    assert told == ([f"contract-3-abcd {sentence}"] if sentence else [])


def test_a_version_without_a_contract_is_told_where_the_source_has_others():
    watched, told = check({"field": "input"}, version="1", asked="2")
    assert list(watched.over([record()])) == [record()]
    assert told == ["no contract of this source says what mapping_version 2 means"]
    unnamed, told = check({"field": "input"}, asked=None)
    list(unnamed.over([record()]))
    assert told == []


def test_what_is_beyond_the_bounds_is_no_example_of_what_is_none_of_the_values():
    contract, told = check({"field": "metrics.latency", "values": ["1", "2"], "max": 3})
    list(contract.over([record(metrics={"latency": found}) for found in (1, 9, 2.5)]))
    assert [said.partition("latency: ")[2] for said in told] == [
        "expected at most 3, found 1 beyond, such as 9",
        "expected one of 1, 2, found 1 beside them, such as 2.5",
    ]
