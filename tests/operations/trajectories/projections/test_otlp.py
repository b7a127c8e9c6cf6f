"""Spans of OpenTelemetry: what was imported from them goes back into them, and every other log becomes a trace."""

import json

import pytest

from operations.importers._otel_events import events_of
from operations.importers._otel_rows import spans_of
from operations.importers._otel_spans import SpanReader
from operations.importers._tally import Tally
from operations.trajectories import EventLog
from operations.trajectories.projections import otlp_spans
from operations.trajectories.settling import settled
from tests.operations.importers.test_otel import TRACE, document, messages, span, text
from tests.support.logs import a_log, call, memory, result, reward, say, think, user, value

CALL = {"type": "tool_call", "id": "c1", "name": "find", "arguments": {"q": 1}}
TOLD = {"type": "tool_call_response", "id": "c1", "response": "there"}


def read(exported):
    """Returns the log that the importer makes of a document."""
    reader = SpanReader({}, Tally())
    spans = [reader.read(one.value, [], {"file": "f", "row": 1}) for one in spans_of(exported, None)]
    return EventLog.from_stored({"events": settled(events_of(spans, []))})


def carried(log):
    """The events without the place in a file that they were read from."""
    return [{name: said for name, said in event.items() if name != "locator"} for event in log]


def exported():
    """Spans of an agent with every kind of thing that the importer knows."""
    opening = ("user", [text("where")])
    chat = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "p", "gen_ai.request.model": "m",
            "gen_ai.request.temperature": 0.5, "gen_ai.usage.input_tokens": 7, "gen_ai.response.id": "r"}  # fmt: skip
    parts = [{"type": "reasoning", "content": "hm"}, text("I look"), CALL]
    answer = json.dumps([{"role": "assistant", "parts": parts, "finish_reason": "tool_call"}])
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"}
    return document(
        span(1, attributes={"gen_ai.operation.name": "invoke_agent", "input.value": "where", "output.value": "there"},
             status={"code": 1}, events=[{"name": "seen", "timeUnixNano": "1785000001000000001",
                                          "attributes": [{"key": "k", "value": {"intValue": "3"}}]}]),
        span(2, 1, attributes={**chat, "gen_ai.input.messages": messages(opening), "gen_ai.output.messages": answer}),
        span(3, 1, attributes={**tool, "gen_ai.tool.call.id": "c2", "gen_ai.tool.call.arguments": '{"q": 2}',
                               "gen_ai.tool.call.result": '"two"'}),
        span(4, 1, attributes={**tool, "gen_ai.tool.call.id": "c3", "gen_ai.tool.call.arguments": '{"q": 2}',
                               "error.type": "Timeout"}, status={"code": 2, "message": "too late"}),
        span(5, 1, kind=3, attributes={
            **chat, "gen_ai.input.messages": messages(opening, ("assistant", [CALL]), ("tool", [TOLD])),
            "gen_ai.output.messages": messages(("assistant", [text("there")])),
            "gen_ai.system_instructions": '[{"type": "text", "content": "be brief"}]'}),
        span(6, 1, attributes={"openinference.span.kind": "RETRIEVER", "input.value": "q", "output.mime_type":
                               "application/json", "output.value": '[{"doc": 1}]'},
             links=[{"traceId": "a" * 32, "spanId": "b" * 16}]),
    )  # fmt: skip


def test_what_was_imported_from_spans_is_the_same_after_it_was_spans_again():
    log = read(exported())
    assert [e["kind"] for e in log] == [
        "observation", "reasoning", "text", "tool_call", "tool_call", "tool_result", "tool_call", "tool_result",
        "tool_result", "text", "observation",
    ]  # fmt: skip
    spans, report = otlp_spans(log, TRACE)
    assert carried(read(spans)) == carried(log)
    assert {(x.kind, x.field) for x in report.losses} <= {(kind, "locator") for kind in {e["kind"] for e in log}}
    assert read(json.loads(json.dumps(spans)))


def test_the_error_of_a_result_that_stands_in_a_message_is_told_as_lost():
    failed = {"kind": "tool", "message": "no access", "code": "403"}
    log = a_log(
        say("I look", id="a", group="a"),
        call("c", id="c", parent="a", group="a"),
        result("c", "nothing", error=failed),
        say("It is not there", id="b"),
    )
    spans, report = otlp_spans(log, TRACE)
    assert "no access" not in json.dumps(spans)
    assert ("tool_result", "error") in {(x.kind, x.field) for x in report.losses}


def test_a_log_of_another_source_becomes_one_trace_under_one_root():
    log = a_log(
        user("where"),
        think("hm"),
        call("x", arguments={"q": 1}),
        call("y", arguments={"q": 1}),
        result("y", {"place": "y"}),
        result("x", "of x", error={"kind": "tool", "message": "half"}),
        memory("write", "it is there", key="place"),
        say("there"),
        reward(0.5),
        state="failed",
    )
    spans, report = otlp_spans(log, "record batch-4.7")
    (scope,) = spans["resourceSpans"][0]["scopeSpans"]
    root, *rest = scope["spans"]
    assert (root["name"], root["parentSpanId"], root["status"]) == ("invoke_agent", "", {"code": 2})
    assert {one["parentSpanId"] for one in rest} == {root["spanId"]}
    assert len({one["spanId"] for one in scope["spans"]}) == len(scope["spans"])
    assert {one["traceId"] for one in scope["spans"]} == {root["traceId"]}
    assert len(root["traceId"]) == 32
    assert [one["name"] for one in root["events"]] == ["gen_ai.evaluation.result"]
    back = read(spans)
    pairs = {e["call_id"]: e["content"] for e in back if e["kind"] == "tool_result"}
    assert pairs == {"x": value("of x"), "y": value({"place": "y"})}
    said = [(e["kind"], e["content"].get("value")) for e in back if e["kind"] in ("text", "reasoning")]
    assert said == [("reasoning", "hm"), ("text", None), ("text", "there")]
    prompts = [e["prompt"].get("value") for e in back if e["kind"] == "text"]
    assert prompts[0] is None
    assert prompts[1] == [{"role": "user", "parts": [{"type": "text", "content": "where"}]}]
    assert ("log", "state") not in {(x.kind, x.field) for x in report.losses}


def test_what_a_span_cannot_say_is_in_the_report():
    huge = {"attributes": {"n": 2**70}}
    log = a_log(user("x"), {**say("y"), "content": {"status": "null"}, **huge}, user("z"), state="interrupted")
    _, report = otlp_spans(log, TRACE)
    assert {(x.kind, x.field, x.reason) for x in report.losses} >= {
        ("text", "attributes.n", "a whole number of more than 64 bits stands as text"),
        ("text", "output", "a span cannot say that it is null"),
        ("text", "content", "no model was asked after it, so no span holds it"),
        ("log", "state", "a span cannot say that a run is interrupted"),
    }


@pytest.mark.parametrize(
    "odd",
    [
        *({name: given} for name in ("usage", "cost_details", "scope", "span_fields") for given in (5, ["a"], "x")),
        *({name: given} for name in ("events", "links") for given in (5, ["a"], {"a": 1}, [{"attributes": [1]}])),
        *(
            {name: given}
            for name in ("status", "span_name", "span_kind", "status_message")
            for given in ({"a": 1}, [5])
        ),
    ],
)
def test_an_attribute_of_another_form_than_a_span_takes_is_an_attribute_like_any_other(odd):
    spans, _ = otlp_spans(a_log(user("x"), say("y", attributes=odd)), TRACE)
    (answer,) = [event for event in read(json.loads(json.dumps(spans))) if event["kind"] == "text"]
    assert answer["content"] == value("y")
    (chat,) = [one for one in spans["resourceSpans"][0]["scopeSpans"][0]["spans"] if one["name"] == "chat"]
    assert odd.keys() <= {one["key"] for one in chat["attributes"]}


def test_fields_of_a_span_that_a_log_has_as_an_attribute_change_nothing_that_it_says():
    forged = {"span_fields": {"spanId": "f" * 16, "events": 5, "status": 5, "flags": 1}}
    log = a_log(user("x"), call("c", attributes=forged), result("c"), reward(1.0, "step", parent="c"), say("y"))
    spans = otlp_spans(log, TRACE)[0]["resourceSpans"][0]["scopeSpans"][0]["spans"]
    (tool,) = [span for span in spans if span["name"] == "execute_tool find"]
    assert (tool["flags"], tool["status"], [one["name"] for one in tool["events"]]) == (
        1, {}, ["gen_ai.evaluation.result"]
    )  # fmt: skip
    assert tool["spanId"] != "f" * 16
