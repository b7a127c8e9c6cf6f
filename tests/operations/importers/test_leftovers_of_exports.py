"""What single exports write that others do not, and that was once read as something else."""

import gzip
import json
import os

import pytest
import zstandard

from operations.importers import _json_stream, _streams
from operations.importers._beginnings import beginning
from operations.importers._json_stream import stream_rows
from operations.reading import BadCursor
from tests.support.imports import Imports, event

TRACES = {"adapter_profile": "langfuse_trace_bundle"}
OBSERVATIONS = {"adapter_profile": "langfuse_observation_rows"}
RESULTS = {"source_kind": "batch_results", "mapping": {"input": "question", "output": "answer"}}


@pytest.fixture
def imports(tmp_path):
    return Imports(tmp_path / "project")


@pytest.fixture
def write(tmp_path):
    def write(name, raw):
        path = tmp_path / "export" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw if isinstance(raw, bytes) else raw.encode())
        return str(path)

    return write


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def trace(**more):
    return {"id": "t-1", "timestamp": "2026-01-01T00:00:00Z", "name": "n", "input": "q", "output": "a", **more}


def observation(number, **more):
    usual = {"id": f"o-{number}", "traceId": "t-1", "parentObservationId": None, "type": "SPAN", "name": "s"}
    return {**usual, "startTime": f"2026-01-01T00:00:{number:02d}Z", "input": "i", "output": "o", **more}


def test_a_list_of_numbers_stays_the_content_and_a_warning_says_that_it_may_be_a_score(imports, write):
    answer = imports.send(write("t.jsonl", lines(trace(input=[0.5, 1], output=[]))), **TRACES)
    record = imports.records(answer.batch_id)["t-1"]
    assert (record.input.status, record.input.value, record.output.value) == ("value", [0.5, 1], [])
    assert any("a list of numbers may be a score of that name" in warning for warning in answer.warnings)


def test_a_mapping_says_that_a_list_of_numbers_is_the_content(imports, write):
    source = write("t.jsonl", lines(trace(input=[0.5, 1])))
    answer = imports.send(source, **TRACES, mapping={"trace": {"input": "input"}})
    assert imports.records(answer.batch_id)["t-1"].input.value == [0.5, 1]


def test_what_the_api_calls_a_root_gives_the_trace_its_content(imports, write):
    rows = lines(
        observation(1, parentObservationId="elsewhere", isRootObservation=True, input="asked"),
        observation(2, parentObservationId="o-1", isRootObservation=False, input="inner"),
    )
    answer = imports.send(write("o.jsonl", rows), **OBSERVATIONS)
    record = imports.records(answer.batch_id)["t-1"]
    assert (record.input.value, record.input.source) == ("asked", "observation:o-1")
    assert answer.counts["roots"] == 1
    assert answer.counts["parents_unknown"] == 1


def test_results_within_a_document_are_its_rows(imports, write):
    rows = [{"question": f"q{n}", "answer": "a"} for n in range(3)]
    source = write("r.json", json.dumps({"run": "nightly", "results": rows, "finished": True}))
    step = imports.send(source, source_kind="batch_results", dry_run=True).next[0]
    assert step.arguments["mapping"] == {"input": "question", "output": "answer"}
    answer = imports.send(source, **RESULTS)
    assert [one["input"]["value"] for one in imports.raw(answer.batch_id)] == ["q0", "q1", "q2"]
    assert imports.raw(answer.batch_id)[1]["locators"][0]["pointer"] == "/results/1"


def test_results_that_are_no_objects_are_a_field(imports, write):
    source = write("r.json", json.dumps({"question": "q", "answer": "a", "results": [1, 2]}))
    (one,) = imports.raw(imports.send(source, **RESULTS).batch_id)
    assert one["runtime_metadata"] == {"results": [1, 2]}


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_where_a_document_is_cut_changes_nothing_of_its_results(size):
    text = b'{"a": 1, "results" : [ {"b": 2} , {"b": 3}], "c": [ [] ]}'
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert [(pointer, value) for pointer, value, _ in stream_rows(pieces)] == [
        ("/results/0", {"b": 2}),
        ("/results/1", {"b": 3}),
    ]


@pytest.mark.parametrize("mark", [";", "\t"])
def test_a_table_may_part_its_cells_otherwise(imports, write, mark):
    text = f'question{mark}answer{mark}"more, of it"\n"a{mark}b"{mark}"1,5"{mark}x\n'
    answer = imports.send(write("r.csv", text), **RESULTS)
    (one,) = imports.raw(answer.batch_id)
    assert (one["input"]["value"], one["output"]["value"]) == (f"a{mark}b", "1,5")
    assert one["runtime_metadata"] == {"more, of it": "x"}


def test_a_comma_in_the_header_parts_the_cells_whatever_else_is_there(imports, write):
    answer = imports.send(
        write("r.csv", "question,answer;with\nq,a\n"), **RESULTS | {"mapping": {"output": "question"}}
    )
    assert imports.raw(answer.batch_id)[0]["runtime_metadata"] == {"answer;with": "a"}


def test_the_same_export_packed_is_the_same_batch(imports, write):
    text = lines(trace()).encode()
    first = imports.send(write("t.jsonl", text), **TRACES)
    for name, packed in (("t.jsonl.gz", gzip.compress(text)), ("t.jsonl.zst", zstandard.compress(text))):
        again = imports.send(write(name, packed), **TRACES)
        assert again.batch_id == first.batch_id
    other = imports.send(write("u.jsonl.gz", gzip.compress(lines(trace(output="b")).encode())), **TRACES)
    assert other.batch_id != first.batch_id
    (file,) = imports.batch(other.batch_id).files
    assert file.content_sha256 not in (None, file.sha256)


def test_contents_that_are_always_json_as_text_are_suggested_as_such(imports, write):
    rows = [observation(n, input=json.dumps({"n": n}), output="{plain" if n else "[]") for n in range(3)]
    (step,) = imports.send(write("o.jsonl", lines(*rows)), dry_run=True).next
    assert step.arguments["json_columns"] == ["input"]
    answer = imports.call("import_evidence", **step.arguments)
    assert event(imports.records(answer.batch_id)["t-1"], "o-2").input.value == {"n": 2}


def test_a_document_that_is_too_long_at_once_is_known_by_its_beginning(imports, write, monkeypatch):
    monkeypatch.setattr(_json_stream, "MAX_LINE", 1000)
    monkeypatch.setattr(_streams, "CHUNK", 1000)
    sample = {"id": "c-1", "epoch": 1, "input": "q", "messages": [], "target": "x"}
    about = {"task": "t", "model": "m", "run_id": "r"}
    log = {"version": 2, "status": "success", "eval": about, "samples": [sample] * 99}
    answer = imports.send(write("log.json", json.dumps(log)), dry_run=True)
    assert answer.next[0].arguments["source_kind"] == "inspect_ai"
    assert "log.json was looked at only as far as its first megabyte" in answer.warnings


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1, "b": [1, {"c": "d,}", "e": [2, 3', {"a": 1, "b": [1, {"c": "d,}", "e": [2]}]}),
        ('{"a": [], "b": "cut o', {"a": []}),
        ('{"a": 1', None),
        ('{"a": 1}]', None),
        ("[1, 2", None),
        ("", None),
    ],
)
def test_the_beginning_of_a_document_is_closed_where_it_is_cut(text, found):
    assert beginning(text.encode()) == found


def test_a_dry_run_says_what_its_answer_has_no_room_for(imports, write):
    folder = os.path.dirname(write(f"{'x' * 90}-0.jsonl", lines(trace())))
    for number in range(1, 39):
        write(f"{'x' * 90}-{number}.jsonl", lines(trace()))
    answer = imports.send(folder, dry_run=True)
    shown = len(answer.suggestion["fits"])
    assert answer.warnings[0] == f"this answer shows only {shown} of 39 files in fits"


def test_a_date_without_a_time_is_when_it_begins(imports, write):
    rows = [{**trace(), "id": f"t-{day}", "timestamp": f"2026-01-0{day}T00:00:00Z"} for day in (1, 2, 3)]
    batch_id = imports.send(write("t.jsonl", lines(*rows)), **TRACES).batch_id
    found = imports.call("find_records", batch_id=batch_id, after="2026-01-02", before="2026-01-03")
    assert [one.trace_id for one in found.records] == ["t-2"]


def test_a_cursor_of_a_search_leads_back_to_it(imports, write):
    batch_id = imports.send(write("t.jsonl", lines(trace())), **TRACES).batch_id
    selection_id = imports.call("find_records", batch_id=batch_id, store_selection=True).selection_id
    for given in ({"batch_id": batch_id}, {"selection_id": selection_id}):
        with pytest.raises(BadCursor) as refused:
            imports.call("find_records", **given, cursor="x")
        assert [(one.tool, one.arguments) for one in refused.value.next] == [("find_records", given)]
