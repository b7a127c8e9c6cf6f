"""One refusal: how a target comes to it, the call, and what the error has to say."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from operations.registry import all_operations
from storage.errors import AtkError
from tests.operations.catalog.stages import EXACT, SPEC, Staged, Stages, issue

CONTRACT = {"mapping_version": "new", "agreed_by": "me", "fields": [{"field": "output", "meaning": "the queue"}]}


@dataclass(frozen=True)
class Guard:
    """`arguments` and `facts` may hold "{name}" for one of the stage's ids; `prepare` is what the user did before."""

    operation: str
    stage: str
    code: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    prepare: Callable[[Staged], None] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.operation}-{self.code}-{'-'.join(self.arguments)[:40]}"

    def met(self, stages: Stages, root: str) -> tuple[Staged, AtkError, list[str]]:
        """Returns the target, the error, and what the refused call changed."""
        target = stages.copy(self.stage, root)
        if self.prepare is not None:
            self.prepare(target)
        before = target.facts()
        error = target.refusal(self.operation, **filled(self.arguments, target.ids))
        return target, error, target.changed_since(before)


def names(guards: list[Guard]) -> list[str]:
    return [guard.name for guard in guards]


def holds(guard: Guard, stages: Stages, root: str) -> None:
    """Asserts that the call is refused as the guard says, in words that lead on, and changes nothing."""
    target, error, changed = guard.met(stages, root)

    assert error.code == guard.code, str(error)
    assert not changed, changed
    expected = filled(guard.facts, target.ids)
    assert {name: error.facts[name] for name in expected} == expected
    text = str(error)
    assert text.endswith((".", "!", "?"))
    assert "Traceback" not in text
    assert len(text) < 2000
    assert all(call.tool in all_operations() for call in error.next)
    assert error.next


def filled(value: Any, ids: Mapping[str, Any]) -> Any:
    """Returns `value` with each text "{name}" replaced by that id."""
    if isinstance(value, str):
        return ids[value[1:-1]] if value.startswith("{") and value.endswith("}") else value
    if isinstance(value, Mapping):
        return {filled(k, ids): filled(v, ids) for k, v in value.items()}
    return [filled(v, ids) for v in value] if isinstance(value, list | tuple) else value


def supplied(target: Staged, tool: str, given: Mapping[str, Any], asked: Mapping[str, str]) -> dict[str, Any]:
    """Returns `given` with every argument filled in that `asked` names, as a caller knows it at any stage."""
    ids, found = target.ids, dict(given)
    head = target.head if os.path.isdir(target.path(".git")) else "f" * 40
    judged = {name: ids[name] for name in ("spec_id", "judger_id") if name in ids}
    plan = {"repeatability": "deterministic", "dataset_id": ids.get("dataset_id", "dataset-1-none"), **judged}
    ready = {"command": ["sh", "agent.sh"], "external_effects": [], "allowed_paths": ["prompt.txt"]}
    known: dict[tuple[str, str], dict[str, Any]] = {
        ("store_dataset", "source"): {"source": "cases.csv"},
        ("import_evidence", "source"): {"source": "cases.csv", "source_kind": "batch_results"},
        ("store_dataset", "mapping"): {"source": "cases.csv"},
        ("store_knowledge", "knowledge"): {"knowledge": {"body": "a lesson", "applicability": "here"}},
        ("find_records", "ids_file"): {"batch_id": ids.get("batch_id"), "ids_file": "cases.csv", "ids_column": "id"},
        ("record_source_contract", "fields"): CONTRACT,
        ("record_source_contract", "mapping_version"): {**CONTRACT, "mapping_version": "next"},
        ("record_source_contract", "source_path"): {"source_path": "agent.sh"},
        ("store_assessment", "supersede_reason"): {
            "supersede_reason": "again",
            "evaluation_spec": SPEC,
            "judger": EXACT,
        },
        ("store_diagnosis", "issues"): {"issues": [issue("refunds", "refund-1", "refund-2")]},
        ("freeze_round", "round_id"): {"round_id": ids.get("round_id")},
        ("freeze_round", "plan"): {"plan": plan},
        ("prepare_candidate", "primary_issue_id"): {"primary_issue_id": ids.get("issue_id")},
        ("run_evaluation", "case_ids"): {"case_ids": ["refund-1"], "revision_commit": head, "wait_seconds": 100},
        ("run_evaluation", "revision_commit"): {"revision_commit": head, "wait_seconds": 100},
        ("finish_round", "action"): {"action": "abandon"},
        ("decide_candidate", "action"): {"action": "reject"},
        ("decide_candidate", "validation_missing_reason"): {"validation_missing_reason": "it cannot be compared"},
    }
    for name in asked:
        if (tool, name) in known:
            found |= known[tool, name]
        elif tool == "store_assessment":
            batch_id = found.get("batch_id", ids.get("batch_id", "batch-1-none"))
            found |= {"batch_id": batch_id, "evaluation_spec": SPEC, "judger": EXACT}
        elif tool == "initialize_project":
            found |= ready
        elif tool == "compare_and_gate":
            found |= {name: ids.get(name, ids.get("assessment_id", "assessment-1-none"))}
        elif name == "reason":
            found |= {"reason": "because"}
    return found
