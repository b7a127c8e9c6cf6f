"""Faults of Git's history: renames, foreign commits, hooks and what a rollback leaves (A1, A2, A12, A13)."""

import os

import pytest

from operations.tuning.budget import BudgetExhausted
from operations.tuning.lifecycle import BaselineDrifted
from tests.faults.story import ALL, PROMPT, REFUNDS, Story


def move(story, content):
    """Moves the prompt, as an editor does: the old file goes, a like one comes."""
    os.remove(story.target.path("prompt.txt"))
    story.target.write("notes/prompt.txt", content)


@pytest.fixture
def moved_in_history(tmp_path):
    """A Round whose history holds a rename: the first candidate adds the copy, the second removes the original."""
    story = Story(tmp_path).open()
    story.keep(lambda: story.target.write("notes/prompt.txt", REFUNDS))
    story.keep(lambda: move(story, ALL), issue="logins")
    assert "R" in story.target.git("diff", "--name-status", "-M", story.round.baseline_commit, "HEAD")
    return story


def test_a1_rename_in_history_replays_b0_whole_and_the_final_gate_compares_against_it(moved_in_history):
    """ATK 1.0.0 listed the paths of a replay with rename detection: the old file was not put back, B0 ran without

    its prompt, every Case failed, and the final gate compared with that.
    """
    story = moved_in_history
    tree = story.tree()
    b0 = story.run(phase="final")
    assert b0.status == "sealed"
    assert story.outputs(b0.batch_id) == {
        "invoice-1": "billing",
        "crash-1": "technical",
        "refund-1": "other",
        "login-1": "other",
    }
    assert story.batch(b0.batch_id).tree == story.round.baseline_tree
    assert (story.tree(), story.dirty()) == (tree, "")
    assert not os.path.exists(story.target.path("prompt.txt"))
    assert story.target.read("notes/prompt.txt") == ALL
    now = story.side(story.round.current_revision_id, phase="final")
    final = story.compare(story.assess(b0.batch_id), now, mode="final")
    assert final.result == "pass"
    ended = story.call("finish_round", round_id=story.round_id, action="complete", reason="it passed")
    assert ended.status == "completed"


def test_a1_rename_in_history_is_rolled_back_to_exactly_the_tree_of_b0(moved_in_history):
    """ATK 1.0.0 committed a wrong tree here and stopped with GIT_OPERATION_INTERRUPTED for ever."""
    story = moved_in_history
    top = story.target.head
    made = story.call("rollback_to", round_id=story.round_id, target_commit=story.round.baseline_commit, reason="back")
    assert story.target.head == made.commit
    assert story.target.git("rev-parse", "HEAD^") == top
    assert story.tree() == story.round.baseline_tree
    assert story.dirty() == ""
    assert story.target.read("prompt.txt") == PROMPT
    assert not os.path.exists(story.target.path("notes/prompt.txt"))
    ended = story.call("finish_round", round_id=story.round_id, action="close_without_adoption", reason="all undone")
    assert ended.status == "closed_without_adoption"


def test_a2_a_rename_candidate_is_kept_by_a_commit_of_exactly_its_tree(tmp_path):
    """ATK 1.0.0 sealed it, and then keep, recover and reject all refused: the index held a rename."""
    story = Story(tmp_path).open()
    before = story.target.head
    candidate_id = story.keep(lambda: move(story, REFUNDS))
    assert story.tree() == story.candidate(candidate_id).tree
    assert story.target.git("rev-parse", "HEAD^") == before
    assert story.target.git("diff", "--no-renames", "--name-status", before, "HEAD").split() == [
        "A", "notes/prompt.txt", "D", "prompt.txt",
    ]  # fmt: skip
    assert story.dirty() == ""


def test_a2_a_rename_candidate_is_rejected_and_the_old_place_comes_back(tmp_path):
    """ATK 1.0.0 refused to reject it, since its own failed keep had left the index dirty."""
    story = Story(tmp_path).open()
    candidate_id = story.draft()
    move(story, REFUNDS)
    story.seal(candidate_id)
    story.decide(candidate_id, "reject", validation_missing_reason="the place was wrong")
    assert (story.dirty(), story.tree()) == ("", story.round.baseline_tree)
    assert story.target.read("prompt.txt") == PROMPT
    assert story.candidate(candidate_id).status == "rejected"


def test_a12_a_foreign_commit_leaves_the_round_a_way_out_and_the_next_one_open(tmp_path):
    """In ATK 1.0.0 HEAD drift refused to close, to close paused and to resume: the Round was stranded."""
    story = Story(tmp_path).open()
    candidate_id = story.draft()
    story.target.write("prompt.txt", REFUNDS)
    story.seal(candidate_id)
    story.target.write("README", "by a colleague\n")
    story.target.git("add", "README")
    story.target.git("commit", "-q", "-m", "A colleague's work")
    head = story.target.head
    with pytest.raises(BaselineDrifted) as refused:
        story.run()
    assert refused.value.next[0].tool == "finish_round"
    assert refused.value.next[0].arguments == {"round_id": story.round_id, "action": "abandon"}
    ended = story.call(**{"name": "finish_round", **refused.value.next[0].arguments, "reason": "the branch moved"})
    assert (ended.status, ended.commit) == ("abandoned", head)
    assert story.target.head == head
    assert story.target.read("prompt.txt") == REFUNDS
    assert story.target.git("rev-parse", f"refs/atk/candidates/{candidate_id}")
    story.target.git("checkout", "-q", "--", "prompt.txt")
    assert story.call("create_round", previous_round_id=story.round_id).baseline_commit == head


def test_a12_hooks_that_strip_trailers_or_refuse_and_a_missing_identity_do_not_hinder_a_keep(tmp_path):
    """ATK 1.0.0 ran the user's hooks: one that stripped its trailers moved HEAD, and nothing could proceed."""
    story = Story(tmp_path).open()
    hooks = story.target.path(".git/hooks")
    for name, body in (("commit-msg", 'sed -i /^ATK-/d "$1"'), ("pre-commit", "exit 1"), ("post-commit", "exit 1")):
        story.target.write(f".git/hooks/{name}", f"#!/bin/sh\ntouch '{hooks}/ran'\n{body}\n")
        os.chmod(os.path.join(hooks, name), 0o755)
    story.target.git("config", "--unset", "user.name")
    story.target.git("config", "--unset", "user.email")
    candidate_id = story.keep(lambda: story.target.write("prompt.txt", REFUNDS))
    assert f"ATK-Candidate: {candidate_id}" in story.target.git("log", "-1", "--format=%B")
    assert story.tree() == story.candidate(candidate_id).tree
    assert not os.path.exists(os.path.join(hooks, "ran"))


def test_a13_the_final_reserve_is_set_aside_anew_after_a_rollback(tmp_path):
    """In ATK 1.0.0 the reserve was gone once the final sides had run: after a rollback incremental runs ate all."""
    story = Story(tmp_path).open(budget={"candidates": 3, "executions": 25})
    story.keep(lambda: story.target.write("prompt.txt", REFUNDS))
    story.run(phase="final")
    story.run(story.round.current_revision_id, phase="final")
    assert story.account.reserve == 0
    story.call("rollback_to", round_id=story.round_id, target_commit=story.round.baseline_commit, reason="back")
    assert story.account.reserve == len(story.round.plan.case_ids)
    used = story.account.used
    story.run()
    assert story.account.free == 25 - used - 4 - 4
    with pytest.raises(BudgetExhausted) as refused:
        story.run()
    assert (refused.value.used, refused.value.reserve, refused.value.left) == (used + 4, 4, 1)
