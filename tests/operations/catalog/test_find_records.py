"""`find_records`: what matches, what is counted as unknown, what is drawn, and what a selection keeps."""

import json

import pytest

from operations.importers._id_lists import IdsColumnMissing
from operations.importers._rows import SourceFormatUnknown, SourceHasNoRows
from operations.importers.batches import AssessmentOfOtherBatch, BatchHasNoRecords, BatchOrSelection
from operations.invocation import InvalidArguments
from operations.reading import BadCursor
from storage.projection import UnknownObject
from storage.schema.selections import Selection
from tests.support.imports import Imports
from tests.support.projects import Target

TRACES = {"adapter_profile": "langfuse_trace_bundle"}
TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"


def score(name, value, kind="NUMERIC"):
    said = {"value": value} if kind in ("NUMERIC", "BOOLEAN") else {"stringValue": value}
    return {"id": f"{name}-{value}-{kind}", "name": name, "dataType": kind, **said}


def trace(number, *, seen=True, scores=(), **more):
    """A trace as a bundle holds it; `seen`: with one observation."""
    span = {"id": f"o-{number}", "traceId": f"t-{number}", "parentObservationId": None, "type": "SPAN", "name": "s"}
    usual = {"id": f"t-{number}", "timestamp": f"2026-01-{number:02d}T00:00:00Z", "input": f"q{number}", "output": "a"}
    return {
        **usual,
        "tags": ["even" if number % 2 == 0 else "odd"],
        "sessionId": f"s-{number % 3}",
        "metadata": {"region": "north" if number < 5 else "south", "deep": {"a.b": number}},
        "observations": [{**span, **(seen if isinstance(seen, dict) else {})}] if seen else [],
        "scores": [{**one, "id": f"{one['id']}-{number}", "traceId": f"t-{number}"} for one in scores],
        **more,
    }


@pytest.fixture
def imports(tmp_path):
    return Imports(tmp_path / "project")


@pytest.fixture
def store(imports, tmp_path):
    """Returns a function that imports traces and gives their batch's id."""

    def store(*rows, name="export.jsonl"):
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return imports.send(path, **TRACES).batch_id

    return store


@pytest.fixture
def nine(imports, store):
    """Nine traces; returns a function that finds in them and gives (the traces' numbers, the answer)."""
    scored = [score("quality", 0.2), score("label", "bad", "CATEGORICAL")]
    rows = [
        trace(1, scores=scored, output="I cannot REFUND this"),
        trace(2, scores=[score("quality", 0.9)], seen={"level": "ERROR", "statusMessage": "the tool broke"}),
        trace(3, scores=[score("quality", "high", "CATEGORICAL")], output=None),
        *(trace(number) for number in (4, 5, 6)),
        trace(7, seen={"input": {"note": ["Ask for a refund"]}}),
        trace(8, seen=False, tags=[], metadata={}),
        trace(9, timestamp=None),
    ]
    batch_id = store(*rows)

    def find(**arguments):
        answer = imports.call("find_records", batch_id=batch_id, limit=50, **arguments)
        assert len(json.dumps(answer.model_dump(mode="json"), ensure_ascii=False).encode()) < 8_000
        return sorted(int(line.trace_id.removeprefix("t-")) for line in answer.records), answer

    find.batch_id = batch_id
    return find


@pytest.mark.parametrize(
    ("asked", "matched", "unknown"),
    [
        ({}, [1, 2, 3, 4, 5, 6, 7, 8, 9], {}),
        ({"status": ["completed"]}, [], {"status": 9}),
        ({"status": ["unknown"]}, [1, 2, 3, 4, 5, 6, 7, 8, 9], {"status": 0}),
        ({"has_error": True}, [2], {"has_error": 1}),
        ({"has_error": False}, [1, 3, 4, 5, 6, 7, 9], {"has_error": 1}),
        ({"scores": [{"name": "quality", "max": 0.5}]}, [1], {"score.quality": 7}),
        ({"scores": [{"name": "quality"}]}, [1, 2, 3], {"score.quality": 6}),
        ({"scores": [{"name": "quality", "type": "categorical"}]}, [3], {"score.quality": 8}),
        ({"scores": [{"name": "quality", "value": "high"}]}, [3], {"score.quality": 6}),
        ({"scores": [{"name": "label", "value": "bad"}]}, [1], {"score.label": 8}),
        ({"tags": ["odd"]}, [1, 3, 5, 7, 9], {"tags.odd": 0}),
        ({"tags": ["odd", "even"]}, [], {"tags.odd": 0, "tags.even": 0}),
        ({"after": "2026-01-04T00:00:00Z", "before": "2026-01-06T00:00:00Z"}, [4, 5], {"time": 1}),
        ({"after": "2026-01-08T01:00:00+02:00"}, [8], {"time": 1}),
        ({"text": "refund", "text_in": ["output"]}, [1], {"text.output": 1}),
        ({"text": "refund"}, [1, 7], {"text.input": 0, "text.output": 1, "text.events": 1}),
        ({"text": "TOOL BROKE"}, [2], {"text.input": 0, "text.output": 1, "text.events": 1}),
        ({"metadata": [{"path": "metadata.region", "value": "north"}]}, [1, 2, 3, 4], {"metadata.metadata.region": 1}),
        ({"metadata": [{"path": "metadata.deep.a.b", "min": 6}]}, [6, 7, 9], {"metadata.metadata.deep.a.b": 1}),
        ({"tags": ["odd"], "scores": [{"name": "quality", "max": 0.5}]}, [1], {"tags.odd": 0, "score.quality": 7}),
    ],
)
def test_a_filter_finds_what_says_it_and_counts_what_does_not(nine, asked, matched, unknown):
    found, answer = nine(**asked)

    assert found == matched
    assert answer.unknown == unknown
    assert (answer.scanned, answer.matched, answer.record_count) == (9, len(matched), len(matched))
    assert answer.undecided <= sum(unknown.values())


def test_what_is_unknown_and_not_excluded_is_counted_as_undecided(nine):
    _, answer = nine(tags=["odd"], scores=[{"name": "quality", "max": 0.5}])
    assert answer.undecided == 4  # 3, whose quality is no number, and 5, 7, 9, which have none


def test_a_list_of_ids_is_joined_and_what_no_record_bears_is_named(nine, tmp_path):
    path = tmp_path / "complaints.csv"
    path.write_text("who,trace\nann,t-2\nbob,t-4\ncid,t-77\ndan,\neve,t-4\n")
    found, answer = nine(ids_file=str(path), ids_column="trace", tags=["odd"])
    assert (found, answer.ids_given, answer.ids_unmatched, answer.unmatched_ids) == ([], 3, 1, ["t-77"])

    found, answer = nine(ids=["s-1", "t-2", "nobody"])
    assert (found, answer.unmatched_ids) == ([1, 2, 4, 7], ["nobody"])
    assert nine(ids=["s-1", "t-2"], ids_are="trace")[0] == [2]
    assert nine(ids=[f"{nine.batch_id}.3"], ids_are="record")[0] == [3]
    unknown = nine(ids=["u-1"], ids_are="user")[1]
    assert (unknown.unknown, unknown.matched) == ({"ids": 9}, 0)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "t-2\r\n\nt-5\n"),
        ("a.jsonl", '{"trace_id": "t-2", "n": 1}\n{"trace_id": "t-5"}\n'),
        ("a.json", '[{"traceId": "t-2", "n": 1}, {"traceId": "t-5", "n": 2}]'),
        ("a.csv", "anything\nt-2\nt-5\n"),
    ],
)
def test_ids_are_read_from_every_kind_of_table(nine, tmp_path, name, content):
    (tmp_path / name).write_text(content)
    assert nine(ids_file=str(tmp_path / name))[0] == [2, 5]


@pytest.mark.parametrize(
    ("name", "content", "column", "refusal"),
    [
        ("a.csv", "a,b\n1,2\n", None, IdsColumnMissing),
        ("a.csv", "a,b\n1,2\n", "c", IdsColumnMissing),
        ("a.jsonl", '{"a": 1, "b": 2}\n', "c", IdsColumnMissing),
        ("a.csv", "trace_id\n\n", None, SourceHasNoRows),
        ("a.txt", "\n\n", None, SourceHasNoRows),
        ("a.xlsx", "x", None, SourceFormatUnknown),
    ],
)
def test_a_list_that_cannot_be_read_leads_back_to_the_search(nine, tmp_path, name, content, column, refusal):  # noqa: PLR0917 - a case
    (tmp_path / name).write_text(content)
    with pytest.raises(refusal) as raised:
        nine(ids_file=str(tmp_path / name), ids_column=column)
    assert [call.tool for call in raised.value.next] == ["find_records"]


@pytest.mark.parametrize(
    ("by", "counts", "unknown"),
    [
        ("tag", {"odd": 5, "even": 3, "(no tag)": 1}, 0),
        ("session", {"s-0": 3, "s-1": 3, "s-2": 3}, 0),
        ("status", {}, 9),
        ("score.quality", {"0.2": 1, "0.9": 1, "high": 1}, 6),
        ("metadata.metadata.region", {"north": 4, "south": 4}, 1),
        ("day", {f"2026-01-{n:02d}": 1 for n in range(1, 9)}, 1),
    ],
)
def test_records_are_counted_by_a_field(nine, by, counts, unknown):
    answer = nine(count_by=by)[1]
    assert {one.value: one.records for one in answer.counts} == counts
    assert (answer.count_values, answer.count_unknown) == (len(counts), unknown)


def test_a_field_that_is_none_is_refused_with_what_there_is(nine):
    with pytest.raises(InvalidArguments, match="count_by"):
        nine(count_by="colour")


def test_a_sample_is_the_same_for_a_seed_and_grows_without_changing(nine):
    three, answer = nine(sample=3, seed=5)
    assert (len(three), answer.matched, answer.record_count) == (3, 9, 3)
    assert nine(sample=3, seed=5)[0] == three
    assert set(three) < set(nine(sample=5, seed=5)[0])
    assert {tuple(nine(sample=3, seed=seed)[0]) for seed in range(6)} != {tuple(three)}
    assert nine(sample=50)[1].record_count == 9


def test_lines_are_paged_and_a_strange_cursor_is_refused(imports, nine):
    seen, cursor = [], None
    while True:
        page = imports.call("find_records", batch_id=nine.batch_id, limit=4, **({"cursor": cursor} if cursor else {}))
        seen += [line.record_id for line in page.records]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [f"{nine.batch_id}.{n}" for n in range(1, 10)]
    for given in ("9", "x", "-1"):
        with pytest.raises(BadCursor):
            imports.call("find_records", batch_id=nine.batch_id, cursor=given)


def test_a_selection_keeps_the_rule_and_the_ids_and_can_be_looked_in(imports, nine):
    found, answer = nine(tags=["odd"], sample=3, seed=2, store_selection=True)
    kept = imports.project.state().get(Selection, answer.selection_id)
    assert kept.rule == {"tags": ["odd"], "sample": 3, "seed": 2}
    assert (kept.matched, kept.record_count, kept.seed) == (5, 3, 2)
    assert [step.tool for step in answer.next] == ["store_dataset", "read_record"]

    again = imports.call("find_records", selection_id=answer.selection_id)
    assert sorted(int(line.trace_id[2:]) for line in again.records) == found
    assert again.scanned == 3
    inner = imports.call("find_records", selection_id=answer.selection_id, sample=1, store_selection=True)
    assert imports.project.state().get(Selection, inner.selection_id).within_selection_id == answer.selection_id
    read = imports.call("read_record", record_id=answer.selection_id)
    assert (read.kind, read.value["record_count"]) == ("selection", 3)


def test_nothing_found_stores_nothing(imports, nine):
    before = imports.project.state().position
    _, answer = nine(tags=["none"], store_selection=True)
    assert (answer.selection_id, answer.warnings) == (None, ["Nothing matched, so no selection was stored."])
    assert imports.project.state().position == before


def test_looking_writes_nothing(imports, nine):
    before = imports.project.state().position, imports.every_byte()
    nine(text="refund", count_by="tag", sample=2)
    assert (imports.project.state().position, imports.every_byte()) == before


def test_a_secret_is_found_by_its_mask_and_shown_nowhere(imports, store):
    batch_id = store(trace(1, input=f"log in with {TOKEN}"), trace(2))
    answer = imports.call("find_records", batch_id=batch_id, text=TOKEN, store_selection=True)
    assert [line.trace_id for line in answer.records] == ["t-1"]
    assert TOKEN not in answer.model_dump_json()
    assert TOKEN.encode() not in imports.every_byte()


def test_long_and_strange_texts_are_cut_to_one_line(imports, store):
    batch_id = store(*(trace(n, input="x\n\u202e" * 5000, output={"k": "\ud800 é" * 900}) for n in range(1, 30)))
    answer = imports.call("find_records", batch_id=batch_id, limit=50, count_by="metadata.metadata.deep")
    assert len(answer.model_dump_json().encode()) < 8_000
    assert answer.next_cursor is not None
    assert all("\n" not in line.evidence["input"] and line.evidence["input"].endswith("…") for line in answer.records)


def test_an_answer_with_much_beside_its_lines_has_fewer_of_them(imports, store):
    batch_id = store(*(trace(n, input="é" * 500, sessionId=f"s-{n}" + "é" * 90) for n in range(1, 30)))
    asked = {
        "batch_id": batch_id,
        "limit": 50,
        "count_by": "session",
        "ids": [f"t-{n}" for n in range(1, 30)] + [f"nobody-{n}-" + "x" * 100 for n in range(50)],
        "metadata": [{"path": f"metadata.deep.{'x' * 100}{n}"} for n in range(10)],
    }
    unknown = imports.call("find_records", **asked).unknown
    assert sorted(unknown.values()) == [0, *[29] * 10]
    del asked["metadata"]
    seen, cursor = [], None
    while not seen or cursor:
        page = imports.call("find_records", **asked, **({"cursor": cursor} if cursor else {}))
        assert len(page.model_dump_json().encode()) < 8_000
        seen += [line.record_id for line in page.records]
        cursor = page.next_cursor
    assert seen == [f"{batch_id}.{n}" for n in range(1, 30)]


def test_verdicts_of_an_assessment_find_what_failed(imports, nine, store):
    rows = [
        {"record_id": f"{nine.batch_id}.{n}", "verdict": "fail" if n < 3 else "pass", "dimension": "correct"}
        for n in range(1, 9)
    ]
    spec = {"dimensions": ["correct"], "dimension_rules": {"correct": "the answer is right"}}
    rows.append({"record_id": f"{nine.batch_id}.9", "verdict": "unknown", "dimension": "correct"})
    judged = imports.call("store_assessment", batch_id=nine.batch_id, evaluation_spec=spec, judger={}, rows=rows)
    asked = {"assessment_id": judged.assessment_id, "verdict": ["fail"]}
    assert nine(verdict=asked)[0] == [1, 2]
    assert nine(verdict={**asked, "dimension": "tone"})[1].unknown == {"verdict": 9}
    other = store(trace(1), name="other.jsonl")
    with pytest.raises(AssessmentOfOtherBatch):
        imports.call("find_records", batch_id=other, verdict=asked)


def test_a_run_is_searched_by_its_cases_inputs_and_its_statuses(tmp_path):
    target = Target(tmp_path / "target")
    dataset_id = target.store_cases()
    made = target.call("run_evaluation", dataset_id=dataset_id, revision_commit=target.head, wait_seconds=100)
    found = target.call("find_records", batch_id=made.batch_id, text="REFUND", text_in=["input"], count_by="case")
    assert {line.case_id for line in found.records} == {"refund-1", "refund-2"}
    assert {line.evidence["output"] for line in found.records} == {"other"}
    assert {one.value for one in found.counts} == {"refund-1", "refund-2"}
    assert target.call("find_records", batch_id=made.batch_id, status=["completed"]).matched == 6
    assert target.call("find_records", batch_id=made.batch_id, has_error=True).matched == 0
    fast = {"path": "metrics.duration_seconds", "max": 1000}
    assert target.call("find_records", batch_id=made.batch_id, metadata=[fast]).matched == 6


def test_what_is_asked_of_no_batch_is_refused(imports, nine, tmp_path):
    with pytest.raises(BatchOrSelection):
        imports.call("find_records")
    with pytest.raises(UnknownObject):
        imports.call("find_records", batch_id="batch-9-none")
    kept = nine(sample=1, store_selection=True)[1].selection_id
    with pytest.raises(BatchOrSelection):
        imports.call("find_records", batch_id="batch-9-none", selection_id=kept)
    path = tmp_path / "scores.jsonl"
    path.write_text(json.dumps({**score("quality", 1), "traceId": "t-1"}) + "\n")
    late = imports.send(path, file_roles={"scores.jsonl": "score"}).batch_id
    with pytest.raises(BatchHasNoRecords):
        imports.call("find_records", batch_id=late)


def test_an_end_that_there_is_not_is_refused_with_those_that_there_are(imports, store):
    batch_id = store(trace(1))
    with pytest.raises(InvalidArguments, match=r"status.*completed"):
        imports.call("find_records", batch_id=batch_id, status=["complete"])


def test_a_record_that_says_nothing_is_counted_once_for_filters_of_one_name(imports, store):
    batch_id = store(trace(1), trace(2))
    asked = [{"name": "none", "min": 0}, {"name": "none", "max": 1}]
    found = imports.call("find_records", batch_id=batch_id, scores=asked)
    assert (found.undecided, found.unknown) == (2, {"score.none": 2})


def test_records_of_an_import_that_are_not_shown_are_told(nine, imports, monkeypatch):
    def told(**asked):
        return imports.call("read_record", record_id=nine.batch_id, **asked).message

    assert told(field="records") == f"import {nine.batch_id}, records"
    monkeypatch.setattr("operations.catalog.journal.read_record.FIRST_RECORDS", 4)
    cut = "records holds the first 4 of 9, and find_records finds all"
    assert told(field="records") == f"import {nine.batch_id}, records: {cut}"
    assert told() == f"import {nine.batch_id}: {cut}"
    assert told(field="counts") == f"import {nine.batch_id}, counts"
