"""Text, binary, executable, linked, renamed and deleted files go through seal, keep, reject, replay and rollback."""

import os
import shutil
import stat

import pytest

from storage.schema.batches import Batch
from tests.operations.catalog.stages import AUTHORIZED
from tests.operations.catalog.test_adopting import opened
from tests.support.projects import FIX, PROMPT

BINARY = bytes(range(256)) * 40


@pytest.fixture(scope="module")
def prepared(stages, tmp_path_factory):
    """A Round over a target that has a file of each kind."""
    target = stages.copy("assessed", str(tmp_path_factory.mktemp("kinds") / "target"))
    target.write("notes/tool.sh", "echo 1\n")
    os.chmod(target.path("notes/tool.sh"), 0o755)
    target.write("notes/data.bin", BINARY)
    target.write("notes/old.txt", "a text that is moved elsewhere, line after line\n" * 9)
    target.write("notes/gone.txt", "this one is deleted\n")
    os.symlink("old.txt", target.path("notes/link"))
    target.git("add", ".")
    target.git("commit", "-q", "-m", "Files of every kind")
    opened(target)
    return target


@pytest.fixture
def target(prepared, tmp_path):
    root = str(tmp_path / "target")
    shutil.copytree(prepared.root, root, symlinks=True)
    made = type(prepared)(root, dict(prepared.ids))
    found = made.call("prepare_candidate", round_id=made.round_id, primary_issue_id=made.issue_id)
    made.ids["candidate_id"] = found.candidate_id
    return made


def changed(target):
    """Changes a file in each way."""
    target.write("prompt.txt", FIX)
    target.write("notes/data.bin", BINARY[::-1])
    target.write("notes/new.bin", b"\0\1\2")
    os.chmod(target.path("notes/tool.sh"), 0o644)
    target.write("notes/run.sh", "echo 2\n")
    os.chmod(target.path("notes/run.sh"), 0o755)
    os.rename(target.path("notes/old.txt"), target.path("notes/moved.txt"))
    os.remove(target.path("notes/link"))
    os.symlink("moved.txt", target.path("notes/link"))
    os.remove(target.path("notes/gone.txt"))


def files(target):
    """What lies in the scope: content or link, and whether it is a program."""
    found = {"prompt.txt": target.read("prompt.txt")}
    for name in sorted(os.listdir(target.path("notes"))):
        path = target.path(f"notes/{name}")
        if os.path.islink(path):
            found[name] = os.readlink(path)
        else:
            with open(path, "rb") as file:
                found[name] = (file.read(), bool(os.stat(path).st_mode & stat.S_IXUSR))
    return found


def kept(target):
    target.seal()
    target.ids["left_batch_id"], target.ids["left_assessment_id"] = target.run(target.b0)
    target.ids["right_batch_id"], target.ids["right_assessment_id"] = target.run(target.revision_id)
    assert target.compare().result == "pass"
    return target.decide("keep")


def test_rejected_candidate_leaves_every_file_as_its_parent_had_it(target):
    before, status = files(target), target.git("status", "--short")
    changed(target)
    target.seal()

    target.decide("reject", validation_missing_reason="not wanted")

    assert files(target) == before
    assert target.git("status", "--short") == status


def test_cancelled_draft_is_restored_and_kept_under_its_ref(target):
    before = files(target)
    changed(target)

    made = target.call("cancel_draft", round_id=target.round_id, candidate_id=target.candidate_id, reason="no")

    assert files(target) == before
    assert target.git("show", f"{made.kept_as}:prompt.txt") == FIX.rstrip("\n")
    assert made.candidates_left == 2


def test_kept_candidate_is_one_commit_that_replays_and_rolls_back_whole(target):
    before = files(target)
    changed(target)
    after = files(target)

    made = kept(target)

    assert files(target) == after
    assert target.git("status", "--short") == ""
    assert target.git("rev-parse", "HEAD~1") == target.round.baseline_commit
    assert target.git("log", "-1", "--format=%(trailers:key=ATK-Candidate,valueonly)").strip() == target.candidate_id
    final, _ = target.run(target.b0, "final")
    batch = target.state.get(Batch, final)
    assert batch.counts == {"completed": 6}
    assert target.call("read_record", record_id=f"{final}.5").value["output"] == "other\n"
    assert files(target) == after
    back = target.call("rollback_to", round_id=target.round_id, target_commit=target.round.baseline_commit, reason="no")
    assert files(target) == before
    assert target.git("status", "--short") == ""
    assert target.git("rev-parse", f"{back.commit}^{{tree}}") == target.round.baseline_tree
    assert back.withdrawn_candidate_ids == [target.candidate_id]
    assert made.commit == target.git("rev-parse", f"{back.commit}~1")


def test_keep_leaves_staged_untracked_and_dirty_files_outside_as_they_are(target):
    target.write("prompt.txt", FIX)
    kept(target)

    assert target.git("log", "--format=%s", "-1") == f"Keep ATK candidate {target.candidate_id}"
    assert target.git("show", "--name-only", "--format=", "HEAD") == "prompt.txt"


def test_edit_of_a_sealed_file_stops_the_decision_and_is_left_alone(target):
    target.write("prompt.txt", FIX)
    target.seal()
    target.write("prompt.txt", "a third content\n")
    before = target.facts()

    error = target.refusal(
        "decide_candidate",
        round_id=target.round_id,
        candidate_id=target.candidate_id,
        action="reject",
        reason="r",
        validation_missing_reason="not run",
    )

    assert (error.code, list(error.facts["paths"])) == ("unknown_content", ["prompt.txt"])
    assert not target.changed_since(before)


def test_deferred_candidate_can_be_superseded_by_another_of_the_same_issue(target):
    target.write("prompt.txt", FIX)
    target.seal()
    target.decide("defer", validation_missing_reason="later")

    made = target.call(
        "prepare_candidate",
        round_id=target.round_id,
        primary_issue_id=target.issue_id,
        supersedes=target.candidate_id,
    )

    assert target.read("prompt.txt") == PROMPT
    assert made.candidates_left == 1


def test_result_that_does_not_pass_is_kept_only_with_the_persons_authorization(target):
    target.write("prompt.txt", PROMPT + "nothing -> other\n")
    target.seal()
    target.ids["left_batch_id"], target.ids["left_assessment_id"] = target.run(target.b0)
    target.ids["right_batch_id"], target.ids["right_assessment_id"] = target.run(target.revision_id)
    found = target.compare()
    assert found.result == "no_effect"
    named = {"round_id": target.round_id, "candidate_id": target.candidate_id, "action": "keep", "reason": "r"}

    error = target.refusal("decide_candidate", **named)
    assert (error.code, error.facts["result"]) == ("result_forbids", "no_effect")
    assert target.refusal("decide_candidate", **named, override=True).code == "override_unauthorized"
    made = target.decide("keep", override=True, override_authorization={**AUTHORIZED, "action": "trial_commit"})

    assert made.validation_result == "no_effect"
    assert made.warnings
    decision = target.call("read_record", record_id=made.decision_id).value
    assert decision["override_authorization"]["recorded_as"] == "reported_by_client"


def test_head_that_moved_under_a_round_can_be_abandoned(target):
    target.write("prompt.txt", FIX)
    target.seal()
    target.git("commit", "-q", "--allow-empty", "-m", "the user's")
    head, before = target.head, files(target)

    error = target.refusal("run_evaluation", round_id=target.round_id)
    (step,) = error.next
    made = target.call(step.tool, **step.arguments, reason="I went on working")

    assert (error.code, made.status) == ("baseline_drifted", "abandoned")
    assert (target.head, files(target)) == (head, before)
    assert "is cancelled" in made.warnings[0]
    assert target.git("show", f"refs/atk/candidates/{target.candidate_id}:prompt.txt") == FIX.rstrip("\n")
