"""Projects, datasets, runs, assessments, comparisons and reading refuse what they have to, and change nothing by it."""

import os

import pytest

from tests.operations.catalog.evidence import store_batch
from tests.operations.catalog.guards import Guard, holds, names
from tests.operations.catalog.stages import EXACT, SPEC
from tests.operations.catalog.test_guards_of_candidates import clashing, pending_again
from tests.operations.catalog.test_guards_of_rounds import analysis_only, edited, moved, stray

READY = {"command": ["sh", "agent.sh"], "external_effects": [], "allowed_paths": ["prompt.txt"]}
R = {"round_id": "{round_id}"}
RUN = {**R, "wait_seconds": 0}
WHICH = {"revision_commit": "{commit}"}
HEAD = {**WHICH, "wait_seconds": 0}
SIDES = {**R, "left_assessment_id": "{left_assessment_id}", "right_assessment_id": "{right_assessment_id}"}
JUDGE = {"batch_id": "{batch_id}", "evaluation_spec": SPEC, "judger": EXACT}
CLIENT = {"batch_id": "{batch_id}", "evaluation_spec": SPEC, "judger": {"method": "client"}}
ROW = {"record_id": "batch-1-none.1", "verdict": "pass"}


def legacy(target):
    os.mkdir(target.path(".atk"))
    target.write(".atk/project.json", '{"schema_version": 2}')


def no_git(target):
    os.rename(target.path(".git"), target.path("hidden"))


def file(name, content):
    return lambda target: target.write(name, content)


def unprotected(target):
    target.call("initialize_project", **{**READY, "external_effects": [{"name": "mail"}]})
    target.ids["dataset_id"] = target.store_cases()


def second_dataset(target):
    target.write_cases([("z", "no", "other")], "more.csv")
    target.ids["other_dataset_id"] = target.call("store_dataset", source="more.csv").dataset_id


def candidate_edited(target):
    target.write("prompt.txt", "edited after sealing\n")


def run_before(target):
    target.ids["standing"] = store_batch(target, target.revision_id, lambda *_: "x", round_id=target.round_id)


def stopped_half_way(target):
    store_batch(target, target.revision_id, lambda *_: "x", round_id=target.round_id, status="partial")


def final_once(target):
    target.call("run_evaluation", round_id=target.round_id, revision_id=target.b0, phase="final", wait_seconds=100)


def runs_used_up(target):
    for _ in range(3):
        store_batch(target, "revision-1-other", lambda *_: "x", round_id=target.round_id)


def rejudged(target):
    """The left side has a newer assessment, which supersedes the one that the ids name."""
    target.judge(target.left_batch_id, supersede_reason="once more")


def other_judger(target):
    found = target.call(
        "store_assessment", batch_id=target.left_batch_id, spec_id=target.spec_id, judger={**EXACT, "version": "2"}
    )
    target.ids["left_assessment_id"] = found.assessment_id


def clashing_without_round(target):
    target.ids["round_id"] = "round-1-none"
    clashing(target)


GUARDS = [
    Guard("run_evaluation", "stored", "final_without_round", {**HEAD, "phase": "final"}),
    Guard("initialize_project", "stored", "already_initialized", READY),
    Guard("initialize_project", "blank", "legacy_store", READY, legacy, {"found": ["project.json"]}),
    Guard("initialize_project", "blank", "not_a_repository", READY, no_git),
    Guard(
        "initialize_project",
        "blank",
        "runtime_missing",
        {},
        facts={"missing": ["command", "external_effects", "allowed_paths"]},
    ),
    Guard("initialize_project", "blank", "runtime_missing", {**READY, "command": []}, facts={"missing": ["command"]}),
    *(
        Guard("initialize_project", "blank", "bad_configuration", {**READY, field: given}, facts={"field": field})
        for field, given in (
            ("infrastructure_exit_codes", [0]),
            ("infrastructure_exit_codes", [3, 3]),
            ("components", [{"component_id": "a", "role": "r", "change_role": "fixed"}] * 2),
            ("environment", ["KEY=value"]),
            ("environment", ["LD_PRELOAD"]),
        )
    ),
    Guard("initialize_project", "blank", "unknown_placeholder", {**READY, "command": ["sh", "a {inptu}"]}),
    Guard("initialize_project", "blank", "nul_in_command", {**READY, "command": ["sh", "a\0b"]}),
    Guard("initialize_project", "blank", "unsafe_pattern", {**READY, "allowed_paths": ["/etc"]}),
    Guard("initialize_project", "blank", "unsafe_pattern", {**READY, "protected_paths": [".git"]}),
    Guard("store_dataset", "blank", "project_not_initialized", {"source": "cases.csv"}),
    Guard("store_dataset", "initialized", "source_not_regular", {"source": "missing.csv"}),
    Guard("store_dataset", "initialized", "source_not_regular", {"source": "a.csv"}, file("a.csv/a", "x")),
    Guard("store_dataset", "initialized", "source_format_unknown", {"source": "agent.sh"}),
    Guard("store_dataset", "initialized", "source_has_no_rows", {"source": "a.csv"}, file("a.csv", "id,input\n")),
    Guard("store_dataset", "initialized", "source_not_utf8", {"source": "a.csv"}, file("a.csv", b"id,input\n1,\xff\n")),
    Guard("store_dataset", "initialized", "row_malformed", {"source": "a.jsonl"}, file("a.jsonl", "{]\n{}\n")),
    Guard("store_dataset", "initialized", "last_row_torn", {"source": "a.jsonl"}, file("a.jsonl", '{"input":1}\n{"in')),
    Guard("store_dataset", "initialized", "column_missing", {"source": "cases.csv", "mapping": {"input": "text"}}),
    Guard("store_dataset", "initialized", "case_id_twice", {"source": "a.csv"}, file("a.csv", "id,input\n1,a\n1,b\n")),
    Guard(
        "store_dataset", "initialized", "usage_unknown", {"source": "a.csv"}, file("a.csv", "input,usage\na,train\n")
    ),
    Guard(
        "store_dataset",
        "initialized",
        "attachment_unreadable",
        {"source": "a.jsonl"},
        file("a.jsonl", '{"input": 1, "attachments": ["none.txt"]}\n'),
    ),
    Guard(
        "store_dataset",
        "initialized",
        "attachment_outside",
        {"source": "a.jsonl"},
        file("a.jsonl", '{"input": 1, "attachments": ["../../etc/hostname"]}\n'),
    ),
    Guard(
        "store_dataset",
        "initialized",
        "secret_in_case_id",
        {"source": "a.csv"},
        file("a.csv", "id,input\nghp_0123456789abcdefghijABCDEFGHIJ012345,a\n"),
    ),
    Guard("run_evaluation", "blank", "not_runnable", HEAD, analysis_only),
    Guard("run_evaluation", "blank", "unprotected_effects", HEAD, unprotected, {"names": ["mail"]}),
    Guard("run_evaluation", "initialized", "dataset_not_named", HEAD),
    Guard("run_evaluation", "stored", "dataset_not_named", HEAD, second_dataset, {"given": WHICH}),
    Guard("run_evaluation", "stored", "unknown_object", {**HEAD, "dataset_id": "dataset-1-none"}),
    Guard("run_evaluation", "stored", "unknown_object", {"round_id": "round-1-none"}),
    Guard("run_evaluation", "stored", "revision_mismatch", {}),
    Guard("run_evaluation", "stored", "revision_mismatch", {"revision_commit": "f" * 40}),
    Guard("run_evaluation", "stored", "unknown_cases", {**HEAD, "case_ids": ["nobody"]}, facts={"given": ["nobody"]}),
    Guard("run_evaluation", "stored", "unknown_cases", {**HEAD, "case_ids": []}),
    Guard("run_evaluation", "stored", "unknown_cases", {**HEAD, "case_ids": ["refund-1", "refund-1"]}),
    Guard("run_evaluation", "stored", "uncommitted_files", HEAD, edited, {"paths": ["prompt.txt"]}),
    Guard("run_evaluation", "stored", "resource_busy", HEAD, clashing_without_round),
    Guard("run_evaluation", "diagnosed", "wrong_round_status", RUN, facts={"status": "analysis_only"}),
    Guard("run_evaluation", "completed", "wrong_round_status", RUN, facts={"status": "completed"}),
    Guard("run_evaluation", "validated", "wrong_round_status", RUN, facts={"status": "finalizing"}),
    Guard("run_evaluation", "drafted", "candidate_pending", RUN),
    Guard("run_evaluation", "sealed", "candidate_pending", {**RUN, "phase": "final"}),
    Guard("run_evaluation", "kept", "candidate_pending", RUN, pending_again),
    Guard("run_evaluation", "sealed", "worktree_not_the_revision", RUN, candidate_edited, {"paths": ["prompt.txt"]}),
    Guard("run_evaluation", "frozen", "files_in_the_way", RUN, edited),
    Guard("run_evaluation", "frozen", "surroundings_changed", RUN, stray, {"paths": ["stray.txt"]}),
    Guard("run_evaluation", "frozen", "baseline_drifted", RUN, moved),
    Guard("run_evaluation", "frozen", "revision_mismatch", {**RUN, "revision_id": "{head_revision_id}"}),
    *(
        Guard("run_evaluation", "frozen", "run_not_planned", {**RUN, field: given}, facts={"field": field})
        for field, given in (("repeats", 3), ("concurrency", 7), ("timeout_seconds", 3.5))
    ),
    Guard("run_evaluation", "frozen", "run_not_planned", {**RUN, "dataset_id": "{other_dataset_id}"}, second_dataset),
    Guard("run_evaluation", "kept", "run_not_planned", {**RUN, "phase": "final", "case_ids": ["refund-1"]}),
    Guard("run_evaluation", "frozen", "wrong_round_status", {**RUN, "phase": "final"}),
    Guard(
        "run_evaluation",
        "sealed",
        "side_stands",
        {**RUN, "revision_id": "{revision_id}"},
        run_before,
        {"batch_id": "{standing}", "status": "sealed"},
    ),
    Guard("run_evaluation", "sealed", "side_to_continue", RUN, stopped_half_way, {"status": "partial", "seen": 6}),
    Guard("run_evaluation", "kept", "final_side_stands", {**RUN, "phase": "final", "revision_id": "{b0}"}, final_once),
    Guard("run_evaluation", "frozen", "budget_exhausted", RUN, runs_used_up, {"unit": "Executions", "reserve": 12}),
    Guard("wait_for_batch", "stored", "unknown_object", {"batch_id": "batch-1-none"}),
    Guard("wait_for_batch", "stored", "import_lost", {"batch_id": "import-0123456789abcdef"}),
    Guard("stop_batch", "stored", "unknown_object", {"batch_id": "batch-1-none"}),
    Guard("stop_batch", "stored", "import_lost", {"batch_id": "import-0123456789abcdef"}),
    Guard("stop_batch", "evaluated", "batch_ended", {"batch_id": "{batch_id}"}, facts={"status": "sealed"}),
    Guard("store_assessment", "stored", "unknown_object", {**JUDGE, "batch_id": "batch-1-none"}),
    Guard("store_assessment", "evaluated", "judgement_unspecified", {"batch_id": "{batch_id}", "judger": EXACT}),
    Guard(
        "store_assessment", "evaluated", "judgement_unspecified", {"batch_id": "{batch_id}", "evaluation_spec": SPEC}
    ),
    Guard("store_assessment", "evaluated", "unknown_object", {"batch_id": "{batch_id}", "spec_id": "spec-1-none"}),
    Guard(
        "store_assessment",
        "evaluated",
        "unknown_object",
        {"batch_id": "{batch_id}", "evaluation_spec": SPEC, "judger_id": "judger-1-none"},
    ),
    Guard(
        "store_assessment",
        "evaluated",
        "judgement_invalid",
        {**JUDGE, "evaluation_spec": {**SPEC, "dimension_rules": {"other": "x"}}},
        facts={"field": "evaluation_spec"},
    ),
    Guard(
        "store_assessment",
        "evaluated",
        "judgement_invalid",
        {**JUDGE, "judger": {"method": "exact", "settings": {"fuzzy": True}}},
        facts={"field": "judger"},
    ),
    Guard(
        "store_assessment",
        "evaluated",
        "judgement_invalid",
        {**CLIENT, "judger": {"readiness": "calibrated"}},
        facts={"field": "judger"},
    ),
    Guard("store_assessment", "assessed", "assessment_stands", JUDGE, facts={"assessment_id": "{assessment_id}"}),
    Guard("store_assessment", "evaluated", "assessment_incomplete", CLIENT),
    Guard("store_assessment", "evaluated", "record_not_in_batch", {**CLIENT, "rows": [ROW]}),
    Guard("store_assessment", "evaluated", "source_not_regular", {**CLIENT, "rows_file": "none.csv"}),
    Guard("compare_and_gate", "compared", "unknown_object", {**SIDES, "round_id": "round-1-none"}),
    Guard("compare_and_gate", "compared", "unknown_object", {**SIDES, "left_assessment_id": "assessment-1-none"}),
    Guard("compare_and_gate", "kept", "unknown_object", SIDES),
    Guard("compare_and_gate", "kept", "wrong_candidate", {**SIDES, "candidate_id": "{candidate_id}"}),
    Guard("compare_and_gate", "validated", "wrong_round_status", SIDES, facts={"status": "finalizing"}),
    Guard("compare_and_gate", "completed", "wrong_round_status", {**SIDES, "mode": "final"}),
    Guard("compare_and_gate", "judged", "frozen_field", {**SIDES, "dimension": "beauty"}, facts={"frozen": "correct"}),
    Guard("compare_and_gate", "judged", "frozen_field", {**SIDES, "issue_id": "{other_issue_id}"}),
    Guard("compare_and_gate", "judged", "frozen_field", {**SIDES, "left_commit": "{sealed_commit}"}),
    Guard("compare_and_gate", "kept", "frozen_field", {**SIDES, "mode": "final", "candidate_id": "{candidate_id}"}),
    *(
        Guard("compare_and_gate", stage, "sides_not_comparable", {**SIDES, **given}, prepare, {"side": side})
        for stage, given, prepare, side in (
            ("judged", {"left_assessment_id": "{assessment_id}"}, None, "left"),
            ("judged", {"left_assessment_id": "{right_assessment_id}"}, None, "left"),
            ("judged", {"right_assessment_id": "{left_assessment_id}"}, None, "right"),
            ("kept", {"mode": "final"}, None, "left"),
            ("judged", {}, rejudged, "left"),
            ("judged", {}, other_judger, "left"),
        )
    ),
    Guard("get_status", "stored", "unknown_object", {"round_id": "round-1-none"}),
    Guard("get_status", "blank", "legacy_store", {}, legacy),
    Guard("read_record", "blank", "project_not_initialized", {"record_id": "x"}),
    Guard("read_record", "stored", "unknown_object", {"record_id": "journal-99"}),
    Guard("read_record", "stored", "unknown_object", {"record_id": "journal-²"}),
    Guard("read_record", "evaluated", "no_such_field", {"record_id": "{batch_id}", "field": "records.99.output"}),
    Guard("read_record", "evaluated", "bad_cursor", {"record_id": "{batch_id}", "field": "records", "cursor": "6"}),
    Guard("read_record", "evaluated", "bad_cursor", {"record_id": "{batch_id}", "field": "records", "cursor": "²"}),
    Guard("inspect_or_recover_operation", "blank", "project_not_initialized"),
    Guard("inspect_or_recover_operation", "stored", "no_such_operation", {"operation_id": 99}, facts={"last": 2}),
]


@pytest.mark.parametrize("guard", GUARDS, ids=names(GUARDS))
def test_refused_with_facts_and_nothing_changed(guard, stages, tmp_path):
    holds(guard, stages, str(tmp_path / "target"))
