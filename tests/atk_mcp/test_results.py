"""What a client is shown of a response, a refusal and a crash."""

import json

import pytest
from mcp.types import CallToolResult

from atk_mcp import results
from operations.definition import NextStep
from tests.atk_mcp.toys import CasesMissing, StatusResponse, StoreResponse


def test_a_response_puts_its_message_first_and_what_leads_on_last():
    response = StoreResponse(
        message="Stored.",
        dataset_id="dataset-1",
        echo={"a": None},
        journal_record=3,
        next=[NextStep(tool="get_status")],
    )
    result = results.of_response(response)
    assert list(result["structuredContent"]) == ["message", "dataset_id", "echo", "journal_record", "next"]
    assert result["structuredContent"]["echo"] == {"a": None}
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    assert not CallToolResult.model_validate(result).is_error


def test_a_lone_surrogate_and_an_infinite_number_become_valid_json():
    response = StoreResponse(message="Odd \udcff name.", dataset_id="d", echo={"x": float("inf"), "y": "\ud800"})
    text = results.of_response(response)["content"][0]["text"]
    assert json.loads(text.encode())["echo"] == {"x": None, "y": "?"}


def test_a_response_that_is_too_long_is_cut_below_the_limit():
    response = StatusResponse(message="Many.", lines=[f"line {i}" for i in range(5000)], next=[NextStep(tool="a")])
    result = results.of_response(response)
    assert len(result["content"][0]["text"].encode()) <= results.LIMIT
    assert result["structuredContent"]["truncated"]["lines"].endswith("items left out")
    assert list(result["structuredContent"])[-1] == "next"


def test_a_response_that_is_too_long_is_loud_where_that_is_asked_for():
    with pytest.raises(results.OversizedResult, match="StatusResponse takes"):
        results.of_response(StatusResponse(message="Many.", lines=["x" * 100] * 100), strict=True)


def test_a_refusal_says_its_code_its_facts_and_the_next_call():
    result = results.of_error(CasesMissing(dataset_id="dataset-9"))
    assert result == {
        "content": [
            {
                "type": "text",
                "text": "Error [cases_missing] There are no Cases in dataset-9: give at least 1. "
                'Next: get_status; or store_dataset with name="dataset-9" (you supply cases: the tasks).',
            }
        ],
        "structuredContent": {
            "code": "cases_missing",
            "message": "There are no Cases in dataset-9: give at least 1.",
            "facts": {"dataset_id": "dataset-9"},
            "next": [
                {"tool": "get_status", "arguments": {}},
                {"tool": "store_dataset", "arguments": {"name": "dataset-9"}, "supply": {"cases": "the tasks"}},
            ],
        },
        "isError": True,
    }


def test_a_refusal_with_a_huge_fact_stays_readable():
    result = results.of_error(CasesMissing(dataset_id="x" * 100_000))
    assert len(json.dumps(result["structuredContent"])) <= results.LIMIT
    assert len(result["content"][0]["text"]) <= results.LIMIT
    assert result["structuredContent"]["code"] == "cases_missing"


def test_a_crash_shows_its_incident_and_nothing_of_the_stack():
    structure = results.of_incident("incident-0a1b2c3d", "store_dataset")["structuredContent"]
    assert structure["code"] == "internal_error"
    assert structure["facts"] == {"incident_id": "incident-0a1b2c3d", "operation": "store_dataset"}
    assert structure["next"] == [{"tool": "get_status", "arguments": {}}]


def test_letters_that_only_a_model_would_read_are_shown():
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "keep")
    response = StoreResponse(
        message="Stored.", dataset_id="d", echo={"x": f"fine{hidden}", f"k\u202e{hidden}": "é\u200d"}
    )
    told = results.of_response(response)["structuredContent"]["echo"]
    shown = "{U+E006B}{U+E0065}{U+E0065}{U+E0070}"
    assert told == {"x": f"fine{shown}", f"k{{U+202E}}{shown}": "é\u200d"}


def test_the_text_of_a_refusal_keeps_to_its_limit_in_bytes_in_every_script():
    refused = results.of_error(CasesMissing(dataset_id="退" * 5_000))
    (part,) = refused["content"]
    assert len(part["text"].encode()) <= results.LIMIT
    assert part["text"].startswith("Error [cases_missing] There are no Cases in 退")
