"""`atk report` and `atk gate`: what came of a Round, as a page for people and as an exit status for CI."""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path

from atk_mcp.people.tables import as_json, console, table
from atk_mcp.results import payload
from atk_mcp.terminal import complain, say
from operations.invocation import invoke
from operations.registry import all_operations
from operations.reports import documents
from operations.reports.charts import QUESTIONS, answer
from operations.reports.gathering import round_report
from operations.reports.model import Comparison, RoundReport
from operations.reports.pages import WORDS, number
from storage.project import Project
from storage.schema.assessments import Assessment
from storage.schema.rounds import Round

EXITS = {"pass": 0, "no_effect": 1, "regression": 1, "insufficient": 2, "invalid": 2}
"""Result → exit status of `atk gate`."""
NOTHING_COMPARED = 2
"""Nor is anything that stands, where what passed was taken back."""


def report(given: argparse.Namespace, root: str) -> int:
    """Writes a report and says where it lies.

    Raises:
        UnknownObject: There is neither a Round nor an Assessment of that id.
    """
    operations = all_operations()
    if Project.open(root).state().find(Assessment, given.object_id) is not None:
        if given.format != "html":
            complain(f"atk: an Assessment has a page only; leave --format {given.format} out.")
            return 2
        arguments = {"project_path": root, "assessment_id": given.object_id}
        answer = payload(invoke(operations["render_assessment_html"], arguments))
        path = answer["html_path"]
    else:
        arguments = {"project_path": root, "round_id": given.object_id, "formats": [given.format]}
        answer = payload(invoke(operations["render_round_report"], arguments))
        path = answer["paths"][given.format]
    if given.json:
        as_json(answer)
    else:
        say(path)
    if given.open and not webbrowser.open(Path(path).as_uri()):
        complain("atk: no browser could be started; open the file yourself.")
        return 1
    return 0


def gate(given: argparse.Namespace, root: str) -> int:
    """Prints the verdict of a Round and returns the status that `EXITS` says.

    Raises:
        UnknownObject: There is no such Round.
        StoreDamaged: What it rests on is not what was recorded.
    """
    project = Project.open(root)
    state = project.state()
    found = round_report(project, state, state.get(Round, given.round_id))
    for path, made in ((given.junit, documents.as_junit), (given.markdown, documents.as_markdown)):
        if path is not None:
            try:
                Path(path).write_text(made(found), encoding="utf-8")
            except OSError as error:
                complain(f"atk: cannot write {path}: {error.strerror}.")
                return 3
    about = found.headline
    if given.json:
        as_json(_verdict(found))
    elif about is not None:
        _told(found, about)
    elif found.repair is not None:
        say(f"{WORDS[found.repair.result]}: {found.round_id}, repair of {found.repair.component}")
        for reason in found.repair.reasons:
            say(f"  {reason}")
    else:
        say(f"{found.round_id}: nothing was compared yet.")
    return NOTHING_COMPARED if found.result is None or found.taken_back else EXITS[found.result]


def _verdict(found: RoundReport) -> dict[str, object]:
    about = found.headline
    judged = about or found.repair
    return {
        "round_id": found.round_id,
        "status": found.status,
        "result": found.result,
        "validation_id": judged.validation_id if judged else None,
        "mode": about.mode if about else None,
        "reasons": list(judged.reasons) if judged else [],
        "limitations": list(about.limitations) if about else [],
        "statistics": about.statistics.model_dump(mode="json") if about else None,
        "taken_back": found.taken_back,
        "overridden": bool(found.decided and found.decided.override),
    }


def _told(found: RoundReport, about: Comparison) -> None:
    word = f"{WORDS[about.result]}{', and taken back' if found.taken_back else ''}"
    say(f"{word}: {found.round_id}, {about.mode} {about.validation_id}, rule {about.statistics.rule}")
    if found.taken_back:
        say(f"  {found.taken_back}")
    for reason in (*about.reasons, *about.limitations):
        say(f"  {reason}")
    rule = about.statistics.rule
    rows = [
        (QUESTIONS[q.question], q.dimension, answer(q, rule), q.n, number(q.difference), number(q.lower), number(q.p))
        for q in about.statistics.questions
    ]
    console().print(table(("Question", "Dimension", "Answer", "#Cases", "#Difference", "#Lower", "#p"), rows))
    if found.decided is not None and found.decided.override:
        say(f"  {found.decided.decision_id} overrides it: {found.decided.reason} ({found.decided.authorized})")
