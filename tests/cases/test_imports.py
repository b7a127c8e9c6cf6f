"""Exports from the wild: each case's outcome, counts, facts and warnings, and what must not happen."""

import json
import os
import time
from pathlib import Path

import pytest

from operations.importers.evidence import NoEvidence, TooManyDamaged
from storage.schema.assessments import Assessment
from tests.support.imports import Imports, event

CASES = Path(__file__).parent / "imports"
TRACES = {"adapter_profile": "langfuse_trace_bundle"}
OBSERVATIONS = {"adapter_profile": "langfuse_observation_rows"}


@pytest.fixture
def imports(tmp_path):
    return Imports(tmp_path / "project")


def expected_counts(case):
    return json.loads((CASES / case / "case.json").read_text())["expected"]["counts"]


def bare_content(record):
    """What a Record says, without where it was read."""
    return record.model_dump(mode="json", exclude={"id", "n", "locators"})


def test_01_text_that_was_encoded_twice_is_read_as_what_it_was(imports):
    columns = ["input", "output", "metadata", "tags"]
    folder = CASES / "01_csv_double_encoded_json"
    old = imports.send(folder / "old_style.csv", **TRACES, json_columns=columns)
    new = imports.send(folder / "new_style.csv", **TRACES, json_columns=columns)
    assert (old.counts["traces"], new.counts["traces"]) == (2, 2)
    first, second = imports.records(old.batch_id), imports.records(new.batch_id)
    assert first["tr-01"].input.value == {"messages": [{"role": "user", "content": 'Say "hi", then stop'}]}
    assert first["tr-01"].output.value == {"answer": "hi", "steps": [1, 2]}
    assert first["tr-02"].input.value == "plain question"
    for trace in ("tr-01", "tr-02"):
        assert bare_content(first[trace]) == bare_content(second[trace])
    assert any(w.startswith("double_encoded_json in: old_style.csv") for w in old.warnings)
    assert new.warnings == []


def test_03_quoted_integers_are_numbers_and_prices_stay_exact(imports):
    response = imports.send(
        CASES / "03_quoted_int64_usage",
        file_roles={"observations/2026-02-01T11-00-00.jsonl": "observation", "case.json": "ignore"},
    )
    assert response.counts["observations"] == expected_counts("03_quoted_int64_usage")["observations"]
    record = imports.records(response.batch_id)["t-1"]
    usage = [e.attributes["usage_details"]["total"] for e in record.log.events]
    assert (usage[0], sum(usage)) == (150, 250)
    assert event(record, "o-1").attributes["input_price"] == "0.0000025"


def test_05_three_shapes_of_time_are_one_instant_in_every_zone(tmp_path, monkeypatch):
    folder = CASES / "05_naive_timestamps_three_formats"
    roles = {"ui_traces.json": "trace", "ui_events.jsonl": "observation", "env.json": "ignore", "case.json": "ignore"}
    digests = set()
    try:
        for zone in json.loads((folder / "env.json").read_text())["TZ"]:
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            imports = Imports(tmp_path / zone)
            response = imports.send(folder, file_roles=roles)
            record = imports.records(response.batch_id)["t-1"]
            raw = imports.raw(response.batch_id)[0]
            assert raw["at"] == "2026-03-29T01:30:00.123000Z"
            assert raw["log"]["events"][0]["at"] == "2026-03-29T01:30:00.123456Z"
            assert event(record, "o-1").attributes["trace_timestamp"] is None
            assert response.fields["observation.trace_timestamp"] == {"unknown": 1}
            digests.add(imports.batch(response.batch_id).records_sha256)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert len(digests) == 1
    assert response.counts["traces"] == response.counts["observations"] == 1


def test_06_windows_that_overlap_are_merged_and_an_unlisted_file_is_left_out(imports):
    response = imports.send(CASES / "06_blob_windows_overlap_and_unlisted_file" / "exp" / "p1")
    wanted = expected_counts("06_blob_windows_overlap_and_unlisted_file")
    assert {name: response.counts[name] for name in wanted} == wanted
    assert event(imports.records(response.batch_id)["t-2"], "o-edge").attributes["level"] == "ERROR"
    assert any("file without manifest" in w and "2026-06-01T13-00-00.jsonl" in w for w in response.warnings)
    assert response.completeness == "partial"
    assert response.skipped_files == ["DEPRECATION_NOTICE.txt", "observations_v2/2026-06-01T13-00-00.jsonl"]


def test_07_what_belongs_to_an_unknown_trace_is_kept_and_joined_to_no_other(imports):
    names = {"traces.jsonl": "trace", "observations.jsonl": "observation", "scores.jsonl": "score"}
    response = imports.send(CASES / "07_orphan_observation_random_trace", file_roles={**names, "case.json": "ignore"})
    wanted = expected_counts("07_orphan_observation_random_trace")
    assert {name: response.counts[name] for name in wanted} == wanted
    records = imports.records(response.batch_id)
    assert set(records) == {"t-1", "9f1b-not-a-trace"}
    assert event(records["9f1b-not-a-trace"], "o-2")
    assert not records["9f1b-not-a-trace"].trace_row
    assert "trace_row" in records["9f1b-not-a-trace"].missing
    assert [e.id for e in records["t-1"].log.events] == ["o-1"]
    (score,) = imports.loose(response.batch_id)
    assert (score.id, score.trace_id) == ("s-1", "t-gone")
    assert any("missing trace" in w and "o-2" in w for w in response.warnings)
    assert any("missing trace" in w and "s-1" in w for w in response.warnings)


@pytest.mark.parametrize(
    ("mapping", "given", "answered"),
    [("a", None, None), ("b", "real question", "final answer"), ("c", None, None)],
)
def test_09_only_one_root_or_the_named_one_speaks_for_its_trace(imports, mapping, given, answered):
    folder = CASES / "09_two_roots_no_trace_row"
    config = json.loads((folder / f"mapping_{mapping}.json").read_text())
    response = imports.send(folder / "observations_v2.jsonl", **OBSERVATIONS, **config)
    record = imports.records(response.batch_id)["t-1"]
    assert (record.input.value, record.output.value) == (given, answered)
    if given is None:
        assert record.input.status == "not_exported"
        assert {"trace_input", "trace_output"} <= set(record.missing)
    else:
        assert record.output.source == "observation:r2"
    assert len(record.log.events) == 2


def test_10_scores_keep_their_types_and_none_becomes_a_verdict(imports):
    response = imports.send(
        CASES / "10_scores_five_types_one_name" / "scores.jsonl", file_roles={"scores.jsonl": "score"}
    )
    assert response.counts["scores"] == expected_counts("10_scores_five_types_one_name")["scores"]
    scores = {score.id: score for score in imports.loose(response.batch_id)}
    assert [scores[f"s{n}"].value for n in range(1, 6)] == [0.8, True, "polite", "needs a source", "good"]
    assert [scores[f"s{n}"].type for n in range(1, 8)] == [
        "numeric", "boolean", "categorical", "text", "categorical", scores["s6"].type, "unknown",
    ]  # fmt: skip
    assert (scores["s6"].subject_kind, scores["s6"].subject_id) == ("dataset_run", "run-1")
    assert scores["s7"].value
    quality = [s.value for s in scores.values() if s.name == "quality" and s.type == "numeric"]
    assert sum(quality) / len(quality) == 0.8
    assert imports.project.state().all(Assessment) == []
    assert "score name 'quality' has types CATEGORICAL and NUMERIC" in response.warnings
    assert "unknown data_type: NEWTYPE" in response.warnings


def test_12_what_a_download_left_out_is_told_from_an_empty_answer(imports):
    records = {}
    for name in ("full", "omitted", "legacy"):
        response = imports.send(CASES / "12_trace_download_without_io" / f"{name}.json", **TRACES)
        assert response.counts["observations"] == 1
        records |= imports.records(response.batch_id)
    full, omitted, legacy = (event(records[trace], "o1") for trace in ("t1", "t2", "t3"))
    assert (full.input.value, full.output.value) == ({"q": "x"}, "done")
    assert (omitted.input.status, omitted.output.status) == ("not_exported", "not_exported")
    assert (legacy.input.status, legacy.output.status) == ("null", "null")
    assert legacy.attributes["metadata"] == {}
    assert records["t3"].runtime_metadata["metadata"] == {}
    for trace, status in (("t2", "not_exported"), ("t3", "null")):
        assert records[trace].output.status == status
        assert "trace_output" in records[trace].missing


def test_15_a_parent_comes_before_its_child_and_no_time_runs_backwards(imports):
    response = imports.send(CASES / "15_same_start_time_parent_child" / "observations.json", **OBSERVATIONS)
    wanted = expected_counts("15_same_start_time_parent_child")
    assert {name: response.counts[name] for name in wanted} == wanted
    record = imports.records(response.batch_id)["t1"]
    assert list(dict.fromkeys(e.id for e in record.log.events)) == ["ff-parent", "0a-child", "0b-second"]
    assert event(record, "0b-second").duration_seconds is None
    assert event(record, "0a-child").parent == "ff-parent"
    assert any("ends before it starts" in w and "0b-second" in w for w in response.warnings)


def test_17_a_table_saved_by_a_spreadsheet_keeps_its_cells_and_names(imports):
    source = CASES / "17_bom_crlf_embedded_newlines" / "cases.csv"
    columns = {"case_id": "id", "input": "input", "output": "expected"}
    response = imports.send(source, source_kind="batch_results", mapping=columns)
    assert response.counts["records"] == expected_counts("17_bom_crlf_embedded_newlines")["cases"]
    records = imports.records(response.batch_id)
    assert records["c-1"].input.value.replace("\r\n", "\n") == "first line\nsecond line"
    assert records["c-2"].input.value == 'she said "no", then left'
    assert imports.send(source, source_kind="batch_results", dry_run=True).suggestion["columns"] == [
        "id",
        "input",
        "expected",
    ]


def test_19_a_long_cell_is_whole(imports):
    import csv

    before = csv.field_size_limit()
    source = CASES / "19_field_over_csv_limit" / "cases.csv"
    columns = {"case_id": "id", "input": "input", "output": "expected"}
    response = imports.send(source, source_kind="batch_results", mapping=columns)
    assert response.counts["records"] == 2
    assert len(imports.records(response.batch_id)["c-1"].input.value) == 200_000
    assert csv.field_size_limit() == before


def test_20_every_member_of_a_packed_file_is_read(imports):
    response = imports.send(CASES / "20_gzip_concatenated_members" / "traces.jsonl.gz", **TRACES)
    assert response.counts["traces"] == expected_counts("20_gzip_concatenated_members")["traces"]


def test_22_an_interrupted_append_is_told_from_damage_and_from_a_missing_line_end(imports):
    folder = CASES / "22_jsonl_torn_tail_and_midfile_damage"
    torn = imports.send(folder / "torn_tail.jsonl", **TRACES)
    assert (torn.counts["traces"], torn.completeness) == (2, "unknown")
    assert any("line 3 is an interrupted append" in w and "completeness unknown" in w for w in torn.warnings)
    whole = imports.send(folder / "no_final_newline.jsonl", **TRACES)
    assert (whole.counts["traces"], whole.warnings) == (2, [])
    with pytest.raises(TooManyDamaged, match=r"damaged_middle\.jsonl line 2"):
        imports.send(folder / "damaged_middle.jsonl", **TRACES)
    isolated = imports.send(folder / "damaged_middle.jsonl", **TRACES, max_damaged=1)
    assert (isolated.counts["traces"], isolated.completeness) == (2, "partial")
    assert [(d.file, d.line) for d in isolated.damaged] == [("damaged_middle.jsonl", 2)]
    with pytest.raises(NoEvidence):
        imports.send(folder / "empty.jsonl", **TRACES)
    assert imports.send(folder / "blank_lines.jsonl", **TRACES).counts["traces"] == 1


def test_24_a_number_that_is_none_is_no_score(imports):
    response = imports.send(
        CASES / "24_nan_infinity_numbers" / "results.jsonl",
        source_kind="batch_results",
        mapping={"case_id": "case_id", "repeat": "repeat", "scores": {"score": "score"}},
    )
    wanted = expected_counts("24_nan_infinity_numbers")
    assert {name: response.counts[name] for name in wanted} == wanted
    records = imports.records(response.batch_id)
    assert [records[f"c{n}"].scores[0].status for n in range(1, 7)] == ["unparsable"] * 5 + ["value"]
    assert records["c4"].scores[0].value == "1e999"
    data = imports.project.store.read(f"evidence/{response.batch_id}/records.jsonl")

    def refuse(token):
        raise AssertionError(token)

    for line in data.splitlines():
        json.loads(line, parse_constant=refuse)


def test_27_text_that_only_looks_like_json_stays_as_it_is(imports):
    response = imports.send(CASES / "27_python_repr_cells" / "traces.csv", **TRACES, json_columns=["input"])
    assert response.counts["traces"] == expected_counts("27_python_repr_cells")["traces"]
    records = imports.records(response.batch_id)
    assert records["t-1"].input.model_dump() == {
        "status": "unparsable",
        "value": "{'q': 'x', 'ok': True, 'n': None}",
        "source": "trace",
    }
    assert records["t-2"].input.value == "{'q': \"it's\"}"
    assert response.fields["trace.input"] == {"unparsable": 2}
    assert any("no JSON" in w for w in response.warnings)


def test_31_an_orphan_span_stays_and_the_root_speaks_for_its_trace(imports):
    case = "31_otlp_genai_orphan_and_order"
    response = imports.send(CASES / case / "otlp.json", source_kind="otel")
    assert {name: response.counts[name] for name in expected_counts(case)} == expected_counts(case)
    assert response.warnings == ["parent not in the export: span eee19b7ec3c1b175"]
    record = imports.records(response.batch_id)["5b8efff798038103d269b633813fc60c"]
    assert (record.input.value, record.output.value) == ("hi", "bye")
    assert (record.at_text, record.source.session_id) == ("1785000000000000001", "conv-1")
    call, result = event(record, "eee19b7ec3c1b174", "tool_call"), event(record, "eee19b7ec3c1b174", "tool_result")
    assert (call.call_id, call.name, call.arguments.value) == ("call_1", "search", {"q": "x"})
    assert (result.call_id, result.content.value) == ("call_1", [1, 2])
    chat = event(record, "eee19b7ec3c1b175")
    assert (chat.attributes["usage"]["input_tokens"], chat.parent) == (120, "00000000000000aa")
    assert (chat.attributes["status"], chat.error.message) == ("error", "rate limited")
    assert [e.id[-3:] for e in record.log.events] == ["173", "174", "174", "175"]
    assert event(record, "eee19b7ec3c1b173").parent is None
    assert record.missing == ("parent_observations",)


def test_every_response_is_small_and_the_sources_are_untouched(imports):
    def state():
        return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in CASES.rglob("*") if path.is_file()}

    before = state()
    response = imports.send(CASES / "12_trace_download_without_io" / "full.json", **TRACES)
    assert len(response.model_dump_json()) < 8_000
    assert state() == before
    assert os.path.isdir(CASES)
