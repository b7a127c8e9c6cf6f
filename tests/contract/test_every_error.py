"""What holds for every error that ATK raises on purpose."""

import string
from dataclasses import MISSING, fields, is_dataclass

import pytest

from atk_mcp.reference import all_errors, code, summary
from operations.registry import all_operations

ERRORS = sorted(all_errors(), key=lambda error: (error.__module__, error.__name__))
every_error = pytest.mark.parametrize("error", ERRORS, ids=[error.__name__ for error in ERRORS])

GENERAL = {"arguments"}
"""Names in `supply` that stand for the whole call instead of one argument."""


def names_in(template):
    return {name.partition(".")[0].partition("[")[0] for _, name, _, _ in string.Formatter().parse(template) if name}


def facts_of(error):
    return {field.name for field in fields(error)} if is_dataclass(error) else set()


@every_error
def test_what_leads_on_is_a_tool_that_exists_with_arguments_it_has(error):
    for call in error.next_calls:
        if names_in(call.tool):
            continue  # the tool is one of the error's facts
        assert call.tool in all_operations(), f"{error.__name__} leads on to {call.tool}"
        known = set(all_operations()[call.tool].request.model_fields)
        assert set(call.arguments) <= known, f"{call.tool} takes {sorted(known)}"
        assert set(call.supply) <= known | GENERAL, f"{call.tool} takes {sorted(known)}"


@every_error
def test_message_and_next_use_only_facts_that_the_error_has(error):
    used = names_in(error.message)
    for call in error.next_calls:
        used |= names_in(call.tool)
        for value in (*call.arguments.values(), *call.supply.values()):
            used |= names_in(value) if isinstance(value, str) else set()
    assert used <= facts_of(error)


@every_error
def test_an_error_is_explained_and_words_itself_as_a_sentence(error):
    assert summary(error)
    assert error.__doc__ != (error.__mro__[1].__doc__ or "")
    assert error.message.strip()[-1:] in {".", "!", "?", "}"}


@every_error
def test_facts_are_given_by_name(error):
    if is_dataclass(error):
        assert all(field.kw_only or field.default is not MISSING for field in fields(error))


def test_no_two_errors_share_a_code():
    codes = [code(error) for error in ERRORS]
    assert sorted({x for x in codes if codes.count(x) > 1}) == []
