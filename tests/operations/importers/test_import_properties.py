"""Export → import → Records give back every value; how the rows are cut, packed or shuffled changes only locators."""

import csv
import gzip
import io
import json
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from operations.importers._cells import instant
from storage.errors import AtkError
from tests.support.imports import Imports
from tests.support.words import is_plain

SOME = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])

finite = st.floats(allow_nan=False, allow_infinity=False)
words = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=12).filter(
    # Words come from the source too, and some name fields that are masked.
    lambda word: "mail" not in word and is_plain(word)
)
values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False), words
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=6,
)
ids = st.text(alphabet="abcdefgh0123456789-_é", min_size=1, max_size=12)
times = st.datetimes().map(lambda t: t.isoformat(sep=" ", timespec="microseconds"))


@st.composite
def exports(draw):
    """Traces, their observations and their scores, as Langfuse writes them."""
    found = {"trace": [], "observation": [], "score": []}
    for trace in draw(st.lists(ids, min_size=1, max_size=4, unique=True)):
        if draw(st.booleans()):
            row = {"id": trace, "timestamp": draw(times), "name": draw(words), "input": draw(values)}
            found["trace"].append(
                {**row, "output": draw(values), "metadata": draw(st.dictionaries(words, values, max_size=2))}
            )
        parents = [None]
        for observation in draw(st.lists(ids, min_size=1, max_size=4, unique=True)):
            row = {
                "id": observation,
                "traceId": trace,
                "parentObservationId": draw(st.sampled_from(parents)),
                "type": draw(st.sampled_from(("SPAN", "GENERATION", "TOOL", "AGENT"))),
                "name": draw(words),
                "startTime": draw(times),
                "input": draw(values),
                "output": draw(values),
                "extra": draw(values),
            }
            parents.append(observation)
            found["observation"].append(row)
        for number in range(draw(st.integers(0, 2))):
            value = draw(st.floats(-10, 10))
            found["score"].append(
                {"id": f"{trace}/{number}", "traceId": trace, "name": "s", "dataType": "NUMERIC", "value": value}
            )
    return found


def stored(files, roles, **arguments):
    """Imports files and returns the Records without what says where they were read, by trace."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "export"
        source.mkdir()
        for name, data in files.items():
            (source / name).write_bytes(data)
        imports = Imports(Path(folder) / "project")
        response = imports.send(source, file_roles=roles, **arguments)
        records = imports.records(response.batch_id)
        assert len(response.model_dump_json()) < 8_000
    return {trace: record.model_dump(mode="json") for trace, record in records.items()}


def without_places(value):
    if isinstance(value, dict):
        return {k: without_places(v) for k, v in value.items() if k not in ("locator", "locators", "id", "n")}
    return [without_places(item) for item in value] if isinstance(value, list) else value


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def content(value):
    """What a field holds, as far as an import says it."""
    return {"value": lambda: value["value"], "empty": lambda: "", "null": lambda: None}[value["status"]]()


@SOME
@given(exports())
def test_every_value_of_an_export_comes_back(export):
    files = {f"{role}.jsonl": lines(rows) for role, rows in export.items() if rows}
    records = stored(files, {f"{role}.jsonl": role for role, rows in export.items() if rows})
    for row in export["trace"]:
        record = records[row["id"]]
        assert record["runtime_metadata"]["metadata"] == row["metadata"]
        assert (record["name"] or "") == row["name"]
        for name in ("input", "output"):
            if row[name] is not None:
                assert content(record[name]) == row[name]
    for row in export["observation"]:
        found = [e for e in records[row["traceId"]]["log"]["events"] if e["id"] == row["id"]]
        first, last = found[0], found[-1]
        given_name, answered_name = {
            "TOOL": ("arguments", "content"),
            "GENERATION": ("prompt", "content"),
        }.get(row["type"], ("input", "output"))
        assert content(first[given_name]) == row["input"]
        assert content(last[answered_name]) == row["output"]
        assert first["attributes"]["extra"] == row["extra"]
        assert (first["parent"], first["at_text"], first["name"]) == (
            row["parentObservationId"],
            row["startTime"],
            row["name"],
        )
        assert instant(first["at"]) == instant(row["startTime"])
    for row in export["score"]:
        assert row["value"] in [s["value"] for s in records[row["traceId"]]["scores"]]


@SOME
@given(exports(), st.integers(0, 2**16), st.integers(1, 3))
def test_splitting_packing_and_shuffling_change_nothing_but_places(export, seed, parts):
    roles = {role: rows for role, rows in export.items() if rows}
    whole = stored({f"{r}.jsonl": lines(rows) for r, rows in roles.items()}, {f"{r}.jsonl": r for r in roles})
    rng = random.Random(seed)
    files, named = {}, {}
    for role, rows in roles.items():
        shuffled = rng.sample(rows, len(rows))
        for part in range(parts):
            if some := shuffled[part::parts]:
                name, data = f"{role}{part}.JSONL.gz", lines(some)
                files[name] = gzip.compress(data[: len(data) // 2]) + gzip.compress(data[len(data) // 2 :])
                named[name] = role
    cut = stored(files, named)
    assert without_places(cut) == without_places(whole)
    as_json = {f"{r}.json": json.dumps(rows, indent=rng.choice((None, 2))).encode() for r, rows in roles.items()}
    assert without_places(stored(as_json, {f"{r}.json": r for r in roles})) == without_places(whole)


@SOME
@given(st.lists(st.tuples(words, words), min_size=1, max_size=5))
def test_every_cell_of_a_table_comes_back(cells):
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["key", "question", "answer"])
    writer.writerows([f"c{n}", *pair] for n, pair in enumerate(cells))
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "r.csv"
        source.write_bytes(text.getvalue().encode())
        imports = Imports(Path(folder) / "project")
        columns = {"case_id": "key", "input": "question", "output": "answer"}
        response = imports.send(source, source_kind="batch_results", mapping=columns)
        records = imports.records(response.batch_id)
    for number, pair in enumerate(cells):
        record = records[f"c{number}"]
        assert (record.input.value or "", record.output.value or "") == pair


NAMES = ("a.json", "a.jsonl", "a.csv", "a.jsonl.gz", "trace-1.json")


@SOME
@given(
    st.binary(max_size=300),
    st.sampled_from(NAMES),
    st.booleans(),
)
def test_whatever_the_bytes_are_there_is_an_answer_or_a_refusal(data, name, bundle):
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / name
        source.write_bytes(data)
        imports = Imports(Path(folder) / "project")
        try:
            imports.send(source, file_roles={name: "bundle" if bundle else "observation"}, max_damaged=3)
        except AtkError:
            assert imports.project.store.names("evidence") == []
        imports.send(source, source_kind="batch_results", dry_run=True)


near_json = st.recursive(
    st.one_of(st.none(), st.integers(), words, st.just([])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(("id", "trace", "traceId", "observations", "scores", "data", "traces", "subject", "input")),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(near_json, st.sampled_from(("bundle", "observation", "trace", "score")), st.sampled_from((".json", ".jsonl")))
def test_a_document_of_any_shape_is_taken_in_or_refused(value, role, ending):
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / f"x{ending}"
        source.write_text(json.dumps(value))
        imports = Imports(Path(folder) / "project")
        try:
            response = imports.send(source, file_roles={source.name: role}, max_damaged=2)
        except AtkError:
            return
        imports.records(response.batch_id)
        imports.call("read_record", record_id=response.batch_id)


@pytest.mark.parametrize("given_time", ["2026-03-29", "yesterday", "", None, 1767225600, "2026-13-45T00:00:00Z"])
def test_what_is_no_time_is_none(given_time):
    assert instant(given_time) is None
