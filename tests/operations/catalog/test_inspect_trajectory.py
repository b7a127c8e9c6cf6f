"""A trajectory is read in pieces that fit an answer, filtered, with its metrics, and event by event as it is."""

import json
import sys

import pytest

from operations.importers.batches import evidence_of
from operations.importers.event_logs import log_of
from operations.trajectories.metrics.registry import METRICS
from storage.errors import AtkError
from tests.support import claude_sessions
from tests.support.claude_sessions import text, tool_use
from tests.support.imports import Imports
from tests.support.projects import Target

ANSWER_BYTES = 8_000
SECRET = "ghp_Planted0123456789abcdefghijkl"
AGENT = """
import sys
from operations.trajectories import LogWriter, content
with open(sys.argv[1], "wb") as file:
    log = LogWriter(file.write, {"find": {"parameters": {"required": ["q"]}}})
    for call_id in "ab":
        arguments = content({"q": "ghp_" + sys.argv[2]})
        log.append({"kind": "tool_call", "call_id": call_id, "name": "find", "arguments": arguments})
    for call_id in "ba":
        log.append({"kind": "tool_result", "call_id": call_id, "content": content("of " + call_id)})
    log.end("failed", "gave up")
"""
PLAIN = """
import json, sys
with open(sys.argv[1], "w") as file:
    for event in ({"kind": "tool_call", "name": "find", "arguments": {}}, {"kind": "text", "content": "no role"}):
        file.write(json.dumps(event) + chr(10))
"""


@pytest.fixture
def imports(tmp_path):
    return Imports(tmp_path / "project")


def sent(imports, tmp_path, session):
    path = tmp_path / "session.jsonl"
    path.write_bytes(session.bytes())
    return f"{imports.send(path, source_kind='claude_code').batch_id}.1"


def shown(imports, **arguments):
    answer = imports.call("inspect_trajectory", **arguments)
    assert len(json.dumps(answer.model_dump(mode="json"), ensure_ascii=False).encode()) < ANSWER_BYTES
    return answer


def test_the_first_answer_has_events_metrics_and_integrity(imports, tmp_path):
    record_id = sent(imports, tmp_path, claude_sessions.usual())
    answer = shown(imports, record_id=record_id)
    assert answer.message == f"{record_id} completed: {answer.event_count} events."
    assert [(e.seq, e.kind, e.name, e.evidence) for e in answer.events[2:7]] == [
        (2, "reasoning", None, "Look first."),
        (3, "text", "assistant", "I will look."),
        (4, "tool_call", "Read", '{"file_path": "/home/me/repo/a.py"}'),
        (5, "tool_call", "Bash", '{"command": "pytest"}'),
        (6, "tool_result", "Read", "print(1)"),
    ]
    assert answer.events[7].error == "tool: 1 failed"
    assert (answer.tier, answer.next_cursor) == ("light", None)
    assert answer.tier_reason.startswith("events 2, 3, 4, 5")
    assert {**answer.metrics, **answer.metrics_unknown}.keys() == METRICS.keys()
    assert (answer.metrics["failed_call_rate"], answer.metrics["tool_calls"]) == (0.5, 2)
    assert answer.metrics_unknown["valid_argument_rate"] == "of no call both arguments and schema are known"
    log = log_of(imports.raw(record_id.rpartition(".")[0])[0])
    assert answer.integrity.model_dump() == {
        "sha256": log.digest(),
        "open_calls": 0,
        "unpaired_results": 0,
        "parents_outside": 0,
        "marked_fields": 0,
    }


def test_a_long_trajectory_comes_in_pages_that_fit_and_miss_nothing(imports, tmp_path):
    session = claude_sessions.Session()
    session.ask("Do it. " * 400)
    for n in range(20):
        session.answer(text(f'é\x1b"{n}' * 100), tool_use(f"call-{n}", "T" * 300, {"q": "\\" * 500}))
        session.result(f"call-{n}", "é" * 3000, is_error=bool(n % 2))
    record_id = sent(imports, tmp_path, session)
    answer = shown(imports, record_id=record_id)
    seen, pages = [e.seq for e in answer.events], 1
    while answer.next_cursor:
        step = next(one for one in answer.next if "cursor" in one.arguments)
        answer = shown(imports, **step.arguments)
        seen, pages = [*seen, *(e.seq for e in answer.events)], pages + 1
    assert seen == list(range(answer.event_count))
    assert pages > 3
    assert (answer.metrics, answer.integrity) == ({}, None)


def test_filters_choose_by_kind_turn_and_number(imports, tmp_path):
    session = claude_sessions.usual()
    session.ask("And now?")
    session.answer(text("Nothing."))
    record_id = sent(imports, tmp_path, session)

    def seqs(**given):
        answer = shown(imports, record_id=record_id, **given)
        assert answer.matched == len(answer.events)
        return [e.seq for e in answer.events]

    assert seqs(kinds=["tool_call", "reasoning"]) == [2, 4, 5]
    assert seqs(from_seq=2, to_seq=4) == [2, 3, 4]
    assert seqs(turn=1, kinds=["text"], from_seq=1) == [e for e in seqs(turn=1) if e in seqs(kinds=["text"])] != []
    assert seqs(turn=99) == []


def test_one_event_is_shown_whole_and_its_long_content_in_pieces(imports, tmp_path):
    session = claude_sessions.Session()
    session.ask("x")
    session.answer(tool_use("c", "Read", {"path": "a"}))
    session.result("c", "line\n" * 5000)
    record_id = sent(imports, tmp_path, session)
    (found,) = shown(imports, record_id=record_id, kinds=["tool_result"]).events
    whole = shown(imports, record_id=record_id, seq=found.seq)
    assert (whole.event["call_id"], whole.event["name"]) == ("c", "Read")
    pieces, step = [], {"record_id": record_id, "seq": found.seq, "field": "content.value"}
    while step:
        answer = shown(imports, **step)
        pieces.append(answer.event)
        step = answer.next[0].arguments if answer.next else None
    assert "".join(pieces) == "line\n" * 5000


def test_tools_and_a_reference_of_the_clients_are_taken_into_the_metrics(imports, tmp_path):
    record_id = sent(imports, tmp_path, claude_sessions.usual())
    tools = {"Read": {"type": "object", "required": ["file_path"]}, "Bash": {"required": ["cwd"]}}
    answer = shown(imports, record_id=record_id, tools=tools, reference=["Bash"])
    found = {
        name: answer.metrics[name] for name in ("valid_argument_rate", "unknown_tool_rate", "tool_sequence_distance")
    }
    assert found == {"valid_argument_rate": 0.5, "unknown_tool_rate": 0.0, "tool_sequence_distance": 1}


def ran(root, agent):
    """Runs an agent on one Case. Returns its Record and its trajectory."""
    target = Target(root, initialize=False)
    target.initialize(command=[sys.executable, "-c", agent, "{events_file}", SECRET[4:]], components=[])
    target.write_cases([("c1", "go", "x")])
    target.store_cases()
    batch_id = target.call("run_evaluation", revision_commit=target.head, wait_seconds=100).batch_id
    (record,) = evidence_of(target.project, target.state, batch_id).records()
    return record, target.call("inspect_trajectory", record_id=record["id"])


def test_a_line_that_is_no_event_of_the_kind_that_it_says_says_why(tmp_path):
    _, answer = ran(tmp_path / "target", PLAIN)
    assert [(e.kind, e.name, e.error) for e in answer.events] == [
        ("tool_call", "find", None),
        ("observation", "text", "the event, a text, lacks role"),
    ]


def test_a_log_that_an_agent_wrote_in_a_run_is_verified_masked_kept_and_shown(tmp_path):
    record, answer = ran(tmp_path / "target", AGENT)
    assert (answer.state, answer.end_reason, record["notes"]) == ("failed", "gave up", [])
    assert [(e.kind, e.call_id) for e in answer.events] == [
        ("tool_call", "a"),
        ("tool_call", "b"),
        ("tool_result", "b"),
        ("tool_result", "a"),
    ]
    assert (answer.metrics["valid_argument_rate"], answer.metrics["duplicate_call_rate"]) == (1.0, 0.5)
    assert answer.integrity.open_calls == 0
    assert SECRET not in json.dumps([record, answer.model_dump(mode="json")])


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"seq": 99}, "no_such_event"),
        ({"seq": 0, "field": "nothing"}, "no_such_field"),
        ({"field": "content.value"}, "field_of_no_event"),
        ({"cursor": "99"}, "bad_cursor"),
        ({"cursor": "x"}, "bad_cursor"),
        ({"seq": 0, "cursor": "99"}, "bad_cursor"),
        ({"record_id": "batch-1-none.1"}, "unknown_object"),
        ({"record_id": "import-1-none.x"}, "unknown_object"),
    ],
)
def test_what_is_not_there_is_refused(imports, tmp_path, arguments, code):
    record_id = sent(imports, tmp_path, claude_sessions.usual())
    with pytest.raises(AtkError) as refused:
        imports.call("inspect_trajectory", **{"record_id": record_id, **arguments})
    assert refused.value.code == code
    if code == "bad_cursor":
        assert [call.tool for call in refused.value.next] == ["inspect_trajectory"]


@pytest.mark.parametrize(
    "filters", [{"kinds": ["tool_call"]}, {"turn": 7}, {"from_seq": 3}, {"to_seq": 0}, {"turn": 0, "to_seq": 5}]
)
def test_one_event_and_filters_are_refused_together_and_the_event_alone_leads_on(imports, tmp_path, filters):
    record_id = sent(imports, tmp_path, claude_sessions.usual())
    asked = {"record_id": record_id, "seq": 1, "field": "kind"}
    with pytest.raises(AtkError) as refused:
        imports.call("inspect_trajectory", **asked, **filters)
    assert (refused.value.code, refused.value.filters) == ("filters_of_one_event", list(filters))
    (leads,) = refused.value.next
    assert (leads.tool, leads.arguments) == ("inspect_trajectory", asked)
    assert imports.call(leads.tool, **leads.arguments).event == "observation"
