"""Whatever the bytes are, an importer makes Records of them that fit their schema, or refuses in an error of ATK's."""

import contextlib
import copy
import gzip
import io
import json
import os
import tempfile

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from operations.importers import _suggest
from operations.importers._intake import Guard
from operations.importers._results import Columns
from operations.importers._source import Options
from operations.importers.evidence import EvidenceImport
from operations.importers.sources import FORMATS, open_source
from storage.errors import AtkError
from storage.masking import Masker
from storage.schema.traces import ImportedRecord
from tests.support import claude_sessions, codex_sessions, inspect_logs

BOUNDED = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
MASKER = Masker(b"k" * 32, ("patient_id",), (r"CUST-[0-9]{6}",))
NAMES = ("x.jsonl", "x.json", "x.csv", "x.ndjson", "x.jsonl.gz", "x.json.zst", "x.csv.gz", "x.parquet", "x.eval")

OTEL = {
    "resourceSpans": [{"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "s"}}]},
        "scopeSpans": [{"spans": [{"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331",
            "parentSpanId": "", "name": "chat", "startTimeUnixNano": "1700000000000000000",
            "endTimeUnixNano": "1700000001000000000", "status": {"code": 2, "message": "no"},
            "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
                           {"key": "gen_ai.input.messages", "value": {"stringValue": '[{"role":"user"}]'}},
                           {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "120"}}],
            "events": [{"name": "exception", "timeUnixNano": "1", "attributes": []}]}]}]}]
}  # fmt: skip
CLAUDE = [json.loads(line) for line in claude_sessions.usual().bytes().splitlines()]
INSPECT = inspect_logs.log(inspect_logs.sample())
LANGFUSE = [
    {"id": "t-1", "timestamp": "2026-01-01T00:00:00Z", "name": "n", "input": {"q": 1}, "output": "a", "tags": ["x"],
     "metadata": {"k": "v"}, "observations": [{"id": "o-1", "traceId": "t-1", "type": "SPAN", "name": "s",
     "startTime": "2026-01-01T00:00:00Z", "usageDetails": {"input": "3"}}], "scores": []},
    {"id": "o-2", "traceId": "t-1", "parentObservationId": "o-1", "type": "GENERATION", "name": "g",
     "startTime": "2026-01-01 00:00:00.000001", "endTime": "2026-01-01 00:00:01", "modelParameters": '{"t":0}'},
    {"id": "s-1", "traceId": "t-1", "name": "quality", "dataType": "NUMERIC", "value": 0.5, "comment": "CUST-123456"},
]  # fmt: skip
RESULTS = [{"case": "c1", "question": "q", "answer": "a", "grade": 1}, {"case": "c2", "answer": None, "grade": "x"}]

SEEDS = {
    "langfuse": [LANGFUSE[:1], LANGFUSE[1:2], LANGFUSE],
    "batch_results": [RESULTS],
    "codex": [codex_sessions.usual().lines, codex_sessions.stream()],
    "claude_code": [CLAUDE],
    "otel": [[OTEL]],
    "inspect_ai": [[INSPECT]],
}
COLUMNS = Columns(input="question", output="answer", case_id="case", repeat=None, expected=None, scores={"g": "grade"})
ROLES = {"langfuse": ("langfuse_trace_bundle", "langfuse_observation_rows")}
KINDS = sorted(FORMATS)


def imported(kind, name, raw, profile=None):
    """Reads the bytes as the kind of export, from the dry run to the last Record. Returns the Records."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(raw)
        with contextlib.suppress(AtkError):
            _suggest.suggest(path, MASKER)
        reader = open_source(kind, Options(columns=COLUMNS, adapter_profile=profile, json_columns=("input", "answer")))
        reading = EvidenceImport(
            path=path,
            source=reader,
            found=reader.find(path),
            guard=Guard(MASKER),
            runs=os.path.join(folder, "runs"),
            max_damaged=3,
        )
        found = list(reading.records(lambda _: None))
        reading.warnings()
        assert reading.completeness in ("unknown", "partial", "limited")
        return found


def outcome(kind, name, raw):
    """Imports, and checks what came of it: valid Records without what is masked, or a refusal in a sentence."""
    for profile in ROLES.get(kind, (None,)):
        try:
            records = imported(kind, name, raw, profile)
        except AtkError as error:
            assert str(error).endswith((".", "!", "?"))  # noqa: PT017 - both ends are checked
            assert error.next  # noqa: PT017
            continue
        for number, record in enumerate(records, 1):
            made = ImportedRecord.model_validate({"id": f"batch-1-none.{number}", "n": number, **record})
            assert "CUST-123456" not in str(made.model_dump())


def packed(name, raw):
    if name.endswith(".gz"):
        return gzip.compress(raw, 1)
    return zstandard.ZstdCompressor(level=1).compress(raw) if name.endswith(".zst") else raw


def encoded(name, rows):
    if ".csv" in name:
        out = io.StringIO()
        names = sorted({key for row in rows if isinstance(row, dict) for key in row})
        cells = [names, *([row.get(key, "") for key in names] for row in rows if isinstance(row, dict))]
        for line in cells:
            out.write(",".join('"' + str(cell).replace('"', '""') + '"' for cell in line) + "\n")
        return out.getvalue().encode("utf-8", "surrogatepass")
    if ".json" in name and "jsonl" not in name:
        return json.dumps(rows if len(rows) > 1 else rows[0]).encode()
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_seed_that_is_read(kind):
    assert kind in SEEDS
    name = "rollout-2026-11-29T20-26-25-01a228fc-cc0a-7541-9294-5f2538661ab6.jsonl" if kind == "codex" else "x.jsonl"
    name = "x.json" if kind == "inspect_ai" else name
    assert imported(kind, name, encoded(name, SEEDS[kind][0]), ROLES.get(kind, (None,))[0])


@pytest.mark.parametrize("kind", KINDS)
@given(name=st.sampled_from(NAMES), raw=st.binary(max_size=300), wrap=st.booleans())
@BOUNDED
def test_arbitrary_bytes(kind, name, raw, wrap):
    outcome(kind, name, packed(name, raw) if wrap else raw)


junk = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**80), 2**80), st.floats(), st.text(max_size=9),
        st.sampled_from(("", "{", "[1", "NaN", "2026-13-45T99:99:99Z", "0001-01-01T00:00:00+23:59")),
        st.sampled_from(("\ud800", "\0", "9" * 400)),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=6,
)  # fmt: skip


def places(value, found, path=()):
    """Collects the paths of every value below."""
    found.append(path)
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        places(item, found, (*path, key))
    return found


@st.composite
def mutated(draw, kind):
    """A valid export in which some values became others, went away, came twice or changed places."""
    rows = copy.deepcopy(draw(st.sampled_from(SEEDS[kind])))
    for _ in range(draw(st.integers(1, 4))):
        path = draw(st.sampled_from(places(rows, [])[1:]))
        holder = rows
        for step in path[:-1]:
            holder = holder[step]
        match draw(st.sampled_from(("junk", "drop", "twice", "other"))):
            case "junk":
                holder[path[-1]] = draw(junk)
            case "drop":
                del holder[path[-1]]
            case "twice" if isinstance(holder, list):
                holder.append(copy.deepcopy(holder[path[-1]]))
            case _:
                holder[path[-1]] = copy.deepcopy(rows[0]) if rows else {}
        if not rows or len(places(rows, [])) > 2000:
            return rows or [{}]
    return rows


@pytest.mark.parametrize("kind", KINDS)
def test_valid_exports_in_which_one_value_lacks_or_has_an_empty_name(kind):
    """Both have been met: a block of text without its text, an observation whose only field is named by nothing."""
    name = "x.json" if kind == "inspect_ai" else "x.jsonl"
    for rows in SEEDS[kind]:
        for path in places(rows, []):
            for change in ("lacks", "empty name"):
                changed = copy.deepcopy(rows)
                holder = changed
                for step in path[:-1]:
                    holder = holder[step]
                if change == "lacks" and path:
                    del holder[path[-1]]
                elif change == "empty name" and path and isinstance(holder[path[-1]], dict):
                    holder[path[-1]] = {"": False}
                else:
                    continue
                outcome(kind, name, encoded(name, changed or [{}]))


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), name=st.sampled_from(NAMES[:7]))
@BOUNDED
def test_mutated_values_of_valid_exports(kind, data, name):
    outcome(kind, name, packed(name, encoded(name, data.draw(mutated(kind)))))


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), name=st.sampled_from(NAMES[:7]))
@BOUNDED
def test_mutated_bytes_of_valid_exports(kind, data, name):
    raw = bytearray(encoded(name, data.draw(st.sampled_from(SEEDS[kind]))))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, max(0, len(raw) - 1)))
        cut = data.draw(st.integers(0, 30))
        raw[at : at + cut] = data.draw(
            st.one_of(st.binary(max_size=8), st.sampled_from((b'"', b"{", b"]", b"\n", b"\\u", b"\xff")))
        )
    whole = packed(name, bytes(raw))
    outcome(
        kind, name, whole[: data.draw(st.integers(len(whole) - 20, len(whole)))] if data.draw(st.booleans()) else whole
    )
