"""Exports as they come out of real systems: what cannot be read, or means nothing, is said and never made up."""

import csv
import io
import json
import os

import pytest

from operations.importers import _suggest
from operations.importers._export_rows import HeaderUnusable
from operations.importers._fields import ValuesConflict
from operations.importers._streams import Counted, ExportFormatUnknown
from operations.importers.evidence import TooManyDamaged
from storage.errors import AtkError
from tests.support.imports import Imports

RESULTS = {"source_kind": "batch_results", "mapping": {"input": "question", "output": "answer"}}
TRACE = {"id": "t-1", "timestamp": "2026-08-01T10:00:00.000Z", "input": "q", "output": "a"}
OBSERVATION = {
    "id": "o-1", "traceId": "t-1", "parentObservationId": None, "type": "SPAN", "name": "n",
    "startTime": "2026-08-01T10:00:00.000Z", "endTime": None, "input": "i", "output": "o",
}  # fmt: skip
SCORE = {"id": "s-1", "traceId": "t-1", "timestamp": "2026-08-01T10:00:00.000Z", "name": "quality", "comment": None}


@pytest.fixture
def imports(tmp_path):
    return Imports(tmp_path / "project")


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / "export" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def table(*rows):
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def answers(count):
    return b"question,answer\n" + b"".join(b"q%d,a%d\n" % (n, n) for n in range(count))


# -- what a dry run says -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "role"),
    [
        ("1722500000000-lf-observations-export-p.jsonl", lines(OBSERVATION), "observation"),
        ("1722500000000-lf-scores-export-p.csv", table({**SCORE, "dataType": "NUMERIC", "value": 1}), "score"),
        ("page.json", json.dumps({"data": [OBSERVATION], "meta": {"cursor": None}}), "observation"),
    ],
)
def test_rows_of_langfuse_are_not_taken_for_spans(imports, write, name, content, role):
    dry = imports.send(write(name, content), dry_run=True)
    assert dry.suggestion["fits"] == {name: role}
    (call,) = dry.next
    assert call.arguments["source_kind"] == "langfuse"
    assert imports.call(call.tool, **call.arguments).counts[f"{role}s"] == 1


def test_a_dry_run_looks_at_some_files_of_each_folder_and_says_so(imports, write, monkeypatch):
    looked = []
    sample = _suggest._sample
    monkeypatch.setattr(
        _suggest, "_sample", lambda source, name, found: looked.append(name) or sample(source, name, found)
    )
    for n in range(60):
        source = os.path.dirname(write(f"observations_v2/{n:02d}.jsonl", lines(OBSERVATION)))
    write("scores/0.jsonl", lines({**SCORE, "data_type": "NUMERIC", "value": 1}))
    dry = imports.send(os.path.dirname(source), dry_run=True)
    assert len(looked) == _suggest.MAX_SAMPLED
    assert "scores/0.jsonl" in looked
    assert "40 of 61 files were looked at" in dry.warnings


def test_what_cannot_be_read_leads_to_another_dry_run_and_not_to_an_import(imports, write):
    (call,) = imports.send(write("t.csv", b"\xff\xfeq\0,\0a\0\n\0"), dry_run=True).next
    assert call.arguments == {"dry_run": True}
    assert set(call.supply) == {"source", "source_kind"}


# -- bytes -------------------------------------------------------------------------------------------------------------


def test_a_byte_that_is_not_utf8_costs_its_row_of_a_table_and_no_other(imports, write):
    source = write("t.csv", answers(1000).replace(b"q500,", b"q\xe4500,"))
    with pytest.raises(TooManyDamaged, match=r"^1 row cannot .*t\.csv line 502 \(it is not UTF-8 \(byte 0xe4\)\)"):
        imports.send(source, **RESULTS)
    done = imports.send(source, **RESULTS, max_damaged=1)
    assert done.counts["records"] == 999
    assert [(one.row, one.line) for one in done.damaged] == [(501, 502)]
    assert done.warnings == ["1 damaged row was left out"]


def test_a_table_in_another_encoding_is_refused_for_its_header(imports, write):
    with pytest.raises(HeaderUnusable, match=r"not UTF-8 \(byte 0xff\).*save the file as UTF-8"):
        imports.send(write("t.csv", answers(2).decode().encode("utf-16")), **RESULTS)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", answers(1000).replace(b"q500,", b'q500,"')),
        ("t.csv", answers(1000).replace(b"q500,", b'"q500"x,')),
        ("t.json", json.dumps([{"question": f"q{n}", "answer": "a"} for n in range(1000)])[:-9000]),
    ],
)
def test_a_file_that_breaks_off_inside_says_that_the_rest_is_lacking(imports, write, name, content):
    done = imports.send(write(name, content), **RESULTS, max_damaged=1)
    (damaged,) = done.damaged
    assert done.counts["records"] == damaged.row - 1
    assert any("could not be read from" in one and "lacks all that follows" in one for one in done.warnings)


def test_json_lines_under_a_name_of_json_are_told_how_they_are_called(imports, write):
    with pytest.raises(TooManyDamaged, match=r"one object to a line is called \.jsonl"):
        imports.send(
            write("t.json", lines({"question": "q", "answer": "a"}, {"question": "p", "answer": "b"})), **RESULTS
        )


# -- files -------------------------------------------------------------------------------------------------------------


def test_one_file_of_another_format_is_not_called_empty(imports, write):
    with pytest.raises(ExportFormatUnknown):
        imports.send(write("t.xlsx", b"PK"), **RESULTS)


def test_a_link_is_followed_where_it_was_named_itself(imports, write, tmp_path):
    os.symlink(write("t.csv", answers(2)), tmp_path / "link.csv")
    assert imports.send(tmp_path / "link.csv", **RESULTS).counts == {"records": 2}


def test_a_refusal_leads_to_a_dry_run_of_the_same_that_can_be_called_as_it_is(imports, write):
    source = write("t.csv", answers(2))
    with pytest.raises(AtkError) as refused:
        imports.send(source, source_kind="batch_results", mapping={"output": "nothing"})
    (call,) = refused.value.next
    assert not call.supply
    assert imports.call(call.tool, **call.arguments).suggestion["columns"] == ["question", "answer"]


# -- meaning -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [{**OBSERVATION, "updatedAt": "2026-08-02T00:00:00Z"}, {**OBSERVATION, "id": "o-2"}],
    ids=["same id", "same trace"],
)
def test_ids_of_two_projects_are_not_taken_for_one(imports, write, other):
    first = {**OBSERVATION, "projectId": "A", "updatedAt": "2026-08-01T00:00:00Z"}
    source = write("1-lf-observations-export-p.jsonl", lines(first, {**other, "projectId": "B"}))
    with pytest.raises(ValuesConflict, match=r'project_id is "A" at .* line 1 and "B" at .* line 2'):
        imports.send(source)


def test_observations_without_an_id_are_all_kept_and_named_by_their_place(imports, write):
    rows = ({**OBSERVATION, "id": None, "name": name, "input": name} for name in ("one", "two", "three"))
    done = imports.send(write("1-lf-observations-export-p.jsonl", lines(*rows)))
    (record,) = imports.raw(done.batch_id)
    assert [event["id"] for event in record["log"]["events"]] == ["e0", "e1", "e2"]
    assert {event["name"] for event in record["log"]["events"]} == {"one", "two", "three"}


def test_what_the_api_leaves_out_is_no_metric(imports, write):
    page = {"data": [{**TRACE, "latency": -1, "totalCost": -1}, {**TRACE, "id": "t-2", "latency": 2.5, "totalCost": 0}]}
    done = imports.send(write("page.json", json.dumps(page)), adapter_profile="langfuse_trace_bundle")
    records = imports.records(done.batch_id)
    assert records["t-1"].metrics == {}
    assert records["t-2"].metrics == {"latency": 2.5, "total_cost": 0}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"dataType": "NUMERIC", "value": "12345678901234567890"}, ("value", 12345678901234567890)),
        ({"dataType": "NUMERIC", "value": "1_000"}, ("unparsable", "1_000")),
        ({"dataType": "NUMERIC", "value": "١٢"}, ("unparsable", "١٢")),
        ({"dataType": "BOOLEAN", "value": 1, "stringValue": "True"}, ("value", True)),
        (
            {"dataType": "BOOLEAN", "value": 0, "stringValue": "True"},
            ("collided", {"value": 0, "string_value": "True"}),
        ),
    ],
)
def test_a_score_is_what_its_row_says_or_nothing(imports, write, given, kept):
    source = os.path.dirname(write("1-lf-traces-export-p.jsonl", lines(TRACE)))
    write("1-lf-scores-export-p.jsonl", lines({**SCORE, **given}))
    (found,) = imports.records(imports.send(source).batch_id)["t-1"].scores
    assert (found.status, found.value) == kept


def test_a_score_keeps_all_that_it_names(imports, write):
    source = os.path.dirname(write("1-lf-traces-export-p.jsonl", lines(TRACE)))
    named = {"dataType": "CATEGORICAL", "value": 2, "stringValue": "good", "sessionId": "se", "datasetRunId": "run"}
    write("1-lf-scores-export-p.jsonl", lines({**SCORE, **named}))
    (found,) = imports.records(imports.send(source).batch_id)["t-1"].scores
    assert (found.value, found.subject_kind) == ("good", "trace")
    assert found.attributes == {"value": 2, "session_id": "se", "dataset_run_id": "run"}


def test_scores_do_not_supersede_the_traces_of_a_file_of_the_same_name(imports, write):
    traces = imports.send(write("a/page.jsonl", lines(TRACE)), adapter_profile="langfuse_trace_bundle")
    late = write("b/page.jsonl", lines({**SCORE, "dataType": "NUMERIC", "value": 1}))
    scores = imports.send(late, file_roles={"page.jsonl": "score"})
    assert scores.supersedes is None
    assert scores.links == [traces.batch_id]


# -- text that is none -------------------------------------------------------------------------------------------------

HALF = "\ud800"


@pytest.mark.parametrize(
    ("kind", "name", "rows"),
    [
        (
            "langfuse",
            "1-lf-observations-export-p.jsonl",
            [{**OBSERVATION, "id": HALF, "parentObservationId": f"p{HALF}"}],
        ),
        ("langfuse", "1-lf-scores-export-p.jsonl", [{**SCORE, "dataType": HALF, "name": HALF, "value": HALF}]),
        ("langfuse", "1-lf-scores-export-p.jsonl", [{**SCORE, "dataType": "TEXT", "name": ["a"], "stringValue": "x"}]),
        ("otel", "t.jsonl", [{"traceId": "t", "spanId": HALF, "parentSpanId": f"p{HALF}", "startTimeUnixNano": "1"}]),
        (
            "codex",
            "rollout-1.jsonl",
            [{"timestamp": "", "type": "session_meta", "payload": {"id": "s"}}, {"type": HALF, "payload": {}}],
        ),
    ],
)
def test_half_a_character_where_a_warning_quotes_it_stops_no_import(imports, write, kind, name, rows):
    done = imports.send(write(name, lines(*rows)), source_kind=kind)
    assert imports.batch(done.batch_id).files
    json.dumps(done.model_dump(mode="json"), ensure_ascii=False).encode()


def test_a_file_whose_name_is_no_text_is_read_and_named_by_its_bytes(imports, tmp_path):
    folder = os.fsencode(tmp_path / "export")
    os.mkdir(folder)
    for name in (b"bad\xff.csv", b"stray\xfe.txt"):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(answers(1))
    assert imports.send(os.fsdecode(folder), dry_run=True).suggestion["fits"] == {"bad\\udcff.csv": "row"}
    done = imports.send(os.fsdecode(folder), **RESULTS)
    assert done.skipped_files == ["stray\\udcfe.txt"]
    assert imports.raw(done.batch_id)[0]["locators"][0]["file"] == "bad\\udcff.csv"


def test_a_copy_of_a_file_is_told(imports, write):
    write("a.csv", answers(2))
    source = os.path.dirname(write("b.csv", answers(2)))
    assert imports.send(source, **RESULTS).warnings == ["b.csv has the same content as a.csv: it was read twice"]


def test_an_export_of_damaged_rows_alone_is_not_called_empty(imports, write):
    with pytest.raises(AtkError, match="holds no row that can be read"):
        imports.send(write("t.jsonl", "{\n{\n"), **RESULTS, max_damaged=5)


def test_a_file_that_is_written_to_while_it_is_read_is_told(imports, write, monkeypatch):
    source = write("t.csv", answers(2))
    drain = Counted.drain

    def write_more(counted):
        with open(source, "ab") as file:
            file.write(b"late,row\n")
        drain(counted)

    monkeypatch.setattr(Counted, "drain", write_more)
    (warning,) = imports.send(source, **RESULTS).warnings
    assert warning.startswith("t.csv was written to while it was read")
