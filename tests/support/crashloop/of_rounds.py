"""Scenarios of Rounds and candidates: what is decided, and what moves the target's files and its branch."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from storage.projection import State
from storage.schema.candidates import Candidate, Decision
from storage.schema.rounds import Revision, Round
from tests.operations.catalog.stages import AUTHORIZED, Staged, issue
from tests.support.crashloop.scenario import Scenario, edit
from tests.support.projects import FIX, PROMPT

OWN = ("prompt.txt", "notes")
"""What candidates change."""


def _of_the_round(target: Staged, **more: Any) -> Mapping[str, Any]:
    return {"round_id": target.round_id, **more}


def _of_the_candidate(target: Staged, **more: Any) -> Mapping[str, Any]:
    return {"round_id": target.round_id, "candidate_id": target.candidate_id, **more}


def _opened(target: Staged) -> Mapping[str, Any]:
    return {"batch_ids": [target.batch_id], "assessment_ids": [target.assessment_id]}


def _to_be_adopted(target: Staged) -> Mapping[str, Any]:
    target.write("prompt.txt", FIX)
    target.write("notes/new.txt", "new\n")
    return {**_opened(target), "adopt": "worktree"}


def _adopted(target: Staged, state: State, response: Mapping[str, Any]) -> None:
    assert (target.read("prompt.txt"), os.path.lexists(target.path("notes/new.txt"))) == (PROMPT, False)
    held = f"refs/atk/adopt/{state.all(Round)[-1].id}"
    assert target.git("show", f"{held}:prompt.txt") == FIX.rstrip("\n")
    assert target.git("show", f"{held}:notes/new.txt") == "new"
    assert sorted(response["adopted_paths"]) == ["notes/new.txt", "prompt.txt"]


def _adopted_before(target: Staged) -> Mapping[str, Any]:
    edit(target)
    found = target.call("create_round", **_to_be_adopted(target))
    target.ids |= {"round_id": found.round_id, "b0": found.revision_id}
    made = target.call("store_diagnosis", round_id=found.round_id, issues=[issue("refunds", "refund-1", "refund-2")])
    target.call("freeze_round", round_id=found.round_id, plan={"repeatability": "deterministic"})
    return _of_the_round(target, primary_issue_id=made.issue_id, adopt="worktree")


def _written_back(target: Staged, state: State, response: Mapping[str, Any]) -> None:
    del state, response
    assert (target.read("prompt.txt"), target.read("notes/new.txt")) == (FIX, "new\n")


def _sealed(target: Staged, state: State, response: Mapping[str, Any]) -> None:
    (candidate,) = state.all(Candidate)
    assert candidate.status == "sealed"
    assert candidate.sealed_commit == response["sealed_commit"]
    assert target.git("rev-parse", f"refs/atk/candidates/{candidate.id}") == candidate.sealed_commit
    assert target.git("rev-parse", f"{candidate.sealed_commit}^{{tree}}") == candidate.tree
    assert target.git("show", f"{candidate.sealed_commit}:prompt.txt") == FIX.rstrip("\n")
    assert len([r for r in state.all(Revision) if r.origin == "candidate"]) == 1


def _kept(target: Staged, state: State, response: Mapping[str, Any]) -> None:
    (candidate,) = state.all(Candidate)
    (decision,) = state.all(Decision)
    assert (candidate.status, candidate.decision_id) == ("accepted", decision.id)
    assert target.head == response["commit"] == candidate.accepted_commit == state.all(Round)[-1].current_commit
    assert target.git("rev-parse", "main^") == candidate.parent_commit
    assert target.git("rev-parse", "HEAD^{tree}") == candidate.tree
    assert target.git("rev-parse", f"refs/atk/kept/{candidate.id}") == target.head
    _index_follows(target)


def _index_follows(target: Staged) -> None:
    """The user's index follows the branch where the candidate changed it, and nowhere else."""
    assert target.git("diff", "--cached", "--name-only") == ""
    assert target.git("diff", "--name-only") == "README.md"


def _put_back(target: Staged, state: State, response: Mapping[str, Any]) -> None:
    del response
    (candidate,) = state.all(Candidate)
    assert candidate.status != "draft"
    assert target.head == candidate.parent_commit
    assert target.read("prompt.txt") == PROMPT
    assert not os.path.lexists(target.path("notes"))


def _rolled_back(target: Staged, state: State, response: Mapping[str, Any]) -> None:
    (candidate,) = state.all(Candidate)
    assert target.head == response["commit"] == state.all(Round)[-1].current_commit
    assert target.git("rev-parse", "main^") == candidate.accepted_commit
    assert target.read("prompt.txt") == PROMPT
    assert not os.path.lexists(target.path("notes"))
    _index_follows(target)


def _put_away(target: Staged, state: State, response: Mapping[str, Any]) -> None:
    assert state.all(Round)[-1].status == "paused"
    assert target.read("prompt.txt") == PROMPT
    assert target.git("show", f"{response['held_as']}:prompt.txt") == FIX.rstrip("\n")


def _paused(target: Staged) -> None:
    target.call("transition_round", **_of_the_round(target, action="pause", reason="something else is urgent"))


def _resumed(target: Staged, state: State, response: Mapping[str, Any]) -> None:
    del response
    assert state.all(Round)[-1].status == "optimizing"
    assert target.read("prompt.txt") == FIX
    assert target.read("notes/why.txt") == "Refunds go to billing.\n"


def _compared(target: Staged) -> Mapping[str, Any]:
    sides = {f"{side}_assessment_id": target.ids[f"{side}_assessment_id"] for side in ("left", "right")}
    return _of_the_round(target, mode="incremental", **sides)


def _scenario(operation: str, stage: str, arguments: Any, name: str = "", **more: Any) -> Scenario:
    return Scenario(name=name or operation, operation=operation, stage=stage, arguments=arguments, **more)


def _acting(
    operation: str,
    stage: str,
    action: str,
    also: Mapping[str, Any] = MappingProxyType({}),
    *,
    prepare: Callable[[Staged], None] = lambda _: None,
    **more: Any,
) -> Scenario:
    """Returns the scenario of one action of an operation, which is named after it."""

    def arguments(target: Staged) -> Mapping[str, Any]:
        prepare(target)
        about = _of_the_candidate if operation == "decide_candidate" else _of_the_round
        return about(target, action=action, reason="as the test says", **also)

    return _scenario(operation, stage, arguments, action, action=action, **more)


WORD = {**AUTHORIZED, "action": "retain_without_final_pass"}
ISSUES = [issue("refunds", "refund-1", "refund-2"), issue("crashes", "crash-1")]
NOT_COMPARED = {"validation_missing_reason": "it cannot be compared"}
NOT_FINAL = {"validation_missing_reason": "the final runs are too dear", "override_authorization": WORD}

SCENARIOS = (
    _scenario("create_round", "assessed", _opened),
    _scenario("create_round", "assessed", _to_be_adopted, "adopt_worktree", done=_adopted, writes=OWN),
    _scenario("store_diagnosis", "opened", lambda t: _of_the_round(t, issues=ISSUES)),
    _scenario("freeze_round", "diagnosed", lambda t: _of_the_round(t, plan={"repeatability": "deterministic"})),
    _scenario("prepare_candidate", "frozen", lambda t: _of_the_round(t, primary_issue_id=t.issue_id)),
    _scenario("prepare_candidate", "assessed", _adopted_before, "prepare_adopted", done=_written_back, writes=OWN),
    _scenario("seal_candidate", "drafted", _of_the_candidate, done=_sealed),
    _scenario("cancel_draft", "drafted", lambda t: _of_the_candidate(t, reason="no use"), done=_put_back, writes=OWN),
    _scenario("compare_and_gate", "judged", _compared),
    _acting("decide_candidate", "compared", "keep", done=_kept, moves_branch=True),
    _acting("decide_candidate", "sealed", "reject", NOT_COMPARED, done=_put_back, writes=OWN),
    _acting("decide_candidate", "sealed", "defer", NOT_COMPARED, done=_put_back, writes=OWN),
    _scenario(
        "rollback_to",
        "kept",
        lambda t: _of_the_round(t, target_commit=t.commit, reason="it is worse after all"),
        done=_rolled_back,
        writes=OWN,
        moves_branch=True,
    ),
    _acting("finish_round", "validated", "complete"),
    _acting("finish_round", "diagnosed", "abandon"),
    _acting("finish_round", "frozen", "close_without_adoption"),
    _acting("finish_round", "kept", "complete_with_override", NOT_FINAL),
    _acting("transition_round", "kept", "start_finalizing"),
    _acting("transition_round", "drafted", "pause", done=_put_away, writes=OWN),
    _acting("transition_round", "drafted", "resume", prepare=_paused, done=_resumed, writes=OWN),
)
