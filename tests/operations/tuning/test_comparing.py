"""Outcome tables are joined by slot, the last attempt of a slot counts, and a look is charged to what it claimed."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operations.tuning.comparing import charged_case_ids, looks, looks_of, table
from storage.schema.assessments import VerdictRow
from storage.schema.evidence import EvidenceRecord
from tests.operations.catalog.evidence import ENDED


def record(n, case_id, repeat=1, status="completed", retry_of=None):
    return EvidenceRecord(
        id=f"batch-1-a.{n}",
        n=n,
        case_id=case_id,
        case_fingerprint="f",
        repeat=repeat,
        output="x",
        output_status="value",
        execution=ENDED.model_copy(update={"status": status, "retry_of": retry_of}),
    )


def rows(records, verdicts):
    known = {"dimension": "d", "validity": "valid", "reason": "", "judger_kind": "rule"}
    made = []
    for one, verdict in zip(records, verdicts, strict=True):
        fields = {**known, "record_id": one.id, "case_id": one.case_id, "repeat": one.repeat, "verdict": verdict}
        made.append(VerdictRow.model_construct(**fields))
    return made


def outcomes(records, verdicts, cases=("a", "b", "c"), repeats=1):
    return table(rows(records, verdicts), records, ["d"], cases, repeats, timeout_is_failure=False)["d"]


@given(order=st.permutations(range(3)))
def test_order_in_which_attempts_ended_changes_nothing(order):
    records = [record(n, case_id) for n, case_id in enumerate("abc", 1)]
    verdicts = ["pass", "fail", "pass"]
    found = outcomes([records[i] for i in order], [verdicts[i] for i in order])
    assert found == {"a": ("pass",), "b": ("fail",), "c": ("pass",)}


def test_retry_is_not_the_best_of_two():
    first, again = record(1, "a"), record(2, "a", retry_of="batch-1-a.1")
    assert outcomes([first, again], ["pass", "fail"], ["a"]) == {"a": ("fail",)}
    outage = record(1, "a", status="infra_error")
    assert outcomes([outage, again], ["unknown", "pass"], ["a"]) == {"a": ("pass",)}
    assert outcomes([outage], ["fail"], ["a"]) == {"a": ("unknown",)}


def validation(charged, rule="statistical", mode="incremental"):
    return SimpleNamespace(
        round_id="round-1-a", rule=rule, mode=mode, target_case_ids=("a", "b"), charged_case_ids=charged
    )


@pytest.mark.parametrize(
    ("made", "charged"),
    [
        (validation(None), ("a", "b")),
        (validation(None, mode="final"), ()),
        (validation(None, rule="counts"), ()),
        (validation(("b",)), ("b",)),
        (validation(()), ()),
    ],
)
def test_look_is_charged_to_the_cases_that_it_claimed(made, charged):
    assert charged_case_ids(made) == charged


def test_looks_count_a_case_by_its_content():
    plans = {"round-1-a": frozen({"a": "x", "b": "y"})}
    found = looks([validation(None), validation(("b",)), validation(())], plans)
    assert {look.case_id: look.count for look in found} == {"x": 1, "y": 2}


def frozen(fingerprints, **asked):
    return SimpleNamespace(case_ids=tuple(fingerprints), case_fingerprints=fingerprints, input_digests=asked)


def test_a_case_that_is_stored_again_under_another_name_keeps_its_looks():
    plans = {"round-1-a": frozen({"a": "x", "b": "y"}, a="asks-a", b="asks-b")}
    renamed = frozen({"z": "new", "c": "other"}, z="asks-b", c="asks-c")
    again = [validation(None), validation(("b",))]
    assert looks_of(again, plans, renamed) == {"z": 2}
    assert looks_of(again, plans, plans["round-1-a"]) == {"a": 1, "b": 2}


def test_a_plan_without_digests_of_inputs_counts_by_fingerprint_alone():
    plans = {"round-1-a": frozen({"a": "x", "b": "y"})}
    assert looks_of([validation(None)], plans, frozen({"a": "x", "c": "z"}, a="asks-a", c="asks-c")) == {"a": 1}
