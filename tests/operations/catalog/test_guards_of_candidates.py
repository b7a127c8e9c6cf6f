"""prepare, seal, cancel, decide and roll back refuse what they have to, and change nothing by it."""

import os
import subprocess

import pytest

from storage import effects
from tests.operations.catalog.guards import Guard, holds, names
from tests.operations.catalog.test_guards_of_rounds import edited, moved, stray
from tests.support.projects import call_of
from tests.support.rounds import Answered

R = {"round_id": "{round_id}"}
C = {**R, "candidate_id": "{candidate_id}"}
PREPARE = {**R, "primary_issue_id": "{issue_id}"}
CANCEL = {**C, "reason": "because"}
DECIDE = {**C, "reason": "because"}
AT_B0 = (
    "It keeps no candidate, so it stands at B0 already. What a pending one changed goes with decide_candidate and "
    "reject, or with cancel_draft"
)
REVERTED = "it is over; git revert takes its commits back, the newest first (git log --grep ATK-Round has them)"
BACK = {**R, "target_commit": "{commit}", "reason": "because"}


def spent(target):
    """Drafts and gives up both candidates of the plan."""
    for _ in range(2):
        made = target.call("prepare_candidate", round_id=target.round_id, primary_issue_id=target.issue_id)
        target.call("cancel_draft", round_id=target.round_id, candidate_id=made.candidate_id, reason="no")


def undone(target):
    target.git("checkout", "-q", "prompt.txt")


def outside(target):
    target.write("elsewhere.txt", "not allowed\n")


def protected(target):
    target.write("agent.sh", "echo billing\n")


def declared(target):
    """Cancels the draft, and prepares one that names its file."""
    target.call("cancel_draft", round_id=target.round_id, candidate_id=target.candidate_id, reason="again")
    made = target.call(
        "prepare_candidate", round_id=target.round_id, primary_issue_id=target.issue_id, paths=["notes/why.txt"]
    )
    target.ids["candidate_id"] = made.candidate_id
    target.write("prompt.txt", "other\n")


def submodule(target):
    os.makedirs(target.path("notes/inner"))
    subprocess.run(["git", "init", "-q", target.path("notes/inner")], check=True)
    target.write("notes/inner/file", "x\n")
    subprocess.run(["git", "-C", target.path("notes/inner"), "add", "."], check=True)


def piped(target):
    os.remove(target.path("prompt.txt"))
    os.mkfifo(target.path("prompt.txt"))


def leaving(target):
    os.makedirs(target.path("notes"), exist_ok=True)
    os.symlink("/etc/hostname", target.path("notes/link"))


def staged(target):
    target.git("add", "prompt.txt")


def judged_again(target):
    target.ids["newer"] = target.judge(target.right_batch_id, supersede_reason="once more")


def compared_again(target):
    """Judges the candidate's side once more and compares it: the earlier Validation is not the newest any more."""
    found = target.call(
        "store_assessment",
        batch_id=target.right_batch_id,
        spec_id=target.spec_id,
        judger_id=target.judger_id,
        supersede_reason="once more",
    )
    target.ids["newer"] = target.compare(right_assessment_id=found.assessment_id).validation_id


def rejected(target):
    target.ids["first_candidate_id"] = target.candidate_id
    target.decide("reject", validation_missing_reason="not run")


def pending_again(target):
    made = target.call("prepare_candidate", round_id=target.round_id, primary_issue_id=target.other_issue_id)
    target.ids["candidate_id"] = made.candidate_id


def clashing(target):
    """Another process is at work on the worktree: an announced effect whose owner lives."""
    with target.project.transaction(call_of("decide_candidate")) as tx:
        tx.intend([effects.hold("refs/atk/test", target.head)], Answered(), claims=["worktree", target.round_id])


GUARDS = [
    Guard("prepare_candidate", "frozen", "unknown_object", {**PREPARE, "round_id": "round-1-none"}),
    Guard("prepare_candidate", "diagnosed", "wrong_round_status", PREPARE, facts={"status": "analysis_only"}),
    Guard("prepare_candidate", "validated", "wrong_round_status", PREPARE, facts={"status": "finalizing"}),
    Guard("prepare_candidate", "drafted", "candidate_pending", PREPARE, facts=C),
    Guard("prepare_candidate", "frozen", "budget_exhausted", PREPARE, spent, {"unit": "candidates", "left": 0}),
    Guard("prepare_candidate", "frozen", "issue_not_planned", {**R, "primary_issue_id": "issue-1-none"}),
    Guard("prepare_candidate", "frozen", "issue_not_planned", R, facts={"issue_id": None, "round_id": "{round_id}"}),
    Guard("prepare_candidate", "frozen", "issue_not_planned", {**PREPARE, "related_issue_ids": ["issue-1-none"]}),
    Guard(
        "prepare_candidate",
        "sealed",
        "not_superseding",
        {**R, "primary_issue_id": "{other_issue_id}", "supersedes": "{first_candidate_id}"},
        rejected,
        {"status": "rejected"},
    ),
    Guard("prepare_candidate", "frozen", "unknown_object", {**PREPARE, "supersedes": "candidate-1-none"}),
    Guard("prepare_candidate", "frozen", "no_adopted_change", {**PREPARE, "adopt": "worktree"}, facts=R),
    Guard("prepare_candidate", "frozen", "out_of_scope", {**PREPARE, "paths": ["elsewhere.txt"]}),
    Guard("prepare_candidate", "frozen", "out_of_scope", {**PREPARE, "paths": ["agent.sh"]}),
    Guard("prepare_candidate", "frozen", "files_in_the_way", PREPARE, edited, {"paths": ["prompt.txt"]}),
    Guard("prepare_candidate", "frozen", "surroundings_changed", PREPARE, stray, {"paths": ["stray.txt"]}),
    Guard("prepare_candidate", "frozen", "baseline_drifted", PREPARE, moved, R),
    Guard("prepare_candidate", "frozen", "resource_busy", PREPARE, clashing, {"resource": "worktree"}),
    Guard("seal_candidate", "drafted", "unknown_object", {**C, "candidate_id": "candidate-1-none"}),
    Guard("seal_candidate", "drafted", "unknown_object", {**C, "round_id": "round-1-none"}),
    Guard("seal_candidate", "frozen", "wrong_round_status", {**R, "candidate_id": "candidate-1-none"}),
    Guard("seal_candidate", "sealed", "wrong_candidate", C, facts={"status": "sealed"}),
    Guard("seal_candidate", "drafted", "nothing_changed", C, undone),
    Guard("seal_candidate", "drafted", "out_of_scope", C, outside, {"paths": ["elsewhere.txt"]}),
    Guard("seal_candidate", "drafted", "out_of_scope", C, protected, {"problem": "Changed but protected"}),
    Guard("seal_candidate", "drafted", "out_of_scope", C, declared, {"problem": "Changed but not declared"}),
    Guard("seal_candidate", "drafted", "baseline_drifted", C, moved, R),
    Guard("seal_candidate", "drafted", "other_repository", C, submodule),
    Guard("seal_candidate", "drafted", "special_file", C, piped),
    Guard("seal_candidate", "drafted", "leaves_worktree", C, leaving),
    Guard("seal_candidate", "drafted", "resource_busy", C, clashing),
    Guard("cancel_draft", "drafted", "unknown_object", {**CANCEL, "candidate_id": "candidate-1-none"}),
    Guard("cancel_draft", "frozen", "wrong_round_status", {**R, "candidate_id": "candidate-1-none", "reason": "r"}),
    Guard("cancel_draft", "sealed", "wrong_candidate", CANCEL, facts={"status": "sealed", "step": "cancel_draft"}),
    Guard("cancel_draft", "drafted", "baseline_drifted", CANCEL, moved),
    Guard("cancel_draft", "drafted", "resource_busy", CANCEL, clashing),
    Guard("decide_candidate", "compared", "unknown_object", {**DECIDE, "action": "keep", "round_id": "round-1-none"}),
    Guard("decide_candidate", "kept", "wrong_candidate", {**DECIDE, "action": "keep"}, facts={"status": "accepted"}),
    Guard("decide_candidate", "completed", "wrong_round_status", {**DECIDE, "action": "keep"}),
    Guard("decide_candidate", "drafted", "wrong_candidate", {**DECIDE, "action": "reject"}, facts={"status": "draft"}),
    Guard("decide_candidate", "sealed", "validation_needed", {**DECIDE, "action": "keep"}, facts=C),
    Guard("decide_candidate", "sealed", "validation_needed", {**DECIDE, "action": "reject"}),
    Guard(
        "decide_candidate",
        "compared",
        "validation_needed",
        {**DECIDE, "action": "reject", "validation_missing_reason": "did not look"},
    ),
    Guard(
        "decide_candidate",
        "compared",
        "not_newest_validation",
        {**DECIDE, "action": "keep", "validation_id": "{validation_id}"},
        compared_again,
        {"newest": "{newer}"},
    ),
    Guard(
        "decide_candidate",
        "compared",
        "validation_outdated",
        {**DECIDE, "action": "keep"},
        judged_again,
        {"validation_id": "{validation_id}", "replaced": "{right_assessment_id}", "replaced_by": "{newer}"},
    ),
    Guard(
        "decide_candidate",
        "compared",
        "override_unauthorized",
        {**DECIDE, "action": "reject", "override": True},
        facts={"needed": "trial_commit"},
    ),
    Guard("decide_candidate", "compared", "baseline_drifted", {**DECIDE, "action": "keep"}, moved),
    Guard("decide_candidate", "compared", "staged", {**DECIDE, "action": "keep"}, staged),
    Guard("decide_candidate", "compared", "resource_busy", {**DECIDE, "action": "keep"}, clashing),
    Guard("rollback_to", "kept", "unknown_object", {**BACK, "round_id": "round-1-none"}),
    Guard("rollback_to", "diagnosed", "wrong_round_status", BACK),
    Guard("rollback_to", "completed", "wrong_round_status", BACK, facts={"status": "completed", "way_on": REVERTED}),
    Guard("rollback_to", "completed", "wrong_round_status", BACK),
    Guard("rollback_to", "frozen", "no_such_checkpoint", BACK, facts={"checkpoints": [], "way_on": AT_B0}),
    Guard("rollback_to", "kept", "no_such_checkpoint", {**BACK, "target_commit": "f" * 40}),
    Guard("rollback_to", "kept", "no_such_checkpoint", {**BACK, "target_commit": "{kept_commit}"}),
    Guard("rollback_to", "kept", "candidate_pending", BACK, pending_again),
    Guard("rollback_to", "kept", "baseline_drifted", BACK, moved),
    Guard("rollback_to", "kept", "files_in_the_way", BACK, edited),
    Guard("rollback_to", "kept", "surroundings_changed", BACK, stray),
    Guard("rollback_to", "kept", "resource_busy", BACK, clashing),
]


@pytest.mark.parametrize("guard", GUARDS, ids=names(GUARDS))
def test_refused_with_facts_and_nothing_changed(guard, stages, tmp_path):
    holds(guard, stages, str(tmp_path / "target"))
