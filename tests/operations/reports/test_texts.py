"""What an agent says is shown as it is: nothing hidden, and nothing that GitHub or a parser takes for its own."""

import dataclasses
import json
import re
from xml.etree import ElementTree as ET

import pytest

from operations.reports import documents
from operations.reports.gathering import round_report
from operations.reports.judged import assessment_report
from operations.reports.model import MOVES, CaseOutcome
from operations.reports.pages import assessment_pages, round_pages
from operations.reports.texts import markdown, visible
from storage.schema.assessments import Assessment
from tests.support import pages

UNSEEN = "\x00\x1b[31m\x9b\x7f\u202egnp\u2066\u200b\u2060\u2028\ufffe\ud83d"
TEXTS = frozenset(
    {"symptom", "reason", "reasons", "limitations", "input", "expected", "output", "note", "events", "case_id", "paths"}
)
"""Fields of a report that hold what an agent or a client said."""


def saying(value, text, name=""):
    """Returns a report with `text` in place of everything that an agent or a client said."""
    if isinstance(value, str):
        return text if name in TEXTS else value
    if isinstance(value, tuple):
        return tuple(saying(each, text, name) for each in value)
    if dataclasses.is_dataclass(value):
        found = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return dataclasses.replace(value, **{name: saying(each, text, name) for name, each in found.items()})
    return value


@pytest.fixture
def reports(at):
    target = at("completed")
    assessment = target.state.get(Assessment, target.final_left_assessment_id)
    return (
        round_report(target.project, target.state, target.round),
        assessment_report(target.project, target.state, assessment),
    )


def test_nothing_in_any_form_is_hidden_from_its_reader(reports):
    of_round, of_assessment = (saying(report, UNSEEN) for report in reports)
    written = [
        *(text for _, text in (*round_pages(of_round), *assessment_pages(of_assessment))),
        documents.as_markdown(of_round),
        documents.as_junit(of_round),
    ]
    for text in written:
        assert re.findall("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u202e\u2066\u2060\ufffe\ud83d]", text) == []
        assert "{U+202E}gnp{U+2066}{U+200B}{U+2060}" in text.replace("\\", "")
    ET.fromstring(written[-1])
    loaded = json.loads(documents.as_json(of_round).encode())
    assert loaded["cases"][0]["input"] == UNSEEN


def test_a_case_of_which_nothing_is_known_or_to_which_nothing_applies_is_skipped_in_junit(reports):
    told = {}
    for mark in ("unknown", "not_applicable", "pass"):
        outcome = CaseOutcome(case_id="a", dimension="correct", role="protected", left=(mark,), right=(mark,))
        compared = tuple(dataclasses.replace(c, outcomes=(outcome,)) for c in reports[0].comparisons)
        root = ET.fromstring(documents.as_junit(dataclasses.replace(reports[0], comparisons=compared)))
        (suite,) = root.findall("testsuite[@name='correct']")
        (case,) = suite
        told[mark] = (suite.get("skipped"), [(child.tag, child.get("message") or child.text) for child in case])
    assert told == {
        "unknown": ("1", [("skipped", "not known: before ?, after ?")]),
        "not_applicable": ("1", [("skipped", "does not apply: before /, after /")]),
        "pass": ("0", [("system-out", "still passes: before ✓, after ✓")]),
    }


def test_a_text_of_any_length_leaves_a_comment_that_github_takes(reports):
    long = saying(reports[0], "@a " * 2_000)
    long = dataclasses.replace(long, candidates=long.candidates * 200)
    long = dataclasses.replace(
        long, comparisons=tuple(dataclasses.replace(c, reasons=c.reasons * 200) for c in long.comparisons)
    )
    text = documents.as_markdown(long)
    assert len(text) <= documents.COMMENT
    assert re.search(r"\nThe rest is left out \(\d+ lines\); the page has it\.\n<sub>", text)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("@octocat", "\\@\u200boctocat"),
        ("fixes #12 or GH-12", "fixes \\#\u200b12 or GH-\u200b12"),
        ("&#64;octocat", "\\&\\#\u200b64;octocat"),
        ("https://a.b/x.png www.a.b", "https:\u200b//a.b/x.png www\u200b.a.b"),
        ("![i](x) <!-- | $x$ -->", r"\!\[i\](x) \<\!-- \| \$x\$ --\>"),
        ("a\n\n# b", r"a \# b"),
        ("w" * 50, "w" * 19 + "…"),
    ],
)
def test_markdown_shows_a_text_and_does_nothing_with_it(given, shown):
    assert markdown(given, 20 if given.startswith("w") else 200) == shown


def test_letters_of_every_script_and_joined_emoji_stay_as_they_are():
    text = "שלום مرحبا नमस्ते 👩‍👩‍👧 é\tx\n"
    assert visible(text) == text


def test_twelve_repeats_are_shown_one_by_one_and_more_are_counted(reports):
    (about,) = (c for c in reports[0].comparisons if c.mode == "final")
    many = dataclasses.replace(about.primary[0], left=("pass",) * 2 + ("fail",) * 11, right=("pass",) * 12)
    report = dataclasses.replace(reports[0], comparisons=(dataclasses.replace(about, outcomes=(many,)),))
    assert f"| {'✓' * 12} |" in documents.as_markdown(report)
    assert "| 2✓ 11✗ |" in documents.as_markdown(report)


def test_under_the_counts_rule_no_question_looks_as_if_it_had_been_asked(reports):
    (about,) = (c for c in reports[0].comparisons if c.mode == "final")
    given = about.statistics.questions
    for rule, wanted in (("counts", ["not asked"] * len(given)), ("statistical", [q.answer for q in given])):
        figures = about.statistics.model_copy(update={"rule": rule})
        found = dataclasses.replace(reports[0], comparisons=(dataclasses.replace(about, statistics=figures),))
        page = pages.read(dict(round_pages(found))["report.html"])
        rows = [row.all("td") for row in page.all("tr") if "data-question" in row.attributes]
        assert [cells[1].text for cells in rows] == wanted
        said = re.findall(r"^\| [^|]*\? \| [^|]* \| ([^|]*) \|", documents.as_markdown(found), re.MULTILINE)
        assert said == wanted


def test_a_page_without_a_drawn_row_has_no_empty_picture(reports):
    (about,) = (c for c in reports[0].comparisons if c.mode == "final")
    none = about.statistics.model_copy(update={"questions": ()})
    bare = dataclasses.replace(reports[0], comparisons=(dataclasses.replace(about, statistics=none, outcomes=()),))
    assert pages.read(dict(round_pages(bare))["report.html"]).all("svg") == []


@pytest.mark.parametrize(
    ("left", "right", "move"),
    [
        (("not_applicable",) * 2, ("not_applicable",) * 2, "not_applicable"),
        (("not_applicable", "not_applicable"), ("not_applicable", "unknown"), "unknown"),
        (("unknown",), ("pass",), "unknown"),
        (("pass", "not_applicable"), ("pass", "not_applicable"), "passing"),
    ],
)
def test_what_does_not_apply_is_not_called_unknown(left, right, move):
    outcome = CaseOutcome(case_id="a", dimension="tone", role="other", left=left, right=right)
    assert (outcome.move, move in MOVES) == (move, True)
