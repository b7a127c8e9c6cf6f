"""What a judge and an auditor get, and that every projection reports each field that it left out."""

import hashlib
import json
import os
import subprocess
import sys

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from operations import trajectories
from operations.trajectories.log import canonical
from operations.trajectories.projections import (
    audit_records,
    evaluator_view,
    merged,
    openai_messages,
    otlp_spans,
    sft_messages,
)
from tests.operations.trajectories.test_detector_laws import any_log
from tests.support.logs import a_log, call, ended, memory, result, reward, say, think, user, value

ROOT = os.path.dirname(os.path.dirname(trajectories.__path__[0]))
AT = "2026-05-01T10:00:00+00:00"


def a_run(**more):
    return a_log(
        user("where", turn=0),
        think("hm"),
        call("x", arguments={"q": 1}, group="g", at=AT),
        call("y", arguments={"q": 1}, group="g"),
        result("y", {"place": "y"}),
        result("x", "", error={"kind": "tool", "message": "half"}),
        call("z", "go"),
        memory("write", "it is there", key="place"),
        say("there", model={"name": "m"}),
        ended("stop"),
        reward(0.5),
        **more,
    )


def test_a_judge_sees_each_call_with_its_own_result_and_how_it_ended():
    view, _ = evaluator_view(a_run())
    assert (view["asked"], view["answer"], view["turns"], view["state"]) == (["where"], "there", 1, "completed")
    calls = [s for s in view["steps"] if s["what"] == "call"]
    assert [(s["call_id"], s["status"], s["result"], s["result_seq"], s["error"]) for s in calls] == [
        ("x", "error", "", 5, {"kind": "tool", "message": "half"}),
        ("y", "ok", '{"place": "y"}', 4, None),
        ("z", "no_result", None, None, None),
    ]
    assert [s["seq"] for s in view["steps"]] == [0, 1, 2, 3, 6, 8]
    assert [calls[n]["group"] for n in (0, 1)] == ["g", "g"]
    assert view["rewards"] == [{"seq": 10, "name": "r", "scope": "episode", "value": 0.5}]
    assert view["memory"][0]["key"] == "place"


def test_an_unfinished_run_has_its_steps_and_no_answer():
    view, _ = evaluator_view(a_log(user("where"), call("x"), state="interrupted"))
    assert (view["answer"], [s["what"] for s in view["steps"]], view["state"]) == (
        None,
        ["text", "call"],
        "interrupted",
    )


def test_an_audit_says_who_did_what_with_which_outcome_and_keeps_digests():
    records, report = audit_records(a_run(), "batch-4.7")
    assert [(r["actor"], r["action"], r["outcome"]) for r in records] == [
        ("user", "text", "ok"), ("agent", "reasoning", "ok"), ("agent", "tool_call", "error"),
        ("agent", "tool_call", "ok"), ("tool", "tool_result", "ok"), ("tool", "tool_result", "error"),
        ("agent", "tool_call", "unknown"), ("agent", "memory_op", "ok"), ("agent", "text", "ok"),
        ("environment", "turn_complete", "ok"), ("environment", "reward", "ok"), ("environment", "end", "completed"),
    ]  # fmt: skip
    assert records[2] == {
        "log": "batch-4.7", "seq": 2, "actor": "agent", "action": "tool_call", "at": AT, "call_id": "x", "group": "g",
        "id": "e2", "name": "find", "outcome": "error",
        "sha256": {"arguments": hashlib.sha256(canonical(value({"q": 1})).encode()).hexdigest()},
    }  # fmt: skip
    assert "there" not in json.dumps(records)
    assert ("text", "content", "its digest is kept instead") in {(x.kind, x.field, x.reason) for x in report.losses}


# -- reports -----------------------------------------------------------------------------------------------------------

EXTRA = {"attributes": {"a": 1}, "at_text": "now", "marks": {"at": "lossy"}, "locator": {"file": "f", "row": 1}}
EVENTS = [
    user("u"), think("t"), say("s"), ended("stop", usage={"output_tokens": 1}), reward(1.0),
    memory("read", "m", key="k"),
    {"kind": "observation", "type": "HTTP", "name": "n", "input": value("i"), "output": value("o")},
    {"kind": "observation", "type": None, "input": {"status": "not_exported"}, "output": value("seen")},
]  # fmt: skip
PROJECTIONS = {
    "sft": sft_messages,
    "openai": openai_messages,
    "evaluator": evaluator_view,
    "audit": lambda log: audit_records(log, "log"),
    "otlp": lambda log: otlp_spans(log, "log"),
}


@settings(max_examples=40)
@given(
    picked=st.lists(
        st.tuples(st.sampled_from(range(len(EVENTS) + 1)), st.sets(st.sampled_from(list(EXTRA)))), max_size=6
    )
)
def test_every_field_that_is_not_in_the_result_is_in_the_report(picked):
    """Each field gets a value of its own; one that the result lacks has to be named."""
    events, marks = [], {}
    for number, (place, more) in enumerate(picked):
        pair = [call(f"c{number}"), result(f"c{number}")] if place == len(EVENTS) else [EVENTS[place]]
        for event in pair:
            mark = f"mark{len(events)}."
            extra = {key: EXTRA[key] for key in more}
            if "attributes" in extra:
                extra["attributes"] = {"a": f"{mark}attributes"}
            if "at_text" in extra:
                extra["at_text"] = f"{mark}at_text"
            if "content" in event:
                extra["content"] = value(f"{mark}content")
            if event["kind"] in ("text", "tool_result", "observation"):
                extra["name"] = f"{mark}name"
            extra["model"] = {"name": f"{mark}model"}
            named = ("attributes", "at_text", "content", "name", "model")
            marks |= {f"{mark}{k}": (event["kind"], k) for k in named if k in extra}
            events.append({**event, **extra})
    log = a_log(*events)
    for name, project in PROJECTIONS.items():
        made, report = project(log)
        shown = json.dumps(made)
        told = {(x.kind, x.field.partition(".")[0]) for x in report.losses}
        for mark, (kind, field) in marks.items():
            assert mark in shown or {(kind, field), (kind, "*")} & told or report.refused, (name, mark, report)


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(log=any_log())
def test_whatever_a_log_holds_is_projected_or_refused_and_no_call_is_made_up(log):
    before = log.as_stored()
    for project in PROJECTIONS.values():
        made, report = project(log)
        assert (made is None) == (report.refused is not None)
        assert json.loads(json.dumps(report.as_json())) == report.as_json()
        assert json.dumps(project(log)[0], allow_nan=False) == json.dumps(made)
    assert log.as_stored() == before
    row, _ = sft_messages(log)
    calls = {e["seq"]: (e["call_id"], e["name"], e["arguments"].get("value")) for e in log if e["kind"] == "tool_call"}
    for message, seq, weight in zip(
        *((row["messages"], row["metadata"]["seqs"], row["segment_weights"]) if row else ([], [], [])), strict=True
    ):
        for one in message.get("tool_calls", ()):
            assert (one["id"], one["function"]["name"], one["function"]["arguments"]) == calls[seq]
        assert weight in ({0, 1, 2} if message["role"] == "assistant" else {0})


def test_reports_of_several_logs_add_up():
    reports = [audit_records(a_log(user("x"), user("y")), "a")[1], audit_records(a_log(user("z")), "b")[1]]
    (loss,) = merged("audit", reports).losses
    assert (loss.kind, loss.field, loss.events, loss.first) == ("text", "content", 3, (0, 1, 0))


def test_projections_load_the_standard_library_and_this_project_only():
    code = (
        "import sys, operations.trajectories.projections\n"
        "top = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(top - set(sys.stdlib_module_names) - {'operations', 'storage', '__main__'}))"
    )
    run = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout == "[]\n"


def test_a_long_log_is_projected_in_time_that_grows_with_its_length():
    """Each part of the log is looked at a bounded number of times, counted by how often an event is read."""

    class Counting(dict):
        reads = 0

        def __getitem__(self, name):
            Counting.reads += 1
            return super().__getitem__(name)

    def reads(turns):
        events = [e for n in range(turns) for e in (user("go"), call(f"c{n}"), result(f"c{n}"), say("done"))]
        log = a_log(*events)
        log._events[:] = map(Counting, log._events)
        Counting.reads = 0
        for project in PROJECTIONS.values():
            project(log)
        return Counting.reads

    assert reads(400) < 2.1 * reads(200)
