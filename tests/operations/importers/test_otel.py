"""OpenTelemetry: each way in which spans are written is read into one, and nothing of them is guessed or lost."""

import base64
import json
import shutil

import pytest

from operations.importers._fields import MappingSourceMissing, RowTooWide, ValuesConflict
from operations.importers._folders import RoleWithoutFile
from operations.importers._mapping import MappingNotRead
from operations.importers.evidence import NoEvidence, TooManyDamaged
from tests.support.imports import Imports, event

TRACE = "5b8efff798038103d269b633813fc60c"


@pytest.fixture
def imports(tmp_path):
    return Imports(tmp_path / "project")


@pytest.fixture
def send(imports, tmp_path):
    """Writes files and imports them. Returns the response and the Records by trace."""

    def send(files, **arguments):
        folder = tmp_path / "export"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, content in files.items():
            text = content if isinstance(content, str) else json.dumps(content)
            (folder / name).write_text(text, encoding="utf-8")
        response = imports.send(folder, source_kind="otel", **arguments)
        return response, imports.records(response.batch_id)

    return send


def value(given):
    match given:
        case bool():
            return {"boolValue": given}
        case int():
            return {"intValue": str(given)}
        case float():
            return {"doubleValue": given}
        case list():
            return {"arrayValue": {"values": [value(item) for item in given]}}
        case dict():
            return {"kvlistValue": {"values": keyed(given)}}
        case _:
            return {"stringValue": given}


def keyed(attributes):
    return [{"key": name, "value": value(item)} for name, item in attributes.items()]


def span(number, parent="", trace=TRACE, **more):
    """A span as OTLP's JSON has it; attributes are given as they are meant."""
    start = 1785000000000000000 + number * 10**9
    found = {
        "traceId": trace,
        "spanId": f"{number:016x}",
        "parentSpanId": f"{parent:016x}" if parent else "",
        "name": f"span {number}",
        "kind": 1,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 5 * 10**8),
        "status": {},
        **more,
    }
    found["attributes"] = keyed(more.get("attributes", {}))
    return found


def document(*spans, resource=None):
    resource = {"service.name": "svc"} if resource is None else resource
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": keyed(resource)},
                "scopeSpans": [{"scope": {"name": "lib"}, "spans": list(spans)}],
            }
        ]
    }


def messages(*said):
    return json.dumps([{"role": role, "parts": parts} for role, parts in said])


def text(said):
    return {"type": "text", "content": said}


def places_out(found):
    if isinstance(found, dict):
        return {k: places_out(v) for k, v in found.items() if k not in ("locator", "locators", "id", "n")}
    return [places_out(one) for one in found] if isinstance(found, list) else found


# -- the ways in which spans are written -------------------------------------------------------------------------------


def test_a_document_lines_of_documents_and_rows_of_spans_say_the_same(send):
    """The collector's file exporter writes JSON lines into `.json`; an SDK's console, one object after another."""
    spans = [
        span(1, attributes={"input.value": "q", "output.value": "a", "n": 3, "list": [1, "x"], "map": {"k": True}}),
        span(2, 1, attributes={"openinference.span.kind": "CHAIN"}, status={"code": 1}),
    ]
    plain = {"n": 3, "list": [1, "x"], "map": {"k": True}, "input.value": "q", "output.value": "a"}
    rows = [
        {
            "name": one["name"],
            "context": {"trace_id": f"0x{TRACE}", "span_id": f"0x{one['spanId']}", "trace_state": "[]"},
            "kind": "SpanKind.INTERNAL",
            "parent_id": f"0x{one['parentSpanId']}" if one["parentSpanId"] else None,
            "start_time": int(one["startTimeUnixNano"]),
            "end_time": int(one["endTimeUnixNano"]),
            "status": {"status_code": "OK" if one["status"] else "UNSET"},
            "attributes": attributes,
            "events": [],
            "links": [],
            "resource": {"attributes": {"service.name": "svc"}, "schema_url": ""},
        }
        for one, attributes in zip(spans, (plain, {"openinference.span.kind": "CHAIN"}), strict=True)
    ]
    forms = {
        "one.json": json.dumps(document(*spans), indent=2),
        "lines.json": "".join(json.dumps(document(one)) + "\n" for one in spans),
        "lines.jsonl": "".join(json.dumps(document(one)) + "\n" for one in reversed(spans)),
        "array.json": json.dumps([document(*spans)]),
        "console.json": "\n".join(json.dumps(row, indent=4) for row in rows),
    }
    read = {}
    for name, content in forms.items():
        response, records = send({name: content})
        assert response.counts["spans"] == 2, name
        read[name] = places_out(records[TRACE].model_dump(mode="json"))
    for name, record in read.items():
        for one in record["log"]["events"]:
            one["attributes"] = {
                k: v for k, v in one["attributes"].items() if k not in ("scope", "span_fields", "status")
            }
        assert record == read["one.json"], name
    assert read["one.json"]["input"]["value"] == "q"
    assert read["one.json"]["log"]["events"][0]["attributes"]["map"] == {"k": True}


def test_a_table_of_spans_is_read_by_its_columns(send):
    rows = (
        "context.trace_id,context.span_id,parent_id,name,span_kind,start_time,end_time,status_code,status_message,"
        "attributes.input.value,attributes.llm.token_count.prompt,extra\n"
        f"{TRACE},0000000000000001,,root,AGENT,2026-07-25T17:20:00.123456789+00:00,2026-07-25T17:20:01+00:00,OK,,"
        '"what, now?",,7\n'
        f"{TRACE},0000000000000002,0000000000000001,call,LLM,2026-07-25T17:20:00.5+00:00,,ERROR,too long,,12,\n"
    )
    response, records = send({"spans.csv": rows})
    record = records[TRACE]
    root, call = event(record, "0000000000000001"), event(record, "0000000000000002")
    assert (record.input.value, record.at_text) == ("what, now?", "2026-07-25T17:20:00.123456789+00:00")
    assert (root.type, root.attributes["span_fields"], root.at.microsecond) == ("AGENT", {"extra": "7"}, 123456)
    assert (call.kind, call.attributes["usage"], call.error.message) == ("text", {"input_tokens": 12}, "too long")
    assert call.ended_at is None
    assert response.fields["span.end_time"] == {"kept": 1, "unknown": 1}


def test_ids_in_base64_and_in_capitals_name_the_same_span(send):
    packed = span(1, attributes={"a": 1})
    packed["traceId"] = base64.b64encode(bytes.fromhex(TRACE)).decode()
    packed["spanId"] = base64.b64encode(bytes.fromhex(packed["spanId"])).decode()
    child = span(2, 1)
    child["traceId"] = TRACE.upper()
    response, records = send({"a.jsonl": json.dumps(document(packed)), "b.jsonl": json.dumps(document(child))})
    assert list(records) == [TRACE]
    assert response.counts == {"records": 1, "roots": 1, "spans": 2, "traces": 1}
    assert "parents_unknown" not in response.counts


def test_a_parent_of_zeros_or_none_is_a_root_and_one_that_no_column_tells_is_unknown(send):
    zeros, absent = span(1, parentSpanId="0" * 16), span(1, trace="a" * 32)
    del absent["parentSpanId"]
    rows = [
        {"trace_id": "b" * 32, "span_id": "1", "start_time": "2026-01-01T00:00:00Z", "attributes": {"input.value": "x"}}
    ]
    _, records = send({"a.json": document(zeros, absent), "b.jsonl": json.dumps(rows[0])})
    assert [record.missing.count("parent_observations") for record in records.values()] == [0, 0, 1]
    assert records["b" * 32].input.status == "not_exported"


# -- dialects ----------------------------------------------------------------------------------------------------------


def test_every_dialect_of_messages_ends_in_one_form(send):
    arguments = {"city": "Rome"}
    call = {"type": "tool_call", "id": "c1", "name": "weather", "arguments": arguments}
    prompt = [("system", [text("be brief")]), ("user", [text("rain?")])]
    answer = [("assistant", [text("let me see"), call])]
    as_text = json.dumps(arguments)
    genai = {"gen_ai.operation.name": "chat"}
    dialects = {
        "a": {**genai, "gen_ai.input.messages": messages(*prompt), "gen_ai.output.messages": messages(*answer)},
        "b": {
            "openinference.span.kind": "LLM",
            "llm.input_messages.0.message.role": "system",
            "llm.input_messages.0.message.content": "be brief",
            "llm.input_messages.1.message.role": "user",
            "llm.input_messages.1.message.contents.0.message_content.type": "text",
            "llm.input_messages.1.message.contents.0.message_content.text": "rain?",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": "let me see",
            "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "weather",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": as_text,
        },
        "c": {
            **genai,
            "gen_ai.prompt.0.role": "system",
            "gen_ai.prompt.0.content": "be brief",
            "gen_ai.prompt.1.role": "user",
            "gen_ai.prompt.1.content": "rain?",
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.content": "let me see",
            "gen_ai.completion.0.tool_calls.0.id": "c1",
            "gen_ai.completion.0.tool_calls.0.name": "weather",
            "gen_ai.completion.0.tool_calls.0.arguments": as_text,
        },
        "d": genai,
        "e": genai,
    }
    function = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": as_text}}
    said = (
        ("gen_ai.system.message", {"content": "be brief"}),
        ("gen_ai.user.message", {"content": "rain?"}),
        ("gen_ai.choice", {"message": json.dumps({"content": "let me see", "tool_calls": [function]})}),
    )
    spans = [span(1, trace=name * 32, attributes=attributes) for name, attributes in dialects.items()]
    spans[3]["events"] = [
        {"name": name, "timeUnixNano": str(1785000001000000000 + n), "attributes": keyed(own)}
        for n, (name, own) in enumerate(said)
    ]
    logs = [
        {
            "traceId": "e" * 32,
            "spanId": spans[4]["spanId"],
            "timeUnixNano": str(1785000001000000000 + n),
            "eventName": name,
            "body": value({k: json.loads(v) if k == "message" else v for k, v in body.items()}),
        }
        for n, (name, body) in enumerate(said)
    ]
    log_file = {"resourceLogs": [{"resource": {}, "scopeLogs": [{"scope": {"name": "l"}, "logRecords": logs}]}]}
    response, records = send({"traces.json": document(*spans), "logs.json": log_file})
    assert response.counts["log_records"] == 3
    for name in dialects:
        one = event(records[name * 32], spans[0]["spanId"])
        assert one.prompt.value == json.loads(messages(*prompt)), name
        assert (one.kind, one.role, one.content.value) == ("text", "assistant", "let me see"), name
        (called,) = (e for e in records[name * 32].log.events if e.kind == "tool_call")
        assert (called.call_id, called.name, called.arguments.value) == ("c1", "weather", arguments), name
        assert (called.parent, called.group, one.group) == (one.id, one.id, one.id)


def test_a_call_without_a_span_gets_its_result_from_the_next_prompt_and_one_with_a_span_stands_once(send):
    def called(call_id):
        return {"type": "tool_call", "id": call_id, "name": "look", "arguments": {"at": call_id}}

    def answered(call_id, given):
        return {"type": "tool_call_response", "id": call_id, "response": given}

    chat = {"gen_ai.operation.name": "chat"}
    asked = ("user", [text("q")])
    turn = ("assistant", [{"type": "reasoning", "content": "hm"}, called("c1"), called("c2")])
    told = ("tool", [answered("c1", {"seen": 1}), answered("c2", "two")])
    spans = [
        span(1, attributes={"gen_ai.operation.name": "invoke_agent"}),
        span(
            2,
            1,
            attributes={**chat, "gen_ai.input.messages": messages(asked), "gen_ai.output.messages": messages(turn)},
        ),
        span(
            3,
            1,
            attributes={
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "look",
                "gen_ai.tool.call.id": "c2",
                "gen_ai.tool.call.arguments": '{"at": "c2"}',
                "gen_ai.tool.call.result": "two",
            },
        ),
        span(
            4,
            1,
            attributes={
                **chat,
                "gen_ai.input.messages": messages(asked, turn, told),
                "gen_ai.output.messages": messages(("assistant", [text("done")])),
            },
        ),
    ]
    _, records = send({"t.json": document(*spans)})
    events = records[TRACE].log.events
    kinds = [(e.kind, getattr(e, "call_id", None)) for e in events]
    assert kinds == [
        ("observation", None),
        ("reasoning", None),
        ("text", None),
        ("tool_call", "c1"),
        ("tool_call", "c2"),
        ("tool_result", "c2"),
        ("tool_result", "c1"),
        ("text", None),
    ]
    assert (events[1].content.value, events[2].content.status) == ("hm", "null")
    assert (events[6].content.value, events[6].name) == ({"seen": 1}, "look")
    assert events[7].content.value == "done"


def test_names_usage_and_parameters_of_both_dialects_have_one_place(send):
    genai = {
        "gen_ai.operation.name": "chat",
        "gen_ai.system": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.response.model": "m-2026",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.usage.prompt_tokens": 3,
        "gen_ai.usage.completion_tokens": 4,
        "gen_ai.system_instructions": json.dumps([text("be kind")]),
        "gen_ai.tool.definitions": json.dumps([{"name": "f"}]),
    }
    inference = {
        "openinference.span.kind": "LLM",
        "llm.provider": "openai",
        "llm.model_name": "m",
        "llm.invocation_parameters": '{"temperature": 0.5}',
        "llm.token_count.prompt": 3,
        "llm.token_count.completion": 4,
        "llm.token_count.prompt_details.cache_read": 1,
        "llm.cost.total": 0.01,
        "llm.tools.0.tool.json_schema": '{"name": "f"}',
        "session.id": "s",
        "user.id": "u",
    }
    _, records = send({"t.json": document(span(1, attributes=genai), span(1, trace="a" * 32, attributes=inference))})
    ours, theirs = (event(records[trace], f"{1:016x}") for trace in (TRACE, "a" * 32))
    for one in (ours, theirs):
        assert (one.model.name, one.model.provider, one.model.parameters) == ("m", "openai", {"temperature": 0.5})
    assert (ours.model.version, ours.attributes["usage"]) == ("m-2026", {"input_tokens": 3, "output_tokens": 4})
    assert ours.attributes["system_instructions"] == [text("be kind")]
    assert ours.attributes["tool_definitions"] == [{"name": "f"}]
    assert theirs.attributes["usage"] == {"input_tokens": 3, "output_tokens": 4, "cache_read_input_tokens": 1}
    assert theirs.attributes["cost_details"] == {"total": 0.01}
    assert records["a" * 32].metrics == {"input_tokens": 3, "output_tokens": 4, "cache_read_input_tokens": 1}
    assert (records["a" * 32].source.session_id, records["a" * 32].source.user_id) == ("s", "u")


def test_evaluations_are_scores_and_exceptions_errors(send):
    rated = [
        {"name": "gen_ai.evaluation.result", "attributes": keyed({"gen_ai.evaluation.name": name, **more})}
        for name, more in (
            ("relevance", {"gen_ai.evaluation.score.value": 0.8, "gen_ai.evaluation.score.label": "good"}),
            ("tone", {"gen_ai.evaluation.score.label": "polite", "gen_ai.evaluation.explanation": "it says please"}),
        )
    ]
    raised = {
        "name": "exception",
        "timeUnixNano": "1785000001000000007",
        "attributes": keyed({"exception.type": "ValueError", "exception.message": "no", "exception.stacktrace": "…"}),
    }
    response, records = send({"t.json": document(span(1, events=[*rated, raised], status={"code": 2}))})
    record = records[TRACE]
    assert [(s.name, s.type, s.value, s.comment) for s in record.scores] == [
        ("relevance", "numeric", 0.8, None),
        ("tone", "categorical", "polite", "it says please"),
    ]
    assert record.scores[0].attributes == {"label": "good"}
    failed = event(record, f"{1:016x}")
    assert (failed.error.message, failed.error.code) == ("no", "ValueError")
    assert failed.attributes["events"][-1]["at_text"] == "1785000001000000007"
    assert (record.log.state, record.log.end_reason) == ("failed", "no")
    assert response.counts["scores"] == 2


# -- what is not known -------------------------------------------------------------------------------------------------


def test_two_roots_speak_for_no_trace_until_one_is_named(send):
    spans = (span(1, attributes={"input.value": "a"}), span(2, attributes={"input.value": "b"}))
    response, records = send({"t.json": document(*spans)})
    assert records[TRACE].input.status == "not_exported"
    assert any("several roots" in warning for warning in response.warnings)
    _, records = send({"t.json": document(*spans)}, mapping={"root_observation_name": "span 2"})
    assert (records[TRACE].input.value, records[TRACE].input.source) == ("b", f"observation:{2:016x}")


def test_a_mapping_names_the_attributes_of_a_home_made_dialect(send):
    own = {"my.question": '{"q": 1}', "my.answer": "yes", "ticket": 7}
    files = {"t.json": document(span(1, attributes=own))}
    given = {"trace": {"input": "my.question", "case_id": "ticket"}, "observation": {"output": "my.answer"}}
    _, records = send(files, mapping=given)
    record = records[TRACE]
    assert (record.input.value, record.output.value, record.case_id) == ({"q": 1}, "yes", "7")
    with pytest.raises(MappingSourceMissing, match=r"my\.reply"):
        send(files, mapping={"trace": {"output": "my.reply"}})
    with pytest.raises(MappingNotRead, match="'level'"):
        send(files, mapping={"observation": {"level": "x"}})


def test_a_span_that_arrives_twice_is_one_and_two_that_differ_are_refused_with_both_shown(send):
    once = span(1, attributes={"a": 1})
    response, records = send({"a.json": document(once), "b.jsonl": json.dumps(document(once))})
    assert (response.counts["duplicates_merged"], len(records[TRACE].log.events)) == (1, 1)
    other = span(1, attributes={"a": 2})
    with pytest.raises(ValuesConflict) as refused:
        send({"a.json": document(once), "b.jsonl": json.dumps(document(other))})
    assert (refused.value.field, refused.value.left, refused.value.right) == ("attributes.a", "1", "2")
    assert {refused.value.left_place, refused.value.right_place} == {
        "a.json /resourceSpans/0/scopeSpans/0/spans/0",
        "b.jsonl line 1",
    }


def test_links_resources_and_unknown_fields_are_kept_and_what_was_dropped_is_told(send):
    link = {"traceId": "a" * 32, "spanId": "b" * 16, "attributes": keyed({"why": "retry"})}
    one = span(1, links=[link], droppedAttributesCount=2, traceState="k=v", flags=1)
    other = document(span(2, 1), resource={"service.name": "other"})["resourceSpans"]
    both = {"resourceSpans": document(one)["resourceSpans"] + other}
    response, records = send({"t.json": both})
    found = event(records[TRACE], one["spanId"])
    assert found.attributes["links"] == [{"trace_id": "a" * 32, "span_id": "b" * 16, "attributes": {"why": "retry"}}]
    assert found.attributes["span_fields"] == {"droppedAttributesCount": 2, "traceState": "k=v", "flags": 1}
    assert (found.marks, found.attributes["resource"]) == ({"attributes": "lossy"}, 0)
    assert records[TRACE].runtime_metadata["resources"] == [{"service.name": "svc"}, {"service.name": "other"}]
    assert response.fields["span.attributes"] == {"kept": 1, "lossy": 1}
    assert any("dropped attributes" in warning for warning in response.warnings)


def test_messages_cut_by_a_length_limit_stay_text_and_are_marked(send):
    cut = messages(("user", [text("a long question")]))[:30]
    response, records = send({"t.json": document(span(1, attributes={"gen_ai.input.messages": cut}))})
    assert (records[TRACE].input.status, records[TRACE].input.value) == ("unparsable", cut)
    assert response.fields["span.input"] == {"unparsable": 1}


def test_spans_without_end_or_with_numbers_that_are_none_are_kept(send):
    one = span(1, endTimeUnixNano="0")
    one["attributes"].append({"key": "ratio", "value": {"doubleValue": "NaN"}})
    backwards = span(2, 1, endTimeUnixNano="1")
    response, records = send({"t.json": document(one, backwards)})
    found = event(records[TRACE], one["spanId"])
    assert (found.ended_at, found.attributes["ratio"], found.marks) == (None, "NaN", {"attributes.ratio": "unparsable"})
    assert event(records[TRACE], backwards["spanId"]).duration_seconds is None
    assert any("ends before it starts" in warning for warning in response.warnings)


def test_a_circle_of_parents_does_not_hang(send):
    spans = (span(1, 2), span(2, 1), span(3, 3))
    _, records = send({"t.json": document(*spans)})
    assert sorted(e.id[-1] for e in records[TRACE].log.events) == ["1", "2", "3"]


def test_metrics_logs_of_no_trace_and_stray_files_are_told(send):
    metrics = {"resourceMetrics": [{"scopeMetrics": []}]}
    loose = {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"stringValue": "hello"}}]}]}]}
    files = {
        "t.json": "\n".join(json.dumps(one) for one in (document(span(1)), metrics, loose)),
        "package.json": {"name": "x", "version": "1"},
        "notes.txt": "hi",
    }
    response, records = send(files)
    assert sorted(response.skipped_files) == ["notes.txt", "package.json"]
    assert any(warning.startswith("resourceMetrics are no spans") for warning in response.warnings)
    assert any("log records of no trace" in warning for warning in response.warnings)
    assert list(records) == [TRACE]


def test_a_file_is_left_out_by_its_role_and_what_is_not_used_is_said(send):
    files = {"t.json": document(span(1)), "u.json": document(span(2))}
    response, records = send(files, file_roles={"u.json": "ignore"}, json_columns=["input"])
    assert (response.skipped_files, len(records[TRACE].log.events)) == (["u.json"], 1)
    assert response.warnings == ["not used for otel, which names its own fields: json_columns"]
    with pytest.raises(RoleWithoutFile):
        send(files, file_roles={"v.json": "ignore"})


def test_a_torn_last_line_is_an_interrupted_append_and_damage_is_counted(send):
    whole, torn = json.dumps(document(span(1))), json.dumps(document(span(2, 1)))[:-40]
    for name in ("t.json", "t.jsonl"):
        response, _ = send({name: f"{whole}\n{torn}"})
        assert any("interrupted append" in warning for warning in response.warnings), name
    with pytest.raises(TooManyDamaged, match="names no trace"):
        send({"t.json": document(span(1, trace="")), "t.jsonl": whole})


def test_an_empty_export_is_no_result(send):
    with pytest.raises(NoEvidence):
        send({"t.json": {"resourceSpans": []}})


def test_a_span_wider_than_any_is_refused(send):
    with pytest.raises(RowTooWide, match="name of 2000 characters"):
        send({"t.json": document(span(1, attributes={"k" * 2000: 1}))})
    with pytest.raises(RowTooWide, match="6000 attributes"):
        send({"t.json": document(span(1, attributes={f"k{n}": n for n in range(6000)}))})


def test_no_credential_of_an_attribute_a_message_or_an_event_is_stored(imports, send):
    secret = "sk-" + "proj4Zk9" * 6
    named = "hunter2-and-more"
    own = {
        "http.request.header.authorization": f"Bearer {secret}",
        "db.password": named,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.call.arguments": json.dumps({"api_key": secret, "q": "x"}),
        "gen_ai.input.messages": messages(("user", [text(f"my key is {secret}")])),
    }
    said = {"name": "note", "attributes": keyed({"password": named})}
    _, records = send({"t.json": document(span(1, attributes=own, events=[said]))})
    everything = imports.every_byte()
    assert secret.encode() not in everything
    assert named.encode() not in everything
    assert "masked" in json.dumps(event(records[TRACE], f"{1:016x}", "tool_call").arguments.value)


def test_a_dry_run_tells_spans_by_their_content(imports, tmp_path):
    folder = tmp_path / "unnamed"
    folder.mkdir()
    (folder / "x.jsonl").write_text(json.dumps(document(span(1, attributes={"gen_ai.operation.name": "chat"}))))
    (folder / "y.json").write_text(json.dumps({"version": 1}))
    response = imports.send(folder, dry_run=True)
    assert response.suggestion["fits"] == {"x.jsonl": "span", "y.json": "ignore"}
    assert response.next[0].arguments["source_kind"] == "otel"
    again = imports.call(response.next[0].tool, **response.next[0].arguments)
    assert again.counts["spans"] == 1
