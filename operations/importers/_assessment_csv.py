"""The CSV of an assessment: nine columns that a spreadsheet may open without running anything, read back exactly."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from operations import mistakes
from operations.importers._rows import long_cells
from storage.errors import AtkError, NextCall
from storage.schema.assessments import VerdictRow

COLUMNS = (
    "record_id",
    "dimension",
    "validity",
    "validity_reason",
    "verdict",
    "score",
    "reason",
    "evidence_refs",
    "judger_kind",
)

_FORMULA = re.compile(r"'*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


@dataclass(kw_only=True, eq=False)
class AssessmentCsvMalformed(AtkError):
    """A CSV is not that of an assessment."""

    message = "The assessment's CSV cannot be read: row {row}, column {column}: {reason}. Its columns are {columns}."
    next_calls = (NextCall("get_status"),)

    row: int
    """From 1; 0 is the header."""
    column: str
    reason: str
    columns: tuple[str, ...] = COLUMNS


def guard(cell: str) -> str:
    """Returns the cell with an apostrophe before it when a spreadsheet would take it for a formula.

    A cell that is a guarded one already gets another apostrophe, so that `unguard` gives back every cell exactly.
    """
    return f"'{cell}" if _is_formula(cell) else cell


def unguard(cell: str) -> str:
    """Returns the cell without the one apostrophe that `guard` gave it."""
    return cell[1:] if cell.startswith("'") and _is_formula(cell[1:]) else cell


def _is_formula(cell: str) -> bool:
    return _FORMULA.match(cell) is not None and _NUMBER.fullmatch(cell) is None


def write_assessment_csv(rows: Iterable[VerdictRow]) -> bytes:
    """Returns the rows as CSV in UTF-8 with a header, in the order given."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for row in rows:
        refs = [ref.model_dump() for ref in row.evidence_refs]
        values = {
            **row.model_dump(exclude={"evidence_refs"}),
            "score": "" if row.score is None else repr(row.score),
            "evidence_refs": json.dumps(refs, ensure_ascii=False, separators=(",", ":")),
        }
        writer.writerow([guard(values[name]) for name in COLUMNS])
    return text.getvalue().encode("utf-8")


def read_assessment_csv(data: bytes) -> list[VerdictRow]:
    """Returns the rows of an assessment's CSV.

    Raises:
        AssessmentCsvMalformed: The header is another, or a row is not a verdict.
    """
    try:
        text = data.decode("utf-8-sig")
        with long_cells():
            header, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    except (UnicodeDecodeError, csv.Error, ValueError) as error:
        raise AssessmentCsvMalformed(row=0, column="all", reason=str(error)) from None
    if tuple(header) != COLUMNS:
        raise AssessmentCsvMalformed(row=0, column="all", reason=f"the header is {', '.join(header)}")
    return [_row(number, cells) for number, cells in enumerate(rows, 1)]


def _row(number: int, cells: list[str]) -> VerdictRow:
    if len(cells) != len(COLUMNS):
        raise AssessmentCsvMalformed(row=number, column="all", reason=f"it has {len(cells)} cells")
    values: dict[str, Any] = dict(zip(COLUMNS, map(unguard, cells), strict=True))
    column = "evidence_refs"
    try:
        values["evidence_refs"] = json.loads(values["evidence_refs"])
        column = "score"
        values["score"] = float(values["score"]) if values["score"] else None
        return VerdictRow.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = str(first["loc"][0]) if first["loc"] else "verdict"
        raise AssessmentCsvMalformed(row=number, column=place, reason=mistakes.said(first)) from None
    except ValueError as error:
        raise AssessmentCsvMalformed(row=number, column=column, reason=str(error)) from None
