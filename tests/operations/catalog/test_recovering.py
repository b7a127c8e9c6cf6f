"""What a dead process, a cleaning Git or an old copy of the store left is told, with what became of it."""

import os
import shutil

import pytest

from operations.health import examine
from storage import effects
from storage.worktree import ready
from tests.support.projects import call_of
from tests.support.rounds import Answered


def left_open(target, *steps):
    """Announces an effect as a process does that is killed then. Returns the record's number."""
    with target.project.transaction(call_of("decide_candidate")) as tx:
        pending = tx.intend(steps, Answered(), claims=["worktree"])
    pending.owner.release()
    return pending.number


def test_an_effect_that_is_finished_is_told_as_carried_out(at):
    target = at("initialized")
    number = left_open(target, effects.hold("refs/atk/candidates/candidate-1-test", target.head))

    told = target.call("inspect_or_recover_operation").message

    assert told == f"Of 1 open operation, 1 settled. decide_candidate (record {number}) is carried out."
    assert target.git("rev-parse", "refs/atk/candidates/candidate-1-test").strip() == target.head


def test_an_effect_that_is_undone_is_told_as_taken_back_with_the_reason(at):
    target = at("initialized")
    with target.project.git() as git:
        head = ready(git)
    made = target.git("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "To be kept").strip()
    number = left_open(target, effects.publish(head, made, []))
    target.git("commit", "-q", "--allow-empty", "-m", "Mine in between")

    told = target.call("inspect_or_recover_operation").message

    moved = f"HEAD was refs/heads/main at {head.commit[:12]} and is now refs/heads/main at {target.head[:12]}"
    assert told.startswith(f"Of 1 open operation, 1 settled. decide_candidate (record {number}) is taken back: {moved}")
    assert target.head not in (head.commit, made)


def test_an_effect_that_is_closed_as_it_is_is_told_so(at):
    target = at("initialized")
    number = left_open(target, effects.hold("refs/atk/candidates/candidate-1-test", target.head))

    told = target.call("inspect_or_recover_operation", operation_id=number, leave_as_is=True, reason="not wanted")

    assert told.message == (
        f"Of 1 open operation, 1 settled. decide_candidate (record {number}) is closed with every file as it was: "
        "not wanted."
    )


def test_a_candidate_whose_commit_git_lost_is_named_before_it_is_kept_and_can_be_rejected(at):
    target = at("compared")
    held = f"refs/atk/candidates/{target.candidate_id}"
    target.git("update-ref", "-d", held)
    target.git("gc", "-q", "--prune=now")

    examined = {check.name: check for check in examine(target.root) if check.level == "warning"}
    refused = target.refusal("decide_candidate", **keep(target), action="keep")
    reject = refused.next[0]
    target.call("decide_candidate", **reject.arguments, **reject.supply)

    assert target.revision_id in examined["worktree"].said
    assert (refused.code, refused.facts["ref"]) == ("candidate_lost", held)
    assert target.git("status", "--porcelain") == ""


def test_a_store_that_is_older_than_the_branch_is_told(at):
    target = at("compared")
    shutil.copytree(target.path(".atk"), target.path("../older"), symlinks=True)
    kept = target.decide("keep")
    assert worktree(target).level == "ok"
    shutil.rmtree(target.path(".atk"))
    shutil.move(target.path("../older"), target.path(".atk"))

    status = target.call("get_status")
    told = worktree(target)

    assert (told.level, told.said.split()[0]) == ("warning", kept.commit[:12])
    assert f"the journal ends with {status.position}" in told.said
    assert f"HEAD is {kept.commit[:12]}, and {target.round_id} stands at" in status.warnings[0]


def test_a_status_of_half_a_journal_says_so_first_and_leads_on_to_no_change(at):
    target = at("compared")
    with open(target.path(".atk/journal/000001.log"), "r+b") as file:
        file.seek(os.path.getsize(file.name) // 2)
        file.write(b"\0")

    status = target.call("get_status")

    assert status.message == (
        f"The journal of {status.project_id} is damaged: what it held from there on is not shown, and nothing can be "
        "changed."
    )
    assert (status.next, status.writable, len(status.warnings)) == ([], False, 1)


@pytest.mark.parametrize("name", ["journal/000001.log", "mask.key"])
def test_a_status_is_given_where_the_store_cannot_be_opened(at, name):
    target = at("initialized")
    os.remove(target.path(f".atk/{name}"))

    status = target.call("get_status")

    assert status.message == f"The store of {target.root} cannot be opened: nothing of it can be read or changed."
    assert target.path(f".atk/{name}") in status.warnings[0]
    assert (status.initialized, status.writable, status.next) == (True, False, [])


def test_a_clone_of_a_repository_with_kept_commits_says_that_the_store_stayed_behind(at):
    target = at("kept")
    clone = target.path("../clone")
    target.git("clone", "-q", target.root, clone)
    target.git("clean", "-q", "-fdx")

    here = {check.name: check for check in examine(target.root)}["project"]
    there = target.call("get_status", project_path=clone)

    assert (here.level, here.advice) == ("warning", there.warnings[0])
    assert (there.initialized, "import-project" in there.warnings[0]) == (False, True)


def keep(target):
    return {"round_id": target.round_id, "candidate_id": target.candidate_id, "reason": "because"}


def worktree(target):
    """Returns the last check of the worktree: the one that is not well, where there is one."""
    return [check for check in examine(target.root) if check.name == "worktree"][-1]
