"""Writes a report as Markdown for a pull request, as JUnit XML and as JSON for a machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from operations.reports.charts import QUESTIONS, answer
from operations.reports.model import MOVES, CaseOutcome, Comparison, RepairShown, RoundReport
from operations.reports.pages import WORDS, number
from operations.reports.texts import markdown, visible
from operations.wording import counted

LISTED = 30
"""Cases or candidates that a list of the Markdown names; how many more there are is said."""
COMMENT = 60_000
"""Characters of the Markdown: GitHub takes 65,536 in a comment."""

_SENTENCE, _NAME = 600, 120
"""Characters of a reason, and of what stands in a cell, that the Markdown shows."""
_TICKS = 12
"""Repeats that are shown one by one; more are counted."""
_MARKS = {"pass": "✓", "fail": "✗", "unknown": "?", "not_applicable": "/"}


def as_json(report: RoundReport) -> str:
    """Returns the whole report as JSON; half a surrogate pair, which no file holds, is escaped."""
    text = json.dumps({"format": 1, **report.plain()}, ensure_ascii=False, indent=2, allow_nan=False)
    return text.encode(errors="backslashreplace").decode() + "\n"


# ---- Markdown ----------------------------------------------------------------------------------------------------


def as_markdown(report: RoundReport) -> str:
    """Returns the report as GitHub's Markdown of at most `COMMENT` characters; every text in it is shown as text."""
    about = report.headline
    word = "Nothing compared yet" if report.result is None else WORDS[report.result]
    lines = [f"## {word}{', and taken back' if report.taken_back else ''}: {_text(report.round_id)}", ""]
    if report.taken_back:
        lines += [_text(report.taken_back), ""]
    if about is not None:
        lines += _verdict(about)
    elif report.repair is not None:
        lines += _repaired(report.repair)
    if report.decided is not None:
        lines += [f"**{_text(report.decided.action)}** ({report.decided.decision_id}): {_text(report.decided.reason)}"]
        if report.decided.authorized:
            lines += ["", f"Allowed out of the ordinary: {_text(report.decided.authorized)}."]
        lines += [""]
    if about is not None:
        lines += _moved("Pass less often", [o for o in about.primary if o.move == "regressed"])
        lines += _moved("Pass more often", [o for o in about.primary if o.move == "fixed"])
        lines += _moved("Not known", [o for o in about.primary if o.move == "unknown"])
    lines += _candidates(report)
    if (known := report.ledger) is not None:
        spent = (
            f"{known.used} of {counted(known.executions, 'Execution')} used, {known.reserve} kept back; "
            f"{known.drafted} of {counted(known.candidates, 'candidate')} drafted; "
            f"{counted(len(known.looks), 'Case')} charged a look."
        )
        lines += [spent, ""]
    end = f"<sub>{report.project_id}, journal record {report.journal_record}; `atk verify` checks it.</sub>\n"
    return _fitting(lines, COMMENT - len(end) - 1) + f"\n{end}"


def _fitting(lines: Sequence[str], limit: int) -> str:
    """Returns the lines that fit, and says in the last one how many more there are."""
    room, kept = limit - 80, 0
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept += 1
    left_out = len(lines) - kept
    said = ["", f"The rest is left out ({counted(left_out, 'line')}); the page has it."] if left_out else []
    return "\n".join([*lines[:kept], *said])


def _repaired(about: RepairShown) -> list[str]:
    return [
        f"The validation of a repair made outside the project, {_text(about.component)}: {about.validation_id}.",
        "",
        *(f"- {_text(reason)}" for reason in about.reasons),
        "",
    ]


def _verdict(about: Comparison) -> list[str]:
    what = "The final validation" if about.mode == "final" else f"The comparison of {about.candidate_id}"
    lines = [f"{what}, {about.validation_id}, by the rule {about.statistics.rule}:", ""]
    lines += [f"- {_text(reason)}" for reason in about.reasons]
    lines += [f"- Limit: {_text(x)}" for x in about.limitations]
    lines += [
        "",
        "| Question | Dimension | Answer | Cases | Difference | Bounds | p |",
        "|---|---|---|--:|--:|---|--:|",
    ]
    lines += [
        f"| {QUESTIONS[q.question]} | {_cell(q.dimension)} | {answer(q, about.statistics.rule)} | {q.n} "
        f"| {number(q.difference)} | {number(q.lower)} to {number(q.upper)} | {number(q.p)} |"
        for q in about.statistics.questions
    ]
    return [*lines, ""]


def _moved(name: str, outcomes: Sequence[CaseOutcome]) -> list[str]:
    if not outcomes:
        return []
    lines = [f"**{name}: {len(outcomes)}**", "", "| Case | Role | Before | After |", "|---|---|---|---|"]
    lines += [f"| {_cell(o.case_id)} | {o.role} | {_marks(o.left)} | {_marks(o.right)} |" for o in outcomes[:LISTED]]
    if len(outcomes) > LISTED:
        lines += ["", f"and {len(outcomes) - LISTED} more"]
    return [*lines, ""]


def _candidates(report: RoundReport) -> list[str]:
    lines = [
        f"- {c.candidate_id}: **{c.status}**, {_text(c.symptom)}"
        + (f" Reason: {_text(c.decided.reason)}" if c.decided else "")
        for c in report.candidates[:LISTED]
    ]
    if len(report.candidates) > LISTED:
        lines.append(f"- and {len(report.candidates) - LISTED} more")
    left = [f"- {i.issue_id}: {_text(i.symptom)}" for i in report.untried[:LISTED]]
    return [
        *(["**Candidates**", "", *lines, ""] if lines else []),
        *(["**Planned and not tried**", "", *left, ""] if left else []),
    ]


def _marks(marks: Sequence[str]) -> str:
    """Returns a sign for each repeat, or how many there are of each sign."""
    if len(marks) <= _TICKS:
        return "".join(_MARKS[mark] for mark in marks)
    return " ".join(f"{marks.count(mark)}{sign}" for mark, sign in _MARKS.items() if mark in marks)


def _text(text: str) -> str:
    return markdown(text, _SENTENCE)


def _cell(text: str) -> str:
    return markdown(text, _NAME)


# ---- JUnit -------------------------------------------------------------------------------------------------------


def as_junit(report: RoundReport) -> str:
    """Returns the headline comparison as JUnit XML: a suite for the gate and one for each dimension.

    The gate's verdict fails unless it is a pass. A Case fails where it passes less often than before and the gate calls
    the whole a regression: a single Case of an agent that varies falls by chance. It is skipped where a side has no
    known outcome, and where nothing applies to it.
    """
    about = report.headline
    root = ET.Element("testsuites", name=report.round_id)
    gate = ET.SubElement(root, "testsuite", name="gate")
    verdict = ET.SubElement(gate, "testcase", classname="gate", name="verdict")
    judged = about or report.repair
    if judged is None:
        ET.SubElement(verdict, "skipped", message="nothing was compared yet")
    elif report.taken_back:
        ET.SubElement(verdict, "skipped", message=visible(report.taken_back))
    elif judged.result != "pass":
        failure = ET.SubElement(verdict, "failure", message=WORDS[judged.result], type=judged.result)
        failure.text = visible("\n".join(judged.reasons))
    suites: dict[str, ET.Element] = {}
    for outcome in about.outcomes if about is not None else ():
        if outcome.dimension not in suites:
            suites[outcome.dimension] = ET.SubElement(root, "testsuite", name=visible(outcome.dimension))
        _case(suites[outcome.dimension], outcome, regression=about is not None and about.result == "regression")
    for suite in root:
        suite.set("tests", str(len(suite)))
        suite.set("failures", str(len(suite.findall("testcase/failure"))))
        suite.set("errors", "0")
        suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ET.Element, outcome: CaseOutcome, *, regression: bool) -> None:
    case = ET.SubElement(suite, "testcase", classname=visible(outcome.dimension), name=visible(outcome.case_id))
    said = f"before {_marks(outcome.left)}, after {_marks(outcome.right)}"
    if outcome.move == "regressed" and regression:
        ET.SubElement(case, "failure", message=said, type="regressed").text = f"role: {outcome.role}"
    elif outcome.move in ("unknown", "not_applicable"):
        ET.SubElement(case, "skipped", message=f"{MOVES[outcome.move]}: {said}")
    else:
        ET.SubElement(case, "system-out").text = f"{MOVES[outcome.move]}: {said}"
