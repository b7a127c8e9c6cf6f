"""Exports of spans and of evaluations with anything anywhere: they are read, or refused by one of our own errors."""

import copy
import json
import os
import random
import tempfile
from pathlib import Path

import pytest

from operations.importers._intake import Guard
from operations.importers._json_values import dumps
from operations.importers._source import Options
from operations.importers.evidence import EvidenceImport
from operations.importers.sources import open_source
from storage.errors import AtkError
from storage.schema.traces import ExternalScore, ImportedRecord
from tests.support.inspect_logs import archive, condensed, log, members_of, sample
from tests.support.projects import bare

JUNK = (
    None, True, 0, -1, 2**70, 1.5, float("nan"), "", "x", "{", "[1", "attachment://0", "user", "tool", [], {}, [[]],
    [{}], {"a": 1}, {"key": "k", "value": {"stringValue": "v"}}, [1, [2]], {"stringValue": "s"}, {"intValue": "9" * 30},
    "2026-01-01T00:00:00Z", "9" * 19, "\ud800",
)  # fmt: skip


def paths(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        yield from paths(item, (*path, name))


def mutated(value, rng):
    """Returns a copy in which some members are gone, doubled or something else."""
    value = copy.deepcopy(value)
    for _ in range(rng.randint(1, 4)):
        found = [path for path in paths(value) if path]
        if not found:
            break
        *folders, last = rng.choice(found)
        at = value
        for name in folders:
            at = at[name]
        chance = rng.random()
        if chance < 0.15:
            del at[last]
        elif chance < 0.3 and isinstance(at, dict):
            at[rng.choice([*at, "events", "choices", "role", "id"])] = copy.deepcopy(at[last])
        else:
            at[last] = copy.deepcopy(rng.choice(JUNK))
    return value


@pytest.fixture(scope="module")
def read():
    """Reads one file as a format, and checks every Record and score against its schema."""
    with tempfile.TemporaryDirectory() as folder:
        project = bare(Path(folder) / "project")

        def read(kind, name, data):
            path = os.path.join(folder, name)
            Path(path).write_bytes(data)
            source = open_source(kind, Options(namespace="n"))
            runs = os.path.join(folder, "runs")
            guard = Guard(project.masker)
            reading = EvidenceImport(path, source, source.find(path), guard, runs, max_damaged=1000)
            scores = []
            for number, record in enumerate(reading.records(scores.append), 1):
                whole = {"id": f"batch-1-abcd.{number}", "n": number, **record}
                ImportedRecord.model_validate(json.loads(dumps(whole)))
            for score in scores:
                ExternalScore.model_validate(json.loads(score))
            assert all(isinstance(warning, str) for warning in reading.warnings())

        yield read


def attribute(name, value):
    return {"key": name, "value": {"stringValue": value}}


def spans():
    """A document with a root, a model in each dialect, a tool, and a log record."""
    said = json.dumps(
        [{"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "f", "arguments": {}}]}]
    )
    own = (
        [attribute("gen_ai.operation.name", "invoke_agent"), attribute("input.value", "q")],
        [attribute("gen_ai.operation.name", "chat"), attribute("gen_ai.output.messages", said)],
        [
            attribute("openinference.span.kind", "LLM"),
            attribute("llm.input_messages.0.message.role", "user"),
            attribute("llm.output_messages.0.message.tool_calls.0.tool_call.function.name", "f"),
        ],
        [attribute("openinference.span.kind", "TOOL"), attribute("output.value", "r")],
    )
    made = [
        {
            "traceId": "a" * 32,
            "spanId": f"{number:016x}",
            "parentSpanId": f"{1:016x}" if number > 1 else "",
            "name": f"span {number}",
            "kind": 1,
            "startTimeUnixNano": str(1785000000000000000 + number),
            "endTimeUnixNano": str(1785000000000000009 + number),
            "attributes": attributes,
            "events": [{"name": "gen_ai.evaluation.result", "attributes": [attribute("gen_ai.evaluation.name", "n")]}],
            "links": [{"traceId": "b" * 32, "spanId": "c" * 16}],
            "status": {"code": 2, "message": "no"},
        }
        for number, attributes in enumerate(own, 1)
    ]
    record = {"traceId": "a" * 32, "spanId": f"{2:016x}", "eventName": "gen_ai.choice", "body": {"stringValue": "x"}}
    return {
        "resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"scope": {"name": "l"}, "spans": made}]}],
        "resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}],
    }


@pytest.mark.parametrize("seed", range(4))
def test_spans_with_anything_in_them_are_read_or_refused(read, seed):
    rng, base, known = random.Random(seed), spans(), 0
    for number in range(60):
        try:
            read("otel", "t.json" if number % 2 else "t.jsonl", json.dumps(mutated(base, rng)).encode())
            known += 1
        except AtkError:
            pass
    assert known > 40


@pytest.mark.parametrize("seed", range(4))
def test_logs_with_anything_in_them_are_read_or_refused(read, seed):
    failed = sample("c", error={"message": "m", "traceback": "t", "traceback_ansi": "t"}, limit={"type": "time"})
    rng, base, known = random.Random(seed), log(sample(), condensed(sample("b")), failed), 0
    members = (members_of(log(sample(), failed)), members_of(log(sample(), failed), chunks=True))
    for number in range(40):
        try:
            if number % 2:
                read("inspect_ai", "t.json", json.dumps(mutated(base, rng)).encode())
            else:
                read("inspect_ai", "t.eval", archive(mutated(rng.choice(members), rng), rng.choice((8, 93))))
            known += 1
        except AtkError:
            pass
    assert known > 25
