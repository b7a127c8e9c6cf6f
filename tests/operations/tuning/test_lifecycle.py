"""Each step is open in the states that allow it, and every refusal says which those are."""

import pytest

from operations.tuning import lifecycle
from storage.schema.candidates import Candidate
from storage.schema.rounds import ACTIVE, CLOSED, Plan, Round

STATUSES = ("analysis_only", *sorted(ACTIVE), *sorted(CLOSED))


def a_round(status="optimizing", pending=None, plan=None):
    return Round.model_construct(
        id="round-1-r", status=status, pending_candidate_id=pending, plan=plan, current_commit="a" * 40, branch="main"
    )


def a_candidate(status="draft", name="candidate-1-c", round_id="round-1-r"):
    return Candidate.model_construct(id=name, round_id=round_id, status=status)


@pytest.mark.parametrize("status", STATUSES)
def test_step_is_refused_in_every_other_state(status):
    if status in ("ready", "optimizing"):
        lifecycle.require_status(a_round(status), "a step", "ready", "optimizing")
        return
    with pytest.raises(lifecycle.WrongRoundStatus) as refused:
        lifecycle.require_status(a_round(status), "a step", "ready", "optimizing")

    facts = refused.value.facts
    assert (facts["status"], facts["step"], facts["needed"]) == (status, "a step", ["optimizing", "ready"])
    assert str(refused.value).endswith(f": {facts['way_on']}.")
    assert ("over" in facts["way_on"]) == (status in CLOSED)


@pytest.mark.parametrize("status", STATUSES)
def test_only_an_active_round_bars_another(status):
    if status in ACTIVE:
        with pytest.raises(lifecycle.AnotherRoundActive):
            lifecycle.require_no_active([a_round("completed"), a_round(status)])
    else:
        lifecycle.require_no_active([a_round(status)])


@pytest.mark.parametrize(
    ("candidate", "needed"),
    [
        (a_candidate(name="candidate-2-c"), "the pending candidate of round-1-r"),
        (a_candidate(round_id="round-2-r"), "the pending candidate of round-1-r"),
        (a_candidate("sealed"), "a draft candidate"),
    ],
)
def test_step_is_for_the_pending_candidate_in_its_state(candidate, needed):
    value = a_round(pending="candidate-1-c")
    lifecycle.require_pending(value, a_candidate(), "a step", "draft")

    with pytest.raises(lifecycle.WrongCandidate) as refused:
        lifecycle.require_pending(value, candidate, "a step", "draft")

    assert refused.value.needed == needed


@pytest.mark.parametrize(("head", "branch"), [("b" * 40, "main"), ("a" * 40, "other"), ("a" * 40, None)])
def test_moved_head_or_branch_leads_to_abandoning(head, branch):
    lifecycle.require_at(a_round(), head="a" * 40, branch="main")

    with pytest.raises(lifecycle.BaselineDrifted) as refused:
        lifecycle.require_at(a_round(), head=head, branch=branch)

    assert refused.value.next[0].arguments == {"round_id": "round-1-r", "action": "abandon"}


def test_plan_is_needed_and_its_lack_explained():
    plan = Plan.model_construct()
    assert lifecycle.plan_of(a_round(plan=plan), "a step") is plan

    with pytest.raises(lifecycle.WrongRoundStatus) as refused:
        lifecycle.plan_of(a_round("analysis_only"), "a step")
    assert "freeze_round" in refused.value.way_on


@pytest.mark.parametrize(
    ("found", "error", "paths"),
    [
        ({"in.txt": "new", "b.txt": "changed"}, lifecycle.FilesInTheWay, ["b.txt", "in.txt"]),
        ({"in.txt": "new", "outside.txt": "new"}, lifecycle.SurroundingsChanged, ["outside.txt"]),
        ({"frozen.txt": "changed"}, lifecycle.SurroundingsChanged, ["frozen.txt"]),
    ],
)
def test_differing_files_are_told_apart_by_whose_they_are(found, error, paths):
    with pytest.raises(error) as refused:
        lifecycle.require_clean(a_round(), found, {"frozen.txt"}, lambda path: path != "outside.txt")

    assert refused.value.paths == paths
    lifecycle.require_clean(a_round(), {}, {"frozen.txt"}, lambda _: True)


def test_paths_are_told_by_what_became_of_them_and_counted_beyond_eight():
    found = {"rows.jsonl": "new", "notes.md": "gone", **{f"f{n}.txt": "changed" for n in range(10)}}

    with pytest.raises(lifecycle.SurroundingsChanged) as refused:
        lifecycle.require_clean(a_round(), found, set(), lambda _: False)

    text = str(refused.value)
    assert "new: rows.jsonl; changed: f0.txt," in text
    assert "and 2 more; gone: notes.md" in text
    assert "outside the project" in text


def test_changes_within_an_open_round_are_led_to_a_draft_and_not_to_an_adoption():
    with pytest.raises(lifecycle.FilesInTheWay) as refused:
        lifecycle.require_clean(a_round(), {"in.txt": "changed"}, set(), lambda _: True)

    assert "git stash pop" in str(refused.value)
    assert [call.tool for call in refused.value.next] == ["get_status"]


@pytest.mark.parametrize(
    ("status", "tool", "words"),
    [("draft", "seal_candidate", "Seal it first"), ("sealed", "decide_candidate", "validation_missing_reason")],
)
def test_an_undecided_candidate_is_led_to_its_decision(status, tool, words):
    candidate = Candidate.model_construct(id="candidate-2-c", status=status)

    with pytest.raises(lifecycle.CandidatePending) as refused:
        lifecycle.require_nothing_pending(a_round(), candidate, "a step")

    assert words in str(refused.value)
    assert tool in [call.tool for call in refused.value.next]
