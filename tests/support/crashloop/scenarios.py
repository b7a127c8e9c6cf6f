"""The operations that the crash loop aims at: what is there before each, the call, and what it must have done."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from storage.projection import State
from storage.schema.candidates import Candidate, Decision
from storage.schema.datasets import Dataset
from storage.schema.probes import Probe
from storage.schema.rounds import Revision, Round
from tests.support import rounds
from tests.support.projects import FIX, PROMPT, Target

REQUEST_ID = "crash-loop"


@dataclass(frozen=True)
class Scenario:
    """One operation under test."""

    name: str
    operation: str
    prepare: Callable[[Target], Mapping[str, Any]]
    """Brings the target to where the call is made. Returns the call's arguments."""
    done: Callable[[Target, State, Mapping[str, Any]], None]
    """Asserts that the call was made, whole and once, and answered with this response."""
    moves_branch: bool = False
    restores: bool = False


def _the_users(target: Target) -> None:
    """What is the user's own and has to stay as it is: other branches, open edits, new and ignored files."""
    target.write("README.md", "The agent\n")
    target.write("data/table.bin", bytes(range(256)))
    target.git("add", ".")
    target.git("commit", "-q", "-m", "More of it")
    target.git("branch", "other")
    target.git("tag", "v1")
    target.write("README.md", "The agent, being described\n")
    target.write("mine.txt", "not for Git\n")
    target.write(".env", "KEY=value\n")
    target.write(".git/info/exclude", ".env\n")


def _before_dataset(target: Target) -> Mapping[str, Any]:
    _the_users(target)
    target.store_cases()
    return {"source": "cases.csv"}


def _stored(target: Target, state: State, response: Mapping[str, Any]) -> None:
    del target
    assert len(state.all(Dataset)) == 2
    assert state.get(Dataset, response["dataset_id"]).case_count == 6
    assert f"datasets/{response['dataset_id']}/cases.jsonl" in state.files


def _before_attachments(target: Target) -> Mapping[str, Any]:
    _the_users(target)
    rows = [{"input": "x", "attachments": ["table.bin", "../prompt.txt"]}, {"input": "y", "attachments": ["table.bin"]}]
    target.write("data/cases.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    return {"source": "data/cases.jsonl"}


def _stored_with_attachments(target: Target, state: State, response: Mapping[str, Any]) -> None:
    del target
    (dataset,) = state.all(Dataset)
    kept = [path for path in state.files if path.startswith(f"datasets/{dataset.id}/attachments/")]
    assert (response["dataset_id"], dataset.kept_attachments, len(kept)) == (dataset.id, 2, 2)
    assert all(state.files[path].sha256 == os.path.basename(path) for path in kept)


def _before_seal(target: Target) -> Mapping[str, Any]:
    _the_users(target)
    candidate_id = rounds.draft(target)
    return {"round_id": target.state.all(Round)[-1].id, "candidate_id": candidate_id}


def _sealed(target: Target, state: State, response: Mapping[str, Any]) -> None:
    (candidate,) = state.all(Candidate)
    assert candidate.status == "sealed"
    assert candidate.sealed_commit == response["sealed_commit"]
    assert target.git("rev-parse", f"refs/atk/candidates/{candidate.id}") == candidate.sealed_commit
    assert target.git("rev-parse", f"{candidate.sealed_commit}^{{tree}}") == candidate.tree
    assert target.git("show", f"{candidate.sealed_commit}:prompt.txt") == FIX.rstrip("\n")
    assert len([r for r in state.all(Revision) if r.origin == "candidate"]) == 1


def _before_decision(action: str) -> Callable[[Target], Mapping[str, Any]]:
    def prepare(target: Target) -> Mapping[str, Any]:
        _the_users(target)
        candidate_id = rounds.judged(target, "pass" if action == "keep" else "regression")
        round_id = target.state.all(Round)[-1].id
        return {"round_id": round_id, "candidate_id": candidate_id, "action": action, "reason": "as the gate says"}

    return prepare


def _kept(target: Target, state: State, response: Mapping[str, Any]) -> None:
    (candidate,) = state.all(Candidate)
    (decision,) = state.all(Decision)
    assert (candidate.status, candidate.decision_id) == ("accepted", decision.id)
    assert target.head == response["commit"] == candidate.accepted_commit == state.all(Round)[-1].current_commit
    assert target.git("rev-parse", "main^") == candidate.parent_commit
    assert target.git("rev-parse", "HEAD^{tree}") == candidate.tree
    assert target.git("rev-parse", f"refs/atk/kept/{candidate.id}") == target.head
    # The user's index follows the branch where the candidate changed it, and nowhere else.
    assert target.git("diff", "--cached", "--name-only") == ""
    assert target.git("diff", "--name-only") == "README.md"


def _rejected(target: Target, state: State, response: Mapping[str, Any]) -> None:
    (candidate,) = state.all(Candidate)
    (decision,) = state.all(Decision)
    assert (candidate.status, candidate.decision_id) == ("rejected", decision.id)
    assert response["decision_id"] == decision.id
    assert target.head == candidate.parent_commit
    assert target.read("prompt.txt") == PROMPT
    assert not os.path.lexists(target.path("notes"))


def _before_probe(target: Target) -> Mapping[str, Any]:
    _the_users(target)
    permission = {"id": "look", "command": ["cat", "prompt.txt"], "isolation_ref": "it reads", "max_calls": 2}
    round_id = target.call("create_round", probe_permissions=[permission]).round_id
    return {"round_id": round_id, "probe_authorization_id": "look", "question": "What is in force?"}


def _probed(target: Target, state: State, response: Mapping[str, Any]) -> None:
    (probe,) = state.all(Probe)
    assert probe.id == response["probe_id"]
    kept = target.call("read_record", record_id=probe.id, field="records").value
    assert [record["output"] for record in kept] == [PROMPT] * probe.counts.get("completed", 0)
    assert probe.charged == 2 - response["executions_left"] <= 1
    if probe.status == "completed":
        assert (probe.end_reason, probe.charged, len(kept)) == ("all_done", 1, 1)
    else:
        assert (probe.status, probe.end_reason) == ("interrupted", "server_gone")


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("store_dataset", "store_dataset", _before_dataset, _stored),
        Scenario("store_attachments", "store_dataset", _before_attachments, _stored_with_attachments),
        Scenario("seal_candidate", "seal_candidate", _before_seal, _sealed),
        Scenario("keep", "decide_candidate", _before_decision("keep"), _kept, moves_branch=True),
        Scenario("reject", "decide_candidate", _before_decision("reject"), _rejected, restores=True),
        Scenario("probe", "diagnostic_probe", _before_probe, _probed),
    )
}
