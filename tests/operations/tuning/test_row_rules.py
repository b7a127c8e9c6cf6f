"""What may be trained on: a Case of the right usage whose answer is trusted, and a Record that somebody passed."""

import pytest

from operations.tuning.row_rules import case_problem, current, passing
from storage.schema.assessments import DEFAULTED, Assessment, EvidenceRef, VerdictRow
from storage.schema.datasets import Case, CaseOrigin, CaseSource

RECORD = "batch-1-a.1"
ORIGIN = {"batch_id": "batch-1-a", "record_id": RECORD}


def case(usage="optimization", **origin):
    return Case(
        id="c", input="q", expected_present=False, expected=None, usage=usage, source_group_id=None,
        initial_conditions=None, attachments=(), source=CaseSource(path="f", row=1), fingerprint="0" * 64,
        origin=CaseOrigin(**ORIGIN, **origin) if origin else None,
    )  # fmt: skip


def rows(*verdicts, kind="client"):
    own = (EvidenceRef(batch_id="batch-1-a", evidence_id=RECORD),)
    usual = {"record_id": RECORD, "validity": "valid", "validity_reason": "", "score": None, "reason": ""}
    given = enumerate(verdicts)
    return {
        RECORD: [
            VerdictRow(**usual, dimension=f"d{n}", verdict=verdict, evidence_refs=own, judger_kind=kind)
            for n, verdict in given
        ]
    }


@pytest.mark.parametrize(
    ("cases", "why"),
    [
        ([], "it is of no Case, so nobody said what it may be used for"),
        ([case()], None),
        ([case("protection")], "its Case is for protection"),
        ([case(), case("holdout")], "it is of a holdout Case"),
        (
            [case(expected_from="score:fix", expected_verified=False)],
            "the expected answer of its Case is a correction that nobody verified",
        ),
        ([case(expected_from="score:fix", expected_verified=True)], None),
        ([case(expected_from="record")], None),
        (
            [case(), case(expected_from="score:fix", expected_verified=False)],
            "the expected answer of its Case is a correction that nobody verified",
        ),
    ],
)
def test_a_case_decides_over_its_records(cases, why):
    assert case_problem(cases, ("optimization",)) == why


@pytest.mark.parametrize(
    ("chosen", "others", "outcome"),
    [
        ({}, {}, ("it was not judged", ())),
        ({}, {"a": {}}, ("it was not judged", ())),
        ({"a": {}}, {"b": rows("pass")}, ("it was not judged", ())),
        ({"a": rows("pass")}, {}, (None, ("a",))),
        ({}, {"a": rows("pass"), "b": rows("pass", "not_applicable"), "c": {}}, (None, ("a", "b"))),
        ({}, {"a": rows("pass"), "b": rows("fail")}, ("it fails", ())),
        ({"a": rows("pass")}, {"b": rows("pass", "fail")}, ("it fails in another current Assessment", ())),
        ({"a": rows("pass")}, {"b": rows("unknown")}, (None, ("a",))),
        ({"a": rows("pass", "unknown")}, {}, ("it is not known to pass", ())),
        ({"a": rows("not_applicable")}, {}, ("it is not known to pass", ())),
        ({"a": rows("pass", kind=DEFAULTED)}, {}, ("nobody judged it: its verdict is that of the rest", ())),
    ],
)
def test_a_record_passes_by_what_somebody_said_and_nobody_denies(chosen, others, outcome):
    assert passing(RECORD, chosen, others) == outcome


def assessment(name, batch_id="batch-1-a", **more):
    return Assessment(
        id=name, batch_id=batch_id, spec_id="s", spec_digest="0" * 64, judger_id="j", judger_digest="0" * 64,
        judger_readiness="uncalibrated", csv_sha256="0" * 64, row_count=1, counts={}, created_at="now", **more,
    )  # fmt: skip


def test_what_is_current_is_what_nothing_supersedes():
    first, other = assessment("a"), assessment("x", "batch-2-b")
    second = assessment("b", supersedes="a", supersede_reason="looked again")
    assert current([first, other], "batch-1-a") == [first]
    assert current([first, second, other], "batch-1-a") == [second]
