"""`store_dataset`: Cases of a JSON file and of Records, what each keeps of its origin, and how they are divided."""

import json

import pytest

from operations.catalog.datasets.store_dataset import CasesOfWhat, SourceChanged
from operations.importers._cases_records import RecordInputUnknown, RecordsDisagree, RecordsUnknown
from operations.importers._cases_split import Split
from operations.importers._rows import LastRowTorn, RowMalformed, SourceHasNoRows
from operations.importers._tables import TableUnreadable
from operations.importers.batches import BatchOrSelection
from storage import contents
from storage.schema.datasets import Dataset
from tests.operations.catalog.test_find_records import TOKEN, TRACES, score, trace
from tests.support.imports import Imports
from tests.support.projects import Target


@pytest.fixture
def imports(tmp_path):
    return Imports(tmp_path / "project")


@pytest.fixture
def send(imports, tmp_path):
    """Returns a function that imports traces and gives their batch's id."""

    def send(*rows, name="export.jsonl"):
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return imports.send(path, **TRACES).batch_id

    return send


def cases(imports, dataset_id):
    return {case.id: case for case in contents.cases(imports.project, imports.project.state(), dataset_id)}


# -- Records -----------------------------------------------------------------------------------------------------------


def test_a_trace_becomes_a_case_that_knows_where_it_came_from(imports, send):
    batch_id = send(*(trace(n) for n in range(1, 5)))
    made = imports.call("store_dataset", batch_id=batch_id, record_ids=[f"{batch_id}.2", f"{batch_id}.3"])

    assert (made.case_count, made.case_ids, made.mapping["expected"]) == (2, ["t-2", "t-3"], "record.expected")
    case = cases(imports, made.dataset_id)["t-2"]
    assert (case.input, case.expected_present, case.source_group_id) == ("q2", False, "s-2")
    origin = case.origin
    assert (origin.batch_id, origin.record_id, origin.namespace) == (batch_id, f"{batch_id}.2", "default")
    assert (origin.trace_id, origin.session_id, origin.group_by) == ("t-2", "s-2", "session")
    assert (origin.locator.file, origin.locator.line) == ("export.jsonl", 2)
    assert (origin.input_masked, origin.expected_from, origin.exposed_by) == (False, None, ())
    stored = imports.project.state().get(Dataset, made.dataset_id)
    assert (stored.source_name, stored.batch_id, stored.selection_id) == (batch_id, batch_id, None)
    read = imports.call("read_record", record_id=f"{made.dataset_id}/t-2", field="origin")
    assert read.value["record_id"] == f"{batch_id}.2"


@pytest.mark.parametrize(("count", "told"), [(10, ""), (11, ", of which case_ids names the first 10")])
def test_where_not_all_cases_are_named_the_message_says_so(imports, send, count, told):
    batch_id = send(*(trace(n) for n in range(1, count + 1)))
    made = imports.call("store_dataset", batch_id=batch_id, preview=True)
    assert made.case_ids == sorted(f"t-{n}" for n in range(1, count + 1))[:10]
    assert made.message == f"{batch_id} gives {count} Cases{told}. Nothing was stored."


def test_a_selection_becomes_a_dataset(imports, send):
    batch_id = send(*(trace(n) for n in range(1, 9)))
    kept = imports.call("find_records", batch_id=batch_id, tags=["odd"], store_selection=True)
    call = kept.next[0]
    made = imports.call(call.tool, **call.arguments)
    assert sorted(cases(imports, made.dataset_id)) == ["t-1", "t-3", "t-5", "t-7"]
    assert imports.project.state().get(Dataset, made.dataset_id).selection_id == kept.selection_id
    one = imports.call("store_dataset", selection_id=kept.selection_id, record_ids=[f"{batch_id}.3"], preview=True)
    assert (one.dataset_id, one.case_ids) == (None, ["t-3"])
    with pytest.raises(RecordsUnknown):
        imports.call("store_dataset", selection_id=kept.selection_id, record_ids=[f"{batch_id}.2"])


@pytest.mark.parametrize(
    ("by", "groups", "without"),
    [
        (None, ["s-1", "s-2", None], 1),
        ("session", ["s-1", "s-2", None], 1),
        ("user", [None, "u", None], 2),
        ("trace", ["t-1", "t-2", "t-3"], 0),
    ],
)
def test_the_source_group_is_what_was_chosen(imports, send, by, groups, without):
    batch_id = send(trace(1), trace(2, userId="u"), trace(3, sessionId=None))
    made = imports.call("store_dataset", batch_id=batch_id, **({"group_by": by} if by else {}))
    assert [case.source_group_id for case in cases(imports, made.dataset_id).values()] == groups
    assert any("without a source group" in warning for warning in made.warnings) == bool(without)


def test_a_record_of_unknown_input_is_refused_by_name_or_left_out(imports, send):
    batch_id = send(trace(1), trace(2, input=None), trace(3))
    before = imports.every_byte()
    with pytest.raises(RecordInputUnknown) as raised:
        imports.call("store_dataset", batch_id=batch_id)
    assert raised.value.records == (f"{batch_id}.2 (null)",)
    assert imports.every_byte() == before
    made = imports.call("store_dataset", batch_id=batch_id, skip_unknown_inputs=True)
    assert (made.case_count, list(cases(imports, made.dataset_id))) == (2, ["t-1", "t-3"])
    assert made.warnings == [f"1 Record left out, since the input is unknown: {batch_id}.2 (null)."]
    with pytest.raises(RecordInputUnknown):
        imports.call("store_dataset", batch_id=batch_id, record_ids=[f"{batch_id}.2"], skip_unknown_inputs=True)


def test_a_masked_input_is_flagged_by_name(imports, send):
    batch_id = send(trace(1), trace(2, input={"note": f"my key is {TOKEN}"}))
    made = imports.call("store_dataset", batch_id=batch_id)
    assert made.masked_input_records == [f"{batch_id}.2"]
    assert "the agent will not see what was asked" in made.warnings[0]
    assert [case.origin.input_masked for case in cases(imports, made.dataset_id).values()] == [False, True]
    assert TOKEN.encode() not in imports.every_byte()


def test_a_correction_is_an_expected_answer_only_when_asked_and_shown_as_unverified(imports, send):
    fixed = score("fix", "the right answer", "CORRECTION")
    other = {**score("fix", "another one", "CORRECTION")}
    batch_id = send(
        trace(1, scores=[fixed]), trace(2), trace(3, scores=[fixed, other]), trace(4, scores=[score("fix", 1.0)])
    )
    plain = imports.call("store_dataset", batch_id=batch_id)
    assert not any(case.expected_present for case in cases(imports, plain.dataset_id).values())
    made = imports.call("store_dataset", batch_id=batch_id, expected_score="fix")
    found = cases(imports, made.dataset_id)
    assert (found["t-1"].expected, found["t-1"].origin.expected_from) == ("the right answer", "score:fix")
    assert found["t-1"].origin.expected_verified is False
    assert [found[f"t-{n}"].expected_present for n in (2, 3, 4)] == [False] * 3
    assert made.unverified_expected == 1
    assert "1 expected answer taken from a correction that nobody verified." in made.warnings
    assert "3 Records without a single correction 'fix': no expected answer." in made.warnings


def test_results_give_their_cases_once_and_must_agree(imports, tmp_path):
    path = tmp_path / "results.csv"
    path.write_text("id,question,answer,right\na,Q1,x,r1\na,Q1,y,r1\nb,Q2,z,r2\nb,Q3,z,r2\n")
    mapping = {"case_id": "id", "input": "question", "output": "answer", "expected": "right"}
    batch_id = imports.send(path, source_kind="batch_results", mapping=mapping).batch_id
    made = imports.call("store_dataset", batch_id=batch_id, record_ids=[f"{batch_id}.{n}" for n in (1, 2, 3)])
    found = cases(imports, made.dataset_id)
    assert {case.id: (case.input, case.expected) for case in found.values()} == {"a": ("Q1", "r1"), "b": ("Q2", "r2")}
    assert found["a"].origin.expected_from == "record"
    assert "1 Record of a Case that another one gave already." in made.warnings
    with pytest.raises(RecordsDisagree) as raised:
        imports.call("store_dataset", batch_id=batch_id)
    assert (raised.value.case_id, raised.value.fields) == ("b", ("input",))


def test_what_was_judged_or_cited_is_shown_as_exposed(imports, send):
    batch_id = send(trace(1), trace(2))
    rows = [{"record_id": f"{batch_id}.{n}", "verdict": "fail"} for n in (1, 2)]
    spec = {"dimensions": ["correct"], "dimension_rules": {"correct": "the answer is right"}}
    judged = imports.call("store_assessment", batch_id=batch_id, evaluation_spec=spec, judger={}, rows=rows)
    made = imports.call("store_dataset", batch_id=batch_id)
    assert made.exposed_cases == 2
    assert {case.origin.exposed_by for case in cases(imports, made.dataset_id).values()} == {(judged.assessment_id,)}


def test_records_of_a_run_give_the_cases_that_were_run(tmp_path):
    target = Target(tmp_path / "target")
    dataset_id = target.store_cases()
    made = target.call("run_evaluation", dataset_id=dataset_id, revision_commit=target.head, wait_seconds=100)
    found = target.call("find_records", batch_id=made.batch_id, text="refund", text_in=["input"], store_selection=True)
    subset = target.call("store_dataset", selection_id=found.selection_id)
    old, new = cases(target, dataset_id), cases(target, subset.dataset_id)
    assert sorted(new) == ["refund-1", "refund-2"]
    for name, case in new.items():
        assert case.fingerprint == old[name].fingerprint
        assert (case.input, case.expected) == (old[name].input, old[name].expected)
        assert case.origin.batch_id == made.batch_id


def test_a_blind_case_of_a_run_is_neither_shown_nor_copied(tmp_path, monkeypatch):
    target = Target(tmp_path / "target")
    made = target.call("run_evaluation", dataset_id=target.store_cases(), revision_commit=target.head, wait_seconds=100)
    read = contents.cases
    blind = {"usage": "holdout"}
    monkeypatch.setattr(contents, "cases", lambda *given: [case.model_copy(update=blind) for case in read(*given)])
    found = target.call("find_records", batch_id=made.batch_id, text="refund", text_in=["input"])
    assert (found.matched, found.unknown) == (0, {"text.input": 6})
    with pytest.raises(RecordInputUnknown) as raised:
        target.call("store_dataset", batch_id=made.batch_id)
    assert raised.value.records[0].endswith("(holdout)")


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        ({}, CasesOfWhat),
        ({"source": "a.csv", "batch_id": "batch-1-none"}, CasesOfWhat),
        ({"source": "a.csv", "group_by": "user"}, CasesOfWhat),
        ({"batch_id": "{batch_id}", "mapping": {"input": "a"}}, CasesOfWhat),
        ({"batch_id": "{batch_id}", "record_ids": ["{batch_id}.3"]}, RecordsUnknown),
        ({"batch_id": "{batch_id}", "record_ids": ["{batch_id}.0"]}, RecordsUnknown),
        ({"batch_id": "{batch_id}", "record_ids": ["batch-9-none.1"]}, RecordsUnknown),
        ({"record_ids": ["batch-9-none.1"]}, CasesOfWhat),
    ],
)
def test_what_the_cases_are_made_of_is_said_once(imports, send, arguments, refusal):
    text = json.dumps(arguments).replace("{batch_id}", send(trace(1), trace(2)))
    with pytest.raises(refusal) as raised:
        imports.call("store_dataset", **json.loads(text))
    assert str(raised.value).endswith(".")


def test_a_selection_of_another_batch_is_refused(imports, send):
    one, two = send(trace(1)), send(trace(2), name="other.jsonl")
    kept = imports.call("find_records", batch_id=one, store_selection=True)
    with pytest.raises(BatchOrSelection):
        imports.call("store_dataset", batch_id=two, selection_id=kept.selection_id)


# -- JSON --------------------------------------------------------------------------------------------------------------


def test_an_array_of_objects_is_a_source(imports, tmp_path):
    path = tmp_path / "cases.json"
    rows = [{"id": "a", "input": {"n": 12345678901234567890}, "expected": None}, {"id": "b", "input": "é\u2028"}]
    path.write_text("\ufeff" + json.dumps(rows, ensure_ascii=False), encoding="utf-8")
    made = imports.call("store_dataset", source=str(path))
    found = cases(imports, made.dataset_id)
    assert found["a"].input == {"n": 12345678901234567890}
    assert (found["a"].expected_present, found["b"].expected_present, found["b"].input) == (True, False, "é\u2028")
    assert (found["b"].source.path, found["b"].source.row, found["b"].origin) == ("cases.json", 2, None)


@pytest.mark.parametrize(
    ("content", "refusal"),
    [
        ("[]", SourceHasNoRows),
        ("", SourceHasNoRows),
        ("[1]", RowMalformed),
        ('[{"input": NaN}]', RowMalformed),
        ('[{"input": 1, "input": 2}]', RowMalformed),
        ('[{"input": 1}, {"inp', RowMalformed),
        ('[{"input": 1}', LastRowTorn),
        ('[{"input": 1}] x', RowMalformed),
    ],
)
def test_a_document_that_cannot_be_read_whole_stores_nothing(imports, tmp_path, content, refusal):
    path = tmp_path / "cases.json"
    path.write_text(content)
    before = imports.every_byte()
    with pytest.raises(refusal):
        imports.call("store_dataset", source=str(path))
    assert imports.every_byte() == before


def test_a_parquet_file_is_a_source_and_its_values_are_those_of_json(imports, tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = str(tmp_path / "cases.parquet")
    rows = [
        {"id": f"c-{n}", "input": {"text": "é", "n": 2**62 + n}, "expected": None if n else "x", "usage": "protection"}
        for n in range(300)
    ]
    parquet.write_table(arrow.Table.from_pylist(rows), path, row_group_size=70)
    made = imports.call("store_dataset", source=path)
    found = cases(imports, made.dataset_id)
    assert (len(found), made.usage_counts["protection"]) == (300, 300)
    assert (found["c-0"].input, found["c-299"].input) == (rows[0]["input"], rows[299]["input"])
    assert (found["c-0"].expected, found["c-299"].expected_present, found["c-299"].expected) == ("x", True, None)
    assert found["c-299"].source.row == 300
    ids = str(tmp_path / "ids.parquet")
    parquet.write_table(arrow.table({"trace_id": ["t-2"]}), ids)
    path = tmp_path / "one.jsonl"
    path.write_text(json.dumps(trace(2)) + "\n")
    batch_id = imports.send(path, **TRACES).batch_id
    assert imports.call("find_records", batch_id=batch_id, ids_file=ids).matched == 1


def test_what_is_no_parquet_or_holds_no_json_is_refused(imports, tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "cases.parquet"
    path.write_bytes(b"PAR1 is not enough")
    with pytest.raises(TableUnreadable) as raised:
        imports.call("store_dataset", source=str(path))
    assert [call.tool for call in raised.value.next] == ["store_dataset"]
    for value in (float("nan"), b"\xff"):
        parquet.write_table(arrow.table({"input": [value]}), str(path))
        with pytest.raises(RowMalformed):
            imports.call("store_dataset", source=str(path))


# -- division ----------------------------------------------------------------------------------------------------------


def rows(count, **more):
    return [{"id": f"c-{n}", "input": n, "source_group_id": f"g-{n % 7}", **more} for n in range(count)]


def test_a_split_is_proposed_then_made_and_kept_by_seed(imports, tmp_path):
    path = tmp_path / "cases.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows(70)))
    asked = {"source": str(path), "split": {"protection": 0.3, "seed": 4}}
    before = imports.project.state().position, imports.every_byte()
    proposed = imports.call("store_dataset", **asked, preview=True)
    assert (imports.project.state().position, imports.every_byte()) == before
    assert proposed.usage_counts == {"optimization": 50, "protection": 20, "holdout": 0}
    assert proposed.group_counts == {"optimization": 5, "protection": 2, "both_by_source": 0}
    made = imports.call(proposed.next[0].tool, **proposed.next[0].arguments)
    assert (made.usage_counts, made.group_counts) == (proposed.usage_counts, proposed.group_counts)
    stored = imports.project.state().get(Dataset, made.dataset_id)
    assert (stored.split.protection, stored.split.seed) == (0.3, 4)
    sides = {}
    for case in cases(imports, made.dataset_id).values():
        sides.setdefault(case.source_group_id, set()).add(case.usage)
    assert all(len(side) == 1 for side in sides.values())

    path.write_text("".join(json.dumps(row) + "\n" for row in reversed(rows(70))))
    again = imports.call("store_dataset", **asked)
    usages = {case.id: case.usage for case in cases(imports, again.dataset_id).values()}
    assert usages == {case.id: case.usage for case in cases(imports, made.dataset_id).values()}


def test_what_the_file_says_of_usage_stands(imports, tmp_path):
    path = tmp_path / "cases.jsonl"
    given = [row | ({"usage": "protection"} if row["source_group_id"] == "g-1" else {}) for row in rows(70)]
    path.write_text("".join(json.dumps(row) + "\n" for row in given))
    made = imports.call("store_dataset", source=str(path), split={"protection": 0.1})
    found = cases(imports, made.dataset_id).values()
    assert {case.source_group_id for case in found if case.usage == "protection"} == {"g-1"}


def test_a_file_that_changes_between_its_two_readings_is_refused(imports, tmp_path, monkeypatch):
    path = tmp_path / "cases.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows(9)))
    decide = Split.decide

    def decided_late(division, seen):
        decide(division, seen)
        path.write_text(path.read_text() + json.dumps({"id": "late", "input": 1}) + "\n")

    monkeypatch.setattr(Split, "decide", decided_late)
    with pytest.raises(SourceChanged):
        imports.call("store_dataset", source=str(path), split={"protection": 0.5})
    assert imports.project.state().all(Dataset) == []


def test_a_side_that_stays_empty_is_said(imports, tmp_path):
    path = tmp_path / "cases.jsonl"
    path.write_text("".join(json.dumps(row | {"source_group_id": "one"}) + "\n" for row in rows(9)))
    made = imports.call("store_dataset", source=str(path), split={"protection": 0.3}, preview=True)
    assert made.warnings == ["No Case is for protection: 1 source group cannot be divided so."]


def test_records_are_divided_by_their_sessions(imports, send):
    batch_id = send(*(trace(n) for n in range(1, 31)))
    made = imports.call("store_dataset", batch_id=batch_id, split={"protection": 0.34, "seed": 3})
    assert made.usage_counts == {"optimization": 20, "protection": 10, "holdout": 0}
    found = cases(imports, made.dataset_id).values()
    assert len({case.source_group_id for case in found if case.usage == "protection"}) == 1


def test_every_answer_is_small(imports, send):
    long = "é" * 500
    batch_id = send(*(trace(n, seen=False, id=f"{long}{n}", input=f"{TOKEN} {n}") for n in range(1, 31)))
    made = imports.call("store_dataset", batch_id=batch_id, preview=True, split={"protection": 0.5})
    assert made.case_count == 30
    assert len(made.model_dump_json().encode()) < 16_000  # the edge cuts it to its limit
