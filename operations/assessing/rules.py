"""Runs a judger's rule over Records, whether they were run or imported."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from operations import judges
from operations.assessing.subjects import Subject
from operations.discovery import find
from operations.importers import _record_facts as facts
from operations.importers import stored
from operations.importers.batches import selected
from operations.judges._judge import NO_EXPECTED, Evidence, Judge, Judgement
from operations.tuning.judging import JudgementInvalid
from storage import contents
from storage.holdout import UNTOLD, cases_for_work
from storage.project import Project
from storage.projection import State
from storage.schema.assessments import Judger
from storage.schema.batches import Batch
from storage.schema.rounds import Round

Row = dict[str, Any]


def require_usable(project: Project, judger: Judger, batch_id: str) -> None:
    """Refuses a judger whose rule cannot be run as it is told.

    Raises:
        JudgementInvalid: It names the setting and what is wrong with it.
        JudgeEngineMissing: The rule needs a package that is not installed.
    """
    if judger.method in ("client", "command"):
        return
    problem = None
    try:
        find(judges, Judge)[judger.method].told(judger.settings)
    except ValueError as error:
        problem = str(error)
    if problem is None and project.masker.changed(judger.settings):
        # What is stored is masked, and the next batch would be judged by other settings than this one.
        problem = "settings hold what looks like a credential, which is not stored as it is"
    if problem:
        raise JudgementInvalid(batch_id=batch_id, field="judger", problem=problem)


def rows_of(project: Project, state: State, subject: Subject, judger: Judger, dimension: str) -> Iterator[Row]:
    """Yields a row for each Record, in order; none for a judger that is the client.

    Raises:
        JudgementInvalid: The rule needs expected answers, and no Record of the import has one.
        StoreDamaged: A file does not hold what was recorded.
    """
    if judger.method in ("client", "command"):
        return
    rule = find(judges, Judge)[judger.method]
    settings, masker = rule.told(judger.settings), project.masker
    late = timeout_is_failure(state, subject)
    present = False
    for record_id, evidence in evidence_of(project, state, subject):
        present = present or evidence.expected_present
        found = rule.judge(evidence, masker, settings, timeout_is_failure=late)
        yield row(subject, record_id, dimension, found)
    if settings.needs_expected and not present and not isinstance(subject.batch, Batch):
        problem = (
            f"the rule {judger.method} compares with an expected answer, and no Record of {subject.batch.id} has one: "
            "send rows, import with a mapping for expected, or take regex with a pattern or json_schema with a schema"
        )
        raise JudgementInvalid(batch_id=subject.batch.id, field="judger", problem=problem)


def without_expected(subject: Subject, judger: Judger, rows: Iterable[Row]) -> list[str]:
    """Returns a sentence where the rule compares with expected answers that some Cases of a run lack."""
    if not isinstance(subject.batch, Batch):
        return []
    lacking = dict.fromkeys(subject.names[r["record_id"]] for r in rows if r["reason"] == NO_EXPECTED)
    if not lacking:
        return []
    said = (
        f"Cases without an expected answer: {len(lacking)} of {len(set(subject.names.values()))}, such as "
        f"{next(iter(lacking))[:80]}. The rule {judger.method} compares with one, so the verdict on those is unknown. "
        "Give them one in a new dataset, or judge them by another method."
    )
    return [said]


def row(subject: Subject, record_id: str, dimension: str, found: Judgement) -> Row:
    """Returns the row of one judgement; of a holdout Case without a reason, which would tell what it holds."""
    blind = subject.batch.holdout_case_ids if isinstance(subject.batch, Batch) else ()
    if subject.names[record_id] in blind:
        found = replace(found, reason=UNTOLD)
    return {
        "record_id": record_id,
        "dimension": dimension,
        "verdict": found.verdict,
        "reason": found.reason,
        "validity": found.validity,
        "validity_reason": found.reason if found.validity != "valid" else "",
    }


def timeout_is_failure(state: State, subject: Subject) -> bool:
    """Returns whether the plan under which the Records were run counts a timeout as a failure."""
    value = state.find(Round, subject.round_id)
    return bool(value and value.plan and value.plan.timeout_is_failure)


def evidence_of(project: Project, state: State, subject: Subject) -> Iterator[tuple[str, Evidence]]:
    """Yields each Record's id and what a judge may look at, in order."""
    if isinstance(subject.batch, Batch):
        asked = {record.case_id for record in subject.records}
        stored_cases = (c for c in contents.cases(project, state, subject.batch.dataset_id) if c.id in asked)
        cases = {c.id: c for c in cases_for_work(project, stored_cases)}
        for record in subject.records:
            case = cases[record.case_id]
            yield (
                record.id,
                Evidence(
                    expected=case.expected,
                    expected_present=case.expected_present,
                    output=record.output,
                    output_truncated=record.execution.stdout_truncated,
                    status=record.execution.status,
                    input=case.input,
                ),
            )
        return
    lines = (
        stored.records(project, state, subject.batch.id)
        if subject.selection is None
        else stored.some(project, state, subject.batch.id, selected(project, state, subject.selection))
    )
    for line in lines:
        yield line["id"], of_import(line)


def of_import(record: facts.RecordValue) -> Evidence:
    """Returns what an imported Record says. What it does not export is missing: no verdict comes of it.

    An export does not say whether a failure was the agent's, so only an output can be judged, as of one that ended.
    """
    expected, output = facts.content(record, "expected", {}), facts.content(record, "output", {})
    given = facts.content(record, "input", {})
    usable = (record.get("output") or {}).get("status") in ("value", "empty")
    present = (record.get("expected") or {}).get("status") in ("value", "empty", "null")
    text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False) if usable else None
    return Evidence(
        expected=None if expected is facts.UNKNOWN else expected,
        expected_present=present,
        output=text if usable else None,
        status="completed",
        input=None if given is facts.UNKNOWN else given,
    )
