"""A report shows what the records say, and nothing else: its figures, its order, its texts as texts."""

import json
import os
import shutil
from xml.etree import ElementTree as ET

import pytest

from operations.reports import documents
from operations.reports.gathering import round_report
from operations.reports.pages import number, round_pages
from storage.schema.rounds import Round
from storage.schema.validations import Validation
from storage.sealing import KEY_HOME
from tests.operations.catalog.evidence import store_batch
from tests.operations.catalog.stages import LADDER, Staged
from tests.support import holdouts, pages

HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m=cmd|' /C calc'!A0"


@pytest.fixture
def completed(at):
    return at("completed")


def report_of(target):
    return round_report(target.project, target.state, target.round)


def page_of(target):
    return pages.read(dict(round_pages(report_of(target)))["report.html"])


def test_every_figure_of_a_page_is_that_of_the_stored_validation(completed):
    stored = completed.state.get(Validation, completed.final_validation_id)
    page = page_of(completed)
    assert "Pass" in page.one("p", class_="result").text
    for question in stored.statistics.questions:
        row = page.one("tr", data_question=question.question, data_dimension=question.dimension)
        shown = [cell.text for cell in row.all("td")]
        figures = (question.difference, question.lower, question.upper, question.p, question.alpha, question.margin)
        assert shown == [
            question.dimension,
            "not asked",  # its rule is counts
            str(question.n),
            str(question.groups),
            *map(number, figures),
            number(question.coverage),
        ]
    for counts in stored.statistics.outcome_counts:
        shown = [cell.text for cell in page.one("tr", data_counts=counts.dimension).all("td")]
        wanted = (counts.regressed, counts.fixed, counts.persistent_failure, counts.stable_success)
        assert shown == [str(n) for n in (*wanted, counts.unchanged_mixed, counts.unknown)]
    assert [li.text for li in page.one("div", class_="verdict pass").all("li")][: len(stored.reasons)] == [
        " ".join(reason.split()) for reason in stored.reasons
    ]


def test_all_six_views_are_there_and_named(completed):
    page = page_of(completed)
    main = page.one("main")
    sections = [s for s in main.all("section") if "case" not in s.attributes.get("class", "")]
    assert [s.attributes["id"] for s in sections] == [
        "verdict", "differences", "heat", "per-case", "cases", "ledger", "candidates",
    ]  # fmt: skip
    for section in sections:
        assert page.one("h2", id=section.attributes["aria-labelledby"]).text
    assert {a.attributes["href"] for a in page.one("nav").all("a")} == {f"#{s.attributes['id']}" for s in sections}
    anchors = [a.attributes["href"] for a in page.all("a") if a.attributes["href"].startswith("#")]
    ids = {e.attributes["id"] for tag in ("section", "h2", "h3", "main") for e in page.all(tag) if "id" in e.attributes}
    assert {a[1:] for a in anchors} <= ids
    assert all(svg.attributes["aria-label"].strip() for svg in page.all("svg"))


def test_a_page_asks_for_nothing_and_runs_nothing(completed):
    page = page_of(completed)
    policy = next(m for m in page.all("meta") if m.attributes.get("http-equiv") == "Content-Security-Policy")
    assert policy.attributes["content"] == "default-src 'none'; style-src 'unsafe-inline'"
    assert [page.all(tag) for tag in ("script", "link", "img", "iframe", "object")] == [[]] * 5
    assert "url(" not in page.one("style").text


def judged_sides(target, left, right):
    """Compares two runs that were answered as given. Returns the Validation."""
    for side, revision_id, answer in (("left", target.b0, left), ("right", target.revision_id, right)):
        target.ids[f"{side}_batch_id"] = store_batch(target, revision_id, answer, round_id=target.round_id)
        target.ids[f"{side}_assessment_id"] = target.judge(target.ids[f"{side}_batch_id"])
    validation_id = target.compare().validation_id
    return target.state.get(Validation, validation_id)


def expected_of(target):
    cases = target.call("read_record", record_id=target.dataset_id, field="cases").value
    return {case["id"]: case["expected"] for case in cases}


def test_a_planted_regression_is_listed_first_everywhere(at):
    target = at("sealed")
    right_answers = expected_of(target)
    fallen = list(right_answers)[-1]

    def worse(case_id, _):
        return "wrong" if case_id == fallen else right_answers[case_id]

    found = judged_sides(target, lambda case_id, _: right_answers[case_id], worse)
    assert found.result == "regression"
    page = page_of(target)
    assert page.one("section", id="per-case").all("tr", data_case=fallen)[0].one("td", class_="regressed").text
    listed = [row.attributes["data-case"] for row in page.all("tr") if "data-case" in row.attributes]
    assert listed[0] == fallen
    assert page.one("section", id="case-1").one("h3", id="case-1-name").text == fallen
    assert page.all("g")[len(found.statistics.questions)].attributes["class"] == "regressed"
    markdown = documents.as_markdown(report_of(target))
    assert markdown.index("Pass less often: 1") < markdown.index(f"| {fallen} |")
    suite = ET.fromstring(documents.as_junit(report_of(target)))
    failed = [case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None]
    assert failed == ["verdict", fallen]


def test_the_heat_map_tells_what_was_not_evaluated_from_what_failed_and_what_is_unknown(at):
    target = at("sealed")
    wanted = expected_of(target)
    failed, unknown = "refund-1", "invoice-1"

    def lost(record):
        if record.case_id != unknown:
            return record
        ended = record.execution.model_copy(update={"status": "infra_error"})
        return record.model_copy(update={"execution": ended, "output": None, "output_status": "not_exported"})

    part = target.call(
        "run_evaluation", round_id=target.round_id, revision_id=target.b0, case_ids=[failed], wait_seconds=200
    )
    target.judge(part.batch_id)
    batch_id = store_batch(target, target.b0, lambda case, _: wanted[case], round_id=target.round_id, record=lost)
    target.judge(batch_id)
    rows = page_of(target).one("section", id="heat").all("tr")
    cells = {row.one("th").text: row.all("td") for row in rows if row.all("td")}
    assert [cell.attributes["class"] for cell in cells[failed]] == ["rate0", "rate4"]
    assert [cell.text for cell in cells[failed]] == ["0/1", "1/1"]
    assert [cell.attributes["class"] for cell in cells[unknown]] == ["none", "unknown"]
    assert [cell.text for cell in cells[unknown]] == ["·not evaluated", "0/0 ?1"]


def test_markup_and_escapes_of_an_agent_are_shown_as_text(at):
    target = at("sealed")
    wanted = expected_of(target)

    def noted(record):
        return record.model_copy(update={"notes": (HOSTILE,), "events": ({"kind": HOSTILE, "text": HOSTILE},)})

    for side, revision_id in (("left", target.b0), ("right", target.revision_id)):
        batch_id = store_batch(
            target, revision_id, lambda case_id, _: HOSTILE + wanted[case_id], round_id=target.round_id, record=noted
        )
        target.ids[f"{side}_assessment_id"] = target.judge(batch_id)
    target.compare()
    report = report_of(target)
    page = pages.read(dict(round_pages(report))["report.html"])
    assert [page.all("script"), page.all("img")] == [[], []]
    assert "<script>alert(1)</script>" in page.one("section", id="case-1").text
    markdown = documents.as_markdown(report)
    assert "<script" not in markdown.replace("\\<script", "")
    assert "\x1b" not in documents.as_junit(report)
    ET.fromstring(documents.as_junit(report))
    assert json.loads(documents.as_json(report))["cases"][0]["left"][0]["output"].startswith(HOSTILE)


@pytest.mark.parametrize("stage", list(LADDER)[list(LADDER).index("opened") :])
def test_a_round_has_a_report_at_every_stage(at, stage):
    target = at(stage)
    page = page_of(target)
    assert page.one("h1").text == f"Round {target.round_id}"
    documents.as_markdown(report_of(target))
    ET.fromstring(documents.as_junit(report_of(target)))
    assert json.loads(documents.as_json(report_of(target)))["status"] == target.round.status


def test_a_candidates_change_is_shown_and_its_decision(completed):
    section = page_of(completed).one("section", id="candidates")
    assert section.one("h3").text == f"{completed.candidate_id}: accepted"
    assert "diff --git a/prompt.txt b/prompt.txt" in section.text
    assert "keep" in section.text


def test_an_issue_of_the_plan_that_nothing_was_tried_for_is_named_with_its_symptom(completed):
    found = report_of(completed)
    assert [(issue.issue_id, issue.symptom) for issue in found.untried] == [(completed.other_issue_id, "filed wrongly")]
    told = f"Planned and not tried:{completed.other_issue_id}: filed wrongly"
    assert told in page_of(completed).one("section", id="candidates").text
    assert f"**Planned and not tried**\n\n- {completed.other_issue_id}: filed wrongly\n" in documents.as_markdown(found)


def test_a_report_without_the_repository_says_that_the_change_is_elsewhere(completed):
    shutil.rmtree(completed.path(".git"))
    section = page_of(completed).one("section", id="candidates")
    assert "Its content is not in this repository." in section.text
    assert page_of(completed).one("p", class_="result").text == "Pass"


def test_the_operation_writes_each_format_once_and_takes_away_what_an_earlier_one_had_more(completed):
    given = {"round_id": completed.round_id, "formats": ["html", "markdown", "junit", "json"]}
    position = completed.state.position
    first = completed.call("render_round_report", **given)
    folder = os.path.dirname(first.paths["html"])
    assert sorted(os.listdir(folder)) == ["junit.xml", "report.html", "report.json", "report.md"]
    assert first.bytes == sum(os.path.getsize(path) for path in first.paths.values())
    with open(os.path.join(folder, "cases-7.html"), "w", encoding="utf-8") as file:
        file.write("of an earlier report")
    before = {name: _read(folder, name) for name in os.listdir(folder)}
    again = completed.call("render_round_report", **{**given, "formats": ["html"]})
    assert again.files == 1
    assert sorted(os.listdir(folder)) == ["junit.xml", "report.html", "report.json", "report.md"]
    assert _read(folder, "report.html") == before["report.html"]
    assert completed.state.position == position
    assert os.stat(again.paths["html"]).st_mode & 0o777 == 0o600


def _read(folder, name):
    with open(os.path.join(folder, name), "rb") as file:
        return file.read()


def test_an_unknown_round_is_named_and_nothing_is_written(completed):
    error = completed.refusal("render_round_report", round_id="round-99-none")
    assert (error.code, os.path.exists(completed.path(".atk/reports"))) == ("unknown_object", False)


def test_an_edited_comparison_is_refused_and_no_report_is_written(completed):
    path = completed.path(f".atk/validations/{completed.final_validation_id}/comparison.csv")
    with open(path, "a", encoding="utf-8") as file:
        file.write("correct,extra,p,p\n")
    error = completed.refusal("render_round_report", round_id=completed.round_id)
    assert (error.code, os.path.exists(completed.path(".atk/reports"))) == ("store_damaged", False)


def test_holdout_cases_stay_out_of_every_form_until_both_final_sides_are_sealed(tmp_path, monkeypatch):
    monkeypatch.setenv(KEY_HOME, str(tmp_path / "keys"))
    built = holdouts.kept(str(tmp_path / "kept"))
    target = Staged(built.root, dict(built.ids))
    every = {"round_id": target.round_id, "formats": ["html", "markdown", "junit", "json"]}
    batch = target.call(
        "run_evaluation", round_id=target.round_id, revision_id=target.b0, phase="final", wait_seconds=100
    )
    target.ids["final_left_assessment_id"] = target.judge(batch.batch_id)
    target.call("render_round_report", **every)
    target.call("render_assessment_html", assessment_id=target.final_left_assessment_id)
    assert holdouts.readable(target.root) == []
    _, target.ids["final_right_assessment_id"] = target.run(target.revision_id, "final")
    target.compare("final")
    shown = target.call("render_round_report", **every)
    assert all(
        b"MARK-IN" in _read(*os.path.split(path)) for name, path in shown.paths.items() if name in ("html", "json")
    )
    held = set(target.state.get(Round, target.round_id).plan.holdout_case_ids)
    roles = {o.case_id: o.role for o in report_of(target).headline.outcomes}
    assert {case_id for case_id, role in roles.items() if role == "holdout"} == held != set()
