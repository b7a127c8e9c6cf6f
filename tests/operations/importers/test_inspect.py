"""Logs of inspect_ai: each form of them says the same, a sample in an epoch is a Record, its scores are evidence."""

import json
import zipfile

import pytest

from operations.importers import _inspect_samples, _inspect_zip
from operations.importers._fields import ValuesConflict
from operations.importers._folders import RoleWithoutFile
from operations.importers._grouping import TraceTooLarge
from operations.importers._inspect_zip import NotAnInspectLog
from operations.importers._mapping import MappingNotRead
from operations.importers._streams import PackedFileDamaged, UnpacksTooFar
from operations.importers.evidence import TooManyDamaged
from tests.support.imports import Imports, event
from tests.support.inspect_logs import LONG, archive, call, condensed, log, members_of, message, sample, second


@pytest.fixture
def imports(tmp_path):
    return Imports(tmp_path / "project")


@pytest.fixture
def send(imports, tmp_path):
    """Writes files and imports them. Returns the response and the Records by (Case, repeat)."""
    made = []

    def send(files, **arguments):
        made.append(tmp_path / f"export{len(made)}")
        made[-1].mkdir()
        for name, content in files.items():
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            (made[-1] / name).write_bytes(data)
        response = imports.send(made[-1], source_kind="inspect_ai", **arguments)
        return response, {(r.case_id, r.repeat): r for r in imports.records(response.batch_id).values()}

    return send


def places_out(found):
    if isinstance(found, dict):
        return {k: places_out(v) for k, v in found.items() if k not in ("locator", "locators")}
    return [places_out(one) for one in found] if isinstance(found, list) else found


def said(records):
    return {key: {**places_out(record.model_dump(mode="json")), "id": None} for key, record in records.items()}


# -- what a sample becomes ---------------------------------------------------------------------------------------------


def test_a_sample_in_an_epoch_is_a_repeat_of_its_case(send, imports):
    made = log(*(sample(case, epoch) for case in ("a", 7) for epoch in (1, 2)))
    response, records = send({"x.eval": archive(members_of(made))})
    assert sorted(records) == [("7", 1), ("7", 2), ("a", 1), ("a", 2)]
    assert response.counts == {"events": 28, "logs": 1, "records": 4, "samples": 4, "scores": 4}
    record = records["a", 2]
    assert (record.input.value, record.output.value) == (f"1+1? {LONG}", f"it is 2. {LONG}")
    assert (record.expected.value, record.source.trace_id, record.name) == ("2", "u-a-2", "sums")
    assert record.metrics == {
        "total_time": 9.0,
        "working_time": 1.2,
        "mock/m.input_tokens": 80,
        "mock/m.output_tokens": 10,
        "mock/m.total_tokens": 90,
    }
    assert (record.at_text, record.log.state, record.missing) == (second(0), "completed", ())
    about = record.runtime_metadata
    assert (about["eval"]["eval_id"], about["eval"]["revision"]["commit"]) == ("ev1", "abc1234")
    assert (about["metadata"], records["7", 1].runtime_metadata["id"]) == ({"level": 1}, 7)
    (score,) = record.scores
    assert (score.name, score.type, score.value, score.comment) == ("match", "categorical", "C", "as said")
    assert (score.attributes, score.subject_id) == ({"answer": "2"}, "u-a-2")
    totals = {(s.name, s.subject_kind, s.value) for s in imports.loose(response.batch_id)}
    assert totals == {("match/accuracy", "dataset_run", 1.0), ("match", "unknown", 1.0)}


def test_the_transcript_becomes_events_each_said_once_with_calls_paired(send):
    response, records = send({"x.eval": archive(members_of(log(sample())))})
    record = records["a", 1]
    found = [(e.kind, getattr(e, "role", None) or getattr(e, "call_id", None) or e.type) for e in record.log.events]
    assert found == [
        ("observation", "span_begin"),
        ("observation", "sample_init"),
        ("text", "user"),
        ("text", "assistant"),
        ("tool_call", "c1"),
        ("tool_result", "c1"),
        ("text", "assistant"),
    ]
    span, asked, called = event(record, "s1"), event(record, "m1"), event(record, "c1", "tool_call")
    answered, result = event(record, "m4"), event(record, "a1-t", "tool_result")
    assert (span.name, span.duration_seconds, span.parent) == ("generate", 7.0, None)
    assert (asked.content.value, asked.attributes) == (f"1+1? {LONG}", {"source": "input"})
    assert (called.name, called.arguments.value, called.at_text) == ("add", {"x": 1, "y": 1}, second(4))
    assert (called.group, called.parent) == ("m2", "m2")
    assert (result.content.value, result.at_text) == ("2", second(5))
    assert (answered.content.value, answered.model.name) == (f"it is 2. {LONG}", "mock/m")
    assert answered.model.parameters == {"temperature": 0.5}
    assert answered.attributes["usage"] == {"input_tokens": 60, "output_tokens": 5, "total_tokens": 65}
    assert (answered.attributes["finish_reason"], answered.duration_seconds) == ("stop", 1.0)
    assert response.fields["event.call"] == {"lossy": 2}


def test_every_form_of_a_log_says_the_same(send):
    made = log(sample("a", 1), sample("a", 2), sample(3, 1))
    forms = {
        "deflated.eval": archive(members_of(made)),
        "stored.eval": archive(members_of(made), zipfile.ZIP_STORED),
        "zstandard.eval": archive(members_of(made), 93),
        "chunked.eval": archive(members_of(made, chunks=True), 93),
        "whole.json": made,
        "condensed.json": {**made, "samples": [condensed(one) for one in reversed(made["samples"])]},
    }
    _, expected = send({"whole.json": made})
    for name, content in forms.items():
        _, records = send({name: content})
        assert said(records) == said(expected), name


def test_messages_without_a_transcript_or_without_ids_are_the_log(send):
    bare = sample("a", events=[])
    _, records = send({"x.json": log(bare)})
    kinds = [e.kind for e in records["a", 1].log.events]
    assert kinds == ["text", "text", "tool_call", "tool_result", "text"]
    nameless = sample("b")
    for one in (nameless["messages"], *(e.get("input", []) for e in nameless["events"])):
        for each in one:
            each.pop("id", None)
    for one in nameless["events"]:
        for choice in one.get("output", {}).get("choices", []):
            choice["message"].pop("id", None)
    nameless["messages"] += [{"role": "user", "content": "again"}, {"role": "user", "content": "again"}]
    _, records = send({"x.json": log(nameless)})
    texts = [e.content.value for e in records["b", 1].log.events if e.kind == "text"]
    assert texts == [f"1+1? {LONG}", "let me add", f"it is 2. {LONG}", "again", "again"]


def test_reasoning_errors_of_tools_and_calls_that_cannot_be_read_are_typed(send):
    parts = [{"type": "reasoning", "reasoning": "hm", "signature": "sig"}, {"type": "text", "text": "so"}]
    broken = {**call(9), "arguments": {}, "parse_error": "no JSON: {x"}
    turn = message("assistant", parts, 2, tool_calls=[call(8, x=-1), broken])
    wrong = {"type": "timeout", "message": "took too long"}
    told = message("tool", "Timeout!", 3, tool_call_id="c8", function="add", error=wrong)
    image = message("user", [{"type": "image", "image": "data:…"}, {"type": "text", "text": "see"}], 5)
    tool = {
        "uuid": "t8", "timestamp": second(1), "event": "tool", "id": "c8", "function": "add", "arguments": {"x": -1},
        "result": "", "error": wrong, "completed": second(2), "events": [],
    }  # fmt: skip
    _, records = send({"x.json": log(sample(messages=[turn, told, image], events=[tool]))})
    record = records["a", 1]
    result = event(record, "t8", "tool_result")
    assert (result.error.kind, result.error.message, result.error.code) == ("timeout", "took too long", "timeout")
    assert (result.content.status, result.attributes["told_model"]) == ("empty", "Timeout!")
    reasoning = next(e for e in record.log.events if e.kind == "reasoning")
    assert (reasoning.content.value, reasoning.attributes, reasoning.group) == ("hm", {"signature": "sig"}, "m2")
    assert event(record, "m2").content.value == "so"
    unread = event(record, "c9")
    assert (unread.error.code, unread.marks) == ("parse_error", {"arguments": "unparsable"})
    assert event(record, "m5").content.value == image["content"]


def test_events_inside_events_and_of_unknown_kinds_are_kept(send):
    inner = {"uuid": "i", "timestamp": second(2), "event": "info", "data": {"n": 1}}
    outer = {
        "uuid": "o", "timestamp": second(1), "event": "subtask", "name": "look", "input": {"q": 1}, "result": [2],
        "events": [inner],
    }  # fmt: skip
    novel = {"uuid": "n", "timestamp": second(3), "event": "teleport", "where": "there"}
    spoilt = {
        "uuid": "x",
        "timestamp": second(4),
        "event": "error",
        "error": {"message": "boom", "traceback": "t", "traceback_ansi": "\x1b[1mt"},
    }
    _, records = send({"x.json": log(sample(events=[outer, novel, spoilt, "odd"], messages=[]))})
    record = records["a", 1]
    assert (event(record, "o").input.value, event(record, "o").output.value) == ({"q": 1}, [2])
    assert (event(record, "i").parent, event(record, "i").output.value) == ("o", {"n": 1})
    assert (event(record, "n").type, event(record, "n").attributes) == ("teleport", {"where": "there"})
    assert event(record, "x").error.message == "boom"
    assert record.log.events[-1].output.value == "odd"
    assert "traceback_ansi" not in record.model_dump_json()


# -- scores ------------------------------------------------------------------------------------------------------------


def test_scores_keep_their_types_and_one_that_is_none_is_told(send):
    values = {
        "grade": "I", "words": "quite good", "number": 0.25, "yes": True, "parts": {"a": 1, "b": "P"}, "many": [1, 0],
        "none": float("nan"), "null": None,
    }  # fmt: skip
    scored = sample(scores={name: {"value": value, "metadata": {"by": "x"}} for name, value in values.items()})
    response, records = send({"x.eval": archive(members_of(log(scored)), 93)})
    found = {s.name: (s.type, s.status, s.value) for s in records["a", 1].scores}
    assert found == {
        "grade": ("categorical", "value", "I"),
        "words": ("text", "value", "quite good"),
        "number": ("numeric", "value", 0.25),
        "yes": ("boolean", "value", True),
        "parts": ("unknown", "value", {"a": 1, "b": "P"}),
        "many": ("unknown", "value", [1, 0]),
        "none": ("numeric", "unparsable", "NaN"),
        "null": ("unknown", "null", None),
    }
    assert (response.counts["scores"], response.counts["scores_unscored"]) == (8, 2)
    assert records["a", 1].scores[0].attributes == {"metadata": {"by": "x"}}


# -- how samples and logs end ------------------------------------------------------------------------------------------


def test_an_error_a_limit_and_an_answer_that_was_never_given_are_told(send):
    error = {"message": "RuntimeError('boom')", "traceback": "Traceback…", "traceback_ansi": "\x1b[31mTraceback…"}
    never = {"model": "mock/m", "choices": [], "completion": ""}
    failed = sample("failed", error=error, scores={}, output=never)
    limited = sample("limited", limit={"type": "time", "limit": 60})
    silent = sample("silent")
    silent["output"] = {"choices": [{"message": message("assistant", "", 4), "stop_reason": "stop"}], "completion": ""}
    response, records = send({"x.json": log(failed, limited, silent)})
    one = records["failed", 1]
    assert (one.log.state, one.log.end_reason, one.output.status) == ("failed", "RuntimeError('boom')", "null")
    assert (one.missing, one.scores) == (("trace_output",), ())
    assert one.runtime_metadata["error"] == {"message": "RuntimeError('boom')", "traceback": "Traceback…"}
    assert (records["limited", 1].log.state, records["limited", 1].log.end_reason) == ("interrupted", "limit: time")
    assert records["silent", 1].output.status == "empty"
    assert (response.counts["sample_errors"], response.counts["sample_limits"]) == (1, 1)
    assert response.fields["sample.output"] == {"kept": 2, "unknown": 1}


@pytest.mark.parametrize("status", ["started", "cancelled", "error"])
def test_a_log_that_did_not_end_in_success_is_partial(send, status):
    response, records = send({"x.eval": archive(members_of(log(sample(), status=status)))})
    assert (response.completeness, len(records)) == ("partial", 1)
    assert any(f"the status {status}" in warning for warning in response.warnings)


def test_a_log_without_a_header_is_one_that_still_runs_and_lacking_samples_make_it_partial(send):
    running = {k: v for k, v in members_of(log(sample())).items() if k != "header.json"}
    response, records = send({"x.eval": archive(running)})
    assert (response.completeness, records["a", 1].name) == ("partial", "sums")
    assert records["a", 1].runtime_metadata["eval"]["status"] == "started"
    lacking = {k: v for k, v in members_of(log(sample(), sample("b"))).items() if "samples/b" not in k}
    response, _ = send({"x.eval": archive(lacking)})
    assert (response.completeness, response.counts["samples_missing"]) == ("partial", 1)


def test_a_sample_that_was_declared_invalid_is_kept_and_told(send):
    gone = {"author": "jo", "reason": "leaked answer"}
    response, records = send({"x.json": log(sample(invalidation=gone))})
    assert records["a", 1].runtime_metadata["invalidation"] == gone
    assert (response.counts["invalidated"], response.warnings) == (
        1,
        ["somebody declared a sample invalid: sample a epoch 1"],
    )


# -- several logs ------------------------------------------------------------------------------------------------------


def test_a_log_that_was_tried_again_holds_its_samples_once_and_says_so(send):
    first = log(sample("a"), status="error")
    again = log(sample("a"), sample("b"))
    again["eval"] |= {"eval_id": "ev2", "created": "2026-11-29T13:00:00+00:00"}
    response, records = send(
        {"2.eval": archive(members_of(first)), "1.eval": archive(members_of(again, chunks=True), 93)}
    )
    assert (sorted(records), response.counts["duplicates_merged"]) == ([("a", 1), ("b", 1)], 1)
    assert records["a", 1].runtime_metadata["eval"]["eval_id"] == "ev1"
    other = log(sample("a", target="3"))
    with pytest.raises(ValuesConflict) as refused:
        send({"1.eval": archive(members_of(first)), "2.json": other})
    assert (refused.value.field, refused.value.left, refused.value.right) == ("target", '"2"', '"3"')


def test_one_case_in_two_runs_is_two_records(send):
    ours, theirs = log(sample("a", uuid=None)), log(sample("a", uuid=None, target="3"))
    theirs["eval"]["eval_id"] = "ev2"
    response, _ = send({"1.json": ours, "2.json": theirs})
    assert (response.counts["records"], response.counts.get("duplicates_merged")) == (2, None)


def test_a_member_that_was_written_twice_counts_as_it_was_last(send, tmp_path):
    path = tmp_path / "twice.eval"
    path.write_bytes(archive(members_of(log(sample(target="old")))))
    with zipfile.ZipFile(path, "a") as file, pytest.warns(UserWarning, match="Duplicate name"):
        file.writestr("samples/a_epoch_1.json", json.dumps(condensed(sample(target="new"))))
    response, records = send({"x.eval": path.read_bytes()})
    assert records["a", 1].expected.value == "new"
    assert any("more than once" in warning for warning in response.warnings)


def test_other_files_are_named_and_a_file_that_was_asked_for_is_refused(send, imports, tmp_path):
    files = {"x.json": log(sample()), "package.json": {"name": "x"}, "logs.txt": b"hi", "t.jsonl": b'{"a": 1}\n'}
    response, _ = send(files)
    assert sorted(response.skipped_files) == ["logs.txt", "package.json", "t.jsonl"]
    path = tmp_path / "package.json"
    path.write_text('{"name": "x"}')
    with pytest.raises(NotAnInspectLog, match="no eval with a task"):
        imports.send(path, source_kind="inspect_ai")
    with pytest.raises(MappingNotRead, match="'input'"):
        imports.send(path, source_kind="inspect_ai", mapping={"trace": {"input": "q"}})


def test_a_log_is_left_out_by_its_role_and_what_is_not_used_is_said(send):
    files = {"1.json": log(sample("a")), "2.json": log(sample("b"))}
    response, records = send(files, file_roles={"2.json": "ignore"}, adapter_profile="langfuse_trace_bundle")
    assert (response.skipped_files, list(records)) == (["2.json"], [("a", 1)])
    assert response.warnings == ["not used for inspect_ai, which names its own fields: adapter_profile"]
    with pytest.raises(RoleWithoutFile):
        send(files, file_roles={"3.json": "ignore"})


# -- damage ------------------------------------------------------------------------------------------------------------


def test_a_zip_file_of_something_else_and_one_cut_short_are_refused(send):
    with pytest.raises(NotAnInspectLog, match=r"neither header\.json nor"):
        send({"x.eval": archive({"a.csv": b"a,b\n1,2\n"})})
    whole = archive(members_of(log(sample())))
    with pytest.raises(NotAnInspectLog, match="zip"):
        send({"x.eval": whole[: len(whole) // 2]})
    with pytest.raises(NotAnInspectLog, match="zip"):
        send({"x.eval": b"no zip at all"})


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, 93])
def test_a_member_whose_bytes_rotted_is_refused(send, method):
    data = bytearray(archive(members_of(log(sample())), method))
    at = data.index(b"samples/a_epoch_1.json") + 200
    data[at] ^= 0xFF
    with pytest.raises(PackedFileDamaged, match=r"samples/a_epoch_1\.json"):
        send({"x.eval": bytes(data)})


def test_a_sample_that_is_no_json_is_damage_with_its_name(send):
    members = members_of(log(sample(), sample("b")))
    members["samples/b_epoch_1.json"] = b'{"id": "b", "epo'
    with pytest.raises(TooManyDamaged, match=r"samples/b_epoch_1\.json"):
        send({"x.eval": archive(members)})
    response, records = send({"x.eval": archive(members)}, max_damaged=1)
    assert (list(records), response.completeness, response.damaged[0].row) == ([("a", 1)], "partial", 2)
    with pytest.raises(TooManyDamaged, match="no epoch"):
        send({"x.json": log(sample(epoch=-1))})


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, 93])
def test_a_bomb_is_told_by_its_ratio(send, method, monkeypatch):
    monkeypatch.setattr(_inspect_zip, "FREE_BYTES", 1 << 20)
    honest = members_of(log(sample(metadata={"text": "\n".join(map(str, range(300_000)))})))
    send({"x.eval": archive(honest, method)})
    bomb = members_of(log(sample(metadata={"text": " " * 30_000_000})))
    with pytest.raises(UnpacksTooFar):
        send({"x.eval": archive(bomb, method)})


def test_attachments_that_would_not_fit_are_refused_and_lost_ones_told(send, monkeypatch):
    small = condensed(sample())
    lost = {**small, "attachments": {}}
    response, records = send({"x.json": log(lost)})
    assert event(records["a", 1], "m1").content.value.startswith("1+1?")
    assert event(records["a", 1], "m4").content.value.startswith("it is 2.")
    lone = {**lost, "messages": []}
    response, records = send({"x.json": log(lone)})
    assert event(records["a", 1], "m1").content.status == "unparsable"
    assert response.fields["sample.attachments"]["unknown"] > 0
    assert any("attachment that the log does not hold" in warning for warning in response.warnings)
    monkeypatch.setattr(_inspect_samples, "MAX_TRACE", 300)
    with pytest.raises(TraceTooLarge, match="sample a epoch 1"):
        send({"x.json": log(small)})


# -- masking and the dry run -------------------------------------------------------------------------------------------


def test_no_credential_of_a_message_a_call_or_an_attachment_is_stored(imports, send):
    secret, named = "sk-" + "proj4Zk9" * 6, "hunter2-and-more"
    long = f"{LONG} the key is {secret} {LONG}"
    one = sample(metadata={"password": named}, store={"api_key": secret})
    one["events"][3]["arguments"] = {"x": 1, "token": secret}
    one["messages"][0]["content"] = one["input"] = long
    for made in (archive(members_of(log(one)), 93), log(condensed(one)), log(one)):
        content = made if isinstance(made, bytes) else json.dumps(made).encode()
        send({"x.eval" if isinstance(made, bytes) else "x.json": content})
    everything = imports.every_byte()
    assert secret.encode() not in everything
    assert named.encode() not in everything


def test_a_dry_run_tells_logs_by_their_content(imports, tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "a.eval").write_bytes(archive(members_of(log(sample(), status="cancelled")), 93))
    (folder / "b.json").write_text(json.dumps(log(sample("b"))))
    response = imports.send(folder, dry_run=True)
    assert response.suggestion["fits"] == {"a.eval": "sample", "b.json": "sample"}
    assert response.message == "Logs of inspect_ai: sums (cancelled), sums (success). Send the request in next."
    again = imports.call(response.next[0].tool, **response.next[0].arguments)
    assert again.counts["samples"] == 2
