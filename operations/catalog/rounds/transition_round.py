"""`transition_round`: let a Round rest, go on with it, or end its optimizing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from operations.context import Context
from operations.definition import Effect, Example, Reason, Response, WriteRequest, operation, steps
from operations.execution import surrounding
from operations.tuning import lifecycle, pausing, running
from operations.tuning.identity import runner_digest
from operations.wording import counted
from storage import effects
from storage.checkpoints import Change, Entry, build_tree, commit_tree, draft_changes, inverse
from storage.errors import NextCall
from storage.git import Git
from storage.projection import UnknownObject
from storage.schema.base import ObjectId
from storage.schema.batches import Batch
from storage.schema.candidates import Candidate
from storage.schema.projects import Project as ProjectRecord
from storage.schema.rounds import ACTIVE, Pause, Round
from storage.transaction import ResourceBusy, Transaction
from storage.worktree import Surroundings, ready, shown_path


class TransitionRoundRequest(WriteRequest):
    round_id: ObjectId
    action: Annotated[
        Literal["pause", "resume", "start_finalizing"],
        Field(
            description="pause: let the Round rest, so that another may begin. resume: go on. "
            "start_finalizing: no further candidates."
        ),
    ]
    reason: Reason


class TransitionRoundResponse(Response):
    round_id: ObjectId
    from_status: str
    status: str
    held_as: Annotated[str | None, Field(description="The ref that holds what was put away or written back.")] = None
    changed_paths: Annotated[list[str], Field(description="Files put away or written back; the first 50.")] = []


@operation(
    effect=Effect.WORKTREE,
    raises=(
        lifecycle.WrongRoundStatus,
        lifecycle.AnotherRoundActive,
        lifecycle.CandidatePending,
        lifecycle.BaselineDrifted,
        lifecycle.FilesInTheWay,
        lifecycle.SurroundingsChanged,
        pausing.ConfigurationMoved,
        running.NothingToValidate,
        UnknownObject,
        ResourceBusy,
    ),
    examples=(
        Example(
            "Something more urgent came up.",
            {"round_id": "round-9-t4hx", "action": "pause", "reason": "a hotfix comes first"},
        ),
    ),
)
def transition_round(request: TransitionRoundRequest, context: Context) -> TransitionRoundResponse:
    """Pause a Round, resume it, or end its optimizing so that only the final validation is left.

    pause puts an undecided candidate away and restores its parent's files; resume writes it back byte for byte.

    What is put away lies under refs/atk/paused/. resume needs HEAD, branch, configuration and the files around to
    be as the Round left them. While it rests, nothing of it runs or is decided, and another Round may be active.
    """
    with context.transaction() as tx:
        value = tx.state.get(Round, request.round_id)
        move = _MOVES[request.action](request, context, tx, value)
        tx.put(move.value)
        if not move.steps:
            return tx.commit(move.response)
        pending = tx.intend(move.steps, move.response, claims=["worktree", value.id])
    answer: TransitionRoundResponse = pending.carry_out()
    return answer


@dataclass(frozen=True, kw_only=True)
class _Move:
    """A Round as it will be, what is answered, and what has to be done in the worktree."""

    value: Round
    response: TransitionRoundResponse
    steps: tuple[effects.Step, ...] = ()


def _pause(request: TransitionRoundRequest, context: Context, tx: Transaction, value: Round) -> _Move:
    lifecycle.require_status(value, "pause", *pausing.RESTS_FROM)
    _require_idle(tx, value)
    undecided = tx.state.find(Candidate, value.pending_candidate_id)
    pause = Pause(from_status=value.status, at=context.timestamp, reason=request.reason)
    changes: tuple[Change, ...] = ()
    doing: tuple[effects.Step, ...] = ()
    paths: list[str] = []
    if undecided is not None:
        tx.require_free("worktree")
        around = Surroundings.model_validate(value.surroundings)
        with context.project.git() as git, context.project.scratch(f"pause-{tx.number}") as scratch:
            head = ready(git)
            lifecycle.require_at(value, head=head.commit, branch=head.branch)
            found, _ = surrounding.parted(git, value, draft_changes(git, value.current_commit, around, scratch))
            changes = tuple(c for c in found if c.path not in around.dirty and c.path not in around.untracked)
            paths = [shown_path(git, change.path) for change in changes]
            if changes:
                ref = f"refs/atk/paused/{value.id}-{tx.number}"
                commit = _held(git, value, changes, scratch, int(context.now.timestamp()))
                pause = pause.model_copy(
                    update={
                        "held_as": ref,
                        "held_commit": commit,
                        "changes": tuple(c.model_dump(mode="json") for c in changes),
                    }
                )
                doing = (effects.hold(ref, commit), effects.rewrite(inverse(changes), around.folders, head))
    said = (
        f"{counted(len(changes), 'file')} of {undecided.id} put away." if undecided else "Nothing had to be put away."
    )
    leads = [
        NextCall("transition_round", {"round_id": value.id, "action": "resume"}, {"reason": "why it goes on"}),
        NextCall("create_round"),
    ]
    return _Move(
        value=(rests := pausing.paused(value, pause)),
        response=_response(value, rests, said, pause, paths, leads),
        steps=doing,
    )


def _held(git: Git, value: Round, changes: Sequence[Change], scratch: str, when: int) -> str:
    """Returns a commit of the exact bytes that are on disk, on top of one of the files as Git records them."""
    recorded = build_tree(git, value.current_commit, changes, scratch)
    first = commit_tree(git, recorded, [value.current_commit], f"Put away while {value.id} rests\n", when)
    exact = [c.model_copy(update={"after": _exact(c.after)}) for c in changes]
    tree = build_tree(git, value.current_commit, exact, scratch)
    return commit_tree(git, tree, [first], f"The bytes of what was put away while {value.id} rests\n", when)


def _exact(entry: Entry | None) -> Entry | None:
    return entry.model_copy(update={"oid": entry.raw}) if entry is not None and entry.raw else entry


def _resume(request: TransitionRoundRequest, context: Context, tx: Transaction, value: Round) -> _Move:
    pause = value.pause
    if pause is None:
        lifecycle.require_status(value, "resume", "paused")
        raise RuntimeError(f"BUG: {value.id} is paused and does not say since when")
    if pause.from_status in ACTIVE:
        lifecycle.require_no_active(tx.state.all(Round))
    _require_idle(tx, value)
    doing: tuple[effects.Step, ...] = ()
    changes = tuple(Change.model_validate(c) for c in pause.changes)
    paths: list[str] = []
    if not value.without_baseline:
        tx.require_free("worktree")
        project = tx.state.all(ProjectRecord)[0]
        pausing.require_configured(
            value, run_config_digest=project.run_config_digest, runner_digest=runner_digest(project)
        )
        with context.project.git() as git, context.project.scratch(f"resume-{tx.number}") as scratch:
            head = ready(git)
            lifecycle.require_at(value, head=head.commit, branch=head.branch)
            surrounding.require_clean(git, value, project, scratch)
            surrounding.require_inputs(git, value, project, tx.state.all(Candidate))
            paths = [shown_path(git, change.path) for change in changes]
        if changes:
            doing = (effects.rewrite(changes, head=head),)
    now = pausing.resumed(value, pause, request.reason, context.timestamp)
    said = f"{counted(len(changes), 'file')} written back." if changes else "Nothing had been put away."
    return _Move(value=now, response=_response(value, now, said, pause, paths), steps=doing)


def _start_finalizing(request: TransitionRoundRequest, context: Context, tx: Transaction, value: Round) -> _Move:
    tx.require_free(value.id)
    undecided = tx.state.find(Candidate, value.pending_candidate_id)
    now = pausing.finalizing(value, undecided, request.reason, context.timestamp)
    return _Move(value=now, response=_response(value, now, "The final runs, of B0 and of what is kept, lead on."))


_MOVES = {"pause": _pause, "resume": _resume, "start_finalizing": _start_finalizing}


def _require_idle(tx: Transaction, value: Round) -> None:
    tx.require_free(value.id)
    for run in tx.state.runs.values():  # one that runs apart holds neither the worktree nor the Round
        if tx.state.get(Batch, run.batch_id).round_id == value.id:
            raise ResourceBusy(resource=value.id, holder=f"the run of {run.batch_id}", batch_id=run.batch_id)


def _response(  # noqa: PLR0913, PLR0917 - what a step says
    before: Round,
    now: Round,
    said: str,
    pause: Pause | None = None,
    paths: Sequence[str] = (),
    leads: Sequence[NextCall] = (),
) -> TransitionRoundResponse:
    return TransitionRoundResponse(
        message=f"{now.id} is {now.status}. {said}",
        round_id=now.id,
        from_status=before.status,
        status=now.status,
        held_as=pause.held_as if pause else None,
        changed_paths=list(paths[:50]),
        next=steps(*(leads or [NextCall("get_status", {"round_id": now.id})])),
    )
