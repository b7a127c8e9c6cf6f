"""A project's own patterns: what they mask and what they leave, and that none of them makes masking slow."""

import json
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.masking import (
    MASK,
    Masker,
    PatternEngineMissing,
    Patterns,
    PatternsTooSlow,
    RedactPatternUnusable,
    _patterns,
    check_patterns,
    has_mask,
)

KEY = b"k" * 32
CUSTOMER = r"\bCUST-[0-9]{6}\b"
MASKER = Masker(KEY, (), (CUSTOMER, r"(?i)project nightjar", r"[0-9]{16}"))


def stars(value):
    return MASK.sub("*", value)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("see CUST-123456, and CUST-1234567", "see *, and CUST-1234567"),
        ("Project Nightjar is late", "* is late"),
        ('{"a":"CUST-123456","b":150}', '{"a":"*","b":150}'),
        ('say "CUST-123456" twice: CUST-123456', 'say "*" twice: *'),
        ("half a pair \ud800 and CUST-123456", "half a pair \ud800 and *"),
        ("é CUST-123456 é", "é * é"),
    ],
)
def test_what_a_pattern_matches_is_masked_and_nothing_around_it(text, masked):
    assert stars(MASKER.text(text)) == masked


def test_a_pattern_sees_the_text_of_each_field_however_deep_it_lies_in_json_text():
    inner = json.dumps({"note": json.dumps({"who": ["CUST-123456"], "tokens": 12})})
    masked = MASKER.value({"input": inner, "usage": {"input": 1234}})
    assert "CUST-123456" not in masked["input"]
    assert json.loads(json.loads(masked["input"])["note"])["tokens"] == 12
    assert masked["usage"] == {"input": 1234}


def test_equal_secrets_have_equal_masks_wherever_and_by_whatever_rule_they_are_found():
    by_name = MASKER.value({"password": "CUST-123456"})["password"]
    assert MASKER.text("x CUST-123456 y") == f"x {by_name} y"
    assert MASKER.value({"CUST-123456": 1}) == {by_name: 1}


def test_counters_stay_and_a_number_that_is_matched_as_a_whole_does_not():
    masker = Masker(KEY, (), ("[0-9]{3,16}",))
    masked = masker.value({"tokens": 150, "card": 4111111111111111, "longer": 41111111111111112, "rate": 0.12345678})
    assert masked["tokens"] == 150
    assert has_mask(masked["card"])
    assert masked["longer"] == 41111111111111112
    assert masked["rate"] == 0.12345678


def test_a_pattern_that_runs_over_a_mask_masks_what_lies_around_it_and_leaves_it():
    masker = Masker(KEY, (), ("secret.*",))
    once = masker.text("secret ghp_abcdefghij0123456789 tail")
    assert stars(once) == "***" or "tail" not in once
    assert "[masked:github:" in once
    assert masker.text(once) == once


@given(
    st.text(alphabet="ab1-CUST0 {}\"':=\n\ud800é", max_size=60), st.sampled_from(("a+", "^a", "a$", "[0-9]", "a.*b"))
)
def test_masking_by_patterns_twice_is_masking_once(text, pattern):
    masker = Masker(KEY, (), (pattern,))
    once = masker.text(text)
    assert masker.text(once) == once


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"(?=x)y", "invalid perl operator"),
        (r"(x)\1", "invalid escape sequence"),
        ("(", "missing )"),
        ("x*", "no text"),
        (r"\b", "no text"),
        ("  ", "empty"),
        ("a" * 1001, "longer than 1000"),
        ("\ud800", "surrogate"),
        (r"\p{L}{30}", "instructions"),
        (r"\p{L}{500}\p{N}{500}", "too large"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused_with_its_reason(pattern, reason):
    with pytest.raises(RedactPatternUnusable, match="redact_patterns") as refused:
        check_patterns((CUSTOMER, pattern))
    assert reason in refused.value.reason


def test_more_patterns_than_a_project_may_have_are_refused():
    with pytest.raises(RedactPatternUnusable, match="at most 50"):
        check_patterns([f"x{n}" for n in range(51)])


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|aa)+b", r"(x+x+)+y", r"a(.*b)?", r"([a-z]+)*[0-9]"])
def test_no_pattern_hangs_on_a_hostile_text(pattern):
    check_patterns((pattern,))
    masker = Masker(KEY, (), (pattern,))
    begun = time.process_time()
    for text in ("a" * 100_000, "a" * 100_000 + "!", "ax" * 50_000, "x" * 100_000):
        masker.text(text)
    assert time.process_time() - begun < 30


def test_a_text_of_too_many_matches_is_masked_as_a_whole():
    assert stars(Masker(KEY, (), ("[0-9]",)).text("1 " * 1001)) == "*"
    assert stars(Masker(KEY, (), ("[0-9]",)).text("1 x " * 1000)) == "* x " * 1000


def test_a_text_that_takes_too_long_is_masked_as_a_whole(monkeypatch):
    monkeypatch.setattr(_patterns, "TEXT_SECONDS", -1.0)
    assert stars(MASKER.text("see CUST-123456 here")) == "*"


def test_patterns_that_use_up_an_operations_time_are_refused(monkeypatch):
    monkeypatch.setattr(_patterns, "FREE_SECONDS", -1.0)
    monkeypatch.setattr(_patterns, "SLOWEST", 10**15)
    with pytest.raises(PatternsTooSlow, match="too slow"):
        MASKER.text("see CUST-123456 here")


def test_without_the_engine_nothing_is_masked_halfway(monkeypatch):
    monkeypatch.setitem(sys.modules, "re2", None)
    _patterns._compiled.cache_clear()
    with pytest.raises(PatternEngineMissing, match=r"pip install 'atk-mcp\[patterns\]'"):
        Masker(KEY, (), (CUSTOMER,))
    with pytest.raises(PatternEngineMissing):
        check_patterns((CUSTOMER,))


@pytest.mark.parametrize(
    ("pattern", "anchored"), [("^a", True), ("a$", True), (r"\Aa", True), ("[^a]b", False), (CUSTOMER, False)]
)
def test_anchors_are_told_from_what_matches_anywhere(pattern, anchored):
    assert Patterns((pattern,)).anchored is anchored
