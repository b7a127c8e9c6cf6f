"""Scenarios of what stores: projects, datasets, evidence, verdicts, lessons, contracts and a person's word."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from operations import confirming
from storage.projection import State
from storage.schema.approvals import Approval
from storage.schema.datasets import Dataset
from storage.schema.rows import RowFile
from tests.operations.catalog.evidence import store_batch
from tests.operations.catalog.stages import AUTHORIZED, EXACT, SPEC, Staged
from tests.support.crashloop.scenario import KEYS, Scenario
from tests.support.projects import AT, FIX

CLIENT = {
    "method": "client",
    "readiness": "calibrated",
    "calibration_examples": [
        {"source_ref": "a", "expected": "pass", "observed": "pass"},
        {"source_ref": "b", "expected": "fail", "observed": "fail"},
    ],
}
RESULTS = [{"q": f"1 + {n}", "a": str(n + 1), "right": str(n + 1)} for n in range(5)]
WORD = {**AUTHORIZED, "action": "retain_without_final_pass"}


def lines(*rows: Mapping[str, Any]) -> str:
    """Returns rows as JSONL."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def _configuration(target: Staged) -> Mapping[str, Any]:
    del target
    prompt = {"component_id": "prompt", "role": "prompt", "change_role": "variable", "source_path": "prompt.txt"}
    return {
        "command": ["sh", "agent.sh", "{input_file}"],
        "components": [prompt],
        "external_effects": [],
        "allowed_paths": ["prompt.txt", "notes"],
        "protected_paths": ["agent.sh"],
    }


def _stored(target: Staged, state: State, response: Mapping[str, Any]) -> None:
    del target
    (dataset,) = state.all(Dataset)
    assert (dataset.id, dataset.case_count) == (response["dataset_id"], 6)
    assert f"datasets/{dataset.id}/cases.jsonl" in state.files


def _attachments(target: Staged) -> Mapping[str, Any]:
    rows = [{"input": "x", "attachments": ["table.bin", "../prompt.txt"]}, {"input": "y", "attachments": ["table.bin"]}]
    target.write("data/cases.jsonl", lines(*rows))
    return {"source": "data/cases.jsonl"}


def _stored_with_attachments(target: Staged, state: State, response: Mapping[str, Any]) -> None:
    del target
    (dataset,) = state.all(Dataset)
    kept = [path for path in state.files if path.startswith(f"datasets/{dataset.id}/attachments/")]
    assert (response["dataset_id"], dataset.kept_attachments, len(kept)) == (dataset.id, 2, 2)
    assert all(state.files[path].sha256 == os.path.basename(path) for path in kept)


def _holdout(target: Staged) -> Mapping[str, Any]:
    rows = [{"id": "a", "input": "a crash"}, {"id": "blind", "input": "MARK-IN", "expected": "x", "usage": "holdout"}]
    target.write("cases.jsonl", lines(*rows))
    return {"source": "cases.jsonl"}


def _sealed_cases(target: Staged, state: State, response: Mapping[str, Any]) -> None:
    """One key is there, and no byte of the store can be read without it."""
    assert state.get(Dataset, response["dataset_id"]).case_count == 2
    keys = os.path.join(os.path.dirname(target.root), KEYS)
    assert [name for name in os.listdir(keys) if name.endswith(".key")] == [f"{state.project_id}.key"]
    for folder, _, names in os.walk(target.path(".atk")):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                assert b"MARK-IN" not in file.read(), f"{name} holds a holdout Case in the clear"


def _results(target: Staged) -> Mapping[str, Any]:
    target.write("results.jsonl", lines(*RESULTS))
    mapping = {"input": "q", "output": "a", "expected": "right"}
    return {"source": "results.jsonl", "source_kind": "batch_results", "mapping": mapping}


def _selected(target: Staged) -> Mapping[str, Any]:
    return {"batch_id": target.batch_id, "text": "refund", "store_selection": True}


def _judged(target: Staged) -> Mapping[str, Any]:
    return {"batch_id": target.batch_id, "evaluation_spec": SPEC, "judger": EXACT}


def _dealt(target: Staged) -> Mapping[str, Any]:
    """Both sides of a candidate whose judger is the client."""
    rows = [{"record_id": f"{target.batch_id}.{n}", "verdict": "fail"} for n in range(1, 7)]
    found = target.call("store_assessment", batch_id=target.batch_id, spec_id=target.spec_id, judger=CLIENT, rows=rows)
    plan = {"repeatability": "deterministic", "spec_id": target.spec_id, "judger_id": found.judger_id}
    target.call("freeze_round", round_id=target.round_id, plan=plan)
    made = target.call("prepare_candidate", round_id=target.round_id, primary_issue_id=target.issue_id)
    target.ids["candidate_id"] = made.candidate_id
    target.write("prompt.txt", FIX)
    target.seal()
    for revision_id, said in ((target.b0, "other"), (target.revision_id, "billing")):
        store_batch(target, revision_id, lambda *_, said=said: said, round_id=target.round_id)
    return {"round_id": target.round_id}


def _verdicts_of_a_deal(target: Staged) -> Mapping[str, Any]:
    page = target.call("next_judgements", **_dealt(target))
    items = list(page.items)
    while page.next_cursor:
        page = target.call("next_judgements", deal_id=page.deal_id, cursor=page.next_cursor)
        items += page.items
    rows = [{"record_id": item.record_id, "verdict": "pass", "reason": "as it says"} for item in items]
    return {"deal_id": page.deal_id, "rows": rows}


def _lesson(target: Staged) -> Mapping[str, Any]:
    body = {"body": "Refunds have to be named.", "applicability": "tickets", "evidence_refs": [f"{target.batch_id}.5"]}
    return {"knowledge": body}


def _contract(target: Staged) -> Mapping[str, Any]:
    target.write("exporter.txt", "".join(f"line {n}\n" for n in range(9)))
    meaning = [{"field": "output", "meaning": "what the customer read", "required": True}]
    part = {"source_path": "exporter.txt", "start_line": 2, "end_line": 4, "component_id": "code"}
    agreed = {"source_namespace": "support", "mapping_version": "1", "agreed_by": "the owner"}
    return {**agreed, **part, "fields": meaning, "source_revision": "3"}


def _repairing(target: Staged) -> Mapping[str, Any]:
    """What somebody else repaired is run and judged."""
    handoff = {"trigger_input": "a refund", "expected": "billing", "actual": "other"}
    given = {"id": "index", "symptom": "s", "hypothesis": "h", "case_ids": ["refund-1", "refund-2"]}
    handed = {**given, "disposition": "external_handoff", "handoff": handoff}
    target.call("store_diagnosis", round_id=target.round_id, issues=[handed])
    ended = {"action": "close_without_adoption", "reason": "not ours to repair"}
    target.call("finish_round", round_id=target.round_id, **ended)
    target.write("prompt.txt", FIX)
    target.git("commit", "-q", "-m", "A new index", "prompt.txt")
    word = {**AUTHORIZED, "action": "validate_external_fix"}
    asked = {"external_fix_identity": "index@2", "external_fix_authorization": word}
    made = target.call("create_round", previous_round_id=target.round_id, **asked)
    target.ids |= {"round_id": made.round_id, "b0": made.revision_id}
    _, assessment_id = target.run(made.revision_id, "final")
    return {"round_id": made.round_id, "assessment_id": assessment_id}


def _repaired(target: Staged) -> Mapping[str, Any]:
    target.call("validate_external_fix", **_repairing(target))
    return {"round_id": target.round_id, "action": "complete_external_fix", "reason": "it is repaired"}


def _keeping_without_a_pass(target: Staged) -> Mapping[str, Any]:
    missing = {"validation_missing_reason": "the final runs are too dear", "override_authorization": WORD}
    return {"round_id": target.round_id, "action": "complete_with_override", "reason": "we keep it", **missing}


def _demanding(target: Staged) -> Mapping[str, Any]:
    from storage.schema.projects import Project
    from tests.support.rounds import store

    configured = target.state.all(Project)[0]
    store(target, configured.model_copy(update={"require_confirmation": True}))
    return _keeping_without_a_pass(target)


def _asked(target: Staged, state: State, response: Mapping[str, Any]) -> None:
    del target, response
    (approval,) = state.all(Approval)
    assert approval.status == "open"


def _waiting(target: Staged) -> Mapping[str, Any]:
    target.refusal("finish_round", **_demanding(target))
    return {"approval_id": target.state.all(Approval)[0].id}


def _declined(target: Staged, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """A question that was answered is not answered again."""
    if target.state.get(Approval, arguments["approval_id"]).status == "open":
        confirming.answer(target.project, arguments["approval_id"], approve=False, at=AT)
    return {}


def _answered(target: Staged, state: State, response: Mapping[str, Any]) -> None:
    del target, response
    (approval,) = state.all(Approval)
    assert approval.status == "declined"


def _scenario(operation: str, stage: str, arguments: Any, name: str = "", **more: Any) -> Scenario:
    return Scenario(name=name or operation, operation=operation, stage=stage, arguments=arguments, **more)


def _projected(target: Staged, state: State, response: Mapping[str, Any]) -> None:
    """Asserts that the rows are those that were answered, once."""
    del target
    (rows,) = state.all(RowFile)
    with open(response["path"], "rb") as file:
        data = file.read()
    assert (rows.id, rows.rows_sha256) == (response["rows_id"], hashlib.sha256(data).hexdigest())
    assert data.count(b"\n") == rows.row_count == response["row_count"]


SCENARIOS = (
    _scenario("initialize_project", "blank", _configuration),
    _scenario("initialize_project", "initialized", lambda t: {**_configuration(t), "revise": True}, "revise_project"),
    _scenario("store_dataset", "initialized", lambda _: {"source": "cases.csv"}, done=_stored),
    _scenario("store_dataset", "initialized", _attachments, "store_attachments", done=_stored_with_attachments),
    _scenario("store_dataset", "initialized", _holdout, "store_holdout", done=_sealed_cases),
    _scenario("import_evidence", "initialized", _results, waits=True),
    _scenario("find_records", "evaluated", _selected),
    _scenario("project_trajectories", "assessed", lambda t: {"batch_id": t.batch_id}, done=_projected),
    _scenario("store_assessment", "evaluated", _judged),
    _scenario("next_judgements", "diagnosed", _dealt),
    _scenario("store_assessment", "diagnosed", _verdicts_of_a_deal, "store_deal"),
    _scenario("store_knowledge", "evaluated", _lesson),
    _scenario("record_source_contract", "initialized", _contract),
    _scenario("validate_external_fix", "frozen", _repairing),
    _scenario("finish_round", "frozen", _repaired, "complete_external_fix", action="complete_external_fix"),
    _scenario("finish_round", "kept", _demanding, "ask_person", done=_asked, refused="not_confirmed", keyed=False),
    _scenario("render_assessment_html", "assessed", lambda t: {"assessment_id": t.assessment_id}, keyed=False),
    _scenario("render_round_report", "compared", lambda t: {"round_id": t.round_id}, keyed=False),
    _scenario(
        "finish_round",
        "kept",
        _waiting,
        "answer_person",
        done=_answered,
        command=lambda given: ["approve", given["approval_id"], "--decline"],
        again=_declined,
        keyed=False,
    ),
)
