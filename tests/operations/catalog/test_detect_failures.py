"""Failures are found in stored Records, told in pages that fit an answer, and cited by an Issue where they hold."""

import json
from typing import get_args

import pytest

from operations.catalog.trajectories.detect_failures import Name
from operations.importers import failures
from storage.schema.candidates import Issue
from tests.operations.catalog.evidence import store_batch
from tests.operations.catalog.stages import issue
from tests.support import claude_sessions
from tests.support.imports import Imports

ANSWER_BYTES = 8_000


def looped(times, text="It is not there."):
    """Returns what an agent wrote that made one call again and again."""
    events = [{"kind": "text", "role": "user", "content": "Find the fax."}]
    for number in range(times):
        call = {"call_id": f"c{number}", "name": "lookup", "arguments": {"q": "fax"}}
        events.append({"kind": "tool_call", **call})
        events.append({"kind": "tool_result", "call_id": f"c{number}", "content": "no hits"})
    return (*events, {"kind": "text", "role": "assistant", "content": text})


@pytest.fixture
def ran(at):
    """A Round, and a batch in which the odd Records have a loop."""
    target = at("opened")

    def written(record):
        return record.model_copy(update={"events": looped(3 if record.n % 2 else 1)})

    target.ids["looped_id"] = store_batch(target, target.b0, lambda case_id, _: f"{case_id} done", record=written)
    return target


def found(target, **arguments):
    answer = target.call("detect_failures", **arguments)
    assert len(json.dumps(answer.model_dump(mode="json"), ensure_ascii=False).encode()) < ANSWER_BYTES
    return answer


def test_the_tool_offers_every_detector():
    assert get_args(Name) == failures.NAMES


def test_what_is_found_names_record_events_version_and_confidence(ran):
    answer = found(ran, batch_id=ran.looped_id)
    assert answer.message == f"3 findings in 6 Records of {ran.looped_id}."
    assert answer.findings[0].model_dump() == {
        "finding_id": f"{ran.looped_id}.1/identical_loop.2/1-6",
        "record_id": f"{ran.looped_id}.1",
        "case_id": "invoice-1",
        "detector": "identical_loop",
        "rule_version": 2,
        "seqs": "1-6",
        "confidence": 1.0,
        "reason": "'lookup' was called 3 times in a row with the same arguments and outcome",
    }
    counts = {one.detector: (one.findings, one.found, one.clean, one.not_applicable) for one in answer.counts}
    assert counts["identical_loop"] == (3, 3, 3, 0)
    assert counts["unknown_tool"] == (0, 0, 0, 6)
    assert counts["budget_blowup"] == (0, 0, 0, 6)
    reasons = {one.detector: one.reason for one in answer.counts}
    assert reasons["unknown_tool"] == "nothing says which tools the agent had"
    assert reasons["budget_blowup"] == "no budget is stated"
    assert (answer.records, answer.unseen, answer.unusable, answer.next_cursor) == (6, 0, 0, None)


def test_tools_and_budget_of_the_call_are_held_against_the_logs(ran):
    given = {"batch_id": ran.looped_id, "detectors": ["unknown_tool", "malformed_call", "budget_blowup"]}
    schema = {"type": "object", "properties": {"q": {"type": "integer"}}}
    answer = found(ran, **given, tools={"lookup": schema}, max_calls=2)
    named = [(f.detector, f.record_id.rpartition(".")[2], f.seqs, f.finding_id is None) for f in answer.findings[:5]]
    assert named == [
        ("malformed_call", "1", "1-2", True),
        ("malformed_call", "1", "3-4", True),
        ("malformed_call", "1", "5-6", True),
        ("budget_blowup", "1", "5", False),
        ("malformed_call", "2", "1-2", True),
    ]
    unknown = found(ran, **given, tools={})
    assert {f.detector for f in unknown.findings} == {"unknown_tool"}


def test_pages_go_through_every_finding_once(ran):
    whole = found(ran, batch_id=ran.looped_id, tools={}, limit=50)
    shown, cursor, pages = [], None, 0
    while pages == 0 or cursor:
        answer = found(ran, batch_id=ran.looped_id, tools={}, limit=4, **({"cursor": cursor} if cursor else {}))
        assert bool(answer.counts) is (pages == 0)
        shown += [(f.record_id, f.detector, f.seqs) for f in answer.findings]
        cursor, pages = answer.next_cursor, pages + 1
    assert shown == [(f.record_id, f.detector, f.seqs) for f in whole.findings]
    assert len(shown) == len(set(shown)) > 4
    assert whole.next_cursor is None


def test_records_and_selections_are_looked_at_alone(ran):
    some = [f"{ran.looped_id}.{n}" for n in (3, 4)]
    answer = found(ran, record_ids=some)
    assert (answer.records, [f.record_id for f in answer.findings]) == (2, some[:1])
    chosen = ran.call("find_records", batch_id=ran.looped_id, ids=some, ids_are="record", store_selection=True)
    assert found(ran, selection_id=chosen.selection_id).findings == answer.findings


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({}, "batch_or_selection"),
        ({"batch_id": "batch-1-none"}, "unknown_object"),
        ({"record_ids": ["batch-1-none.1"]}, "unknown_object"),
        ({"record_ids": ["x"]}, "unknown_object"),
        ({"record_ids": ["{looped}.1", "{looped}.99"]}, "unknown_object"),
        ({"record_ids": ["{looped}.1", "batch-1-none.1"]}, "batch_or_selection"),
        ({"batch_id": "{looped}", "cursor": "4"}, "bad_cursor"),
        ({"batch_id": "{looped}", "cursor": "0.4"}, "bad_cursor"),
        ({"batch_id": "{looped}", "cursor": "6.1"}, "bad_cursor"),
    ],
)
def test_what_cannot_be_looked_at_is_refused_and_leads_on(ran, arguments, code):
    filled = json.loads(json.dumps(arguments).replace("{looped}", ran.looped_id))
    error = ran.refusal("detect_failures", **filled)
    assert error.code == code
    assert error.next


def test_an_issue_cites_findings_that_hold(ran):
    finding = found(ran, batch_id=ran.looped_id).findings[0].finding_id
    over = (
        found(ran, record_ids=[f"{ran.looped_id}.1"], detectors=["budget_blowup"], max_calls=1).findings[0].finding_id
    )
    assert over == f"{ran.looped_id}.1/budget_blowup.1/3-5/calls=1"
    refs = [{"batch_id": ran.looped_id, "evidence_id": one} for one in (finding, over, f"{ran.looped_id}.2")]
    made = ran.call("store_diagnosis", round_id=ran.round_id, issues=[issue("loops", "refund-1", evidence_refs=refs)])
    stored = ran.state.get(Issue, made.issue_id)
    assert [(r.evidence_id, r.finding) for r in stored.evidence_refs] == [
        (f"{ran.looped_id}.1", "identical_loop.2/1-6"),
        (f"{ran.looped_id}.1", "budget_blowup.1/3-5/calls=1"),
        (f"{ran.looped_id}.2", None),
    ]


@pytest.mark.parametrize(
    ("finding", "what_holds"),
    [
        ("{id}.1/identical_loop.2/1-4", "it has identical_loop.2/1-6"),
        ("{id}.1/identical_loop.1/1-6", "it has identical_loop.2/1-6"),
        ("{id}.2/identical_loop.2/1-6", "identical_loop, version 2, finds nothing in it"),
        ("{id}.1/unknown_tool.1/1-2", "cannot tell, since nothing says which tools the agent had"),
        ("{id}.1/budget_blowup.1/5-5/calls=9", "budget_blowup, version 1, finds nothing in it"),
        ("{id}.1/budget_blowup.1/5-5", "cannot tell, since no budget is stated"),
        ("{id}.1/it was bad", "a finding is named DETECTOR.VERSION/FIRST-LAST"),
        ("{id}.1/", "a finding is named DETECTOR.VERSION/FIRST-LAST"),
        ("{id}.99/identical_loop.2/1-6", "has no such Record"),
    ],
)
def test_a_finding_that_does_not_hold_is_refused_with_what_does(ran, finding, what_holds):
    before = ran.facts()
    ref = {"batch_id": ran.looped_id, "evidence_id": finding.format(id=ran.looped_id)}
    claims = [
        {"evidence_refs": [ref]},
        {"mechanism_evidence_refs": [ref]},
        {"checks": [{"description": "c", "status": "inconclusive", "evidence_refs": [ref]}]},
    ]
    for claim in claims:
        error = ran.refusal("store_diagnosis", round_id=ran.round_id, issues=[issue("loops", "refund-1", **claim)])
        assert error.code == "diagnosis_refused"
        assert error.facts["field"] == "evidence_refs"
        assert what_holds in str(error)
    assert ran.changed_since(before) == []


def test_imported_sessions_are_looked_at_with_the_input_and_output_that_the_export_states(tmp_path):
    imports = Imports(tmp_path / "project")
    lines = claude_sessions.usual()
    path = tmp_path / "session.jsonl"
    path.write_bytes(lines.bytes())
    batch_id = imports.send(path, source_kind="claude_code").batch_id
    answer = imports.call("detect_failures", batch_id=batch_id)
    assert answer.records == 1
    assert {one.detector: one.clean for one in answer.counts}["identical_loop"] == 1


def test_nothing_is_quoted_of_a_record_that_holds_what_is_masked_by_now(ran):
    key = "sk-ant-api03-" + "aB3dE5fG7h" * 9
    events = tuple({**e, "name": f"a tool with a name that hides {key}"} if e.get("name") else e for e in looped(3))
    batch_id = store_batch(
        ran, ran.b0, lambda case_id, _: case_id, record=lambda made: made.model_copy(update={"events": events})
    )
    reasons = {f.reason for f in found(ran, batch_id=batch_id, detectors=["identical_loop"]).findings}
    assert reasons == {"The Record holds what is masked by now, so nothing of it is quoted."}
