"""Finding Records, making Cases of them and agreeing on what they mean is refused where it has to be."""

import pytest

from tests.operations.catalog.guards import Guard, holds, names

BATCH = {"batch_id": "{batch_id}"}
MEANING = {
    "mapping_version": "1",
    "agreed_by": "the owner",
    "fields": [{"field": "output", "meaning": "what the customer read"}],
}


def file(name, content):
    return lambda target: target.write(name, content)


def agreed(target):
    target.call("record_source_contract", **{**MEANING, "fields": [{"field": "output", "meaning": "the queue"}]})


GUARDS = [
    Guard("find_records", "evaluated", "batch_or_selection", {}),
    Guard("find_records", "evaluated", "unknown_object", {"batch_id": "batch-1-none"}),
    Guard("find_records", "evaluated", "unknown_object", {"selection_id": "selection-1-none"}),
    Guard("find_records", "evaluated", "source_not_regular", {**BATCH, "ids_file": "missing.csv"}),
    Guard("find_records", "evaluated", "source_format_unknown", {**BATCH, "ids_file": "agent.sh"}),
    Guard("find_records", "evaluated", "source_not_utf8", {**BATCH, "ids_file": "a.txt"}, file("a.txt", b"a\n\xff\n")),
    Guard("find_records", "evaluated", "source_has_no_rows", {**BATCH, "ids_file": "a.txt"}, file("a.txt", "\n")),
    Guard(
        "find_records",
        "evaluated",
        "ids_column_missing",
        {**BATCH, "ids_file": "cases.csv", "ids_column": "colour"},
        facts={"column": "colour", "columns": ["id", "input", "expected"]},
    ),
    Guard("find_records", "evaluated", "bad_cursor", {**BATCH, "cursor": "99"}),
    Guard("find_records", "evaluated", "bounds_crossed", {**BATCH, "scores": [{"name": "q", "min": 2, "max": 1}]}),
    Guard("find_records", "evaluated", "bounds_crossed", {**BATCH, "after": "2026-06-02", "before": "2026-06-01"}),
    Guard("store_dataset", "evaluated", "cases_of_what", {}),
    Guard("store_dataset", "evaluated", "cases_of_what", {**BATCH, "source": "cases.csv"}),
    Guard("store_dataset", "evaluated", "unknown_object", {"batch_id": "batch-1-none"}),
    Guard("store_dataset", "evaluated", "records_unknown", {**BATCH, "record_ids": ["batch-1-none.1"]}),
    Guard("record_source_contract", "initialized", "contract_unclear", {}),
    Guard("record_source_contract", "initialized", "excerpt_unusable", {"source_path": "missing.py"}),
    Guard("record_source_contract", "initialized", "unknown_object", {**MEANING, "round_id": "round-1-none"}),
    Guard("record_source_contract", "initialized", "contract_version_taken", MEANING, agreed),
]


@pytest.mark.parametrize("guard", GUARDS, ids=names(GUARDS))
def test_guard_refuses_in_words_that_lead_on_and_changes_nothing(guard, stages, tmp_path):
    holds(guard, stages, str(tmp_path / "target"))
