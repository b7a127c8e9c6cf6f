"""Whatever stands in a session's lines, an import makes valid Records of it or refuses it in words of our own."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from operations.importers._intake import Guard
from operations.importers._json_values import dumps, loads
from operations.importers._source import Options
from operations.importers.evidence import EvidenceImport
from operations.importers.sources import open_source
from storage.errors import AtkError
from storage.masking import Masker
from storage.schema.traces import ImportedRecord
from tests.support import claude_sessions, codex_sessions

SOME = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
GUARD = Guard(Masker(b"k" * 32))

LINES = {
    "codex": [*codex_sessions.usual().lines, *codex_sessions.usual(ordinals=False).lines, *codex_sessions.stream()],
    "claude_code": [*claude_sessions.usual().lines, *claude_sessions.stream()],
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def places(value, path=()):
    """Every place in a value at which something can stand instead."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        yield from places(item, (*path, name))


def put(value, path, new):
    if not path:
        return new
    changed = copy.copy(value)
    changed[path[0]] = put(value[path[0]], path[1:], new)
    return changed


@st.composite
def mutated(draw, lines):
    """Some lines of a session in any order, with anything in some places."""
    found = draw(st.lists(st.sampled_from(lines), min_size=1, max_size=12))
    for _ in range(draw(st.integers(1, 4))):
        number = draw(st.integers(0, len(found) - 1))
        path = draw(st.sampled_from([p for p in places(found[number]) if p]))
        known = st.sampled_from([None, "", "user", "assistant", [], {}, 0, "message", "tool_result"])
        found[number] = put(found[number], path, draw(JSON | known))
    return found


def records(kind, files):
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        source.mkdir()
        for name, data in files.items():
            (source / name).write_bytes(data)
        reader = open_source(kind, Options())
        runs = str(Path(folder) / "runs")
        reading = EvidenceImport(
            path=str(source), source=reader, found=reader.find(str(source)), guard=GUARD, runs=runs, max_damaged=99
        )
        found = [loads(dumps(record)) for record in reading.records(lambda _: None)]
        reading.warnings()
        assert not list(Path(folder).glob("runs*"))
    return [ImportedRecord.model_validate({"id": f"b.{n}", "n": n, **one}) for n, one in enumerate(found, 1)]


def records_or_refusal(kind, files):
    """Returns how many Records an import makes; none where it is refused. Any other error is a failure."""
    try:
        return len(records(kind, files))
    except AtkError:
        return 0


@pytest.mark.parametrize("kind", sorted(LINES))
def test_mutated_lines_make_valid_records_or_a_refusal(kind):
    @SOME
    @given(mutated(LINES[kind]), st.integers(1, 2))
    def check(lines, parts):
        files = {f"{n}.jsonl": b"".join(dumps(line) + b"\n" for line in lines[n::parts]) for n in range(parts)}
        records_or_refusal(kind, files)

    check()


@pytest.mark.parametrize("kind", sorted(LINES))
def test_arbitrary_bytes_make_valid_records_or_a_refusal(kind):
    whole = b"".join(dumps(line) + b"\n" for line in LINES[kind])

    @SOME
    @given(st.integers(0, len(whole)), st.binary(max_size=60), st.integers(0, 40))
    def check(place, noise, dropped):
        records_or_refusal(kind, {"x.jsonl": whole[:place] + noise + whole[place + dropped :]})

    check()
