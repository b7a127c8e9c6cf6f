"""What holds for every operation, whoever writes the next one."""

import json

import pytest
from jsonschema import Draft202012Validator

from atk_mcp import reference, snapshot
from operations.definition import Effect
from operations.registry import all_operations
from tests.contract.codex_schema import BUDGET, OURS, sanitised, size

every_operation = pytest.mark.parametrize("operation", all_operations().values(), ids=list(all_operations()))


def nodes(schema, path=""):
    """Yields every schema inside `schema` with its path."""
    yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from nodes(part, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], f"{path}.{key}")
    for number, part in enumerate(schema.get("anyOf", ())):
        yield from nodes(part, f"{path}|{number}")


def test_the_tools_on_record_are_those_the_operations_give():
    """What agents rely on changes only on purpose: run scripts/generate and review the diff."""
    assert snapshot.load() == snapshot.tools(all_operations())


def test_the_snapshot_is_written_the_same_way_every_time():
    with open(snapshot.PATH, "rb") as file:
        assert file.read() == snapshot.render(all_operations())


def test_the_reference_pages_are_current():
    assert reference.stale() == []


@every_operation
def test_the_input_schema_stays_whole_on_its_way_to_a_model(operation):
    schema = snapshot.tool(operation)["inputSchema"]
    assert size(schema) <= BUDGET
    assert size(sanitised(schema)) < OURS


@every_operation
def test_both_schemas_are_flat_objects_that_every_client_takes(operation):
    tool = snapshot.tool(operation)
    for schema in (tool["inputSchema"], tool["outputSchema"]):
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert not {"anyOf", "oneOf", "allOf", "enum", "not"} & set(schema)
        text = json.dumps(schema)
        for absent in ('"$ref"', '"$defs"', '"prefixItems"', '"const"', '"discriminator"'):
            assert absent not in text
        for path, node in nodes(schema):
            assert node, f"{operation.name}{path} says nothing of its type"
            assert isinstance(node.get("type", ""), str), f"{operation.name}{path} has several types"


@every_operation
def test_every_field_of_a_request_is_described(operation):
    properties = snapshot.whole(operation)["inputSchema"].get("properties", {})
    assert [name for name, part in properties.items() if not part.get("description")] == []


@every_operation
def test_all_annotations_are_said_and_follow_from_the_effect(operation):
    shown = snapshot.tool(operation)["annotations"]
    assert all(isinstance(value, bool) for value in shown.values())
    said = shown["readOnlyHint"], shown["destructiveHint"], shown["openWorldHint"]
    assert (
        said
        == {
            Effect.READ: (True, False, False),
            Effect.STORE: (False, False, False),
            Effect.WORKTREE: (False, True, False),
            Effect.RUN: (False, False, True),
        }[operation.effect]
    )
    assert shown["idempotentHint"] is operation.idempotent


@every_operation
def test_the_description_says_in_one_line_what_the_tool_does(operation):
    assert len(operation.summary) <= 116
    assert operation.summary.endswith((".", ":"))
    assert len(operation.description) <= 1_500


@every_operation
def test_an_operation_that_changes_something_names_its_refusals_and_shows_a_call(operation):
    if operation.effect is not Effect.READ:
        assert operation.raises
        assert operation.examples


@every_operation
def test_examples_fit_the_model_and_the_published_schema(operation):
    schema = Draft202012Validator(snapshot.tool(operation)["inputSchema"])
    for example in operation.examples:
        operation.request.model_validate_json(json.dumps(dict(example.arguments)))
        schema.validate(json.loads(json.dumps(dict(example.arguments))))


@every_operation
def test_the_name_can_be_shown_by_every_client(operation):
    assert operation.name.isidentifier()
    assert operation.name == operation.name.lower()
    assert len(operation.name) <= 40
