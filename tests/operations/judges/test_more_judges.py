"""Judges of patterns, numbers and JSON: settings that cannot be used are refused, what cannot be told is unknown."""

import json
import time

import pytest

import operations.judges
from operations.discovery import find
from operations.judges._judge import Evidence, Judge
from storage.masking import Masker

MASKER = Masker(b"k" * 32)
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
JUDGES = find(operations.judges, Judge)
NONE = object()


def said(name, expected, output, settings=None, **more):
    given = {"expected": None if expected is NONE else expected, "expected_present": expected is not NONE}
    rule = JUDGES[name]
    told = rule.told(settings or {})
    return rule.judge(Evidence(**given, output=output, status="completed", **more), MASKER, told)


REGEX = [
    (NONE, "order 42", {"pattern": r"\d+"}, "pass"),
    (NONE, "order", {"pattern": r"\d+"}, "fail"),
    (NONE, "order", {"pattern": r"\d+", "absent": True}, "pass"),
    (NONE, "ab", {"pattern": "a", "whole": True}, "fail"),
    (NONE, " a\n", {"pattern": "a", "whole": True}, "pass"),
    (NONE, " a\n", {"pattern": "a", "whole": True, "strip": False}, "fail"),
    (NONE, "STRASSE", {"pattern": "strasse", "ignore_case": True}, "pass"),
    (NONE, "STRASSE", {"pattern": "strasse"}, "fail"),
    (NONE, '{"id": "T-7"}', {"pattern": "^T-[0-9]$", "json_field": "id"}, "pass"),
    (NONE, '{"id": 77}', {"pattern": "^7+$", "json_field": "id"}, "pass"),
    (NONE, "half a pair \ud800", {"pattern": "pair"}, "pass"),
    ("bill(ing)?", "to billing", {}, "pass"),
    ("bill(ing", "to billing", {}, "unknown"),
    (NONE, "to billing", {}, "unknown"),
    (42, "42", {}, "unknown"),
]


@pytest.mark.parametrize(("expected", "output", "settings", "wanted"), REGEX)
def test_regex(expected, output, settings, wanted):
    assert said("regex", expected, output, settings).verdict == wanted


def test_patterns_take_linear_time():
    before = time.process_time()
    assert said("regex", NONE, "a" * 200_000 + "b", {"pattern": "^(a+)+$"}).verdict == "fail"
    assert said("json_schema", NONE, json.dumps("a" * 200_000), {"schema": {"pattern": "^(a+)+b$"}}).verdict == "fail"
    assert time.process_time() - before < 10  # a backtracking engine would not end in a lifetime


NUMERIC = [
    (42, "42", {}, "pass"),
    ("42", " 42.0 ", {}, "pass"),
    (42, "43", {}, "fail"),
    (42, "about 42", {}, "fail"),
    (42, "about 42, or 43.", {"take": "first"}, "pass"),
    (43, "about 42, or 43.", {"take": "last"}, "pass"),
    (42, "about 42, or 43.", {"take": "only"}, "unknown"),
    (42, "about 42%.", {"take": "only"}, "pass"),
    (-5, "it is \u22125 degrees", {"take": "only"}, "pass"),
    (5, "3-5", {"take": "last"}, "pass"),
    (42, "x42", {"take": "first"}, "unknown"),
    (42, "none", {"take": "first"}, "fail"),
    (1234, "1,234", {}, "unknown"),
    (1234, "1,234", {"thousands": ","}, "pass"),
    (1234.5, "in all 1,234.50 EUR", {"thousands": ",", "take": "only"}, "pass"),
    (1234, "12,34", {"thousands": ","}, "unknown"),
    (0.3, "0.1", {"absolute_tolerance": 0.2}, "pass"),
    (0.3, "0.0999", {"absolute_tolerance": 0.2}, "fail"),
    (200, "210", {"relative_tolerance": 0.05}, "pass"),
    (-200, "-210.01", {"relative_tolerance": 0.05}, "fail"),
    (0, "0.01", {"relative_tolerance": 0.5}, "fail"),
    (1e300, "1e300", {}, "pass"),
    (1, "1e999999", {}, "fail"),
    (42, '{"n": 42}', {"json_field": "n"}, "pass"),
    (1, '{"n": true}', {"json_field": "n"}, "fail"),
    (42, '{"n": "is 42"}', {"json_field": "n", "take": "only"}, "pass"),
    ("many", "42", {}, "unknown"),
    (True, "1", {}, "unknown"),
    (NONE, "1", {}, "unknown"),
]


@pytest.mark.parametrize(("expected", "output", "settings", "wanted"), NUMERIC)
def test_numeric(expected, output, settings, wanted):
    assert said("numeric", expected, output, settings).verdict == wanted


EQUALITY = [
    ({"a": 1}, '{"a": 1.0}', {}, "pass"),
    ('{"a": 1}', '{"a": 1}', {}, "pass"),
    ({"a": 1}, '{"a": true}', {}, "fail"),
    ({"a": [1, 2]}, '{"a": [2, 1]}', {}, "fail"),
    ({"a": [1, 2]}, '{"a": [2, 1.0]}', {"ignore_order": True}, "pass"),
    ({"a": [1, 1]}, '{"a": [1]}', {"ignore_order": True}, "fail"),
    ({"a": 1}, '{"a": 1, "at": 7}', {"ignore_fields": ["at"]}, "pass"),
    ([{"a": 1}], '[{"a": 1, "at": 7}]', {"ignore_fields": ["*.at"]}, "pass"),
    ({"a": 1}, 'so:\n```json\n{"a": 1}\n```\n', {"document": "fenced"}, "pass"),
    ({"a": 1}, 'so:\n```json\n{"a": 1}\n```\n', {}, "fail"),
    ({"a": 1}, "```\n1\n```\n```\n2\n```", {"document": "fenced"}, "unknown"),
    ("yes", '{"a": "yes"}', {"json_field": "a"}, "pass"),
    ("42", '{"a": "42"}', {"json_field": "a"}, "pass"),
    ({"a": "X"}, '{"a": " x "}', {"ignore_case": True}, "pass"),
    ({"a": 1}, "NaN", {}, "fail"),
    ({"a": 1}, "[" * 100_000, {}, "fail"),
]


@pytest.mark.parametrize(("expected", "output", "settings", "wanted"), EQUALITY)
def test_json_equality(expected, output, settings, wanted):
    assert said("json_equality", expected, output, settings).verdict == wanted


SUBSET = [
    ({"a": 1}, '{"a": 1, "b": 2}', {}, "pass"),
    ({"a": {"b": 1}}, '{"a": {"b": 1, "c": 2}}', {}, "pass"),
    ({"a": 1, "b": 2}, '{"a": 1}', {}, "fail"),
    ([{"a": 1}], '[{"a": 1, "b": 2}]', {}, "pass"),
    ([1], "[1, 2]", {}, "fail"),
    ([2], "[1, 2]", {"lists": "any_order"}, "pass"),
    ([1, 1], "[1, 2]", {"lists": "any_order"}, "fail"),
    ([{"a": 1}, {"a": 1, "b": 2}], '[{"a": 1, "b": 2}, {"a": 1}]', {"lists": "any_order"}, "pass"),
    ([{}, {"a": 1}, {"b": 1}], '[{"a": 1}, {"b": 1}, {"c": 1}]', {"lists": "any_order"}, "pass"),
    (list(range(600)), json.dumps(list(range(600))), {"lists": "any_order"}, "unknown"),
]


@pytest.mark.parametrize(("expected", "output", "settings", "wanted"), SUBSET)
def test_json_subset(expected, output, settings, wanted):
    assert said("json_subset", expected, output, settings).verdict == wanted


TREE = {"$defs": {"n": {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}}}, "$ref": "#/$defs/n"}
DOUBLING = {
    "$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)} | {"d40": True},
    "$ref": "#/$defs/d0",
}
SCHEMA = [
    (NONE, '{"a": 1}', {"schema": {"required": ["a"]}}, "pass"),
    (NONE, '{"b": 1}', {"schema": {"required": ["a"]}}, "fail"),
    (NONE, "no JSON", {"schema": True}, "fail"),
    (NONE, '"T-7"', {"schema": {"pattern": "^T-[0-9]$"}}, "pass"),
    (NONE, '"T-x"', {"schema": {"pattern": "^T-[0-9]$"}}, "fail"),
    (NONE, '{"next": {"next": 1}}', {"schema": TREE}, "fail"),
    (NONE, '{"next": {"next": {}}}', {"schema": TREE}, "pass"),
    (NONE, "1", {"schema": DOUBLING}, "unknown"),
    (NONE, '{"a": 1}', {"schema": {"properties": {"a": {"$ref": "#/$defs/none"}}}}, "unknown"),
    ({"type": "integer"}, "1", {}, "pass"),
    ('{"type": "integer"}', '"1"', {}, "fail"),
    ({"type": "nothing"}, "1", {}, "unknown"),
    (NONE, "1", {}, "unknown"),
]


@pytest.mark.parametrize(("expected", "output", "settings", "wanted"), SCHEMA)
def test_json_schema(expected, output, settings, wanted):
    assert said("json_schema", expected, output, settings).verdict == wanted


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("exact", {"tolerance": 1}, "json_field"),
        ("regex", {"pattern": "(?=a)"}, "look-around"),
        ("regex", {"pattern": ""}, "empty"),
        ("regex", {"pattern": "a" * 1001}, "longer"),
        ("regex", {"pattern": "(a{1,900}){1,900}"}, "pattern"),
        ("numeric", {"absolute_tolerance": -1}, "absolute_tolerance"),
        ("numeric", {"take": "second"}, "first"),
        ("json_subset", {"lists": "some"}, "any_order"),
        ("json_schema", {"schema": {"$ref": "https://example.org/s.json"}}, "begin with #"),
        ("json_schema", {"schema": {"$ref": "#/$defs/none"}}, "none"),
        ("json_schema", {"schema": {"$schema": "http://json-schema.org/draft-07/schema#"}}, "draft"),
        ("json_schema", {"schema": {"type": "nothing"}}, "nothing"),
        ("json_schema", {"schema": {"pattern": "(?=a)"}}, "look-around"),
        ("json_schema", {"schema": {"patternProperties": {"a": True}}}, "patternProperties"),
        ("json_schema", {"schema": {"$ref": "#"}}, "end"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_in_words(name, settings, words):
    with pytest.raises(ValueError, match=r"^settings") as caught:
        JUDGES[name].told(settings)
    assert words in str(caught.value)


SURE = {"regex": {"pattern": "a"}, "numeric": {"take": "first"}, "json_schema": {"schema": True}}


@pytest.mark.parametrize("name", ["regex", "numeric", "json_equality", "json_subset", "json_schema"])
def test_cut_masked_or_missing_output_is_unknown(name):
    settings = SURE.get(name, {})
    assert said(name, 1, "1 a", settings, output_truncated=True).verdict == "unknown"
    assert said(name, 1, json.dumps({"a": TOKEN}), settings).verdict == "unknown"
    assert said(name, 1, None, settings).verdict == "unknown"
