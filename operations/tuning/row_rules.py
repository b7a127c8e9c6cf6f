"""Which Records may become rows to train on: those of a Case that may be used, that pass by what holds now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from storage.schema.assessments import DEFAULTED, Assessment, VerdictRow
from storage.schema.datasets import Case

Rows = Mapping[str, Sequence[VerdictRow]]
"""Record id → its verdicts, of one Assessment."""


def current(assessments: Iterable[Assessment], batch_id: str) -> list[Assessment]:
    """Returns the Assessments of a batch that no other one supersedes, in the order in which they were made."""
    found = list(assessments)
    superseded = {a.supersedes for a in found}
    return [a for a in found if a.batch_id == batch_id and a.id not in superseded]


def case_problem(cases: Sequence[Case], usages: Collection[str]) -> str | None:
    """Returns why the Cases of a Record do not let it be trained on, or None.

    Args:
        cases: The Cases of every dataset that the Record is an attempt at, or that were made of it; the first is the
            one that the row is said to be of.
        usages: The usages that were asked for.
    """
    if not cases:
        return "it is of no Case, so nobody said what it may be used for"
    if any(case.usage == "holdout" for case in cases):
        return "it is of a holdout Case"
    if any(case.origin is not None and case.origin.expected_verified is False for case in cases):
        return "the expected answer of its Case is a correction that nobody verified"
    if cases[0].usage not in usages:
        return f"its Case is for {cases[0].usage}"
    return None


def passing(
    record_id: str, chosen: Mapping[str, Rows], others: Mapping[str, Rows]
) -> tuple[str | None, tuple[str, ...]]:
    """Returns why a Record does not pass, or None, and the ids of the Assessments by which it does.

    It passes by an Assessment that has a pass for it, no fail and nothing unknown; a verdict that stands for the rest
    of an Assessment was given by nobody. A fail in any current Assessment speaks against it.

    Args:
        record_id: The Record.
        chosen: Assessment id → verdicts of those that were asked for: it has to pass by each. Where none was asked for,
            it has to pass by each of `others` that judged it, and by one at the least.
        others: The other current Assessments of its batch.
    """
    asked = chosen or {name: rows for name, rows in others.items() if record_id in rows}
    if not asked:
        return "it was not judged", ()
    for rows in asked.values():
        if (why := _problem(rows.get(record_id, ()))) is not None:
            return why, ()
    if any(row.verdict == "fail" for rows in others.values() for row in rows.get(record_id, ())):
        return "it fails in another current Assessment", ()
    return None, tuple(asked)


def _problem(given: Sequence[VerdictRow]) -> str | None:
    if not given:
        return "it was not judged"
    if any(row.verdict == "fail" for row in given):
        return "it fails"
    if any(row.judger_kind == DEFAULTED for row in given):
        return "nobody judged it: its verdict is that of the rest"
    if any(row.verdict == "unknown" for row in given) or not any(row.verdict == "pass" for row in given):
        return "it is not known to pass"
    return None
