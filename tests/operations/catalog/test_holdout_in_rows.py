"""No holdout Case gets into rows, however it comes back: more than a hundred ways through the operation itself."""

import json
from functools import partial

import pytest

from operations.trajectories.training_rows import read_rows
from storage.schema.rows import RowFile
from tests.operations.catalog.evidence import store_batch
from tests.operations.catalog.test_project_trajectories import CLIENT
from tests.operations.importers.test_otel import document, span
from tests.support.disguises import HOLDOUT, WRAPPED, WRITTEN, said

FORMS = ("messages", "openai", "evaluator", "audit", "otlp")
USUAL = {"usual-1": "Where is my invoice?", "usual-2": {"question": "Who reads the meter in the attic?", "lang": "en"}}
PLACES = ("system", "answer", "reasoning", "arguments", "result", "prompt")
SPEC = {"dimensions": ["correct"], "dimension_rules": {"correct": "the answer helps"}}


def chat(number, asked, *parts, system="be brief"):
    """A trace of one answer: what was asked, and the parts of the answer; a call has its own span."""
    trace = f"{number:032x}"
    given = [{"role": "system", "parts": [{"type": "text", "content": system}]}, {"role": "user", "content": asked}]
    answer = [{"role": "assistant", "parts": list(parts) or [{"type": "text", "content": f"answer {number}"}]}]
    text = asked if isinstance(asked, str) else json.dumps(asked)
    mime = {} if isinstance(asked, str) else {"input.mime_type": "application/json"}
    root = {"gen_ai.operation.name": "invoke_agent", "input.value": text, "output.value": f"answer {number}", **mime}
    model = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(given),
             "gen_ai.output.messages": json.dumps(answer)}  # fmt: skip
    return [span(1, trace=trace, attributes=root), span(2, 1, trace=trace, attributes=model)]


def told(number, place, text):
    """A trace in which a text is said in one place, and something else is asked."""
    answer = {"type": "text", "content": "It is done."}
    match place:
        case "system":
            return chat(number, f"usual {number}", answer, system=text)
        case "answer":
            return chat(number, f"usual {number}", {"type": "text", "content": text})
        case "reasoning":
            return chat(number, f"usual {number}", {"type": "reasoning", "content": text}, answer)
        case "prompt":
            return chat(
                number, [{"role": "user", "content": f"usual {number}"}, {"role": "user", "content": text}], answer
            )
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find",
                  "gen_ai.tool.call.arguments": json.dumps({"q": text if place == "arguments" else "x"}),
                  "gen_ai.tool.call.result": text if place == "result" else "y"}  # fmt: skip
    found = chat(number, f"usual {number}", answer)
    return [found[0], span(3, 1, trace=found[0]["traceId"], attributes=attributes), found[1]]


def disguises():
    """Yields what is tried, as name and a function of a number that gives the spans of a trace."""
    for case_id, value in HOLDOUT.items():
        for name, written in WRITTEN.items():
            yield f"{case_id} {name}", partial(chat, asked=written(value))
        if len(said(value)) < 48:
            continue
        for name, wrapped in WRAPPED.items():
            yield f"{case_id} {name}", partial(chat, asked=wrapped(value))
        for place in PLACES:
            yield f"{case_id} as {place}", partial(told, place=place, text=said(value))


@pytest.fixture(scope="module")
def target(stages, tmp_path_factory):
    """A project with holdout Cases, and a batch of traces that disguise them, all Cases and all passed by a client."""
    made = stages.copy("initialized", str(tmp_path_factory.mktemp("holdout") / "target"))
    blind = [{"id": i, "input": value, "usage": "holdout"} for i, value in HOLDOUT.items()]
    usual = [{"id": i, "input": value} for i, value in USUAL.items()]
    made.write("cases.jsonl", "".join(json.dumps(row) + "\n" for row in (*blind, *usual)))
    made.ids["dataset_id"] = made.call("store_dataset", source="cases.jsonl").dataset_id
    tried = dict(enumerate(disguises(), 1))
    made.ids["tried"] = {f"{n:032x}": name for n, (name, _) in tried.items()}
    spans = [one for n, (_, make) in tried.items() for one in make(n)]
    spans += [one for n in range(1000, 1010) for one in chat(n, f"Where does line {n} of the tram go on Sundays?")]
    made.write("export.json", json.dumps(document(*spans)))
    batch = made.call("import_evidence", source="export.json", source_kind="otel")
    made.ids["batch_id"] = batch.batch_id
    made.call("store_dataset", batch_id=batch.batch_id)
    count = len(tried) + 10
    rows = [{"record_id": f"{batch.batch_id}.{n}", "verdict": "pass"} for n in range(1, count + 1)]
    made.call("store_assessment", batch_id=batch.batch_id, evaluation_spec=SPEC, judger=CLIENT, rows=rows)
    return made


def rows_of(answer):
    with open(answer.path, "rb") as file:
        return list(read_rows(file))


@pytest.mark.parametrize("form", FORMS)
def test_none_of_more_than_a_hundred_disguises_gets_into_rows_and_what_is_none_does(target, form):
    assert len(target.tried) >= 100
    answer = target.call("project_trajectories", batch_id=target.batch_id, form=form)
    origins = [row["metadata"]["origin"]["case_id"] for row in rows_of(answer)]
    assert [target.tried[one] for one in origins if one in target.tried] == []
    assert sorted(origins) == [f"{n:032x}" for n in range(1000, 1010)]
    assert answer.holdout_cases == len(HOLDOUT)
    assert sum(one.records for one in answer.left_out) == len(target.tried)
    assert all("holdout" in one.reason for one in answer.left_out)


def test_a_file_of_rows_holds_no_word_of_a_holdout_case(target):
    answer = target.call("project_trajectories", batch_id=target.batch_id)
    with open(answer.path, encoding="utf-8") as file:
        text = file.read()
    assert not [word for word in ("Lyon", "cellar", "quux", json.dumps("地下室")[1:-1]) if word in text]


def judge_all(target, batch_id, count):
    rows = [{"record_id": f"{batch_id}.{n}", "verdict": "pass"} for n in range(1, count + 1)]
    target.call("store_assessment", batch_id=batch_id, evaluation_spec=SPEC, judger=CLIENT, rows=rows)


def renamed(index, row):
    return {**row, "id": f"new-{index}", "usage": "optimization"}


def same_names(index, row):
    other = {"input": f"Another question of number {index}, which nobody asked before"}
    return {**row, **(other if row["id"] in HOLDOUT else {}), "usage": "optimization"}


def same_groups(index, row):
    other = {"id": f"new-{index}", "input": f"Another question of number {index}, which nobody asked before"}
    return {**row, **(other if row["id"] in HOLDOUT else {}), "usage": "optimization"}


@pytest.mark.parametrize("change", [renamed, same_names, same_groups])
@pytest.mark.parametrize("by_id", [False, True])
def test_a_dataset_that_was_revised_and_run_gives_no_row_of_what_was_held_out(at, change, by_id):
    """The first dataset holds Cases out; the second calls the same, or others of their name or group, usual."""
    target = at("initialized")
    first = [{"id": i, "input": v, "usage": "holdout", "source_group_id": f"g-{i}"} for i, v in HOLDOUT.items()]
    first += [{"id": i, "input": v, "usage": "optimization", "source_group_id": f"g-{i}"} for i, v in USUAL.items()]
    for name, rows in (("one.jsonl", first), ("two.jsonl", [change(n, row) for n, row in enumerate(first)])):
        target.write(name, "".join(json.dumps(row) + "\n" for row in rows))
        target.ids["dataset_id"] = target.call("store_dataset", source=name).dataset_id
    batch_id = store_batch(target, "revision-1-none", lambda *_: "an answer")
    judge_all(target, batch_id, len(first))
    asked = {"record_ids": [f"{batch_id}.{n}" for n in range(1, len(first) + 1)]} if by_id else {}
    answer = target.call("project_trajectories", batch_id=batch_id, **asked)
    usual = [row["metadata"]["origin"]["case_id"] for row in rows_of(answer)]
    assert usual == (["new-4", "new-5"] if change is renamed else list(USUAL)), answer.left_out
    assert sum(one.records for one in answer.left_out) == len(HOLDOUT)


def test_attempts_at_holdout_cases_are_sealed_and_stay_so(at):
    target = at("initialized")
    rows = [{"id": "b", "input": "MARK of the blind", "usage": "holdout"}, {"id": "u", "input": "of the usual"}]
    target.write("cases.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    target.ids["dataset_id"] = target.call("store_dataset", source="cases.jsonl").dataset_id
    batch_id = store_batch(
        target,
        "revision-1-none",
        lambda *_: "an answer",
        record=lambda made: made.model_copy(update={"output": None, "sealed": "x"} if made.case_id == "b" else {}),
        holdout_case_ids=("b",),
    )
    answer = target.call("project_trajectories", batch_id=batch_id, form="evaluator")
    assert [row["metadata"]["origin"]["case_id"] for row in rows_of(answer)] == ["u"]
    assert [one.reason for one in answer.left_out] == ["it is an attempt at a holdout Case"]


def test_a_case_of_a_correction_that_nobody_verified_gives_no_row(at):
    target = at("initialized")
    score = {"id": "s", "name": "fix", "dataType": "CORRECTION", "stringValue": "b", "traceId": "t"}
    trace = {"id": "t", "timestamp": "2026-01-01T00:00:00Z", "input": "q", "output": "a", "observations": []}
    trace["scores"] = [score]
    target.write("export.jsonl", json.dumps(trace) + "\n")
    batch = target.call(
        "import_evidence", source="export.jsonl", source_kind="langfuse", adapter_profile="langfuse_trace_bundle"
    )
    judge_all(target, batch.batch_id, 1)
    nobody = target.call("project_trajectories", batch_id=batch.batch_id)
    assert [one.reason for one in nobody.left_out] == ["it is of no Case, so nobody said what it may be used for"]
    target.call("store_dataset", batch_id=batch.batch_id, expected_score="fix")
    answer = target.call("project_trajectories", batch_id=batch.batch_id)
    assert [one.reason for one in answer.left_out] == [
        "the expected answer of its Case is a correction that nobody verified"
    ]
    assert target.state.all(RowFile) == []


def test_without_the_key_of_the_holdout_nothing_is_made(at, monkeypatch, tmp_path):
    target = at("initialized")
    target.write("cases.jsonl", json.dumps({"id": "b", "input": "blind", "usage": "holdout"}) + "\n")
    target.call("store_dataset", source="cases.jsonl")
    target.write("usual.jsonl", json.dumps({"id": "u", "input": "usual"}) + "\n")
    target.ids["dataset_id"] = target.call("store_dataset", source="usual.jsonl").dataset_id
    batch_id = store_batch(target, "revision-1-none", lambda *_: "an answer")
    judge_all(target, batch_id, 1)
    monkeypatch.setenv("ATK_KEY_HOME", str(tmp_path / "elsewhere"))
    assert target.refusal("project_trajectories", batch_id=batch_id).code == "holdout_key_missing"
