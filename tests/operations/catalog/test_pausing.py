"""A Round rests and goes on: what was being edited is put away and comes back byte for byte, or nothing is touched."""

import os
import stat

import pytest

from operations.definition import Effect
from operations.registry import all_operations
from operations.tuning.lifecycle import FOLLOWS, WHILE_PAUSED
from storage.schema.candidates import Candidate
from storage.schema.rounds import CLOSED, Round
from tests.operations.catalog.stages import issue, tree_of
from tests.support.projects import FIX, PROMPT


def move(target, action, **more):
    return target.call("transition_round", round_id=target.round_id, action=action, reason="because", **more)


def files(target):
    return tree_of(target.root, skip=(".git", ".atk"))


def edit(target):
    """Leaves edits of every kind in the draft: text, binary, executable, linked, deleted, without a last line's end."""
    target.write("prompt.txt", FIX.rstrip("\n"))
    target.write("notes/picture", bytes(range(256)))
    target.write("notes/run.sh", "#!/bin/sh\n")
    os.chmod(target.path("notes/run.sh"), stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
    os.symlink("run.sh", target.path("notes/link"))


@pytest.mark.parametrize("stage", ["drafted", "sealed"])
def test_paused_candidate_is_put_away_and_comes_back_byte_for_byte(at, stage):
    target = at(stage)
    if stage == "drafted":
        edit(target)
    before, head = files(target), target.head

    paused = move(target, "pause")

    assert (paused.status, paused.from_status, target.round.status) == ("paused", "optimizing", "paused")
    assert target.read("prompt.txt") == PROMPT
    assert target.git("status", "--porcelain") == ""
    assert target.git("show", f"{paused.held_as}:prompt.txt") == FIX.rstrip("\n")

    resumed = move(target, "resume")

    assert (resumed.status, target.round.status, target.round.pause) == ("optimizing", "optimizing", None)
    assert files(target) == before
    assert target.head == head
    assert [t.action for t in target.round.transitions] == ["pause", "resume"]
    if stage == "drafted":
        target.seal()


def test_bytes_that_git_would_convert_come_back_as_they_were(at):
    target = at("frozen")
    target.write(".git/info/attributes", "*.txt text eol=lf\n")
    target.call("prepare_candidate", round_id=target.round_id, primary_issue_id=target.issue_id)
    target.write("prompt.txt", FIX.replace("\n", "\r\n"))
    before = files(target)

    paused = move(target, "pause")
    move(target, "resume")

    assert files(target) == before
    assert paused.changed_paths == ["prompt.txt"]


def test_paused_round_runs_and_decides_nothing_and_says_how_it_goes_on(at):
    target = at("compared")
    move(target, "pause")
    named = {"round_id": target.round_id}
    one = {**named, "candidate_id": target.candidate_id}
    both = {"left_assessment_id": target.left_assessment_id, "right_assessment_id": target.right_assessment_id}
    calls = {
        "run_evaluation": {**named, "revision_id": target.b0},
        "prepare_candidate": {**named, "primary_issue_id": target.issue_id},
        "seal_candidate": one,
        "cancel_draft": {**one, "reason": "x"},
        "decide_candidate": {**one, "action": "keep", "reason": "x"},
        "compare_and_gate": {**named, "mode": "incremental", **both},
        "rollback_to": {**named, "target_commit": target.head, "reason": "x"},
        "finish_round": {**named, "action": "close_without_adoption", "reason": "x"},
        "freeze_round": named,
        "transition_round": {**named, "action": "pause", "reason": "x"},
        "next_judgements": named,
        "store_diagnosis": {**named, "issues": [issue("more", "refund-1")]},
        "diagnostic_probe": {**named, "probe_authorization_id": "any", "question": "x"},
        "validate_external_fix": {**named, "assessment_id": target.left_assessment_id},
    }
    of_a_round = {
        name
        for name, operation in all_operations().items()
        if "round_id" in operation.request.model_fields and operation.effect is not Effect.READ
    }
    assert of_a_round - set(calls) <= WHILE_PAUSED
    before = target.facts()
    for tool, arguments in calls.items():
        error = target.refusal(tool, **arguments)
        assert error.code == "wrong_round_status", tool
        assert error.next[0].arguments == {**named, "action": "resume"}, tool
    assert not target.changed_since(before)
    status = target.call("get_status")
    assert status.next[0].tool == "transition_round"
    assert status.round["paused"]["from_status"] == "optimizing"


def test_another_round_goes_through_while_one_is_paused_and_the_paused_one_refuses_the_moved_branch(at):
    target = at("drafted")
    held = move(target, "pause").held_as
    second = target.call("create_round")
    target.call("finish_round", round_id=second.round_id, action="close_without_adoption", reason="nothing came of it")
    target.write("other.txt", "somebody else's\n")
    target.git("add", "other.txt")
    target.git("commit", "-q", "-m", "A commit of the user's")
    before = target.facts()

    error = target.refusal("transition_round", round_id=target.round_id, action="resume", reason="x")

    assert error.code == "baseline_drifted"
    assert not target.changed_since(before)
    ended = target.call("finish_round", round_id=target.round_id, action="abandon", reason="the branch moved")
    assert ended.status == "abandoned"
    assert held in ended.warnings[0]
    assert target.git("show", f"{held}:prompt.txt") == FIX.rstrip("\n")
    assert target.state.get(Candidate, target.candidate_id).status == "cancelled"


def test_resume_waits_until_no_other_round_is_active(at):
    target = at("drafted")
    move(target, "pause")
    second = target.call("create_round").round_id
    issue = {"id": "again", "symptom": "s", "hypothesis": "h", "case_ids": ["refund-1", "refund-2"]}
    target.call("store_diagnosis", round_id=second, issues=[issue])
    plan = {"repeatability": "deterministic", "spec_id": target.spec_id, "judger_id": target.judger_id}
    target.call("freeze_round", round_id=second, plan={**plan, "dataset_id": target.dataset_id})

    error = target.refusal("transition_round", round_id=target.round_id, action="resume", reason="x")

    assert (error.code, error.facts["round_id"]) == ("another_round_active", second)
    move_second = target.call("transition_round", round_id=second, action="pause", reason="x")
    assert move_second.held_as is None
    assert move(target, "resume").status == "optimizing"


def test_configuration_that_changed_meanwhile_is_refused_until_it_is_put_back(at):
    target = at("frozen")
    move(target, "pause")
    usual = {
        "command": ["sh", "agent.sh", "{input_file}"],
        "components": [
            {"component_id": "prompt", "role": "prompt", "change_role": "variable", "source_path": "prompt.txt"}
        ],
        "protected_paths": ["agent.sh"],
        "revise": True,
    }
    target.initialize(**{**usual, "command": ["sh", "agent.sh", "{input_file}", "new"]})

    error = target.refusal("transition_round", round_id=target.round_id, action="resume", reason="x")

    assert (error.code, error.facts["field"]) == ("configuration_moved", "run_config_digest")
    target.initialize(**usual)
    assert move(target, "resume").status == "ready"


@pytest.mark.parametrize("how", ["in the scope", "around it"])
def test_files_made_while_it_rested_are_named_and_left_alone(at, how):
    target = at("drafted")
    move(target, "pause")
    name, code = ("prompt.txt", "files_in_the_way") if how == "in the scope" else ("stray.txt", "surroundings_changed")
    target.write(name, "mine\n")

    error = target.refusal("transition_round", round_id=target.round_id, action="resume", reason="x")

    assert (error.code, error.facts["paths"]) == (code, [name])
    assert target.read(name) == "mine\n"
    target.git("checkout", "-q", "prompt.txt") if how == "in the scope" else os.remove(target.path(name))
    move(target, "resume")
    assert target.read("prompt.txt") == FIX


def test_finalizing_is_asked_for_once_something_is_kept_and_ends_the_preparing(at):
    nothing, pending, kept = at("frozen", "a"), at("sealed", "b"), at("kept", "c")
    ask = {"action": "start_finalizing", "reason": "x"}
    assert nothing.refusal("transition_round", round_id=nothing.round_id, **ask).code == "nothing_to_validate"
    assert pending.refusal("transition_round", round_id=pending.round_id, **ask).code == "candidate_pending"

    assert move(kept, "start_finalizing").status == "finalizing"
    assert move(kept, "start_finalizing").status == "finalizing"

    assert len(kept.round.transitions) == 1, "asked for again it is no step"
    again = {"round_id": kept.round_id, "primary_issue_id": kept.other_issue_id}
    assert kept.refusal("prepare_candidate", **again).code == "wrong_round_status"
    kept.call("rollback_to", round_id=kept.round_id, target_commit=kept.round.baseline_commit, reason="x")
    assert kept.round.status == "optimizing"


def test_a_round_without_a_plan_rests_too(at):
    target = at("diagnosed")
    move(target, "pause")
    assert move(target, "resume").status == "analysis_only"


def test_every_state_has_a_way_out_and_what_is_over_has_none():
    statuses = set(Round.model_fields["status"].annotation.__args__)
    assert set(FOLLOWS) == statuses - CLOSED
    assert all("abandoned" in after for after in FOLLOWS.values())
