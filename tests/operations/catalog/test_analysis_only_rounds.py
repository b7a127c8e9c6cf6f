"""A Round without a baseline, in a folder without Git or an agent: import, assess, diagnose, finish."""

import json
import os

import pytest

from operations.invocation import invoke
from operations.registry import all_operations
from operations.tuning.lifecycle import RoundWithoutBaseline
from storage.errors import AtkError
from storage.schema.rounds import Round
from tests.support.imports import Imports
from tests.support.projects import Target

TRACES = {"adapter_profile": "langfuse_trace_bundle"}
SPEC = {"dimensions": ["correct"], "dimension_rules": {"correct": "the answer is right"}}


def export(folder, *numbers, name="t.jsonl"):
    rows = ({"id": f"t-{n}", "timestamp": "2026-01-01T00:00:00Z", "input": f"q{n}", "output": "a"} for n in numbers)
    path = os.path.join(str(folder), name)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


def issue(batch_id, *case_ids, record=1):
    found = {"id": "wrong", "symptom": "s", "hypothesis": "h", "case_ids": list(case_ids)}
    return {**found, "evidence_refs": [{"batch_id": batch_id, "evidence_id": f"{batch_id}.{record}"}]}


@pytest.fixture
def imports(tmp_path):
    return Imports(tmp_path / "project")


def judge(imports, batch_id):
    rows = [{"record_id": f"{batch_id}.{n}", "verdict": "fail" if n == 2 else "pass"} for n in (1, 2, 3)]
    how = {"evaluation_spec": SPEC, "judger": {}, "rows": rows}
    return imports.call("store_assessment", batch_id=batch_id, **how)


def advised(imports, tool, **given):
    """Makes the call that get_status names first, which has to be `tool`, with what only the caller knows added."""
    step = imports.call("get_status").next[0]
    assert step.tool == tool
    assert set(step.supply) <= {*given, "rows", "reason"}
    return imports.call(tool, **step.arguments, **given)


def test_a_folder_that_is_no_project_is_led_to_its_first_import(tmp_path):
    def call(name, **given):
        return invoke(all_operations()[name], {"project_path": str(tmp_path), **given})

    made = call("get_status").next[-1]
    assert (made.tool, made.arguments, made.supply) == ("initialize_project", {"analysis_only": True}, {})
    first = call(made.tool, **made.arguments).next[0]
    assert (first.tool, first.arguments) == ("import_evidence", {"dry_run": True})
    path = export(tmp_path, 1)
    suggested = call(first.tool, **first.arguments, source=path, source_kind="langfuse").next[0]
    assert "find_records" in [step.tool for step in call(suggested.tool, **suggested.arguments).next]


def test_the_whole_way_is_named_step_by_step_and_needs_no_git(imports, tmp_path):
    first = imports.call("get_status").next[0]
    assert (first.tool, first.arguments) == ("import_evidence", {"dry_run": True})
    batch_id = imports.send(export(tmp_path, 1, 2, 3), **TRACES).batch_id
    rows = [{"record_id": f"{batch_id}.{n}", "verdict": "fail" if n == 2 else "pass"} for n in (1, 2, 3)]
    judged = advised(imports, "store_assessment", evaluation_spec=SPEC, judger={}, rows=rows)
    assert judged.next[0].tool == "create_round"
    opened = advised(imports, "create_round")
    assert (opened.status, opened.revision_id, opened.baseline_commit) == ("analysis_only", None, None)
    diagnosed = advised(imports, "store_diagnosis", issues=[issue(batch_id, "t-2", record=2)])
    assert [step.tool for step in diagnosed.next] == ["finish_round"]
    ended = advised(imports, "finish_round", reason="handed over")
    assert (ended.status, ended.commit) == ("closed_without_adoption", None)
    value = imports.project.state().get(Round, opened.round_id)
    assert (value.batch_ids, value.assessment_ids) == ((batch_id,), (judged.assessment_id,))
    assert value.issue_ids == tuple(diagnosed.issue_ids.values())
    assert imports.call("get_status").next[0].tool == "import_evidence"
    assert not os.path.exists(os.path.join(imports.root, ".git"))


ILLEGAL = {
    "freeze_round": {},
    "prepare_candidate": {"primary_issue_id": "issue-1-none"},
    "seal_candidate": {"candidate_id": "candidate-1-none"},
    "cancel_draft": {"candidate_id": "candidate-1-none", "reason": "r"},
    "decide_candidate": {"candidate_id": "candidate-1-none", "action": "reject", "reason": "r"},
    "rollback_to": {"target_commit": "f" * 40, "reason": "r"},
    "compare_and_gate": {
        "mode": "final",
        "left_assessment_id": "assessment-1-none",
        "right_assessment_id": "assessment-1-none",
    },
}


def test_every_other_step_is_refused_with_the_next_legal_call(imports, tmp_path):
    batch_id = imports.send(export(tmp_path, 1, 2, 3), **TRACES).batch_id
    round_id = imports.call("create_round").round_id
    position = imports.project.state().position.number
    for operation, given in ILLEGAL.items():
        with pytest.raises(RoundWithoutBaseline) as refused:
            imports.call(operation, round_id=round_id, **given)
        assert [call.tool for call in refused.value.next][:2] == ["store_diagnosis", "finish_round"]
        assert operation in str(refused.value)
    for operation, given in (("run_evaluation", {"round_id": round_id}), ("create_round", {"adopt": "worktree"})):
        with pytest.raises(AtkError) as missing:
            imports.call(operation, **given)
        assert missing.value.code == "not_runnable"
    for action in ("complete", "complete_with_override"):
        with pytest.raises(AtkError) as kept:
            imports.call("finish_round", round_id=round_id, action=action, reason="r")
        assert kept.value.code == "cannot_close_so"
    assert imports.project.state().position.number == position
    legal = refused.value.next
    imports.call(legal[0].tool, **legal[0].arguments, issues=[issue(batch_id, "t-1")])
    imports.call(legal[1].tool, **legal[1].arguments, reason="enough")
    with pytest.raises(AtkError) as over:
        imports.call("finish_round", round_id=round_id, action="abandon", reason="r")
    assert over.value.code == "wrong_round_status"


def test_a_round_begins_from_evidence_that_is_there(imports, tmp_path):
    with pytest.raises(AtkError) as nothing:
        imports.call("create_round")
    assert nothing.value.code == "nothing_to_look_at"
    older = imports.send(export(tmp_path, 1), **TRACES).batch_id
    newer = imports.send(export(tmp_path, 2, name="u.jsonl"), **TRACES).batch_id
    with pytest.raises(AtkError) as unknown:
        imports.call("create_round", batch_ids=["batch-1-none"])
    assert (unknown.value.code, unknown.value.facts["known"]) == ("unknown_object", [older, newer])
    assert imports.call("create_round").message.endswith(f"{newer}.")
    assert imports.call("create_round", batch_ids=[older]).message.endswith(f"{older}.")


def test_a_diagnosis_names_traces_of_imports_and_is_held_to_what_they_hold(imports, tmp_path):
    batch_id = imports.send(export(tmp_path, 1, 2, 3), **TRACES).batch_id
    round_id = imports.call("create_round").round_id
    for wrong, said in (
        (issue(batch_id, "t-22"), "did you mean t-2?"),
        (issue(batch_id, "t-2", record=4), "has no such Record"),
        (issue("batch-9-none", "t-2"), "there is no such batch"),
    ):
        with pytest.raises(AtkError) as refused:
            imports.call("store_diagnosis", round_id=round_id, issues=[wrong])
        assert said in str(refused.value)
    imports.call("store_diagnosis", round_id=round_id, issues=[issue(batch_id, "t-1", "t-3", record=3)])


def test_a_project_that_became_runnable_finishes_the_round_and_opens_one_with_a_baseline(tmp_path):
    target = Target(tmp_path / "target", initialize=False)
    target.call("initialize_project", analysis_only=True)
    source = export(tmp_path, 1)
    target.call("import_evidence", source=source, source_kind="langfuse", **TRACES)
    round_id = target.call("create_round").round_id
    target.initialize(revise=True)
    with pytest.raises(RoundWithoutBaseline):
        target.call("freeze_round", round_id=round_id)
    assert [step.tool for step in target.call("get_status").next] == ["store_assessment"]
    target.call("finish_round", round_id=round_id, action="abandon", reason="it runs now")
    opened = target.call("create_round", previous_round_id=round_id)
    assert opened.baseline_commit == target.head


def test_a_runnable_project_opens_a_round_with_a_baseline_from_imported_evidence(tmp_path):
    target = Target(tmp_path / "target")
    source = export(tmp_path, 1, 2, 3)
    batch_id = target.call("import_evidence", source=source, source_kind="langfuse", **TRACES).batch_id
    assert [step.tool for step in target.call("get_status").next] == ["store_assessment", "store_dataset"]
    opened = target.call("create_round", batch_ids=[batch_id])
    assert opened.baseline_commit == target.head
    target.call("store_diagnosis", round_id=opened.round_id, issues=[issue(batch_id, "t-1")])
