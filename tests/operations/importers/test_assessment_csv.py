"""The assessment's CSV: exact on the way back, harmless in a spreadsheet."""

import csv
import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from operations.importers import AssessmentCsvMalformed, read_assessment_csv, write_assessment_csv
from operations.importers._assessment_csv import COLUMNS, guard, unguard
from storage.schema.assessments import VerdictRow

REF = {"batch_id": "batch-1-abcd", "evidence_id": "batch-1-abcd.0"}


def row(**changes):
    values = {
        "record_id": "batch-1-abcd.0",
        "dimension": "correctness",
        "validity": "valid",
        "validity_reason": "",
        "verdict": "pass",
        "score": None,
        "reason": "",
        "evidence_refs": [REF],
        "judger_kind": "client",
    }
    return VerdictRow.model_validate(values | changes)


def test_columns_are_the_nine_in_their_order():
    header, first = write_assessment_csv([row(score=0.5, reason="a,b")]).decode().splitlines()
    assert header == "record_id,dimension,validity,validity_reason,verdict,score,reason,evidence_refs,judger_kind"
    assert first.startswith('batch-1-abcd.0,correctness,valid,,pass,0.5,"a,b","[{""batch_id""')


FORMULAS = [
    "=1+1",
    "+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(1)",
    "\t=1+1",
    "\r=1+1",
    "\uff1d1+1",
    "\uff0b1",
    "\uff0d1",
    "\uff20x",
    "-",
    "+1-1",
]


@pytest.mark.parametrize("text", FORMULAS)
def test_formula_gets_an_apostrophe(text):
    cells = next(csv.DictReader(io.StringIO(write_assessment_csv([row(reason=text)]).decode(), newline="")))
    assert cells["reason"] == f"'{text}"


@pytest.mark.parametrize("text", ["-2.5", "+7", "1e-5", "-1E+3", "plain", "'tis", "", " =1", "a=b"])
def test_number_and_plain_text_stay_as_they_are(text):
    assert guard(text) == text


@example("'=1")
@example("''=1")
@example("'tis")
@example("'-1")
@given(st.text(st.sampled_from("'=+-@\t\r1\uff1dx"), max_size=6))
def test_guard_is_taken_off_exactly(cell):
    assert unguard(guard(cell)) == cell


texts = st.text(max_size=12) | st.text(st.sampled_from("'=+-@\t\r\n\",;1"), max_size=6)
rows = st.builds(
    row,
    dimension=texts.filter(str.strip),
    validity_reason=texts,
    reason=texts,
    score=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    judger_kind=texts,
    evidence_refs=st.lists(st.builds(lambda text: REF | {"evidence_id": text}, texts), min_size=1, max_size=3),
)


@given(st.lists(rows, max_size=4))
def test_rows_are_read_back_equal(written):
    assert read_assessment_csv(write_assessment_csv(written)) == written


def test_long_reason_is_read_back_whole():
    written = [row(reason="x" * 200_000)]
    assert read_assessment_csv(write_assessment_csv(written)) == written


HEAD = ",".join(COLUMNS) + "\r\n"
GOOD = 'r.0,d,valid,,pass,,,"[{""batch_id"":""r"",""evidence_id"":""r.0""}]",client\r\n'


@pytest.mark.parametrize(
    ("content", "number", "column"),
    [
        ("", 0, "all"),
        ("record_id,verdict\r\n", 0, "all"),
        (HEAD + "a,b\r\n", 1, "all"),
        (HEAD + '"a', 0, "all"),
        (HEAD + GOOD + GOOD.replace("pass", "good"), 2, "verdict"),
        (HEAD + GOOD.replace("valid", "invalid"), 1, "verdict"),
        (HEAD + GOOD.replace("pass,", "pass,high"), 1, "score"),
        (HEAD + GOOD.replace("pass,", "pass,nan"), 1, "score"),
        (HEAD + GOOD.replace('"[', '"'), 1, "evidence_refs"),
        (HEAD + "\udcff", 0, "all"),
    ],
)
def test_other_content_is_refused_with_row_and_column(content, number, column):
    with pytest.raises(AssessmentCsvMalformed) as refused:
        read_assessment_csv(content.encode("utf-8", "surrogateescape"))
    assert (refused.value.row, refused.value.column) == (number, column)


def test_row_that_reads_well_is_read():
    assert read_assessment_csv((HEAD + GOOD).encode())[0].verdict == "pass"
