"""The server's own judges: the same for everyone, and unknown rather than wrong."""

import json
import types
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

import operations.judges
from operations.discovery import find
from operations.judges._judge import Evidence, Judge, RuleSettings, judge
from operations.judges.contains import contains
from operations.judges.exact import exact
from storage.masking import Masker
from storage.schema.assessments import JudgeMethod

MASKER = Masker(b"k" * 32)
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def evidence(expected="yes", output="yes", status="completed", **more):
    return Evidence(**({"expected_present": True} | more), expected=expected, output=output, status=status)


def verdict(which, expected, output, settings=None, **more):
    return which.judge(evidence(expected, output, **more), MASKER, RuleSettings(**settings or {})).verdict


def test_each_judge_is_found_by_its_module():
    found = find(operations.judges, Judge)
    assert (found["contains"], found["exact"]) == (contains, exact)
    assert set(found) == set(get_args(JudgeMethod)) - {"client", "command"}
    assert exact.description.startswith("Passes when")


def test_rule_of_another_name_or_without_a_docstring_is_a_mistake():
    def stray():
        """Has no module of its own."""

    with pytest.raises(TypeError):
        judge(stray)
    silent = types.FunctionType(stray.__code__, {"__name__": "operations.judges.silent"}, "silent")
    silent.__module__, silent.__doc__ = "operations.judges.silent", None
    with pytest.raises(TypeError):
        judge(silent)


EXACT = [
    ("yes", "yes", {}, "pass"),
    ("yes", " yes\n", {}, "pass"),
    ("yes", " yes\n", {"strip": False}, "fail"),
    ("Yes", "yES", {}, "fail"),
    ("Straße", "STRASSE", {"ignore_case": True}, "pass"),
    ("", "", {}, "pass"),
    ("", "something", {}, "fail"),
    (42, "42", {}, "pass"),
    (42, "42.0", {}, "pass"),
    ("42", "42.0", {}, "fail"),
    (1, "true", {}, "fail"),
    (True, "true", {}, "pass"),
    (True, "1", {}, "fail"),
    (None, "null", {}, "pass"),
    (42, "forty-two", {}, "fail"),
    ([1, 2], "[1, 2]", {}, "pass"),
    ([1, 2], "[1]", {}, "fail"),
    ({"a": 1, "b": [True]}, '{"b":[true], "a":1.0}', {}, "pass"),
    ({"a": 1}, '{"a": 1, "b": 2}', {}, "fail"),
    ({"a": "X"}, '{"a": " x "}', {"ignore_case": True}, "pass"),
    ([], "[" * 100_000, {}, "fail"),
    ("yes", '{"answer": "yes"}', {"json_field": "answer"}, "pass"),
    ("no", '{"answer": "yes"}', {"json_field": "answer"}, "fail"),
    ("42", '{"answer": 42}', {"json_field": "answer"}, "pass"),
    (42, '{"answer": 42}', {"json_field": "answer"}, "pass"),
    ("b", '{"a": [{"x": "a"}, {"x": "b"}]}', {"json_field": "a.1.x"}, "pass"),
    ("b", '{"a": []}', {"json_field": "a.1.x"}, "fail"),
    ("b", '{"a": ["a", "b"]}', {"json_field": "a.\u0661"}, "fail"),
    ("b", '{"a": ["a", "b"]}', {"json_field": "a." + "1" * 5000}, "fail"),
    ("b", '{"a": "b"}', {"json_field": "a.b"}, "fail"),
    ("yes", "yes", {"json_field": "answer"}, "fail"),
    ("yes", "[" * 100_000, {"json_field": "answer"}, "fail"),
]


@pytest.mark.parametrize(("expected", "output", "settings", "wanted"), EXACT)
def test_exact(expected, output, settings, wanted):
    assert verdict(exact, expected, output, settings) == wanted


CONTAINS = [
    ("needle", "hay needle hay", {}, "pass"),
    ("needle", "hay", {}, "fail"),
    ("Needle", "a NEEDLE", {}, "fail"),
    ("Needle", "a NEEDLE", {"ignore_case": True}, "pass"),
    (["a", "b"], "b a", {}, "pass"),
    (["a", "b"], "a", {}, "fail"),
    (42, "it is 42", {}, "pass"),
    (True, "true story", {}, "pass"),
    ("", "anything", {}, "unknown"),
    (" ", "anything", {}, "unknown"),
    ([], "anything", {}, "unknown"),
    ("é", json.dumps({"a": ["é"]}), {"json_field": "a"}, "pass"),
]


@pytest.mark.parametrize(("expected", "output", "settings", "wanted"), CONTAINS)
def test_contains(expected, output, settings, wanted):
    assert verdict(contains, expected, output, settings) == wanted


@pytest.mark.parametrize("which", [exact, contains])
@pytest.mark.parametrize(
    ("status", "wanted", "validity"),
    [
        ("agent_error", "fail", "valid"),
        ("timeout", "unknown", "valid"),
        ("infra_error", "unknown", "invalid"),
        ("cancelled", "unknown", "invalid"),
        ("unknown", "unknown", "unknown"),
        ("completed", "pass", "valid"),
    ],
)
def test_status_decides_before_the_text_does(which, status, wanted, validity):
    said = which.judge(evidence(status=status), MASKER)
    assert (said.verdict, said.validity) == (wanted, validity)
    assert said.reason
    lacking = which.judge(evidence(output=None, status=status), MASKER)
    assert lacking.verdict == ("fail" if wanted == "fail" else "unknown")


def test_timeout_fails_where_it_was_agreed():
    assert exact.judge(evidence(status="timeout"), MASKER, timeout_is_failure=True).verdict == "fail"


@pytest.mark.parametrize("which", [exact, contains])
def test_missing_expected_answer_or_output_is_unknown(which):
    assert verdict(which, None, "yes", expected_present=False) == "unknown"
    assert verdict(which, "yes", None) == "unknown"


def test_cut_output_is_never_judged_by_what_it_lacks():
    assert verdict(exact, "yes", "yes", output_truncated=True) == "unknown"
    assert verdict(contains, "yes", "yes and", output_truncated=True) == "pass"
    assert verdict(contains, "no", "yes and", output_truncated=True) == "unknown"
    assert verdict(contains, "yes", '{"a": "yes"}', {"json_field": "a"}, output_truncated=True) == "unknown"


@pytest.mark.parametrize("which", [exact, contains])
@pytest.mark.parametrize(
    ("expected", "output"),
    [
        (TOKEN, TOKEN),
        (TOKEN, MASKER.text(TOKEN)),
        ("hunter2", "password: hunter2"),
        ("password: hunter2", "password: hunter3"),
        ("plain", f"plain {TOKEN}"),
        ({"password": "swordfish"}, '{"password": "swordfish"}'),
    ],
)
def test_masked_credential_in_what_is_compared_makes_it_unknown(which, expected, output):
    said = which.judge(evidence(expected, output), MASKER)
    assert said.verdict == "unknown"
    assert "mask" in said.reason


def test_mask_beside_the_compared_field_does_not_matter():
    output = json.dumps({"answer": "yes", "api_key": TOKEN})
    assert verdict(exact, "yes", output, {"json_field": "answer"}) == "pass"
    assert verdict(exact, "yes", MASKER.text(output), {"json_field": "answer"}) == "pass"
    assert verdict(exact, "yes", f"{TOKEN} is no JSON", {"json_field": "answer"}) == "unknown"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=4), below, max_size=3),
    max_leaves=6,
)


@given(values.filter(lambda value: not MASKER.changed(value)))
def test_a_value_is_exactly_itself(value):
    output = value if isinstance(value, str) else json.dumps(value)
    assert verdict(exact, value, output) == "pass"
