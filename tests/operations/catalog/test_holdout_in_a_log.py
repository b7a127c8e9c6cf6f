"""No holdout Case gets into rows out of any field of a log: it is looked for in all that a row could carry."""

import json

import pytest

from operations import projecting
from operations.trajectories.training_rows import read_rows
from tests.operations.catalog.evidence import store_batch
from tests.operations.catalog.test_holdout_in_rows import judge_all
from tests.support.logs import call, ended, memory, result, say, think, user, value

ASKED = "The parcel to Lyon came open,\nand the blue vase in it is broken"
EXPECTED = "The sender pays unless the carrier admits that it let the crate fall."
ATTACHED = "Waybill 77: one crate from Dijon to Lyon, sealed at the depot. Weight 31 kg; kept upright, by A. Roux."
PUBLIC = "Terms of carriage: a crate has to be sealed by the sender, and the carrier takes no care of what is inside."
ASK, ANSWER = user("How is the weather?"), say("It is fine.")
FAILED = {"status": "not_exported"}


def own_log(*events, tools=None, reason=None):
    """A log that the agent wrote itself, heading and end included."""
    head = {"format": 1} if tools is None else {"format": 1, "tools": tools}
    numbered = [{"seq": n, "id": f"e{n}", **event} for n, event in enumerate(events)]
    return [head, *numbered, {"end": {"state": "completed", "reason": reason, "events": len(events)}}]


PLACES = {
    "an error": [
        ASK,
        call("c"),
        {**result("c"), "content": FAILED, "error": {"kind": "tool", "message": ASKED}},
        ANSWER,
    ],
    "an attribute": [ASK, say("fine", attributes={"note": {"deep": [ASKED]}})],
    "the instructions": [say("fine", prompt=value("How?"), attributes={"system_instructions": ASKED})],
    "a tool": own_log(ASK, ANSWER, tools={"f": {"description": ASKED}}),
    "a tool's schema": own_log(ASK, ANSWER, tools={"f": {"parameters": {"properties": {"q": {"title": ASKED}}}}}),
    "the end": own_log(ASK, ANSWER, reason=ASKED),
    "a key of memory": [ASK, {**memory("write", "x"), "key": ASKED}, ANSWER],
    "the name of a reward": [ASK, {"kind": "reward", "name": ASKED, "scope": "episode", "value": 1.0}, ANSWER],
    "the name of a tool": [ASK, call("c", ASKED), result("c"), ANSWER],
    "the id of a call": [ASK, call(ASKED), result(ASKED), ANSWER],
    "the name of an argument": [ASK, call("c", arguments={ASKED: 1}), result("c"), ANSWER],
    "why a turn ended": [ASK, ANSWER, ended(ASKED)],
    "a model's parameters": [ASK, say("fine", model={"name": "m", "parameters": {"stop": [ASKED]}})],
    "one word after the other": [ASK, *(think(word) for word in ASKED.split()), ANSWER],
    "a part of an attachment": [ASK, call("c"), result("c", f"I read: {ATTACHED[10:90]}"), ANSWER],
    "the expected answer": [ASK, say(f"I found this: {EXPECTED}")],
}


@pytest.fixture(scope="module")
def target(stages, tmp_path_factory):
    """A batch with an attempt for each place, one that answers with the holdout, and two that hold nothing of it."""
    made = stages.copy("initialized", str(tmp_path_factory.mktemp("log") / "target"))
    for name, text in (("waybill.txt", ATTACHED), ("terms.txt", PUBLIC)):
        made.write(name, text)
    blind = {"id": "b", "input": ASKED, "expected": EXPECTED, "attachments": ["waybill.txt", "terms.txt"]}
    usual = {"id": "u", "input": "What do the terms say?", "attachments": ["terms.txt"]}
    made.write("blind.jsonl", "".join(json.dumps(case) + "\n" for case in ({**blind, "usage": "holdout"}, usual)))
    made.call("store_dataset", source="blind.jsonl")
    names = [*PLACES, "the output", "nothing", "what others have attached too"]
    cases = [{"id": name, "input": f"Question {n}?"} for n, name in enumerate(names)]
    made.write("cases.jsonl", "".join(json.dumps(case) + "\n" for case in cases))
    made.ids["dataset_id"] = made.call("store_dataset", source="cases.jsonl").dataset_id
    open_to_all = [ASK, call("c"), result("c", PUBLIC), ANSWER]
    events = {**PLACES, "what others have attached too": open_to_all}
    made.ids["batch_id"] = store_batch(
        made,
        "revision-1-none",
        lambda case_id, _: ASKED if case_id == "the output" else "fine",
        record=lambda record: record.model_copy(update={"events": tuple(events.get(record.case_id, ()))}),
    )
    judge_all(made, made.batch_id, len(names))
    return made


@pytest.mark.parametrize("form", ["messages", "otlp"])
def test_only_attempts_that_hold_nothing_of_the_holdout_give_a_row(target, form):
    answer = target.call("project_trajectories", batch_id=target.batch_id, form=form)
    with open(answer.path, "rb") as file:
        assert [row["metadata"]["origin"]["case_id"] for row in read_rows(file)] == [
            "nothing", "what others have attached too"
        ]  # fmt: skip
    assert sum(one.records for one in answer.left_out) == len(PLACES) + 1
    assert all("holdout" in one.reason for one in answer.left_out)


def test_reasons_that_never_end_are_told_as_one(target, monkeypatch):
    monkeypatch.setattr(projecting, "LOSSES", 1)
    left = target.call("project_trajectories", batch_id=target.batch_id).left_out
    assert [one.reason for one in left] == [
        "it holds the input of a holdout Case, or a part of it", "for other reasons"
    ]  # fmt: skip
    assert sum(one.records for one in left) == len(PLACES) + 1


def test_wording_that_comes_with_every_question_of_another_dataset_is_no_holdout(at):
    target = at("initialized")
    told = "You are the clerk of the water works of the town and answer in one short sentence: "
    target.write("blind.jsonl", json.dumps({"id": "b", "input": f"{told}who reads it?", "usage": "holdout"}) + "\n")
    target.call("store_dataset", source="blind.jsonl")
    cases = [{"id": f"u-{n}", "input": f"{told}what is bill {n}?"} for n in range(10)]
    target.write("cases.jsonl", "".join(json.dumps(case) + "\n" for case in cases))
    target.ids["dataset_id"] = target.call("store_dataset", source="cases.jsonl").dataset_id
    batch_id = store_batch(target, "revision-1-none", lambda *_: "fine")
    judge_all(target, batch_id, 10)
    assert target.call("project_trajectories", batch_id=batch_id).row_count == 10
