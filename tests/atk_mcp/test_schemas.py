"""The schemas that clients see."""

import json

from atk_mcp import snapshot
from atk_mcp.schemas import input_schema, output_schema
from atk_mcp.trimming import BUDGET, published_description, published_input, published_output, tokens
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


def test_brief_words_leave_out_what_a_name_or_a_refusal_tells():
    described = input_schema(StoreRequest, brief=True)["properties"]
    assert described["parts"]["description"] == "The plan."
    assert "description" not in described["parts"]["items"]
    assert described["parts"]["items"]["properties"]["title"]["description"] == "The part's heading."
    assert described["parts"]["items"]["properties"]["weight"]["description"] == "Its share. (more than 0)"


def test_what_is_published_of_a_request_tells_its_limits_in_words_and_small_parts_in_one_line():
    published = published_input(input_schema(StatusRequest, brief=True))
    assert published == {
        "type": "object",
        "properties": {
            "project_path": {"type": "string"},
            "length": {
                "type": "integer",
                "description": "How many lines to answer with. (0 to 100000; default 2)",
            },
        },
        "additionalProperties": False,
    }
    parts = published_input(input_schema(StoreRequest, brief=True))["properties"]["parts"]
    assert parts == {
        "type": "array",
        "items": {"type": "object"},
        "description": "The plan. {title: The part's heading; weight?: Its share. (more than 0)}",
    }


def test_a_larger_part_keeps_its_fields_and_tells_its_own_parts_in_one_line():
    deepest = {"type": "object", "properties": {"id": {"type": "string"}, "n": {"type": "integer"}}, "required": ["id"]}
    fields = {name: {"type": "string", "enum": ["x", "y"]} for name in ("a", "b", "c", "d")}
    part = {"type": "object", "properties": {**fields, "refs": {"type": "array", "items": deepest}}, "required": ["a"]}
    assert published_input({"type": "object", "properties": {"part": part, "plan": part}})["properties"] == {
        "part": {
            "type": "object",
            "required": ["a"],
            "properties": {
                **fields,
                "refs": {"type": "array", "items": {"type": "object"}, "description": "{id; n?: integer}"},
            },
        },
        "plan": {
            "type": "object",
            "description": "{a: x | y; b?: x | y; c?: x | y; d?: x | y; refs?: [{id; n?: integer}]}",
        },
    }


def test_a_field_called_like_a_keyword_is_published():
    schema = {"type": "object", "properties": {"default": {"type": "string"}, "format": {"type": "string"}}}
    assert published_input(schema) == schema


def test_what_is_published_of_a_response_is_typed_where_the_next_step_depends_on_it_and_named_elsewhere():
    response = output_schema(StoreResponse)
    assert published_output(response) == {
        "type": "object",
        "properties": {"dataset_id": {"type": "string"}},
        "description": "Also: echo.",
    }
    assert published_output(response, ["echo"]) == {"type": "object", "properties": {"dataset_id": {"type": "string"}}}


def test_the_list_says_the_first_two_paragraphs_of_a_description():
    assert published_description("What it does.\n\nWhat to know\nbefore.\n\nHow.\n\nWhy.") == (
        "What it does.\n\nWhat to know\nbefore."
    )


def test_the_list_that_a_server_offers_by_default_is_within_its_budget_with_its_output_schemas():
    offered = snapshot.offer().tools
    assert all(tool["outputSchema"]["properties"] is not None for tool in offered)
    assert tokens(offered) <= BUDGET, "shorten what the list says, or put what no Round needs in a toolset of its own"
