"""What others have to repair blocks a fix; a workaround may be kept in its place, by a passing Validation alone."""

import pytest

from operations.tuning.blocking import BlockedByIssue, require_unblocked
from operations.verification import verify
from storage.schema.candidates import Candidate, Issue
from tests.operations.catalog.stages import AUTHORIZED, issue
from tests.support.projects import FIX, PROMPT

HANDOFF = {
    "disposition": "external_handoff",
    "handoff": {"trigger_input": "a refund", "expected": "billing", "actual": "other"},
}


@pytest.fixture
def target(at):
    """A frozen Round with one Issue for a candidate and one that was handed over."""
    target = at("frozen")
    made = target.call("store_diagnosis", round_id=target.round_id, issues=[issue("index", "refund-1", **HANDOFF)])
    target.ids["blocker"] = made.issue_ids["index"]
    return target


def prepared(target, text=FIX, **more):
    made = target.call("prepare_candidate", round_id=target.round_id, primary_issue_id=target.issue_id, **more)
    target.ids["candidate_id"] = made.candidate_id
    target.write("prompt.txt", text)
    target.seal()
    target.ids["left_batch_id"], target.ids["left_assessment_id"] = target.run(target.b0)
    target.ids["right_batch_id"], target.ids["right_assessment_id"] = target.run(target.revision_id)
    return target.compare().result


def test_blocked_fix_is_not_kept_even_where_it_passes_and_can_be_deferred(target):
    assert prepared(target, blocked_by_issue_ids=[target.blocker]) == "pass"

    named = {"round_id": target.round_id, "candidate_id": target.candidate_id, "reason": "x"}
    error = target.refusal("decide_candidate", **named, action="keep")

    assert (error.code, error.facts["blockers"]) == ("blocked_by_issue", [target.blocker])
    assert error.next[0].arguments["action"] == "defer"
    assert target.decide("defer").action == "defer"


def test_workaround_that_passes_is_kept_and_stays_named_as_one(target):
    assert prepared(target, blocked_by_issue_ids=[target.blocker], change_kind="workaround") == "pass"

    target.decide("keep")

    kept = target.state.get(Candidate, target.candidate_id)
    assert (kept.status, kept.change_kind, kept.blocked_by_issue_ids) == ("accepted", "workaround", (target.blocker,))
    assert verify(target.project).findings == []


def test_workaround_that_does_not_pass_is_not_kept_by_an_override(target):
    how = {"blocked_by_issue_ids": [target.blocker], "change_kind": "workaround"}
    assert prepared(target, PROMPT + "nothing -> other\n", **how) == "no_effect"

    error = target.refusal(
        "decide_candidate",
        round_id=target.round_id,
        candidate_id=target.candidate_id,
        action="keep",
        reason="x",
        override=True,
        override_authorization={**AUTHORIZED, "action": "trial_commit"},
    )

    assert error.code == "blocked_by_issue"
    assert "no override" in error.facts["problem"]


def test_what_blocks_has_to_be_handed_over_and_a_workaround_goes_around_something(target):
    begin = {"round_id": target.round_id, "primary_issue_id": target.issue_id}
    for more in ({"blocked_by_issue_ids": [target.other_issue_id]}, {"change_kind": "workaround"}):
        error = target.refusal("prepare_candidate", **begin, **more)
        assert (error.code, error.next[0].tool) == ("blockers_unfounded", "prepare_candidate")


def test_blocker_that_was_repaired_blocks_no_more(target):
    made = target.call("prepare_candidate", round_id=target.round_id, primary_issue_id=target.issue_id)
    candidate = target.state.get(Candidate, made.candidate_id)
    blocked = candidate.model_copy(update={"blocked_by_issue_ids": (target.blocker,)})
    stands = target.state.get(Issue, target.blocker)

    with pytest.raises(BlockedByIssue):
        require_unblocked(blocked, [stands], "pass")
    require_unblocked(blocked, [stands.model_copy(update={"resolution": "resolved"})], "pass")
