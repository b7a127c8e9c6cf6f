"""create_round, freeze_round, store_diagnosis and finish_round refuse what they have to, and change nothing by it."""

import pytest

from tests.operations.catalog.guards import Guard, holds, names
from tests.operations.catalog.stages import AUTHORIZED, issue


def edited(target):
    target.write("prompt.txt", "mine\n")


def moved(target):
    target.write("other.txt", "somebody else's\n")
    target.git("add", "other.txt")
    target.git("commit", "-q", "-m", "A commit of the user's")


def stray(target):
    target.write("stray.txt", "made during the Round\n")


def analysis_only(target):
    target.call("initialize_project", analysis_only=True)


def another_opened(target):
    target.ids["second"] = target.call("create_round").round_id


def second_dataset(target):
    target.write_cases([("z", "no", "other")], "more.csv")
    target.call("store_dataset", source="more.csv")
    target.ids["fresh"] = target.call("create_round").round_id


def judged_again(target):
    target.judge(target.final_left_batch_id, supersede_reason="once more")


def merging(target):
    target.git("checkout", "-q", "-b", "side")
    target.write("prompt.txt", "side\n")
    target.git("commit", "-q", "-a", "-m", "side")
    target.git("checkout", "-q", "main")
    target.write(".git/MERGE_HEAD", target.git("rev-parse", "side") + "\n")


def plan(**fields):
    return {"round_id": "{round_id}", "plan": {"repeatability": "deterministic", **fields}}


def diagnosed(**more):
    return {"round_id": "{round_id}", "issues": [issue("one", "refund-1", **more)]}


def paused(target):
    target.call("transition_round", round_id=target.round_id, action="pause", reason="because")


def paused_and(change):
    """Returns what pauses the Round and then does something else."""

    def both(target):
        paused(target)
        change(target)

    return both


def second_frozen(target):
    second = target.call("create_round").round_id
    target.call("store_diagnosis", round_id=second, issues=[issue("again", "refund-1", "refund-2")])
    known = {"dataset_id": target.dataset_id, "spec_id": target.spec_id, "judger_id": target.judger_id}
    target.call("freeze_round", round_id=second, plan={"repeatability": "deterministic", **known})


R = {"round_id": "{round_id}"}
FINISH = {**R, "reason": "because"}
PAUSE = {**FINISH, "action": "pause"}
RESUME = {**FINISH, "action": "resume"}
FINALIZE = {**FINISH, "action": "start_finalizing"}
OVERRIDE = {**AUTHORIZED, "action": "retain_without_final_pass"}
HANDED = {"trigger_input": "i", "expected": "e", "actual": "a"}
NOT_RUN = {"description": "look", "status": "not_run"}
DONE = {"description": "look", "status": "completed"}

GUARDS = [
    Guard("create_round", "stored", "unknown_object", {"batch_ids": ["batch-1-none"]}, facts={"given": "batch-1-none"}),
    Guard("create_round", "stored", "unknown_object", {"assessment_ids": ["assessment-1-none"]}),
    Guard("create_round", "stored", "unknown_object", {"previous_round_id": "round-1-none"}),
    Guard("create_round", "opened", "previous_round_open", {"previous_round_id": "{round_id}"}, facts=R),
    Guard("create_round", "stored", "previous_round_missing", {"reuse_revision": True}),
    Guard(
        "create_round",
        "completed",
        "revision_not_reusable",
        {"reuse_revision": True, "previous_round_id": "{round_id}"},
        moved,
        R,
    ),
    Guard("create_round", "frozen", "another_round_active", facts={**R, "status": "ready"}),
    Guard("create_round", "blank", "not_runnable", {"adopt": "worktree"}, analysis_only),
    Guard("create_round", "blank", "nothing_to_look_at", {}, analysis_only),
    Guard("create_round", "blank", "project_not_initialized"),
    Guard("create_round", "stored", "files_in_the_way", prepare=edited, facts={"paths": ["prompt.txt"]}),
    Guard("create_round", "stored", "nothing_to_adopt", {"adopt": "worktree"}),
    Guard("create_round", "stored", "operation_in_progress", prepare=merging),
    Guard("freeze_round", "diagnosed", "unknown_object", {"round_id": "round-1-none"}),
    Guard("freeze_round", "frozen", "wrong_round_status", R, facts={**R, "status": "ready", "step": "freeze_round"}),
    Guard("freeze_round", "opened", "no_issue_to_answer", plan(), facts=R),
    Guard("freeze_round", "diagnosed", "surroundings_changed", plan(), stray, {"paths": ["stray.txt"]}),
    Guard(
        "store_diagnosis",
        "opened",
        "diagnosis_refused",
        {"round_id": "{round_id}", "issues": [issue("one", "refund-11")]},
        facts={"field": "case_ids"},
    ),
    Guard("freeze_round", "diagnosed", "dataset_not_chosen", {"round_id": "{fresh}"}, prepare=second_dataset),
    Guard("freeze_round", "stored", "judger_not_chosen", {"round_id": "{second}"}, prepare=another_opened),
    Guard("freeze_round", "diagnosed", "unknown_object", plan(spec_id="spec-1-none", judger_id="{judger_id}")),
    Guard("freeze_round", "diagnosed", "unknown_object", plan(dataset_id="dataset-1-none")),
    Guard("freeze_round", "diagnosed", "unsafe_pattern", plan(allowed_paths=["../other"])),
    Guard("freeze_round", "diagnosed", "baseline_drifted", plan(), prepare=moved, facts=R),
    *(
        Guard("freeze_round", "diagnosed", "plan_invalid", plan(**{field: given}), facts={"field": named or field})
        for field, given, named in (
            ("case_ids", ["nobody"], None),
            ("case_ids", ["refund-1", "refund-1", "refund-2", "crash-1"], None),
            ("protection_case_ids", ["nobody"], None),
            ("issue_ids", ["issue-1-none"], None),
            ("target_case_ids_by_issue", {"issue-1-none": ["refund-1"]}, None),
            ("target_case_ids_by_issue", {"{issue_id}": ["crash-1"]}, "target_case_ids_by_issue.{issue_id}"),
            ("target_case_ids_by_issue", {"{issue_id}": []}, "target_case_ids_by_issue.{issue_id}"),
            ("required_dimensions", ["beauty"], None),
            ("primary_dimension", "beauty", None),
            ("allowed_paths", [], None),
            ("commit_authorized", False, None),
            ("budget", {"executions": 5}, "budget.executions"),
        )
        if named is None or "{" not in named
    ),
    Guard("freeze_round", "diagnosed", "plan_invalid", {**R, "plan": {"decision_rule": "counts"}}),
    Guard("freeze_round", "diagnosed", "plan_cannot_pass", R),
    Guard("freeze_round", "diagnosed", "plan_cannot_pass", plan(min_fixed_cases=7)),
    Guard("freeze_round", "diagnosed", "plan_cannot_pass", {**R, "preview": True}),
    Guard("store_diagnosis", "opened", "unknown_object", {**diagnosed(), "round_id": "round-1-none"}),
    *(
        Guard("store_diagnosis", "opened", "diagnosis_refused", diagnosed(**claim), facts={"field": field, **R})
        for field, claim in (
            ("evidence_refs", {"evidence_refs": [{"batch_id": "batch-1-none", "evidence_id": "x.1"}]}),
            ("evidence_refs", {"evidence_refs": [{"batch_id": "{batch_id}", "evidence_id": "nonsense"}]}),
            ("evidence_refs", {"mechanism_evidence_refs": [{"batch_id": "{batch_id}", "evidence_id": "other.1"}]}),
            ("checks", {"checks": [NOT_RUN]}),
            ("checks", {"checks": [DONE]}),
            ("root_cause_status", {"root_cause_status": "supported"}),
            ("root_cause_status", {"root_cause_status": "intervention_supported"}),
            ("next_action", {"next_action": ""}),
            ("handoff", {"disposition": "external_handoff", "handoff": {"expected": "x"}}),
            ("resolution", {"disposition": "external_handoff", "handoff": HANDED, "resolution": "resolved"}),
        )
    ),
    Guard(
        "store_diagnosis",
        "opened",
        "diagnosis_refused",
        {**R, "issues": [issue("one", "refund-1"), issue("one", "refund-2")]},
        facts={"field": "id"},
    ),
    Guard("finish_round", "kept", "unknown_object", {**FINISH, "round_id": "round-1-none", "action": "complete"}),
    Guard("finish_round", "completed", "wrong_round_status", {**FINISH, "action": "abandon"}),
    Guard("finish_round", "drafted", "candidate_pending", {**FINISH, "action": "close_without_adoption"}),
    Guard("finish_round", "kept", "cannot_close_so", {**FINISH, "action": "close_without_adoption"}),
    Guard("finish_round", "frozen", "cannot_close_so", {**FINISH, "action": "complete"}, facts={"action": "complete"}),
    Guard("finish_round", "frozen", "cannot_close_so", {**FINISH, "action": "complete_with_override"}),
    Guard("finish_round", "kept", "validation_needed", {**FINISH, "action": "complete"}, facts={"mode": "final"}),
    Guard("finish_round", "kept", "override_unauthorized", {**FINISH, "action": "complete_with_override"}),
    Guard(
        "finish_round",
        "kept",
        "override_unauthorized",
        {**FINISH, "action": "complete_with_override", "override_authorization": OVERRIDE},
    ),
    Guard(
        "finish_round",
        "validated",
        "override_unauthorized",
        {**FINISH, "action": "complete", "override_authorization": OVERRIDE},
    ),
    Guard(
        "finish_round",
        "validated",
        "cannot_close_so",
        {**FINISH, "action": "complete_with_override", "override_authorization": OVERRIDE},
    ),
    Guard("finish_round", "kept", "wrong_round_status", {**FINISH, "action": "complete"}, paused, {"status": "paused"}),
    Guard(
        "finish_round",
        "kept",
        "cannot_close_so",
        {**FINISH, "action": "complete_external_fix"},
        facts={
            **R,
            "problem": "it was not opened with external_fix_identity; complete or close_without_adoption ends it",
        },
    ),
    Guard(
        "validate_external_fix", "judged", "no_external_fix", {**R, "assessment_id": "{left_assessment_id}"}, facts=R
    ),
    Guard(
        "validate_external_fix", "frozen", "unknown_object", {"round_id": "round-1-none", "assessment_id": "x-1-none"}
    ),
    Guard("transition_round", "frozen", "unknown_object", {**PAUSE, "round_id": "round-1-none"}),
    Guard("transition_round", "completed", "wrong_round_status", PAUSE, facts={**R, "status": "completed"}),
    Guard("transition_round", "frozen", "wrong_round_status", RESUME, facts={**R, "status": "ready"}),
    Guard("transition_round", "diagnosed", "wrong_round_status", FINALIZE, facts={**R, "step": "start_finalizing"}),
    Guard("transition_round", "sealed", "candidate_pending", FINALIZE, facts={"candidate_id": "{candidate_id}"}),
    Guard("transition_round", "frozen", "nothing_to_validate", FINALIZE, facts=R),
    Guard("transition_round", "drafted", "baseline_drifted", PAUSE, moved, R),
    Guard("transition_round", "drafted", "baseline_drifted", RESUME, paused_and(moved), R),
    Guard("transition_round", "drafted", "files_in_the_way", RESUME, paused_and(edited), {"paths": ["prompt.txt"]}),
    Guard("transition_round", "drafted", "surroundings_changed", RESUME, paused_and(stray), {"paths": ["stray.txt"]}),
    Guard("transition_round", "frozen", "another_round_active", RESUME, paused_and(second_frozen)),
    Guard(
        "finish_round",
        "validated",
        "not_newest_validation",
        {**FINISH, "action": "complete", "validation_id": "{validation_id}"},
        facts={"newest": "{final_validation_id}"},
    ),
    Guard(
        "finish_round",
        "validated",
        "validation_outdated",
        {**FINISH, "action": "complete"},
        judged_again,
        {"validation_id": "{final_validation_id}", "replaced": "{final_left_assessment_id}"},
    ),
    Guard("finish_round", "validated", "baseline_drifted", {**FINISH, "action": "complete"}, prepare=moved, facts=R),
    Guard("finish_round", "validated", "files_in_the_way", {**FINISH, "action": "complete"}, prepare=edited),
    Guard(
        "finish_round",
        "validated",
        "surroundings_changed",
        {**FINISH, "action": "complete"},
        prepare=stray,
        facts={"paths": ["stray.txt"]},
    ),
]


@pytest.mark.parametrize("guard", GUARDS, ids=names(GUARDS))
def test_refused_with_facts_and_nothing_changed(guard, stages, tmp_path):
    holds(guard, stages, str(tmp_path / "target"))
