"""Placeholders are replaced, other braces stay, and a misspelt name is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operations.execution.command import (
    PLACEHOLDERS,
    CommandNotAList,
    NulInCommand,
    UnknownPlaceholder,
    as_argument,
    check_template,
    expand,
)

VALUES = {name: f"<{name}>" for name in PLACEHOLDERS}


@pytest.mark.parametrize(
    ("template", "expanded"),
    [
        ("{input}", "<input>"),
        ("--in={input_file}:{case_id}", "--in=<input_file>:<case_id>"),
        ('{"a":{"b":{"c":1}}}', '{"a":{"b":{"c":1}}}'),
        ('{"q":{input}}', '{"q":<input>}'),
        ('{{"q":{input}}}', '{"q":<input>}'),
        ("{{input}}", "{input}"),
        ("{{{input}}}", "{<input>}"),
        ("${{HOME}}", "${HOME}"),
        ("{} {0} { input } {case-id} { }", "{} {0} { input } {case-id} { }"),
        ("}}", "}}"),
        ("{", "{"),
        ("}{", "}{"),
        ("100%", "100%"),
    ],
)
def test_braces_are_placeholders_escapes_or_text(template, expanded):
    check_template(["agent", template])
    assert expand([template], VALUES) == [expanded]


def test_a_value_is_not_searched_for_placeholders():
    assert expand(["{input}"], {**VALUES, "input": "{case_id} {{x}}"}) == ["{case_id} {{x}}"]


@given(
    st.recursive(
        st.none() | st.integers() | st.text("ab{} "), lambda x: st.lists(x) | st.dictionaries(st.text("xy "), x)
    )
)
def test_a_json_argument_without_doubled_opening_braces_or_names_stays_as_it_is(value):
    text = json.dumps(value)
    try:
        check_template(["agent", text])
    except UnknownPlaceholder:
        return
    if "{{" not in text:
        assert expand([text], VALUES) == [text]


def test_a_misspelt_placeholder_is_refused_with_the_closest_name():
    with pytest.raises(UnknownPlaceholder) as raised:
        check_template(["agent", "-i", "{inptu}"])
    assert raised.value.facts == {"name": "inptu", "position": 2, "closest": "input", "allowed": list(PLACEHOLDERS)}
    assert "{inptu}" in str(raised.value)
    assert "{{inptu}}" in str(raised.value)
    assert raised.value.next[0].tool == "initialize_project"


def test_a_nul_is_refused_with_its_position():
    with pytest.raises(NulInCommand) as raised:
        check_template(["agent", "a\0b"])
    assert raised.value.facts == {"position": 1}


@pytest.mark.parametrize("command", ["agent {input}", [], None, ["agent", 3], [""], [" "], {"program": "agent"}])
def test_only_a_list_of_strings_with_a_program_is_a_command(command):
    with pytest.raises(CommandNotAList) as raised:
        check_template(command)
    assert "list of strings" in str(raised.value)


def test_a_command_that_cannot_tell_cases_apart_is_allowed_with_a_warning():
    assert len(check_template(["agent", "{output_dir}"])) == 1
    assert check_template(["agent", "{case_id}"]) == ()


def test_an_input_is_given_as_text_or_as_compact_json():
    assert as_argument("ü {x}") == "ü {x}"
    assert as_argument({"b": [1, None, "ü"]}) == '{"b":[1,null,"ü"]}'
    assert as_argument(None) == "null"
