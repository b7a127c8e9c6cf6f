"""`import_evidence`: what it keeps, refuses, links and masks, and how its Records are read and judged."""

import gzip
import json
import os
import sys
from pathlib import Path

import pytest

from operations.importers._fields import MappingSourceMissing, ValuesConflict
from operations.importers._folders import RolesUnknown, RoleWithoutFile
from operations.importers._results import ResultsColumnMissing, ResultsMappingMissing
from operations.importers._streams import PackedFileDamaged, UnpacksTooFar
from operations.importers.evidence import ImportStopped, NoEvidence, TooManyDamaged
from operations.invocation import invoke
from operations.registry import all_operations
from operations.tuning.judging import JudgementInvalid
from storage.files import StoreDamaged
from tests.support.imports import Imports, event

ROOT = Path(__file__).parents[3]
TRACES = {"adapter_profile": "langfuse_trace_bundle"}
OBSERVATIONS = {"adapter_profile": "langfuse_observation_rows"}


@pytest.fixture
def imports(tmp_path):
    return Imports(tmp_path / "project")


@pytest.fixture
def write(tmp_path):
    def write(name, *rows, raw=None):
        path = tmp_path / "export" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw if raw is not None else "".join(json.dumps(row) + "\n" for row in rows).encode())
        return str(path)

    return write


def trace(number, **more):
    return {"id": f"t-{number}", "timestamp": "2026-01-01T00:00:00Z", "input": f"q{number}", "output": "a", **more}


def observation(number, of, **more):
    usual = {"id": f"o-{number}", "traceId": f"t-{of}", "parentObservationId": None, "type": "SPAN", "name": "s"}
    return {**usual, "startTime": f"2026-01-01T00:00:{number:02d}Z", "input": "i", "output": "o", **more}


def score(number, of, **more):
    return {"id": f"s-{number}", "traceId": f"t-{of}", "name": "quality", "dataType": "NUMERIC", "value": 0.5, **more}


# -- reading and judging -----------------------------------------------------------------------------------------------


def test_a_record_is_read_by_its_id_and_judged_like_any_other(imports, write):
    batch = imports.send(write("t.jsonl", *(trace(n) for n in range(70))), **TRACES).batch_id
    read = imports.call("read_record", record_id=f"{batch}.65")
    assert read.value["id"] == f"{batch}.65"
    assert read.value["input"]["value"] == imports.raw(batch)[64]["input"]["value"]
    whole = imports.call("read_record", record_id=batch)
    assert (whole.kind, whole.value["counts"]) == ("import", {"records": 70, "traces": 70})
    assert imports.call("read_record", record_id=batch, field="records").value[0]["n"] == 1
    rows = [{"record_id": f"{batch}.{n}", "verdict": "fail" if n == 3 else "pass"} for n in range(1, 71)]
    spec = {"dimensions": ["correct"], "dimension_rules": {"correct": "the answer is right"}}
    stored = imports.call("store_assessment", batch_id=batch, evaluation_spec=spec, judger={}, rows=rows)
    assert stored.counts == {"correct": {"pass": 69, "fail": 1}}
    assert stored.failed_case_ids == {"correct": [imports.raw(batch)[2]["source"]["trace_id"]]}
    judged = imports.call("read_record", record_id=f"{batch}.3", field="verdicts")
    assert judged.value[0]["verdict"] == "fail"


def test_a_rule_that_needs_cases_is_refused_for_an_import(imports, write):
    batch = imports.send(write("t.jsonl", trace(1)), **TRACES).batch_id
    spec = {"dimensions": ["correct"], "dimension_rules": {"correct": "the answer is right"}}
    with pytest.raises(JudgementInvalid, match="send rows"):
        imports.call("store_assessment", batch_id=batch, evaluation_spec=spec, judger={"method": "exact"})


def test_a_record_whose_block_rotted_is_named_and_the_others_are_read(imports, write):
    batch = imports.send(write("t.jsonl", *(trace(n) for n in range(70))), **TRACES).batch_id
    path = imports.project.store.full(f"evidence/{batch}/records.jsonl")
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) - 10)
        file.write(b"X")
    assert imports.call("read_record", record_id=f"{batch}.1").value["n"] == 1
    with pytest.raises(StoreDamaged, match="digest of its block"):
        imports.call("read_record", record_id=f"{batch}.70")


# -- the same again, changed, and late ---------------------------------------------------------------------------------


def test_the_same_content_is_the_same_batch_and_changed_content_supersedes_it(imports, write):
    path = write("t.jsonl", trace(1))
    first = imports.send(path, **TRACES)
    again = imports.send(path, **TRACES)
    assert again.batch_id == first.batch_id
    assert again.counts == first.counts
    write("t.jsonl", trace(1, output="b"))
    changed = imports.send(path, **TRACES)
    assert changed.batch_id != first.batch_id
    assert changed.supersedes == first.batch_id
    assert imports.records(first.batch_id)["t-1"].output.value == "a"
    other = imports.send(path, **TRACES, source_namespace="elsewhere")
    assert other.supersedes is None


def test_scores_that_come_late_make_a_batch_linked_to_their_traces(imports, write):
    first = imports.send(write("t.jsonl", trace(1)), **TRACES).batch_id
    late = imports.send(write("s.jsonl", score(1, 1)), file_roles={"s.jsonl": "score"})
    assert late.links == [first]
    assert late.counts == {"scores": 1, "scores_attached": 1}
    assert imports.loose(late.batch_id)[0].trace_id == "t-1"


# -- meaning -----------------------------------------------------------------------------------------------------------


def test_the_same_observation_said_differently_is_refused_with_both_shown(imports, write):
    path = write("o.jsonl", observation(1, 1, output="left"), observation(1, 1, output="right"))
    with pytest.raises(ValuesConflict, match=r'output is "left" at o\.jsonl line 1 and "right" at o\.jsonl line 2'):
        imports.send(path, **OBSERVATIONS)
    assert imports.project.store.names("evidence") == []


def test_the_later_version_counts_where_the_format_has_versions(imports, write):
    rows = [observation(1, 1, output=o, updatedAt=f"2026-01-01T00:0{m}:00Z") for o, m in (("new", 2), ("old", 1))]
    response = imports.send(write("o.jsonl", *rows), **OBSERVATIONS)
    assert response.counts["duplicates_merged"] == 1
    assert event(imports.records(response.batch_id)["t-1"], "o-1").output.value == "new"


def test_one_id_in_two_traces_is_two_observations(imports, write):
    response = imports.send(write("o.jsonl", observation(1, 1), observation(1, 2)), **OBSERVATIONS)
    assert response.counts["observations"] == 2
    assert set(imports.records(response.batch_id)) == {"t-1", "t-2"}


def test_a_wrapper_keeps_the_siblings_of_its_trace_and_whole_numbers_join(imports, write):
    row = {"trace": {"id": 7, "input": "q"}, "observations": [{"id": 1, "traceId": 7, "parentObservationId": None}],
           "scores": [{"id": "s", "traceId": "7", "name": "n", "dataType": "BOOLEAN", "value": 1}]}  # fmt: skip
    response = imports.send(write("t.jsonl", row), **TRACES)
    record = imports.records(response.batch_id)["7"]
    assert ([e.id for e in record.log.events], record.scores[0].value) == (["1"], True)
    assert record.log.events[0].locator.pointer == "/observations/0"


def test_two_names_for_one_field_with_other_values_are_refused(imports, write):
    with pytest.raises(ValuesConflict, match="parent_observation_id"):
        imports.send(
            write("o.jsonl", observation(1, 1, parentObservationId="a", parent_observation_id="b")), **OBSERVATIONS
        )


def test_a_mapping_reads_fields_from_where_it_says_and_from_nowhere_else(imports, write):
    path = write("t.jsonl", {"key": "t-1", "question": "q", "answer": "a"})
    mapping = {"trace": {"id": "key", "input": "question", "output": "answer"}}
    record = imports.records(imports.send(path, **TRACES, mapping=mapping).batch_id)["t-1"]
    assert (record.input.value, record.output.value) == ("q", "a")
    with pytest.raises(MappingSourceMissing, match="'reply'"):
        imports.send(path, **TRACES, mapping={"trace": {**mapping["trace"], "output": "reply"}})


def test_a_score_column_in_a_fields_place_is_called_collided(imports, write):
    response = imports.send(write("t.jsonl", trace(1, version=[0.5])), **TRACES)
    assert response.fields["trace.version"] == {"collided": 1}
    assert imports.records(response.batch_id)["t-1"].fidelity == {"version": "collided"}


def test_a_row_that_names_a_key_twice_is_damage_with_both_values(imports, write):
    with pytest.raises(TooManyDamaged, match=r"names 'output' twice: \[\"a\", \"b\"\]"):
        imports.send(write("t.jsonl", raw=b'{"id":"t-1","output":"a","output":"b"}\n'), **TRACES)


def test_numbers_beyond_64_bits_and_half_a_surrogate_pair_come_back(imports, write):
    raw = b'{"id":"t-2","output":[-9223372036854775809]}\n'
    record = imports.records(imports.send(write("w.jsonl", raw=raw), **TRACES).batch_id)["t-2"]
    assert repr(record.output.value) == "[-9223372036854775809]"
    raw = b'{"id":"t-1","output":123456789012345678901234567890,"input":"\\ud800"}\n'
    record = imports.records(imports.send(write("t.jsonl", raw=raw), **TRACES).batch_id)["t-1"]
    assert record.output.value == 123456789012345678901234567890


# -- masking -----------------------------------------------------------------------------------------------------------

SECRETS = {
    "github": "ghp_" + "a1B2" * 9,
    "nested": "swordfish-nested-99",
    "url": "hunter2secret",
    "bearer": "abcdef0123456789abcdef",
    "own": "patient-4711",
    "address": "someone@example.org",
}


def planted():
    return [
        trace(1, output=f"use {SECRETS['github']} now"),
        trace(2, metadata=json.dumps({"deep": json.dumps({"api_key": SECRETS["nested"]})})),
        trace(3, input=f"postgres://user:{SECRETS['url']}@db/x"),
        trace(4, metadata={"Authorization": f"Bearer {SECRETS['bearer']}"}),
        trace(5, metadata={"patient_id": SECRETS["own"]}),
        trace(6, comments=[{"id": "c", "content": "see", "author_email": SECRETS["address"]}]),
    ]


def test_no_planted_secret_is_in_any_file_response_or_error(tmp_path, write):
    imports = Imports(tmp_path / "project", redact_keys=("patient_id",))
    clean = [trace(n, total_token=42, secretary="Ms Smith") for n in range(10, 200)]
    response = imports.send(write("t.jsonl", *planted(), *clean), **TRACES)
    everything = imports.every_byte() + response.model_dump_json().encode()
    for kind, secret in SECRETS.items():
        assert secret.encode() not in everything, kind
    records = imports.records(response.batch_id)
    assert records["t-10"].runtime_metadata == {"total_token": 42, "secretary": "Ms Smith"}
    assert "[masked:github:" in records["t-1"].output.value
    damaged = write("d.jsonl", raw=f'{{"id":"t-1","k":"{SECRETS["github"]}","k":"{SECRETS["github"]}"}}\n'.encode())
    with pytest.raises(TooManyDamaged) as refused:
        imports.send(damaged, **TRACES)
    assert SECRETS["github"] not in str(refused.value)
    with pytest.raises(ValuesConflict) as refused:
        imports.send(write("c.jsonl", trace(1, output=SECRETS["github"]), trace(1, output="b")), **TRACES)
    assert SECRETS["github"] not in str(refused.value)


# -- folders and formats -----------------------------------------------------------------------------------------------


def test_a_folder_is_imported_by_role_in_any_case_and_stray_files_are_named(imports, write, tmp_path):
    write("T.JSONL", trace(1))
    write("o.ndjson", observation(1, 1))
    write("scores/s.jsonl.gz", raw=gzip.compress(json.dumps(score(1, 1)).encode()))
    write(".DS_Store", raw=b"\0\1")
    write("README.txt", raw=b"hello")
    response = imports.send(tmp_path / "export", file_roles={"T.JSONL": "trace", "o.ndjson": "observation"})
    assert response.skipped_files == [".DS_Store", "README.txt"]
    record = imports.records(response.batch_id)["t-1"]
    assert (len(record.log.events), len(record.scores)) == (1, 1)
    with pytest.raises(RolesUnknown, match=r"T\.JSONL, o\.ndjson"):
        imports.send(tmp_path / "export")
    with pytest.raises(RoleWithoutFile, match="no such"):
        imports.send(tmp_path / "export", file_roles={"no such": "trace"})


def test_a_torn_or_foreign_packed_file_and_a_bomb_are_refused(imports, write):
    packed = gzip.compress(b'{"id":"t-1"}\n' * 1000)
    with pytest.raises(PackedFileDamaged):
        imports.send(write("torn.jsonl.gz", raw=packed[:-20]), **TRACES)
    with pytest.raises(PackedFileDamaged):
        imports.send(write("none.jsonl.gz", raw=b"no gzip"), **TRACES)
    with pytest.raises(UnpacksTooFar):
        imports.send(write("bomb.jsonl.gz", raw=gzip.compress(b" " * (80 << 20))), **TRACES)
    assert imports.project.store.names("evidence") == []


@pytest.mark.parametrize(
    ("name", "raw", "problem"),
    [
        ("deep.jsonl", b'{"id":' + b"[" * 5000 + b"]" * 5000 + b"}\n", "nests deeper"),
        ("deep.json", b'[{"id":' + b"[" * 200_000, "nests deeper|not JSON|end|Expecting"),
        ("key.jsonl", b'{"id":"t","' + b"k" * 2_000_000 + b'":1}\n', "2000000 characters"),
        ("wide.csv", b",".join(b"c%d" % n for n in range(1_000_000)) + b"\n", "more than 5000 columns"),
        ("latin.jsonl", '{"id":"é"}\n'.encode("latin-1"), "not UTF-8"),
        ("list.jsonl", b"[1]\n", "not a JSON object"),
        ("twice.csv", b"id,id\n1,2\n", "more than once"),
        ("short.csv", b"id,input\n1\n", "1 cells and the header has 2"),
        ("quote.csv", b'id,input\n1,"never closed\n', "unexpected end of data"),
        ("two.json", b'{"id":"a"} {"id":"b"}', "more after the end"),
        ("cut.json", b'[{"id":"a"},{"id":', "Expecting value"),
        ("noid.jsonl", b'{"input":"x"}\n', "it has no id"),
    ],
)
def test_what_is_no_export_is_refused_in_a_sentence(imports, write, name, raw, problem):
    from operations.importers._streams import EvidenceRefused

    with pytest.raises(EvidenceRefused, match=problem):
        imports.send(write(name, raw=raw), **TRACES)
    assert imports.project.store.names("evidence") == []


def test_an_empty_export_and_an_empty_list_are_no_evidence(imports, write):
    for name, raw in (("a.jsonl", b""), ("b.json", b"[]"), ("c.csv", b""), ("d.csv", b"id,input\n")):
        with pytest.raises(NoEvidence):
            imports.send(write(name, raw=raw), **TRACES)


def test_pages_of_the_interface_and_lists_are_read_alike(imports, write):
    page = {"data": [observation(1, 1), observation(2, 1)], "meta": {"cursor": "x"}}
    response = imports.send(write("page.json", raw=json.dumps(page).encode()), **OBSERVATIONS)
    record = imports.records(response.batch_id)["t-1"]
    assert [e.locator.pointer for e in record.log.events] == ["/data/0", "/data/1"]
    one = {**trace(3), "observations": [observation(1, 3)], "scores": [score(1, 3, value=0.25)]}
    response = imports.send(write("one.json", raw=json.dumps(one, indent=2).encode()), **TRACES)
    record = imports.records(response.batch_id)["t-3"]
    assert (len(record.log.events), record.scores[0].value, record.trace_row) == (1, 0.25, True)


def test_scores_of_the_newer_form_name_their_subject(imports, write):
    rows = [{"id": "s", "name": "ok", "dataType": "BOOLEAN", "value": True, "subject": {"kind": "trace", "id": "t-1"}}]
    write("t.jsonl", trace(1))
    path = write("s.jsonl", *rows)
    response = imports.send(os.path.dirname(path), file_roles={"t.jsonl": "trace", "s.jsonl": "score"})
    (found,) = imports.records(response.batch_id)["t-1"].scores
    assert (found.value, found.subject_kind, found.subject_id) == (True, "trace", "t-1")


# -- rows of results, dry runs, ends -----------------------------------------------------------------------------------


def test_results_need_their_columns_named_and_only_those_that_exist(imports, write):
    path = write("r.jsonl", {"q": "x", "a": "y"})
    with pytest.raises(ResultsMappingMissing):
        imports.send(path, source_kind="batch_results", mapping={"input": "q"})
    with pytest.raises(ResultsColumnMissing, match="'answer'"):
        imports.send(path, source_kind="batch_results", mapping={"output": "answer"})
    response = imports.send(path, source_kind="batch_results", mapping={"input": "q", "output": "a"})
    assert (response.completeness, response.fields) == (
        "limited",
        {"row.input": {"kept": 1}, "row.output": {"kept": 1}},
    )


def test_a_dry_run_stores_nothing_and_its_request_imports(imports, write):
    write("t.jsonl", trace(1))
    write("o.jsonl", observation(1, 1))
    source = os.path.dirname(write("notes.json", raw=b'{"a": 1}'))
    told = imports.send(source, dry_run=True)
    assert told.suggestion["fits"] == {"notes.json": "ignore", "o.jsonl": "observation", "t.jsonl": "trace"}
    assert told.batch_id is None
    assert imports.project.store.names("evidence") == []
    (step,) = told.next
    done = invoke(all_operations()[step.tool], {"project_path": imports.root, **step.arguments})
    assert done.counts["records"] == 1


def test_a_dry_run_suggests_what_it_was_called_with_too(imports, write):
    write("t.jsonl", trace(1, input='{"q": 1}'))
    source = os.path.dirname(write("o.jsonl", observation(1, 1)))
    said = {"json_columns": ["input"], "source_namespace": "prod", "mapping": {"trace": {"name": "title"}}}
    (step,) = imports.send(source, dry_run=True, **said).next
    assert step.arguments == {
        "source": source,
        "source_kind": "langfuse",
        "file_roles": {"o.jsonl": "observation", "t.jsonl": "trace"},
        **said,
    }
    (step,) = imports.send(source, dry_run=True, **said, file_roles={"t.jsonl": "trace", "o.jsonl": "ignore"}).next
    assert step.arguments["file_roles"]["o.jsonl"] == "ignore"
    (step,) = imports.send(source, dry_run=True, **{**said, "source_kind": "otel"}).next
    assert (step.arguments["source_kind"], step.arguments["json_columns"]) == ("langfuse", ["input"])
    assert step.arguments["source_namespace"] == "prod"


def test_a_dry_run_finds_expected_answers_and_scores_among_the_columns_of_results(imports, write):
    rows = (
        b"id,input,output,expected,repeat,score,f1_score,score_note,pass_score\n1,q,a,b,2,1,0.5,fine,\n2,q,a,b,1,,1,,\n"
    )
    source = write("r.csv", raw=rows)
    (step,) = imports.send(source, source_kind="batch_results", dry_run=True).next
    assert step.arguments["mapping"] == {
        "input": "input",
        "output": "output",
        "case_id": "id",
        "repeat": "repeat",
        "expected": "expected",
        "scores": {"score": "score", "f1_score": "f1_score"},
    }
    batch_id = imports.call("import_evidence", **step.arguments).batch_id
    first = imports.raw(batch_id)[0]
    assert (first["expected"]["value"], [score["value"] for score in first["scores"]]) == ("b", [1.0, 0.5])


def test_a_dry_run_asks_for_no_mapping_that_it_was_given(imports, write):
    source = write("r.csv", raw=b"Ticket,Bot answer\n1,yes\n")
    (step,) = imports.send(source, source_kind="batch_results", dry_run=True).next
    assert step.supply["mapping"]
    given = {"output": "Bot answer", "case_id": "Ticket"}
    (step,) = imports.send(source, source_kind="batch_results", dry_run=True, mapping=given).next
    assert (step.arguments["mapping"], step.supply) == (given, {})


def test_an_import_that_is_given_up_leaves_nothing_behind(imports, write):
    path = write("t.jsonl", *(trace(n) for n in range(3000)))
    arguments = {"project_path": imports.root, "source": path, "source_kind": "langfuse", **TRACES}
    noted = []
    with pytest.raises(ImportStopped, match=r"at row [1-3]\d{3}"):
        invoke(
            all_operations()["import_evidence"],
            arguments,
            cancelled=lambda: True,
            progress=lambda done, total, note: noted.append((done, total, note)),
        )
    assert imports.project.store.names("evidence") == []
    assert noted[0][1] == os.path.getsize(path)


def test_a_response_stays_small_whatever_is_wrong(imports, write):
    extra = {f"unknown_field_{n}_{'x' * 150}": None for n in range(200)}
    rows = [json.dumps({**trace(n), **extra}) for n in range(20)]
    text = "\n".join([*rows, *(["{broken" + "y" * 500] * 300)]) + "\n"
    response = imports.send(write("t.jsonl", raw=text.encode()), **TRACES, max_damaged=300)
    assert len(response.model_dump_json()) < 8_000
    assert response.completeness == "partial"
    assert len(response.damaged) == 5


def test_an_import_that_was_killed_leaves_nothing_once_the_next_call_has_come(imports, write):
    import subprocess

    path = write("t.jsonl", *(trace(n) for n in range(3000)))
    arguments = {"project_path": imports.root, "source": path, "source_kind": "langfuse", **TRACES}
    code = (
        "import os, sys, json\n"
        "from operations.invocation import invoke\n"
        "from operations.registry import all_operations\n"
        "invoke(all_operations()['import_evidence'], json.loads(sys.argv[1]), cancelled=lambda: os._exit(9))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, json.dumps(arguments)], cwd=ROOT, check=False)
    assert done.returncode == 9
    assert [name.startswith(".staging-") for name in imports.project.store.names("evidence")] == [True]
    batch = imports.send(path, **TRACES).batch_id
    imports.call("inspect_or_recover_operation")
    assert imports.project.store.names("evidence") == [batch]
