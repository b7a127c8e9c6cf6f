"""A Round without a comparison is told of as what it is: a repair that was validated, or a look at evidence."""

import json
from xml.etree import ElementTree as ET

import pytest

from atk_mcp.inspector import main
from operations.reports import documents
from operations.reports.gathering import round_report
from operations.reports.pages import WORDS, round_pages
from storage.project import Project
from storage.schema.rounds import Round
from tests.operations.catalog.test_external_fixes import ask, handed_over, repaired, shown
from tests.support import claude_sessions, pages
from tests.support.imports import Imports
from tests.support.projects import FIX, PROMPT

__all__ = ["handed_over"]


@pytest.mark.parametrize(
    ("content", "result", "status"),
    [(FIX, "pass", 0), (f"{PROMPT}want a refund -> billing\n", "no_effect", 1)],
    ids=["whole", "half"],
)
def test_a_validated_repair_is_the_verdict_of_every_form(handed_over, capsys, content, result, status):
    target = handed_over
    repaired(target, content)
    _, found = shown(target, ask(target))
    report = round_report(target.project, target.state, target.round)
    assert (report.headline, report.result) == (None, result)
    page = pages.read(dict(round_pages(report))["report.html"])
    assert page.one("p", class_="result").text == WORDS[result]
    assert "index@2" in page.one("section", id="verdict").text
    assert documents.as_markdown(report).startswith(f"## {WORDS[result]}: {target.round_id}\n")
    verdict = ET.fromstring(documents.as_junit(report)).find("testsuite/testcase")
    assert [child.tag for child in verdict] == ([] if result == "pass" else ["failure"])
    assert main(["gate", target.round_id, "--json", "--project", target.root]) == status
    told = json.loads(capsys.readouterr().out)
    assert (told["result"], told["validation_id"]) == (result, found.external_validation_id)
    assert main(["gate", target.round_id, "--project", target.root]) == status
    assert capsys.readouterr().out.startswith(f"{WORDS[result]}: {target.round_id}, repair of index@2\n")
    assert target.call("render_round_report", round_id=target.round_id).result == result
    main(["rounds", "--json", "--project", target.root])
    assert json.loads(capsys.readouterr().out)[-1]["result"] == result


def test_a_round_that_only_looks_at_evidence_names_no_baseline(tmp_path):
    imports = Imports(tmp_path / "project")
    path = tmp_path / "session.jsonl"
    path.write_bytes(claude_sessions.usual().bytes())
    made = imports.call("create_round", batch_ids=[imports.send(path, source_kind="claude_code").batch_id])
    project = Project.open(imports.root)
    state = project.state()
    report = round_report(project, state, state.get(Round, made.round_id))
    assert (report.baseline_commit, report.current_commit, report.result) == (None, None, None)
    header = pages.read(dict(round_pages(report))["report.html"]).one("header").text
    assert "It only looks at evidence: there is no baseline." in header
    assert "0000" not in header
