"""An export in Parquet becomes the Records that the same export in JSON Lines becomes, but for what JSON cannot say."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.imports import Imports

SECRET = "ghp_" + "Planted0123456789abcdefgh"
ROWS = [
    {
        "id": f"o-{n}",
        "trace_id": f"t-{n // 3}",
        "parent_observation_id": "" if n % 3 == 0 else f"o-{n - n % 3}",
        "type": "SPAN" if n % 3 else "AGENT",
        "start_time": f"2026-06-01 10:00:{n:02d}.000000",
        "name": f"step-{n}",
        "input": json.dumps({"q": n, "api_key": "nested-secret"}),
        "output": f"answer {n} {SECRET if n == 5 else ''}",
        "metadata": {"attempt": str(n)},
        "usage_details": {"input": 2**53 + n, "output": 3},
        "tags": ["a", "b"],
    }
    for n in range(12)
]
SCHEMA = pa.schema({
    "metadata": pa.map_(pa.string(), pa.string()),
    "usage_details": pa.map_(pa.string(), pa.uint64()),
})  # fmt: skip
OBSERVATIONS = {"adapter_profile": "langfuse_observation_rows", "json_columns": ["input"]}


@pytest.fixture
def imports(tmp_path):
    return Imports(tmp_path / "project")


def table(rows, **more):
    usual = {name: pa.array([row[name] for row in rows]) for name in rows[0] if name not in SCHEMA.names}
    maps = {name: pa.array([list(row[name].items()) for row in rows], SCHEMA.field(name).type) for name in SCHEMA.names}
    return pa.table({**usual, **maps, **more})


def test_it_is_read_as_the_same_rows_in_json_lines_are(imports, tmp_path):
    pq.write_table(table(ROWS), tmp_path / "o.parquet", row_group_size=5)
    (tmp_path / "o.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    ours = imports.send(tmp_path / "o.parquet", **OBSERVATIONS)
    theirs = imports.send(tmp_path / "o.jsonl", **OBSERVATIONS)
    assert ours.counts == theirs.counts
    assert ours.fields == theirs.fields
    assert events(imports, ours.batch_id) == events(imports, theirs.batch_id)
    assert SECRET.encode() not in imports.every_byte()
    assert b"nested-secret" not in imports.every_byte()


def events(imports, batch_id):
    records = imports.records(batch_id)
    return {key: [one.model_dump(exclude={"locators", "locator"}) for one in record.log.events]
            for key, record in records.items()}  # fmt: skip


def test_a_locator_names_the_row_and_bytes_that_are_no_text_are_unparsable(imports, tmp_path):
    packed = pa.array([b"\xff\xfe" if n == 4 else b"text" for n in range(12)], pa.binary())
    pq.write_table(table(ROWS).drop_columns("output").append_column("output", packed), tmp_path / "o.parquet")
    answer = imports.send(tmp_path / "o.parquet", **OBSERVATIONS)
    record = imports.records(answer.batch_id)["t-1"]
    ended = next(e for e in record.log.events if e.id == "o-4")
    assert "//4=" in ended.model_dump_json()
    assert answer.fields["observation.output"]["unparsable"] == 1
    assert '"row":5' in ended.model_dump_json()


def test_a_dry_run_says_what_it_is(imports, tmp_path):
    pq.write_table(table(ROWS), tmp_path / "o.parquet")
    answer = imports.send(tmp_path / "o.parquet", dry_run=True)
    assert list(answer.suggestion["fits"]) == ["o.parquet"]
    assert "input" in answer.suggestion["columns"] or answer.next[0].arguments
