"""`rollback_to`: go back to an earlier accepted state, by a commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from operations.context import Context
from operations.definition import Effect, Example, Reason, Response, WriteRequest, operation, steps
from operations.execution import surrounding
from operations.tuning import advice, budget, lifecycle
from storage import effects
from storage.checkpoints import changes_between, commit_tree
from storage.errors import AtkError, NextCall
from storage.projection import UnknownObject
from storage.schema.base import ObjectId
from storage.schema.batches import Batch
from storage.schema.candidates import Candidate, Decision
from storage.schema.projects import Project as ProjectRecord
from storage.schema.rounds import Revision, Round
from storage.schema.validations import Validation
from storage.transaction import ResourceBusy, Transaction
from storage.worktree import Surroundings, ready, shown_path

_AT_B0 = (
    "It keeps no candidate, so it stands at B0 already. What a pending one changed goes with decide_candidate and "
    "reject, or with cancel_draft"
)


@dataclass(kw_only=True, eq=False)
class NoSuchCheckpoint(AtkError):
    """The commit is not a state that this Round accepted and left."""

    message = "{given} is no earlier checkpoint of {round_id}. {way_on}."
    next_calls = (NextCall("get_status", {"round_id": "{round_id}"}),)

    round_id: str
    given: str
    checkpoints: list[str]
    way_on: str


class RollbackToRequest(WriteRequest):
    round_id: ObjectId
    target_commit: Annotated[str, Field(min_length=7, description="B0's or an accepted candidate's commit.")]
    reason: Reason


class RollbackToResponse(Response):
    round_id: ObjectId
    decision_id: ObjectId
    revision_id: ObjectId
    commit: Annotated[str, Field(description="The restoring commit, now HEAD.")]
    withdrawn_candidate_ids: list[str]
    changed_paths: list[str]


@operation(
    effect=Effect.WORKTREE,
    raises=(
        lifecycle.WrongRoundStatus,
        lifecycle.RoundWithoutBaseline,
        lifecycle.CandidatePending,
        lifecycle.BaselineDrifted,
        lifecycle.FilesInTheWay,
        lifecycle.SurroundingsChanged,
        NoSuchCheckpoint,
        UnknownObject,
        ResourceBusy,
    ),
    examples=(
        Example(
            "Back to the baseline.",
            {"round_id": "round-9-t4hx", "target_commit": "3f2c1d9a", "reason": "it failed in the field"},
        ),
    ),
)
def rollback_to(request: RollbackToRequest, context: Context) -> RollbackToResponse:
    """Go back to an earlier accepted state of the Round, by a new commit that restores its content.

    History is not rewritten. Candidates accepted after the target are withdrawn, and the Round is optimizing
    again.

    The restoring commit stands on top, and the reserve for a final validation is set aside anew.
    """
    with context.transaction() as tx:
        value = tx.state.get(Round, request.round_id)
        lifecycle.require_status(value, "rollback_to", "ready", "optimizing", "finalizing")
        plan = lifecycle.plan_of(value, "rollback_to")
        lifecycle.require_nothing_pending(value, tx.state.find(Candidate, value.pending_candidate_id), "rollback_to")
        tx.require_free("worktree", value.id)
        target, withdrawn = _target(request, value, tx)
        around = Surroundings.model_validate(value.surroundings)
        with context.project.git() as git, context.project.scratch(f"rollback-{tx.number}") as scratch:
            head = ready(git)
            lifecycle.require_at(value, head=head.commit, branch=head.branch)
            surrounding.require_clean(git, value, tx.state.all(ProjectRecord)[0], scratch)
            changes = changes_between(git, head.commit, target.commit, around.raw)
            changed = [shown_path(git, change.path) for change in changes]
            message = (
                f"Roll back to {target.commit[:12]}\n\n{request.reason}\n\nATK-Round: {value.id}\n"
                f"ATK-Rollback: {target.id}\nATK-Operation: {tx.number}\n"
            )
            commit = commit_tree(git, target.tree, [head.commit], message, int(context.now.timestamp()))
        decision = tx.put(
            Decision(
                id=tx.new_id("decision"),
                round_id=value.id,
                action="rollback",
                reason=request.reason,
                created_at=context.timestamp,
                before_commit=head.commit,
                after_commit=commit,
                withdrawn_candidate_ids=tuple(withdrawn),
            )
        )
        gone = {
            candidate_id: tx.put(tx.state.get(Candidate, candidate_id).model_copy(update={"status": "withdrawn"}))
            for candidate_id in withdrawn
        }
        known = [gone.get(c.id, c) for c in tx.state.all(Candidate)]
        now = tx.put(
            lifecycle.changed(
                value,
                status="optimizing",
                current_commit=commit,
                current_revision_id=target.id,
                accepted_candidate_ids=tuple(c for c in value.accepted_candidate_ids if c not in withdrawn),
            )
        )
        response = RollbackToResponse(
            message=f"{value.id} is back at {target.id}; HEAD is the restoring commit {commit[:12]}.",
            round_id=value.id,
            decision_id=decision.id,
            revision_id=target.id,
            commit=commit,
            withdrawn_candidate_ids=withdrawn,
            changed_paths=changed[:50],
            warnings=_unpaid(budget.account(now, plan, tx.state.all(Batch))),
            next=steps(
                NextCall("get_status", {"round_id": value.id}),
                *advice.another_candidate(now, tx.state.all(Batch), known, tx.state.all(Validation)),
            ),
        )
        undo = [
            effects.rewrite(changes, around.folders),
            effects.publish(head, commit, changes),
            effects.hold(f"refs/atk/rollbacks/{decision.id}", commit),
        ]
        pending = tx.intend(undo, response, claims=["worktree", value.id])
    answer: RollbackToResponse = pending.carry_out()
    return answer


def _unpaid(account: budget.Account) -> list[str]:
    """Says when the budget cannot pay for the final validation that the rollback makes necessary."""
    left = account.limit - account.used
    if left >= account.reserve:
        return []
    return [f"{left} of {account.limit} Executions are left, and a final validation now takes {account.reserve}."]


def _target(request: RollbackToRequest, value: Round, tx: Transaction) -> tuple[Revision, list[str]]:
    """Returns the Revision to go back to, and the candidates that are withdrawn by it."""
    accepted = [tx.state.get(Candidate, c) for c in value.accepted_candidate_ids]
    checkpoints = {value.baseline_commit: (value.baseline_revision_id, [c.id for c in accepted])}
    for n, candidate in enumerate(accepted[:-1], start=1):
        checkpoints[str(candidate.accepted_commit)] = (str(candidate.revision_id), [c.id for c in accepted[n:]])
    found = [commit for commit in checkpoints if commit.startswith(request.target_commit.lower())]
    if len(found) != 1 or not accepted:
        known = list(checkpoints) if accepted else []
        way_on = f"Give one of its checkpoints: {', '.join(known)}" if known else _AT_B0
        raise NoSuchCheckpoint(round_id=value.id, given=request.target_commit, checkpoints=known, way_on=way_on)
    revision_id, withdrawn = checkpoints[found[0]]
    return tx.state.get(Revision, revision_id), withdrawn
