"""Short rows become whole ones, or are refused with row and field."""

import json

import pytest

from operations.importers import _rows, expand_rows, read_rows_file, verdicts, write_assessment_csv
from operations.importers.verdicts import AssessmentIncomplete, NotApplicableWithoutRule

BATCH = "batch-1-abcd"
RECORDS = [f"{BATCH}.0", f"{BATCH}.1"]


def expand(rows, dimensions=("correctness",)):
    return expand_rows(rows, RECORDS, dimensions, BATCH, "client")


def test_short_rows_get_their_defaults_and_the_batch_s_order():
    first, second = expand(
        [
            {"record_id": RECORDS[1], "verdict": "fail", "reason": "wrong sum", "score": "0.25"},
            {"record_id": RECORDS[0], "verdict": "pass", "score": 1},
        ]
    )
    assert first.model_dump() == {
        "record_id": RECORDS[0],
        "dimension": "correctness",
        "validity": "valid",
        "validity_reason": "",
        "verdict": "pass",
        "score": 1.0,
        "reason": "",
        "evidence_refs": ({"batch_id": BATCH, "evidence_id": RECORDS[0]},),
        "judger_kind": "client",
    }
    assert (second.record_id, second.reason, second.score) == (RECORDS[1], "wrong sum", 0.25)


def test_record_that_is_not_valid_is_unknown_without_saying_so():
    rows = [{"record_id": RECORDS[0], "validity": "invalid", "validity_reason": "no network"}]
    found = expand([*rows, {"record_id": RECORDS[1], "verdict": "pass"}])
    assert (found[0].verdict, found[0].validity_reason) == ("unknown", "no network")


def test_evidence_may_name_other_records_beside_its_own():
    refs = [{"batch_id": BATCH, "evidence_id": record} for record in RECORDS]
    rows = [{"record_id": record, "verdict": "pass", "evidence_refs": json.dumps(refs)} for record in RECORDS]
    assert len(expand(rows)[0].evidence_refs) == 2


GOOD = {"record_id": RECORDS[0], "verdict": "pass"}
FOREIGN = [{"batch_id": "other", "evidence_id": RECORDS[0]}]
NEIGHBOUR = [{"batch_id": BATCH, "evidence_id": RECORDS[1]}]
REFUSED = {
    "unknown_field": (GOOD | {"verdct": "x"}, verdicts.VerdictFieldUnknown, "verdct"),
    "no_record": ({"verdict": "pass"}, verdicts.VerdictFieldMissing, "record_id"),
    "no_verdict": ({"record_id": RECORDS[0]}, verdicts.VerdictFieldMissing, "verdict"),
    "unknown_record": (GOOD | {"record_id": f"{BATCH}.7"}, verdicts.RecordNotInBatch, "record_id"),
    "record_of_a_kind": (GOOD | {"record_id": 0}, verdicts.RecordNotInBatch, "record_id"),
    "dimension": (GOOD | {"dimension": "tone"}, verdicts.VerdictFieldInvalid, "dimension"),
    "verdict": (GOOD | {"verdict": "PASS"}, verdicts.VerdictFieldInvalid, "verdict"),
    "verdict_of_a_kind": (GOOD | {"verdict": ["pass"]}, verdicts.VerdictFieldInvalid, "verdict"),
    "validity": (GOOD | {"validity": "maybe"}, verdicts.VerdictFieldInvalid, "validity"),
    "pass_of_invalid": (GOOD | {"validity": "invalid"}, verdicts.VerdictWithoutValidity, "verdict"),
    "score": (GOOD | {"score": "high"}, verdicts.VerdictFieldInvalid, "score"),
    "score_nan": (GOOD | {"score": float("nan")}, verdicts.VerdictFieldInvalid, "score"),
    "score_true": (GOOD | {"score": True}, verdicts.VerdictFieldInvalid, "score"),
    "score_huge": (GOOD | {"score": 10**400}, verdicts.VerdictFieldInvalid, "score"),
    "reason": (GOOD | {"reason": 7}, verdicts.VerdictFieldInvalid, "reason"),
    "reason_half_a_pair": (GOOD | {"reason": "\ud800"}, verdicts.VerdictFieldInvalid, "reason"),
    "evidence_of_another_batch": (GOOD | {"evidence_refs": FOREIGN}, verdicts.EvidenceNotOfRecord, "evidence_refs"),
    "evidence_not_its_own": (GOOD | {"evidence_refs": NEIGHBOUR}, verdicts.EvidenceNotOfRecord, "evidence_refs"),
    "no_evidence": (GOOD | {"evidence_refs": []}, verdicts.EvidenceNotOfRecord, "evidence_refs"),
    "evidence_of_a_kind": (GOOD | {"evidence_refs": 7}, verdicts.EvidenceNotOfRecord, "evidence_refs"),
    "evidence_as_bad_text": (GOOD | {"evidence_refs": "[{"}, verdicts.EvidenceNotOfRecord, "evidence_refs"),
    "twice": ({"record_id": RECORDS[1], "verdict": "fail"}, verdicts.VerdictTwice, "record_id"),
}


@pytest.mark.parametrize(("row", "error", "field"), REFUSED.values(), ids=REFUSED)
def test_row_is_refused_with_its_number_and_field(row, error, field):
    with pytest.raises(error) as refused:
        expand([{"record_id": RECORDS[1], "verdict": "pass"}, row])
    assert (refused.value.row, refused.value.field) == (2, field)
    assert str(refused.value)
    assert refused.value.next[0].tool == "store_assessment"


def test_dimension_is_required_where_there_are_several():
    with pytest.raises(verdicts.VerdictFieldMissing) as refused:
        expand([GOOD], ("correctness", "tone"))
    assert refused.value.field == "dimension"


def test_missing_verdicts_are_listed():
    with pytest.raises(verdicts.AssessmentIncomplete) as refused:
        expand([GOOD | {"dimension": "tone"}], ("correctness", "tone"))
    assert refused.value.count == 3
    assert refused.value.missing == (
        f"{RECORDS[0]} in correctness",
        f"{RECORDS[1]} in correctness",
        f"{RECORDS[1]} in tone",
    )


def test_the_written_csv_can_be_given_back(tmp_path):
    whole = expand([GOOD | {"reason": "=1+1"}, {"record_id": RECORDS[1], "verdict": "unknown", "reason": "'tis"}])
    path = tmp_path / "rows.csv"
    path.write_bytes(write_assessment_csv(whole))
    assert expand(read_rows_file(str(path))) == whole


def test_rows_are_read_from_jsonl(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps({"record_id": record, "verdict": "pass"}) for record in RECORDS))
    assert [row.verdict for row in expand(read_rows_file(str(path)))] == ["pass", "pass"]
    path.write_text("")
    with pytest.raises(_rows.SourceHasNoRows):
        read_rows_file(str(path))


def test_the_sentence_about_missing_verdicts_counts_what_it_does_not_name():
    records = [f"batch-1-b.{n}" for n in range(1, 12)]
    with pytest.raises(verdicts.AssessmentIncomplete) as refused:
        verdicts.expand_rows([], records, ("correct",), "batch-1-b", "client")

    text = str(refused.value)
    assert text.startswith("Verdicts are missing, 11 of the 11 that are needed: ")
    assert text.count(" in correct") == 6
    assert "and 5 more" in text


def test_missing_verdicts_are_listed_page_by_page():
    records = [f"batch-1-abcd.{n}" for n in range(1, 51)]
    listed, start = [], 0
    while start is not None:
        with pytest.raises(AssessmentIncomplete) as caught:
            expand_rows([], records, ["a"], "batch-1-abcd", "client", missing_from=start)
        listed += caught.value.missing
        start = caught.value.next_missing_from
    assert listed == [f"{record} in a" for record in records]


def test_dimension_that_need_not_apply_is_named_by_a_rule():
    row = {"record_id": "batch-1-abcd.1", "verdict": "not_applicable"}
    given = ([row], ["batch-1-abcd.1"], ["a"], "batch-1-abcd", "client")
    assert expand_rows(*given, exempt={"a"})[0].verdict == "not_applicable"
    with pytest.raises(NotApplicableWithoutRule):
        expand_rows(*given, exempt={"b"})


def test_hundred_thousand_references_are_looked_up_and_not_searched_for():
    class Records(list):
        reads = 0

        def __iter__(self):
            Records.reads += 1
            return super().__iter__()

        def __contains__(self, _):
            raise AssertionError("searched")

    records = Records(f"batch-1-abcd.{n}" for n in range(1, 5_001))
    everyone = [{"batch_id": "batch-1-abcd", "evidence_id": f"batch-1-abcd.{n}"} for n in range(1, 20)]
    rows = [
        {
            "record_id": r,
            "verdict": "pass",
            "evidence_refs": [{"batch_id": "batch-1-abcd", "evidence_id": r}, *everyone],
        }
        for r in list(records)
    ]
    before = Records.reads
    found = expand_rows(rows, records, ["a"], "batch-1-abcd", "client")
    assert sum(len(row.evidence_refs) for row in found) == 100_000
    assert Records.reads - before == 1
