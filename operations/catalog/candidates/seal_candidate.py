"""`seal_candidate`: fix a draft's content for good."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from operations.context import Context
from operations.definition import Effect, Example, Response, WriteRequest, operation, steps
from operations.execution import surrounding
from operations.tuning import lifecycle, scope
from operations.wording import counted
from storage import effects
from storage.checkpoints import build_tree, commit_tree, draft_changes
from storage.errors import NextCall
from storage.frames import canonical, digest
from storage.projection import UnknownObject
from storage.schema.base import ObjectId
from storage.schema.candidates import Candidate
from storage.schema.rounds import Revision, Round
from storage.transaction import ResourceBusy
from storage.worktree import Surroundings, in_scope, ready, shown_path


class SealCandidateRequest(WriteRequest):
    round_id: ObjectId
    candidate_id: ObjectId


class SealCandidateResponse(Response):
    round_id: ObjectId
    candidate_id: ObjectId
    revision_id: ObjectId
    sealed_commit: Annotated[str, Field(description="Holds the content, under refs/atk/candidates/<candidate id>.")]
    tree: str
    changed_paths: Annotated[list[str], Field(description="The first 50 of them.")]
    changed_count: int


@operation(
    effect=Effect.STORE,
    raises=(
        lifecycle.WrongRoundStatus,
        lifecycle.RoundWithoutBaseline,
        lifecycle.WrongCandidate,
        lifecycle.BaselineDrifted,
        scope.OutOfScope,
        scope.NothingChanged,
        UnknownObject,
        ResourceBusy,
    ),
    examples=(Example("Seal a draft.", {"round_id": "round-9-t4hx", "candidate_id": "candidate-12-p0vd"}),),
)
def seal_candidate(request: SealCandidateRequest, context: Context) -> SealCandidateResponse:
    """Seal the draft: take exactly what changed in the worktree as the candidate's content.

    A change outside the declared or allowed paths is refused and named. Sealed content never changes again;
    run_evaluation runs its revision_id.

    Text, binary, executable, linked, renamed and deleted files are taken as Git would record them, without
    touching your index, branch or files. Issues the candidate's Revision.
    """
    with context.transaction() as tx:
        value = tx.state.get(Round, request.round_id)
        lifecycle.require_status(value, "seal_candidate", "optimizing")
        plan = lifecycle.plan_of(value, "seal_candidate")
        candidate = tx.state.get(Candidate, request.candidate_id)
        lifecycle.require_pending(value, candidate, "seal_candidate", "draft")
        tx.require_free("worktree", value.id)
        with context.project.git() as git, context.project.scratch(f"seal-{tx.number}") as scratch:
            head = ready(git)
            lifecycle.require_at(value, head=head.commit, branch=head.branch)
            around = Surroundings.model_validate(value.surroundings)
            changes, own = surrounding.parted(git, value, draft_changes(git, candidate.parent_commit, around, scratch))
            if not changes:
                raise scope.NothingChanged(round_id=value.id, candidate_id=candidate.id, parent=candidate.parent_commit)
            frame = scope.Scope(
                round_id=value.id,
                candidate_id=candidate.id,
                declared=candidate.declared_paths,
                allowed=plan.allowed_paths,
                protected=plan.protected_paths,
                frozen=frozenset(shown_path(git, p) for p in (*around.dirty, *around.untracked)),
            )
            changed = [shown_path(git, c.path) for c in changes]
            scope.check_changes(frame, changed, in_scope)
            tree = build_tree(git, candidate.parent_commit, changes, scratch)
            message = f"Candidate {candidate.id}\n\nATK-Round: {value.id}\nATK-Candidate: {candidate.id}\n"
            commit = commit_tree(git, tree, [candidate.parent_commit], message, int(context.now.timestamp()))
        kept = [c.model_dump(mode="json") for c in changes]
        revision = tx.put(
            Revision(
                id=tx.new_id("revision"),
                origin="candidate",
                commit=commit,
                tree=tree,
                surroundings_digest=around.digest,
                round_id=value.id,
                candidate_id=candidate.id,
                parent_revision_id=candidate.parent_revision_id,
                created_at=context.timestamp,
            )
        )
        tx.put(
            candidate.model_copy(
                update={
                    "status": "sealed",
                    "revision_id": revision.id,
                    "sealed_commit": commit,
                    "tree": tree,
                    "changes": tuple(kept),
                    "changes_digest": digest(canonical(kept)),
                }
            )
        )
        run = {"round_id": value.id, "dataset_id": plan.dataset_id, "phase": "incremental"}
        response = SealCandidateResponse(
            message=f"{candidate.id} is sealed with {counted(len(changes), 'changed path')} as {revision.id}.",
            warnings=surrounding.left_alone(own),
            round_id=value.id,
            candidate_id=candidate.id,
            revision_id=revision.id,
            sealed_commit=commit,
            tree=tree,
            changed_paths=changed[:50],
            changed_count=len(changed),
            next=steps(NextCall("run_evaluation", {**run, "revision_id": revision.id})),
        )
        pending = tx.intend(
            [effects.hold(f"refs/atk/candidates/{candidate.id}", commit)], response, claims=["worktree", value.id]
        )
    answer: SealCandidateResponse = pending.carry_out()
    return answer
