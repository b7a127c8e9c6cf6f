"""Samples → log → import → Records give back every value; how a log is written and cut changes only places."""

import json
import tempfile
import zipfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.imports import Imports
from tests.support.inspect_logs import archive, condensed, log, members_of, sample
from tests.support.words import is_plain

SOME = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])

words = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=12).filter(is_plain)
said = st.one_of(words, words.map(lambda word: (word or "x") * 120))
values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False), words
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=5,
)
cases = st.one_of(st.integers(0, 99), st.text(alphabet="abcé-.", min_size=1, max_size=6))


@st.composite
def logs(draw):
    """A log whose samples hold a conversation of several turns, and the transcript of the models in it."""
    made = []
    slots = draw(
        st.lists(st.tuples(cases, st.integers(1, 3)), min_size=1, max_size=4, unique_by=lambda s: (str(s[0]), s[1]))
    )
    for case, epoch in slots:
        conversation, events = [], []
        for turn in range(draw(st.integers(1, 3))):
            user = {"id": f"u{turn}", "role": "user", "content": draw(said)}
            calls = [
                {"id": f"c{turn}.{number}", "function": draw(words), "arguments": draw(values), "type": "function"}
                for number in range(draw(st.integers(0, 2)))
            ]
            answer = {"id": f"a{turn}", "role": "assistant", "content": draw(said), "tool_calls": calls}
            given_ = [*conversation, user]
            results = [
                {
                    "id": f"t{turn}.{n}",
                    "role": "tool",
                    "content": draw(said),
                    "tool_call_id": one["id"],
                    "function": "f",
                }
                for n, one in enumerate(calls)
            ]
            conversation = [*given_, answer, *results]
            if draw(st.booleans()):
                output = {"choices": [{"message": answer, "stop_reason": "stop"}], "completion": answer["content"]}
                events.append(
                    {
                        "uuid": f"m{turn}",
                        "event": "model",
                        "model": "m",
                        "input": given_,
                        "config": {},
                        "output": output,
                    }
                )
        scores = {
            draw(words): {"value": draw(values), "explanation": draw(words)} for _ in range(draw(st.integers(0, 2)))
        }
        made.append(
            sample(
                case,
                epoch,
                input=draw(said),
                target=draw(st.one_of(said, st.lists(words, min_size=1, max_size=2))),
                messages=conversation,
                events=events,
                scores=scores,
                metadata=draw(st.dictionaries(words, values, max_size=2)),
            )
        )
    return log(*made)


def stored(files):
    """Imports files and returns the Records by (Case, repeat)."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "export"
        source.mkdir()
        for name, data in files.items():
            (source / name).write_bytes(data)
        imports = Imports(Path(folder) / "project")
        response = imports.send(source, source_kind="inspect_ai")
        assert len(response.model_dump_json()) < 8_000
        records = imports.records(response.batch_id).values()
    return {(record.case_id, record.repeat): record.model_dump(mode="json") for record in records}


def without_places(value):
    if isinstance(value, dict):
        return {k: without_places(v) for k, v in value.items() if k not in ("locator", "locators")}
    return [without_places(item) for item in value] if isinstance(value, list) else value


def without_ids(records):
    return {key: {**without_places(record), "id": None} for key, record in records.items()}


def content(value):
    return {"value": lambda: value["value"], "empty": lambda: "", "null": lambda: None}[value["status"]]()


@SOME
@given(logs())
def test_every_value_of_a_sample_comes_back(made):
    records = stored({"x.json": json.dumps(made).encode()})
    for one in made["samples"]:
        record = records[str(one["id"]), one["epoch"]]
        assert content(record["input"]) == one["input"]
        assert content(record["expected"]) == one["target"]
        assert content(record["output"]) == one["output"]["choices"][0]["message"]["content"]
        assert record["runtime_metadata"].get("metadata", {}) == one["metadata"]
        found = [(s["name"], s["comment"]) for s in record["scores"]]
        assert found == [(name, score["explanation"]) for name, score in one["scores"].items()]
        events = record["log"]["events"]
        texts = {e["id"]: content(e["content"]) for e in events if e["kind"] == "text"}
        assert texts == {m["id"]: m["content"] for m in one["messages"] if m["role"] != "tool"}
        calls = {e["call_id"]: (e["name"] or "", content(e["arguments"])) for e in events if e["kind"] == "tool_call"}
        assert calls == {
            c["id"]: (c["function"], c["arguments"]) for m in one["messages"] for c in m.get("tool_calls", [])
        }
        results = {e["call_id"]: content(e["content"]) for e in events if e["kind"] == "tool_result"}
        assert results == {m["tool_call_id"]: m["content"] for m in one["messages"] if m["role"] == "tool"}


@SOME
@given(logs(), st.sampled_from((zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, 93)), st.randoms(use_true_random=False))
def test_writing_packing_and_spreading_change_nothing_but_places(made, method, rng):
    whole = without_ids(stored({"x.json": json.dumps(made).encode()}))
    shuffled = {**made, "samples": rng.sample(made["samples"], len(made["samples"]))}
    assert without_ids(stored({"x.eval": archive(members_of(shuffled), method)})) == whole
    short = {**shuffled, "samples": [condensed(one) for one in shuffled["samples"]]}
    assert without_ids(stored({"x.json": json.dumps(short, indent=1).encode()})) == whole
    spread = {
        f"{number}.eval": archive(members_of({**made, "samples": [one]}, chunks=True), method)
        for number, one in enumerate(shuffled["samples"])
    }
    assert without_ids(stored(spread)) == whole
