"""Spans → import → Records give back every value; how the spans are cut, packed or shuffled changes only locators."""

import gzip
import json
import random
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.imports import Imports
from tests.support.words import is_plain

SOME = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])

words = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=12).filter(is_plain)
values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        words,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=6,
)
names = st.text(alphabet="abcdefgh._", min_size=1, max_size=10).map(lambda name: f"own.{name}")
parts = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "content": words}),
    st.fixed_dictionaries({"type": st.just("reasoning"), "content": words}),
    st.fixed_dictionaries({"type": st.just("blob"), "data": words}),
)
messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(("system", "user", "assistant")), "parts": st.lists(parts, max_size=3)}
    ),
    max_size=3,
)


def any_value(found):
    match found:
        case None:
            return {}
        case bool():
            return {"boolValue": found}
        case int():
            return {"intValue": str(found)}
        case float():
            return {"doubleValue": found}
        case list():
            return {"arrayValue": {"values": [any_value(one) for one in found]}}
        case dict():
            return {"kvlistValue": {"values": [{"key": k, "value": any_value(v)} for k, v in found.items()]}}
        case _:
            return {"stringValue": found}


@st.composite
def exports(draw):
    """Spans as they are meant: ids, tree, times, attributes."""
    found = []
    for trace in draw(st.lists(st.integers(1, 2**64), min_size=1, max_size=3, unique=True)):
        parents = [""]
        for number in draw(st.lists(st.integers(1, 2**63), min_size=1, max_size=4, unique=True)):
            name = f"{number:016x}"
            own = draw(st.dictionaries(names, values, max_size=3))
            kind = draw(st.sampled_from(("chat", "execute_tool", "invoke_agent", None)))
            if kind is not None:
                own["gen_ai.operation.name"] = kind
            if kind == "execute_tool":
                own["gen_ai.tool.call.arguments"] = json.dumps(draw(values))
                own["gen_ai.tool.call.result"] = json.dumps(draw(values))
            elif kind is not None:
                own["gen_ai.input.messages"] = json.dumps(draw(messages))
                own["gen_ai.output.messages"] = json.dumps(draw(messages))
            start = draw(st.integers(1, 2**62))
            found.append(
                {
                    "traceId": f"{trace:032x}",
                    "spanId": name,
                    "parentSpanId": draw(st.sampled_from(parents)),
                    "name": draw(words),
                    "start": start,
                    "end": start + draw(st.integers(0, 10**9)),
                    "attributes": own,
                }
            )
            parents.append(name)
    return found


def otlp(one):
    return {
        **{name: one[name] for name in ("traceId", "spanId", "parentSpanId", "name")},
        "startTimeUnixNano": str(one["start"]),
        "endTimeUnixNano": str(one["end"]),
        "attributes": [{"key": k, "value": any_value(v)} for k, v in one["attributes"].items()],
    }


def document(spans):
    return {"resourceSpans": [{"scopeSpans": [{"spans": [otlp(one) for one in spans]}]}]}


def stored(files):
    """Imports files and returns the Records by trace."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "export"
        source.mkdir()
        for name, data in files.items():
            (source / name).write_bytes(data)
        imports = Imports(Path(folder) / "project")
        response = imports.send(source, source_kind="otel")
        records = imports.records(response.batch_id)
        assert len(response.model_dump_json()) < 8_000
    return {trace: record.model_dump(mode="json") for trace, record in records.items()}


def without_places(value):
    if isinstance(value, dict):
        return {k: without_places(v) for k, v in value.items() if k not in ("locator", "locators")}
    return [without_places(item) for item in value] if isinstance(value, list) else value


def without_ids(records):
    """Without the batch's own ids; the number of each Record stays."""
    return {trace: {**without_places(record), "id": None} for trace, record in records.items()}


def content(value):
    return {"value": lambda: value["value"], "empty": lambda: "", "null": lambda: None}[value["status"]]()


def read_text(value):
    """What a text of JSON says: JSON within JSON comes out too."""
    found = json.loads(value)
    if isinstance(found, str):
        try:
            return json.loads(found) if found.lstrip()[:1] in ("{", "[", '"') else found
        except ValueError:
            return found
    return found


@SOME
@given(exports())
def test_every_value_of_a_span_comes_back(export):
    records = stored({"spans.json": json.dumps(document(export)).encode()})
    for one in export:
        record = records[one["traceId"]]
        found = [e for e in record["log"]["events"] if e["id"] == one["spanId"]]
        first, last, own = found[0], found[-1], dict(one["attributes"])
        assert (first["parent"] or "", first["at_text"], first["ended_text"]) == (
            one["parentSpanId"],
            str(one["start"]),
            str(one["end"]),
        )
        kind = own.get("gen_ai.operation.name")
        assert (first["name"] or "" if kind in ("invoke_agent", None) else one["name"]) == one["name"]
        if kind == "execute_tool":
            assert content(first["arguments"]) == read_text(own.pop("gen_ai.tool.call.arguments"))
            assert content(last["content"]) == read_text(own.pop("gen_ai.tool.call.result"))
        elif kind is not None:
            given_name, said_name = ("prompt", "content") if kind == "chat" else ("input", "output")
            assert first[given_name]["value"] == json.loads(own.pop("gen_ai.input.messages"))
            said = json.loads(own.pop("gen_ai.output.messages", "[]"))
            inner = [e for e in record["log"]["events"] if e["group"] == one["spanId"] and e["kind"] == "reasoning"]
            text = next(e for e in found if e["kind"] in ("text", "observation"))
            whole = [content(text[said_name])] == [said] or text[said_name].get("value") == said
            pieces = [p.get("content") for m in said for p in m["parts"] if p["type"] != "blob"]
            kept = [content(e["content"]) for e in inner] + [content(text[said_name])]
            assert whole or sorted(filter(None, pieces)) == sorted(filter(None, kept))
        for name, value in own.items():
            if name.startswith("own."):
                assert first["attributes"][name] == value


@SOME
@given(exports(), st.integers(0, 2**16), st.integers(1, 3))
def test_splitting_packing_and_shuffling_change_nothing_but_places(export, seed, pieces):
    whole = stored({"spans.json": json.dumps(document(export)).encode()})
    rng = random.Random(seed)
    shuffled = rng.sample(export, len(export))
    files = {}
    for piece in range(pieces):
        if some := shuffled[piece::pieces]:
            data = "".join(json.dumps(document([one])) + "\n" for one in some).encode()
            files[f"part{piece}.jsonl.gz"] = gzip.compress(data[: len(data) // 2]) + gzip.compress(
                data[len(data) // 2 :]
            )
    assert without_ids(stored(files)) == without_ids(whole)
    lines = "\n".join(json.dumps(document([one]), indent=rng.choice((None, 2))) for one in shuffled)
    assert without_ids(stored({"lines.json": lines.encode()})) == without_ids(whole)
