"""The schemas that clients see."""

import json

from atk_mcp.schemas import input_schema, output_schema
from atk_mcp.trimming import published_input, published_output
from tests.atk_mcp.toys import StatusRequest, StoreRequest, StoreResponse

PROJECT = {"type": "string", "description": "Default: the working folder."}


def test_a_request_is_flat_closed_and_tells_its_limits_and_defaults():
    assert input_schema(StatusRequest) == {
        "type": "object",
        "properties": {
            "project_path": PROJECT,
            "length": {
                "type": "integer",
                "minimum": 0,
                "maximum": 100_000,
                "default": 2,
                "description": "How many lines to answer with. (0 to 100000; default 2)",
            },
        },
        "additionalProperties": False,
    }


def test_nested_models_stand_in_place_and_keep_a_field_called_title():
    parts = input_schema(StoreRequest)["properties"]["parts"]
    assert parts == {
        "type": "array",
        "items": {
            "type": "object",
            "description": "One part of a plan.",
            "properties": {
                "title": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 80,
                    "description": "The part's heading. (1 to 80 characters)",
                },
                "weight": {"type": "number", "exclusiveMinimum": 0, "description": "Its share. (more than 0)"},
            },
            "required": ["title"],
            "additionalProperties": False,
        },
        "maxItems": 3,
        "description": "The plan. (at most 3 items)",
    }


def test_a_free_form_value_names_what_it_may_be():
    expected = input_schema(StoreRequest)["properties"]["expected"]
    assert [x["type"] for x in expected["anyOf"]] == ["string", "number", "boolean", "object", "array"]
    assert expected["description"] == "Any answer."


def test_a_response_is_open_and_without_limits():
    schema = output_schema(StoreResponse)
    assert schema["required"] == ["message", "dataset_id", "echo"]
    assert schema["properties"]["journal_record"] == {
        "type": "integer",
        "description": "The journal record that holds this.",
    }
    assert "additionalProperties" not in schema
    assert "A call that leads on" not in json.dumps(schema)


def test_what_is_published_of_a_request_tells_its_limits_in_words_alone():
    published = published_input(input_schema(StatusRequest))
    assert published["properties"]["length"] == {
        "type": "integer",
        "description": "How many lines to answer with. (0 to 100000; default 2)",
    }
    parts = published_input(input_schema(StoreRequest))["properties"]["parts"]
    assert parts["items"]["properties"]["weight"] == {"type": "number", "description": "Its share. (more than 0)"}
    assert parts["items"]["required"] == ["title"]
    assert parts["items"]["additionalProperties"] is False


def test_a_field_called_like_a_keyword_is_published():
    schema = {"type": "object", "properties": {"default": {"type": "string"}, "format": {"type": "string"}}}
    assert published_input(schema) == schema


def test_what_is_published_of_a_response_are_its_own_fields_by_name():
    assert published_output(output_schema(StoreResponse)) == {
        "type": "object",
        "properties": {
            "dataset_id": {"type": "string"},
            "echo": {"type": "object"},
        },
        "required": ["dataset_id", "echo"],
    }
