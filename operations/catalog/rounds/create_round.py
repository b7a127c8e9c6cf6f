"""`create_round`: open a tuning effort at the present commit, or one that only looks at evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from operations import confirming, external_fixes
from operations.context import Context
from operations.definition import Effect, Example, Model, NextStep, Reason, Response, WriteRequest, operation, steps
from operations.execution.permitting import (
    MOST_PERMISSIONS,
    ProbePermissionGiven,
    ProbePermissionInvalid,
    permissions,
)
from operations.reusing import PreviousRoundMissing, RevisionNotReusable, reused
from operations.tuning import lifecycle
from operations.tuning.batches import find_batch, has_records
from operations.tuning.external_fix import ExternalFixRefused
from operations.tuning.identity import declared_inputs
from operations.wording import counted
from storage import effects
from storage.checkpoints import Change, build_tree, commit_tree, draft_changes, inverse
from storage.errors import AtkError, NextCall
from storage.projection import UnknownObject
from storage.schema.assessments import Assessment
from storage.schema.base import ObjectId
from storage.schema.projects import Project as ProjectRecord
from storage.schema.rounds import CLOSED, NO_REVISION, NULL_COMMIT, Revision, Round
from storage.schema.traces import ImportedBatch
from storage.transaction import ResourceBusy, Transaction
from storage.worktree import Head, Surroundings, in_scope, ready, shown_path, surroundings


@dataclass(kw_only=True, eq=False)
class NothingToAdopt(AtkError):
    """`adopt: worktree` was asked for, and the worktree holds no change in the scope."""

    message = (
        "There is no uncommitted change inside allowed_paths ({allowed}) to adopt. Leave adopt out, or make the change."
    )
    next_calls = (NextCall("create_round"),)

    allowed: list[str]


@dataclass(kw_only=True, eq=False)
class NothingToLookAt(AtkError):
    """A Round without a baseline begins from evidence, and there is none."""

    message = (
        "This project is analysis-only, so a Round of it begins from imported evidence, and nothing was imported that "
        "holds Records. Import an export first."
    )
    next_calls = (
        NextCall("import_evidence", {"dry_run": True}, {"source": "an export", "source_kind": "what it is"}),
        NextCall("get_status"),
    )


@dataclass(kw_only=True, eq=False)
class PreviousRoundOpen(AtkError):
    """A Round can only follow one that is over."""

    message = "{round_id} is {status}; previous_round_id has to name a Round that is over."
    next_calls = (NextCall("finish_round", {"round_id": "{round_id}"}, {"action": "how it ends", "reason": "why"}),)

    round_id: str
    status: str


class ExternalFixAuthorization(Model):
    source: Annotated[Literal["user"], Field(description="Only a person can authorize.")]
    action: Literal["validate_external_fix"]
    reason: Reason
    risk: Reason


class CreateRoundRequest(WriteRequest):
    batch_ids: Annotated[
        list[ObjectId],
        Field(description="Evidence that led to the Round, run or imported. Default where nothing runs: the newest."),
    ] = []
    assessment_ids: Annotated[list[ObjectId], Field(description="Assessments that led to the Round.")] = []
    previous_round_id: Annotated[
        ObjectId | None, Field(description="A Round that is over and that this one follows.")
    ] = None
    reuse_revision: Annotated[
        bool, Field(description="Take the Revision at which previous_round_id ended as the baseline, under its id.")
    ] = False
    external_fix_identity: Annotated[
        Reason | None,
        Field(description="What was repaired elsewhere, with its version: this Round validates that."),
    ] = None
    external_fix_authorization: Annotated[
        ExternalFixAuthorization | None, Field(description="As the person gave it, for external_fix_identity.")
    ] = None
    adopt: Annotated[
        Literal["worktree"] | None,
        Field(
            description="worktree: keep the uncommitted change under refs/atk/adopt/ and restore the baseline; "
            "prepare_candidate with adopt writes it back."
        ),
    ] = None
    probe_permissions: Annotated[
        list[ProbePermissionGiven],
        Field(
            max_length=MOST_PERMISSIONS, description="What diagnostic_probe may start in this Round; frozen with it."
        ),
    ] = []


class CreateRoundResponse(Response):
    round_id: ObjectId
    revision_id: Annotated[ObjectId | None, Field(description="The baseline B0; null where nothing can be run.")]
    baseline_commit: str | None
    branch: str | None
    status: str
    left_alone: Annotated[list[str], Field(description="Uncommitted files outside the scope, frozen by digest.")] = []
    adopted_paths: list[str] = []


@operation(
    effect=Effect.WORKTREE,
    raises=(
        lifecycle.NotRunnable,
        lifecycle.AnotherRoundActive,
        lifecycle.FilesInTheWay,
        NothingToAdopt,
        NothingToLookAt,
        PreviousRoundOpen,
        PreviousRoundMissing,
        RevisionNotReusable,
        ExternalFixRefused,
        confirming.NotConfirmed,
        ProbePermissionInvalid,
        UnknownObject,
        ResourceBusy,
    ),
    examples=(
        Example("Open a Round at HEAD.", {"batch_ids": ["batch-4-k3x9"]}),
        Example(
            "Open one in which a script may be asked, ten times at most.",
            {
                "batch_ids": ["batch-4-k3x9"],
                "probe_permissions": [
                    {
                        "id": "retrieved",
                        "script_path": ".atk/probes/retrieved.py",
                        "isolation_ref": "it reads index.db and nothing else",
                        "max_calls": 10,
                    }
                ],
            },
        ),
    ),
)
def create_round(request: CreateRoundRequest, context: Context) -> CreateRoundResponse:
    """Open a Round: one bounded tuning effort with HEAD as its baseline B0.

    Uncommitted changes inside allowed_paths are refused, or taken as the candidate to come with `adopt: worktree`;
    others stay as they are.

    Issues the baseline Revision. Uncommitted files outside allowed_paths are frozen by digest. In an analysis-only
    project the Round has no baseline: its evidence is judged and diagnosed, and it is finished.
    """
    with context.transaction() as tx:
        project = tx.state.all(ProjectRecord)[0]
        if project.analysis_only:
            return _without_baseline(request, context, tx, project)
        lifecycle.require_no_active(tx.state.all(Round))
        tx.require_free("worktree")
        _check_references(request, tx)
        permitted = permissions(request.probe_permissions, context.root, python=project.python, step="create_round")
        with context.project.git() as git, context.project.scratch(f"round-{tx.number}") as scratch:
            head = ready(git)
            around = surroundings(git, declared_inputs(project))
            inside = [
                p for p in (*around.dirty, *around.untracked) if in_scope(shown_path(git, p), project.allowed_paths)
            ]
            dirty = [p for p in inside if p in around.dirty]
            round_id = tx.new_id("round")
            changes: tuple[Change, ...] = ()
            adopt_commit = None
            if request.adopt:
                if not inside:
                    raise NothingToAdopt(allowed=list(project.allowed_paths))
                outside = around.model_copy(
                    update={
                        "dirty": {p: f for p, f in around.dirty.items() if p not in inside},
                        "untracked": {p: f for p, f in around.untracked.items() if p not in inside},
                        "staged": tuple(p for p in around.staged if p not in inside),
                    }
                )
                changes = draft_changes(git, head.commit, outside, scratch)
                tree = build_tree(git, head.commit, changes, scratch)
                message = f"Adopted change\n\nATK-Round: {round_id}\n"
                adopt_commit = commit_tree(git, tree, [head.commit], message, int(context.now.timestamp()))
                around = outside
            elif dirty:
                raise lifecycle.FilesInTheWay(paths=[shown_path(git, path) for path in dirty])
            left_alone = [shown_path(git, path) for path in (*around.dirty, *around.untracked)]
            adopted = [shown_path(git, change.path) for change in changes]
        taken = reused(request.previous_round_id, tx, project, head, around) if request.reuse_revision else None
        value, revision = _opened(request, context, tx, round_id, head, around, adopt_commit, taken)
        if taken is None:
            tx.put(revision)
        if request.external_fix_identity:
            value = external_fixes.opened(_asked(request, request.external_fix_identity), context, tx, value)
        tx.put(lifecycle.changed(value, probe_permissions=permitted))
        response = CreateRoundResponse(
            message=f"{round_id} is open at {head.commit[:12]}; its baseline is {revision.id}.",
            round_id=round_id,
            revision_id=revision.id,
            baseline_commit=head.commit,
            branch=head.branch,
            status=value.status,
            left_alone=left_alone[:20],
            adopted_paths=adopted[:20],
            warnings=_warnings(left_alone, adopted, tx.state.all(Round)),
            next=_leads(value),
        )
        if not request.adopt:
            return tx.commit(response)
        undo = [
            effects.hold(f"refs/atk/adopt/{round_id}", str(adopt_commit)),
            effects.rewrite(inverse(changes), around.folders, head),
        ]
        pending = tx.intend(undo, response, claims=["worktree", round_id])
    answer: CreateRoundResponse = pending.carry_out()
    return answer


def _leads(value: Round) -> list[NextStep]:
    if value.external_fix is not None:
        run = {"round_id": value.id, "revision_id": value.baseline_revision_id, "phase": "final"}
        return steps(NextCall("run_evaluation", run))
    return steps(
        NextCall("store_diagnosis", {"round_id": value.id}, {"issues": "what fails and why"}),
        NextCall("freeze_round", {"round_id": value.id, "preview": True}),
    )


def _asked(request: CreateRoundRequest, identity: str) -> external_fixes.Asked:
    if request.adopt:
        raise ExternalFixRefused(identity=identity, problem="adopt is for a change of this project's")
    word = request.external_fix_authorization
    return external_fixes.Asked(
        identity=identity,
        previous_round_id=request.previous_round_id,
        reason=word.reason if word else None,
        risk=word.risk if word else None,
    )


def _warnings(left_alone: list[str], adopted: list[str], rounds: list[Round]) -> list[str]:
    found = []
    if left_alone:
        one = len(left_alone) == 1
        found.append(
            f"{counted(len(left_alone), 'uncommitted file')} outside the scope {'has' if one else 'have'} to stay as "
            f"{'it is' if one else 'they are'} until the Round ends."
        )
    if adopted:
        found.append(
            f"Your change to {counted(len(adopted), 'file')} was put aside, and the baseline is in place; "
            "prepare_candidate with adopt: worktree writes it back."
        )
    if paused := [r.id for r in rounds if r.status == "paused"]:
        found.append(
            f"Paused: {', '.join(paused[-5:])}. A commit made here keeps one from being resumed on its branch."
        )
    if opened := [r.id for r in rounds if r.status == "analysis_only"]:
        it, verb = ("it", "is") if len(opened) == 1 else ("them", "are")
        found.append(
            f"{', '.join(opened[-5:])} {verb} open already and not frozen. Go on with the newest, or end {it} with "
            "finish_round and action abandon."
        )
    return found


def _without_baseline(
    request: CreateRoundRequest, context: Context, tx: Transaction, project: ProjectRecord
) -> CreateRoundResponse:
    """Opens a Round that only looks at evidence: nothing is asked of Git."""
    for name in ("adopt", "reuse_revision", "external_fix_identity"):
        if getattr(request, name):
            raise lifecycle.NotRunnable(step=f"create_round with {name}")
    _check_references(request, tx)
    held = [batch.id for batch in tx.state.all(ImportedBatch) if has_records(batch)]
    if not request.batch_ids and not held:
        raise NothingToLookAt
    permitted = permissions(request.probe_permissions, context.root, python=project.python, step="create_round")
    value = tx.put(
        Round(
            id=tx.new_id("round"),
            status="analysis_only",
            created_at=context.timestamp,
            without_baseline=True,
            baseline_commit=NULL_COMMIT,
            baseline_tree=NULL_COMMIT,
            baseline_revision_id=NO_REVISION,
            branch=None,
            surroundings={},
            current_commit=NULL_COMMIT,
            current_revision_id=NO_REVISION,
            batch_ids=tuple(request.batch_ids or held[-1:]),
            assessment_ids=tuple(request.assessment_ids),
            previous_round_id=request.previous_round_id,
            probe_permissions=permitted,
        )
    )
    judged = {a.batch_id for a in tx.state.all(Assessment)}
    waiting = [batch_id for batch_id in value.batch_ids if batch_id not in judged]
    judge = [NextCall("store_assessment", {"batch_id": batch_id}, {"rows": "verdicts"}) for batch_id in waiting[-1:]]
    diagnose = NextCall("store_diagnosis", {"round_id": value.id}, {"issues": "what fails and why"})
    return tx.commit(
        CreateRoundResponse(
            message=f"{value.id} is open without a baseline, on {', '.join(value.batch_ids[:5])}.",
            round_id=value.id,
            revision_id=None,
            baseline_commit=None,
            branch=None,
            status=value.status,
            warnings=_warnings([], [], tx.state.all(Round)),
            next=steps(*judge, diagnose),
        )
    )


def _check_references(request: CreateRoundRequest, tx: Transaction) -> None:
    for batch_id in request.batch_ids:
        find_batch(tx.state, batch_id)
    for assessment_id in request.assessment_ids:
        tx.state.get(Assessment, assessment_id)
    if request.previous_round_id:
        previous = tx.state.get(Round, request.previous_round_id)
        if previous.status not in CLOSED:
            raise PreviousRoundOpen(round_id=previous.id, status=previous.status)


def _opened(  # noqa: PLR0913, PLR0917 - what a Round begins with
    request: CreateRoundRequest,
    context: Context,
    tx: Transaction,
    round_id: str,
    head: Head,
    around: Surroundings,
    adopt_commit: str | None,
    taken: Revision | None,
) -> tuple[Round, Revision]:
    revision = taken or Revision(
        id=tx.new_id("revision"),
        origin="baseline",
        commit=head.commit,
        tree=head.tree,
        surroundings_digest=around.digest,
        round_id=round_id,
        created_at=context.timestamp,
    )
    value = Round(
        id=round_id,
        status="analysis_only",
        created_at=context.timestamp,
        baseline_commit=head.commit,
        baseline_tree=head.tree,
        baseline_revision_id=revision.id,
        branch=head.branch,
        surroundings=around.model_dump(mode="json"),
        current_commit=head.commit,
        current_revision_id=revision.id,
        batch_ids=tuple(request.batch_ids),
        assessment_ids=tuple(request.assessment_ids),
        previous_round_id=request.previous_round_id,
        adopt_commit=adopt_commit,
        reused_baseline=taken is not None,
    )
    return value, revision
