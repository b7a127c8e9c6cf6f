"""What an import answers fits 8 kB, whatever the export holds, and says what was left out."""

import json

import pytest

from atk_mcp import results
from operations.execution import importing
from operations.importers import answers
from tests.support.imports import Imports

TRACES = {"adapter_profile": "langfuse_trace_bundle"}
WIDE = "宽" * 200 + "\x01\x02"
"""A name whose JSON is far longer than its characters are many."""


@pytest.fixture
def imports(tmp_path):
    return Imports(tmp_path / "project")


@pytest.fixture
def write(tmp_path):
    def write(name, rows):
        path = tmp_path / "export" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows)
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def trace(number, **more):
    return {"id": f"t-{number}", "timestamp": "2026-01-01T00:00:00Z", "input": "q", "output": "a", **more}


def fits(response):
    """Asserts that the whole result of a tool fits, uncut."""
    size = len(results.compact(results.payload(response)).encode())
    assert size <= results.LIMIT, size
    results.of_response(response, strict=True)


def test_an_import_of_thousands_of_fields_scores_and_damaged_rows_fits(imports, write, monkeypatch):
    monkeypatch.setattr(importing, "SHORT_BYTES", 0)
    scores = [
        {"id": f"s-{n}-{kind}", "traceId": "t-1", "name": f"{WIDE}{n}", "dataType": kind, "value": 1}
        for n in range(900)
        for kind in ("NUMERIC", "BOOLEAN")
    ]
    rows = [trace(n, **{f"{WIDE}{n}-{m}": n for m in range(40)}) for n in range(100)]
    damaged = [f'{{"{WIDE[:150]}{n}\n' for n in range(500)]
    write("t.jsonl", [*rows, *damaged])
    write("s.jsonl", scores)
    for n in range(300):
        write(f"{'宽' * 60}{n}.txt", ["nothing"])
    response = imports.send(
        imports.root.replace("project", "export"),
        file_roles={"t.jsonl": "trace", "s.jsonl": "score"},
        max_damaged=1000,
        wait_seconds=200,
    )
    fits(response)
    assert response.warnings[-1].endswith(f"more: read notes of {response.batch_id}.")
    assert len(response.damaged) == 5
    waited = imports.call("wait_for_batch", batch_id=response.import_id)
    assert list(waited.imported["fields"].items()) == list(response.fields.items())
    fits(waited)


def test_a_dry_run_over_thousands_of_files_and_columns_fits(imports, write):
    for n in range(2_000):
        write(f"{'name ' * 12}{n}.jsonl", [trace(n, **{f"{WIDE}{n}": 1})])
    fits(imports.send(imports.root.replace("project", "export"), dry_run=True))
    path = write("wide.csv", [",".join(f"{'column ' * 12}{n}" for n in range(3_000)) + "\n", "," * 2_999 + "\n"])
    fits(imports.send(path, dry_run=True, source_kind="batch_results"))


def test_refusals_that_name_thousands_of_files_fit(imports, write):
    for n in range(2_000):
        write(f"{'宽' * 60}{n}.jsonl", [{"a": n}])
    from storage.errors import AtkError

    for given in ({}, {"file_roles": {f"{'宽' * 60}-none-{n}": "trace" for n in range(2_000)}}):
        with pytest.raises(AtkError) as refused:
            imports.send(imports.root.replace("project", "export"), **given)
        told = results.of_error(refused.value)
        assert len(results.compact(told["structuredContent"]).encode()) <= results.LIMIT


@pytest.mark.parametrize("room", [4, 5, 17, 160])
@pytest.mark.parametrize("text", ["plain", WIDE, "\x01" * 300, "\ud800" * 300, "a" * 1000, ""])
def test_a_cut_text_takes_no_more_than_its_room(text, room):
    shown = answers.cut(text, room)
    assert answers.size(shown) <= max(room, answers.size("…"))
    assert text.startswith(shown.removesuffix("…"))


def test_what_was_not_all_kept_comes_first():
    fields = {"a.a": {"kept": 2}, "b.b": {"kept": 1, "unknown": 1}, "c.c": {"kept": 2}}
    assert list(answers.ranked(fields)) == ["b.b", "a.a", "c.c"]
