"""What a person is told about an operation."""

import json

import pytest

from atk_mcp import snapshot
from atk_mcp.describing import described, fields_of
from operations.registry import all_operations
from tests.atk_mcp import toys


def test_fields_are_listed_with_their_type_and_whether_they_are_needed():
    schema = {
        "properties": {
            "usage": {"type": "string", "enum": ["a", "b"], "description": "What for."},
            "cases": {"type": "array", "items": {"type": "object"}},
        },
        "required": ["cases"],
    }
    assert list(fields_of(schema)) == ["  usage (a | b): What for.", "  cases (list of object, required)"]


def test_parts_are_listed_below_their_field_also_those_of_items_and_of_any_name():
    part = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
    schema = {
        "properties": {
            "parts": {"type": "array", "items": part},
            "rules": {"type": "object", "additionalProperties": {"type": "string", "description": "A rule."}},
            "by_name": {"type": "object", "additionalProperties": part},
        }
    }
    assert list(fields_of(schema)) == [
        "  parts (list of object)",
        "      title (string, required)",
        "  rules (object)",
        "      (any name) (string): A rule.",
        "  by_name (object)",
        "      (any name) (object)",
        "          title (string, required)",
    ]


def test_an_operation_is_told_with_its_annotations_parts_answer_and_examples():
    operation = toys.OPERATIONS["store_dataset"]
    assert described(snapshot.whole(operation), operation.examples).splitlines()[2:] == [
        "Stores Cases.",
        "",
        "Annotations:",
        "  changes nothing: no",
        "  may change files of the working tree: no",
        "  the same call again changes nothing more: no",
        "  starts the agent: no",
        "",
        "Fields of the request:",
        "  project_path (string): Default: the working folder.",
        f"  request_id (string): {toys.WriteRequest.model_fields['request_id'].description} (1 to 128 characters)",
        "  cases (list of object, required): The Cases.",
        "  usage (optimization | protection): What they are for. (default optimization)",
        "  parts (list of object): The plan. (at most 3 items)",
        "      title (string, required): The part's heading. (1 to 80 characters)",
        "      weight (number): Its share. (more than 0)",
        "  expected (string or number or boolean or object or list): Any answer.",
        "",
        "The answer, in short:",
        "  message (string): What happened, in a sentence.",
        "  journal_record (integer): The journal record that holds this.",
        "  warnings (list of string)",
        "  next (list of object)",
        "  dataset_id (string)",
        "  echo (object)",
        "",
        "Example: One",
        "",
        "  {}",
        "",
        "Run it: atk call store_dataset --request FILE   (- reads stdin; '{…}' is taken as the JSON itself)",
    ]


@pytest.mark.parametrize("tool", snapshot.load(), ids=lambda tool: tool["name"])
def test_every_example_is_shown_as_json_that_the_operation_takes(tool):
    operation = all_operations()[tool["name"]]
    told = described(snapshot.whole(operation), operation.examples)
    assert ("stays until the run has ended" in told) == ("wait_seconds" in tool["inputSchema"]["properties"])
    shown = told.partition("\nExample: ")[2].partition("\nRun it: ")[0]
    blocks = [block.partition("\n")[2] for block in shown.split("\nExample: ")] if shown else []
    assert [json.loads(block) for block in blocks] == [dict(example.arguments) for example in operation.examples]
    for block in blocks:
        operation.request.model_validate_json(block)
