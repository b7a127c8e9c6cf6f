"""Events that an agent wrote become evidence line by line, and what is wrong with one line costs no other."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operations.execution import leftovers
from operations.execution.evidence import Recorder
from operations.execution.guardian import Ended
from operations.execution.preparation import asked
from operations.trajectories import EventLog
from storage.masking import Masker

NOW = "2026-01-01T00:00:00+00:00"
COMMAND = ("agent", "{events_file}")


def write(folder, data):
    with open(os.path.join(folder, leftovers.EVENTS), "wb") as file:
        file.write(data)


def test_every_object_on_a_line_of_its_own_is_an_event(tmp_path):
    write(tmp_path, b'{"type": "tool", "n": 1}\r\n\n{"type": "end"}')
    assert leftovers.events(str(tmp_path)) == ([{"type": "tool", "n": 1}, {"type": "end"}], [])


def test_an_agent_that_wrote_no_events_has_none(tmp_path):
    assert leftovers.events(str(tmp_path)) == ([], [])


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "it is not JSON"),
        (b"[1]", "it is not an object"),
        (b"\xff", "it is not UTF-8 text"),
        (b'{"a": NaN}', "it has a number"),
        (b'{"a": "\\ud800"}', "it is not UTF-8 text"),
    ],
)
def test_a_line_that_is_no_event_becomes_a_note_with_its_number(tmp_path, line, why):
    write(tmp_path, b'{"n": 1}\n' + line + b"\n" + line + b'\n{"n": 2}\n')
    found, [note] = leftovers.events(str(tmp_path))
    assert found == [{"n": 1}, {"n": 2}]
    assert note.startswith(f"2 lines of events.jsonl are not used; the first is line 2: {why}")


def test_one_line_that_is_no_event_is_told_as_one(tmp_path):
    write(tmp_path, b"{\n")
    assert leftovers.events(str(tmp_path))[1][0].startswith(
        "1 line of events.jsonl is not used: it is line 1: it is not"
    )


def test_events_beyond_the_bound_are_left_out_and_said_to_be(tmp_path, monkeypatch):
    monkeypatch.setattr(leftovers, "EVENTS_BYTES", 20)
    write(tmp_path, b'{"n": 1}\n{"n": 2}\n{"n": 3}\n')
    found, [note] = leftovers.events(str(tmp_path))
    assert found == [{"n": 1}, {"n": 2}]
    assert "larger than 20 bytes" in note


def test_lines_beyond_the_bound_are_left_out_and_said_to_be(tmp_path, monkeypatch):
    monkeypatch.setattr(leftovers, "EVENTS_LINES", 2)
    write(tmp_path, b'{"n": 1}\n{"n": 2}\n')
    assert leftovers.events(str(tmp_path)) == ([{"n": 1}, {"n": 2}], [])
    write(tmp_path, b'{"n": 1}\n{"n": 2}\n{"n": 3}')
    found, [note] = leftovers.events(str(tmp_path))
    assert found == [{"n": 1}, {"n": 2}]
    assert note == "events.jsonl has more than 2 lines; the events after that are not used."


def test_an_event_log_of_chained_lines_is_taken_up_to_the_line_that_is_wrong(tmp_path):
    log = EventLog({"find": {}})
    log.append({"kind": "text", "role": "user", "content": {"status": "value", "value": "hello"}})
    log.end("failed", "gave up")
    lines = list(log.lines())
    write(tmp_path, b"".join(lines))
    end = {"end": {"state": "failed", "reason": "gave up", "events": 1}}
    whole = [{"format": 1, "tools": {"find": {}}}, *log, end]
    assert leftovers.events(str(tmp_path)) == (whole, [])
    write(tmp_path, b"".join(lines)[:-3])
    assert leftovers.events(str(tmp_path)) == (whole[:-1], [])
    write(tmp_path, b"".join([lines[0], lines[2]]))
    found, [note] = leftovers.events(str(tmp_path))
    assert found == whole[:1]
    assert note.startswith("events.jsonl is used up to a line that is wrong: line 2 is not what was written there")


def test_a_link_is_not_followed(tmp_path):
    os.symlink("/etc/passwd", tmp_path / leftovers.EVENTS)
    with pytest.raises(leftovers.Unusable, match="cannot be opened"):
        leftovers.events(str(tmp_path))


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_an_error(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("events")
    write(folder, data)
    found, notes = leftovers.events(str(folder))
    assert all(isinstance(event, dict) for event in found)
    assert len(notes) <= 1


def test_events_are_masked_and_become_part_of_the_record(bench):
    plan = bench.plan(COMMAND)
    folder = bench.target
    key = "sk-proj-" + "aB3" * 14
    write(folder, json.dumps({"type": "call", "arguments": f"use {key}"}).encode() + b"\n!\n")
    recorder = Recorder(plan, Masker(b"k" * 32))
    ended = Ended("exited", NOW, NOW, 1.0, exit_code=0, stdout="", stderr="")
    record = recorder.record(plan.slots[0], ended, folder)
    [event] = record.events
    assert event["type"] == "call"
    assert key not in record.model_dump_json()
    assert any("line 2" in note for note in record.notes)


def test_events_are_looked_for_only_when_the_command_asks_for_a_place(bench):
    plan = bench.plan(("agent",))
    write(bench.target, b'{"n": 1}\n')
    ended = Ended("exited", NOW, NOW, 1.0, exit_code=0, stdout="", stderr="")
    assert Recorder(plan, Masker(b"k" * 32)).record(plan.slots[0], ended, bench.target).events == ()


def test_what_a_command_asks_for_is_known():
    assert asked(COMMAND) == {"events_file"}
    assert asked(("sh", "-c", "cat {input_file} > {output_dir}/x")) == {"input_file", "output_dir"}
    assert asked(("agent", "{{events_file}}", "{{{input}}}")) == {"input"}


def test_a_collector_is_named_beside_the_figures_and_atk_itself_cannot_be(tmp_path):
    def said(text):
        (tmp_path / "metrics.json").write_text(text)
        return leftovers.metric_sources(str(tmp_path))

    assert said('{"cost": 1}') == {}
    assert said('{"cost": 1, "sources": {"cost": "billing-proxy", "x": 1}}') == {"cost": "billing-proxy"}
    for wrong in ('{"sources": []}', '{"sources": {"cost": 1}}', '{"sources": {"cost": "supervisor"}}'):
        with pytest.raises(leftovers.Unusable):
            said(wrong)
