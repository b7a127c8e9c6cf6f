"""Scores that come in a file of their own: attached to the imports that hold their traces, and to no others."""

import json

import pytest

from storage.schema.traces import BatchLink
from tests.support.imports import Imports

TRACES = {"adapter_profile": "langfuse_trace_bundle"}
SCORES = {"file_roles": {"s.jsonl": "score"}}


@pytest.fixture
def imports(tmp_path):
    return Imports(tmp_path / "project")


@pytest.fixture
def write(tmp_path):
    def write(name, rows):
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    return write


def trace(name):
    return {"id": name, "timestamp": "2026-01-01T00:00:00Z", "input": "q", "output": "a"}


def score(number, of):
    found = {"id": f"s-{number}", "name": "quality", "dataType": "NUMERIC", "value": 0.5}
    return {**found, **({"traceId": of} if of else {"sessionId": "session-1"})}


def test_late_scores_are_linked_only_to_the_imports_that_hold_their_traces(imports, write):
    one = imports.send(write("a.jsonl", map(trace, ("a-1", "a-2"))), **TRACES).batch_id
    other = imports.send(write("b.jsonl", map(trace, ("b-1", "b-2"))), **TRACES).batch_id
    imports.send(write("c.jsonl", map(trace, ("c-1",))), **TRACES)
    imports.send(write("d.jsonl", map(trace, ("a-1",))), **TRACES, source_namespace="another")
    named = ["a-1", "a-1", "b-2", "nobody", None]
    late = imports.send(write("s.jsonl", (score(n, of) for n, of in enumerate(named))), **SCORES)
    assert late.links == [one, other]
    assert late.counts == {"scores": 5, "scores_attached": 3, "scores_unattached": 2}
    assert imports.batch(late.batch_id).links == (
        BatchLink(batch_id=one, relation="late_scores", scores=2),
        BatchLink(batch_id=other, relation="late_scores", scores=1),
    )
    assert len(imports.loose(late.batch_id)) == 5


def test_scores_of_traces_that_nobody_imported_are_linked_to_nothing(imports, write):
    imports.send(write("a.jsonl", [trace("a-1")]), **TRACES)
    late = imports.send(write("s.jsonl", [score(1, "elsewhere")]), **SCORES)
    assert (late.links, late.counts) == ([], {"scores": 1, "scores_unattached": 1})


def test_more_late_scores_of_the_same_file_replace_the_earlier_ones_and_stay_linked(imports, write):
    first = imports.send(write("a.jsonl", map(trace, ("a-1", "a-2"))), **TRACES).batch_id
    early = imports.send(write("s.jsonl", [score(1, "a-1")]), **SCORES).batch_id
    late = imports.send(write("s.jsonl", [score(1, "a-1"), score(2, "a-2")]), **SCORES)
    assert (late.supersedes, late.links) == (early, [first])
    assert late.counts["scores_attached"] == 2


def test_masked_trace_ids_find_one_another(imports, write):
    secret = "ghp_" + "a1B2" * 9
    first = imports.send(write("a.jsonl", [trace(secret)]), **TRACES).batch_id
    late = imports.send(write("s.jsonl", [score(1, secret)]), **SCORES)
    assert late.links == [first]
    assert secret.encode() not in imports.every_byte()


def test_many_scores_are_counted_one_by_one(imports, write):
    first = imports.send(write("a.jsonl", (trace(f"t-{n}") for n in range(0, 2000, 2))), **TRACES).batch_id
    late = imports.send(write("s.jsonl", (score(n, f"t-{n % 2000}") for n in range(3000))), **SCORES)
    assert late.links == [first]
    assert late.counts == {"scores": 3000, "scores_attached": 1500, "scores_unattached": 1500}
