"""What reaches a terminal."""

import json

import pytest

from atk_mcp.terminal import fields_of, in_words, neutralised


@pytest.mark.parametrize("character", ["\x00", "\x07", "\x1b", "\r", "\x7f", "\x9b", "\u202e", "\u2066", "\ud800"])
def test_a_character_that_acts_on_a_terminal_is_written_out(character):
    shown = neutralised(f"a{character}b\n\tc")
    assert character not in shown
    assert json.loads(f'"{shown[:-3]}"') == f"a{character}b"
    assert shown.endswith("b\n\tc")


def test_ordinary_text_of_any_script_stays():
    text = "退款 Größe עברית 👍"
    assert neutralised(text) == text


def test_an_answer_is_said_in_words():
    payload = {
        "message": "Two Cases.",
        "dataset_id": "dataset-1",
        "counts": {"cases": 2, "holdout": None},
        "cases": [{"id": "a", "passed": True}, {"id": "b", "passed": False}],
        "warnings": [],
        "next": [{"tool": "create_round", "arguments": {"dataset_id": "dataset-1"}, "supply": {"targets": "Cases"}}],
    }
    assert in_words(payload).splitlines() == [
        "Two Cases.",
        "dataset id: dataset-1",
        "counts:",
        "  cases: 2",
        "  holdout: nothing",
        "cases: 2",
        "  - id a, passed yes",
        "  - id b, passed no",
        "",
        "Next:",
        "  create_round with dataset_id dataset-1 (you supply targets: Cases)",
    ]


def test_fields_are_listed_with_their_type_and_whether_they_are_needed():
    schema = {
        "properties": {
            "usage": {"type": "string", "enum": ["a", "b"], "description": "What for."},
            "cases": {"type": "array", "items": {"type": "object"}},
        },
        "required": ["cases"],
    }
    assert fields_of(schema) == ["  usage (a | b): What for.", "  cases (list of object, required)"]
