"""What a Round pays for: final sides once each and only for what was kept, a reserve that stands, spent drafts."""

import os

from storage.schema.rounds import Round


def test_final_run_of_a_round_that_keeps_nothing_is_refused_and_the_round_goes_on(at):
    target = at("sealed")
    target.decide("reject", validation_missing_reason="not run")
    before = target.facts()

    error = target.refusal("run_evaluation", round_id=target.round_id, phase="final")

    assert (error.code, error.facts) == ("nothing_to_validate", {"round_id": target.round_id})
    assert not target.changed_since(before)
    assert target.call("prepare_candidate", round_id=target.round_id, primary_issue_id=target.issue_id)


def test_rollback_makes_the_round_optimize_again_and_keeps_a_reserve(at):
    target = at("validated")
    spent = target.call("get_status").round["budget"]

    made = target.call("rollback_to", round_id=target.round_id, target_commit=target.commit, reason="it fails")

    value = target.state.get(Round, target.round_id)
    now = target.call("get_status").round["budget"]
    assert (value.status, value.current_revision_id, value.accepted_candidate_ids) == ("optimizing", target.b0, ())
    assert made.revision_id == target.b0
    assert (spent["final_reserve"], now["final_reserve"]) == (0, 6)
    assert now["free"] == max(0, spent["free"] - 6)
    ended = target.call("finish_round", round_id=target.round_id, action="close_without_adoption", reason="rolled back")
    assert ended.status == "closed_without_adoption"


def test_cancelled_draft_stays_spent(at):
    target = at("drafted")

    made = target.call("cancel_draft", round_id=target.round_id, candidate_id=target.candidate_id, reason="no")

    assert made.candidates_left == 1
    assert target.call("get_status").round["budget"]["candidates_left"] == 1


def test_passing_round_completes_and_the_next_can_follow_it(at):
    target = at("validated")

    done = target.call("finish_round", round_id=target.round_id, action="complete", reason="it passed")
    after = target.call("create_round", previous_round_id=target.round_id)

    assert (done.status, done.validation_id) == ("completed", target.final_validation_id)
    assert after.baseline_commit == target.kept_commit


def test_round_without_a_final_validation_is_kept_only_with_the_persons_authorization(at):
    target = at("kept")
    given = {"source": "user", "action": "retain_without_final_pass", "reason": "time", "risk": "not validated"}

    done = target.call(
        "finish_round",
        round_id=target.round_id,
        action="complete_with_override",
        reason="as the person says",
        validation_missing_reason="no time",
        override_authorization=given,
    )

    assert done.status == "completed_with_override"
    assert (
        target.call("read_record", record_id=done.decision_id).value["override_authorization"]["risk"] == given["risk"]
    )


def test_project_in_a_folder_of_its_repository_sees_its_own_paths(at):
    """The project is a folder of a larger repository; paths in requests and refusals are the project's."""
    target = at("blank")
    os.mkdir(target.path("inner"))
    target.git("mv", "agent.sh", "prompt.txt", "inner")
    target.git("commit", "-q", "-a", "-m", "moved")
    inner = type(target)(target.path("inner"), {})
    inner.initialize(command=["sh", "agent.sh", "{input_file}"], components=[], protected_paths=["agent.sh"])
    inner.write("notes/mine.txt", "untracked before\n")
    inner.write("agent.sh", inner.read("agent.sh") + "# dirty\n")

    made = inner.call("create_round")

    assert sorted(made.left_alone) == ["agent.sh", "notes/mine.txt"]
    inner.write("prompt.txt", "dirty\n")
    inner.call("finish_round", round_id=made.round_id, action="abandon", reason="again")
    assert inner.refusal("create_round").facts["paths"] == ["prompt.txt"]
