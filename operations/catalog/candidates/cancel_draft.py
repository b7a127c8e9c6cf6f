"""`cancel_draft`: give up a draft."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from operations.context import Context
from operations.definition import Effect, Example, Reason, Response, WriteRequest, operation, steps
from operations.execution import surrounding
from operations.tuning import advice, lifecycle
from operations.wording import counted
from storage import effects
from storage.checkpoints import build_tree, commit_tree, draft_changes, inverse
from storage.errors import NextCall
from storage.projection import UnknownObject
from storage.schema.base import ObjectId
from storage.schema.batches import Batch
from storage.schema.candidates import Candidate, Decision
from storage.schema.rounds import Round
from storage.schema.validations import Validation
from storage.transaction import ResourceBusy
from storage.worktree import Surroundings, ready, shown_path


class CancelDraftRequest(WriteRequest):
    round_id: ObjectId
    candidate_id: ObjectId
    reason: Reason


class CancelDraftResponse(Response):
    round_id: ObjectId
    candidate_id: ObjectId
    decision_id: ObjectId
    restored_paths: list[str]
    kept_as: Annotated[str | None, Field(description="The ref that holds what was edited, or null if nothing was.")]
    candidates_left: int


@operation(
    effect=Effect.WORKTREE,
    raises=(
        lifecycle.WrongRoundStatus,
        lifecycle.RoundWithoutBaseline,
        lifecycle.WrongCandidate,
        lifecycle.BaselineDrifted,
        UnknownObject,
        ResourceBusy,
    ),
    examples=(
        Example(
            "The idea was wrong.",
            {"round_id": "round-9-t4hx", "candidate_id": "candidate-12-p0vd", "reason": "the cause lies elsewhere"},
        ),
    ),
)
def cancel_draft(request: CancelDraftRequest, context: Context) -> CancelDraftResponse:
    """Give up the pending draft: keep its edits under a ref, and restore its parent's files.

    The edits are first kept under refs/atk/drafts/, so nothing is lost; the draft stays spent. A sealed candidate
    is decided, not cancelled.

    The ref is named after the candidate's id. Files that were uncommitted before the Round are left as they are.
    """
    with context.transaction() as tx:
        value = tx.state.get(Round, request.round_id)
        lifecycle.require_status(value, "cancel_draft", "optimizing")
        plan = lifecycle.plan_of(value, "cancel_draft")
        candidate = tx.state.get(Candidate, request.candidate_id)
        lifecycle.require_pending(value, candidate, "cancel_draft", "draft")
        tx.require_free("worktree", value.id)
        around = Surroundings.model_validate(value.surroundings)
        with context.project.git() as git, context.project.scratch(f"cancel-{tx.number}") as scratch:
            head = ready(git)
            lifecycle.require_at(value, head=head.commit, branch=head.branch)
            found = draft_changes(git, candidate.parent_commit, around, scratch)
            about, _ = surrounding.parted(git, value, found)
            changes = [c for c in about if c.path not in around.dirty and c.path not in around.untracked]
            restored = [shown_path(git, change.path) for change in changes]
            commit = None
            if changes:
                tree = build_tree(git, candidate.parent_commit, changes, scratch)
                message = f"Cancelled draft {candidate.id}\n"
                commit = commit_tree(git, tree, [candidate.parent_commit], message, int(context.now.timestamp()))
        decision = tx.put(
            Decision(
                id=tx.new_id("decision"),
                round_id=value.id,
                candidate_id=candidate.id,
                action="cancel_draft",
                reason=request.reason,
                created_at=context.timestamp,
                before_commit=head.commit,
                after_commit=head.commit,
            )
        )
        cancelled = tx.put(candidate.model_copy(update={"status": "cancelled", "decision_id": decision.id}))
        now = tx.put(lifecycle.changed(value, pending_candidate_id=None))
        known = [cancelled if c.id == candidate.id else c for c in tx.state.all(Candidate)]
        more = advice.another_candidate(now, tx.state.all(Batch), known, tx.state.all(Validation))
        left = plan.budget.candidates - sum(c.round_id == value.id for c in tx.state.all(Candidate))
        ending = NextCall("finish_round", {"round_id": value.id}, {"action": "how it ends", "reason": "why"})
        ref = f"refs/atk/drafts/{candidate.id}"
        response = CancelDraftResponse(
            message=f"{candidate.id} is cancelled and stays spent; restored: {counted(len(changes), 'path')}.",
            round_id=value.id,
            candidate_id=candidate.id,
            decision_id=decision.id,
            restored_paths=restored[:50],
            kept_as=ref if commit else None,
            candidates_left=left,
            warnings=[
                f"Left as it is, being no part of the draft: {counted(len(found) - len(changes), 'file')} of yours."
            ]
            if len(found) > len(changes)
            else [],
            next=steps(*(more or [ending])),
        )
        if commit is None:
            return tx.commit(response)
        undo = [effects.hold(ref, commit), effects.rewrite(inverse(changes), around.folders, head)]
        pending = tx.intend(undo, response, claims=["worktree", value.id])
    answer: CancelDraftResponse = pending.carry_out()
    return answer
