"""`prepare_candidate`: begin one scoped change for one Issue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from operations.context import Context
from operations.definition import Effect, Example, Response, WriteRequest, operation, steps
from operations.execution import surrounding
from operations.tuning import blocking, budget, holdout, lifecycle, running, scope
from operations.wording import counted
from storage import effects
from storage.checkpoints import Change, changes_between
from storage.errors import AtkError, NextCall
from storage.git import Git
from storage.projection import State, UnknownObject
from storage.schema.base import ObjectId
from storage.schema.batches import Batch
from storage.schema.candidates import Candidate, Issue
from storage.schema.projects import Project as ProjectRecord
from storage.schema.rounds import Plan, Round
from storage.schema.validations import Validation
from storage.transaction import ResourceBusy, Transaction
from storage.worktree import Surroundings, in_scope, ready, shown_path


@dataclass(kw_only=True, eq=False)
class IssueNotPlanned(AtkError):
    """The Issue is not among those that the plan was frozen with, or none is named and there are several."""

    message = "{problem} in the plan of {round_id}; planned are {planned}. Give primary_issue_id, one of them."
    next_calls = (
        NextCall("prepare_candidate", {"round_id": "{round_id}", "primary_issue_id": "{first}"}),
        NextCall("get_status", {"round_id": "{round_id}"}),
    )

    round_id: str
    issue_id: str | None
    planned: list[str]
    first: str

    problem: str


@dataclass(kw_only=True, eq=False)
class NotSuperseding(AtkError):
    """`supersedes` has to name an earlier sealed candidate of the same Issue."""

    message = (
        "{candidate_id} cannot be superseded here: it is {status} and answers {issue_id}. supersedes names an earlier "
        "sealed candidate of the same Issue; leave it out where there is none."
    )
    next_calls = (NextCall("read_record", {"record_id": "{candidate_id}"}),)

    candidate_id: str
    status: str
    issue_id: str


@dataclass(kw_only=True, eq=False)
class NoAdoptedChange(AtkError):
    """`adopt: worktree` was asked for, and the Round holds no adopted change."""

    message = (
        "{round_id} was created without adopt: worktree, so there is no change to write back. Leave adopt out and edit."
    )
    next_calls = (
        NextCall("prepare_candidate", {"round_id": "{round_id}"}, {"primary_issue_id": "an Issue of the plan"}),
    )

    round_id: str


@dataclass(kw_only=True, eq=False)
class AdoptedChangeOverlaps(AtkError):
    """The adopted change and a kept candidate change the same files, so one would undo the other."""

    message = (
        "The adopted change of {round_id} was made on B0, and a kept candidate changed the same files: {paths}. "
        "It stays in refs/atk/adopt/{round_id}; leave adopt out and make the change by hand on what is kept."
    )
    next_calls = (
        NextCall("prepare_candidate", {"round_id": "{round_id}"}, {"primary_issue_id": "an Issue of the plan"}),
    )

    round_id: str
    paths: list[str]


class PrepareCandidateRequest(WriteRequest):
    round_id: ObjectId
    primary_issue_id: Annotated[
        str | None,
        Field(
            min_length=1,
            description="The one Issue that the change answers: its id or your name for it. Default: the only one.",
        ),
    ] = None
    paths: Annotated[
        list[str],
        Field(
            description="The files to be changed, exactly. Default: any within allowed_paths; sealing records which."
        ),
    ] = []
    related_issue_ids: Annotated[list[ObjectId], Field(description="Other Issues of the plan that it touches.")] = []
    supersedes: Annotated[ObjectId | None, Field(description="An earlier sealed candidate of the same Issue.")] = None
    blocked_by_issue_ids: Annotated[
        list[ObjectId], Field(description="Issues of the Round, handed over, without whose repair it cannot be kept.")
    ] = []
    change_kind: Annotated[
        Literal["fix", "workaround"], Field(description="workaround: it goes around what is handed over.")
    ] = "fix"
    adopt: Annotated[
        Literal["worktree"] | None, Field(description="worktree: write back the change that create_round kept.")
    ] = None


class PrepareCandidateResponse(Response):
    round_id: ObjectId
    candidate_id: ObjectId
    issue_id: ObjectId
    parent_revision_id: ObjectId
    allowed_paths: list[str]
    declared_paths: list[str]
    candidates_left: int


@operation(
    effect=Effect.WORKTREE,
    raises=(
        lifecycle.WrongRoundStatus,
        lifecycle.RoundWithoutBaseline,
        lifecycle.CandidatePending,
        lifecycle.BaselineDrifted,
        lifecycle.FilesInTheWay,
        lifecycle.SurroundingsChanged,
        budget.BudgetExhausted,
        scope.OutOfScope,
        IssueNotPlanned,
        blocking.BlockersUnfounded,
        NotSuperseding,
        holdout.HoldoutWasRun,
        NoAdoptedChange,
        AdoptedChangeOverlaps,
        UnknownObject,
        ResourceBusy,
    ),
    examples=(
        Example(
            "One file for one Issue.",
            {"round_id": "round-9-t4hx", "primary_issue_id": "issue-10-w8rn", "paths": ["prompt.txt"]},
        ),
    ),
)
def prepare_candidate(request: PrepareCandidateRequest, context: Context) -> PrepareCandidateResponse:
    """Begin a candidate: one scoped change for one Issue, on top of the current revision.

    Needs the worktree to be the current revision; spends one candidate of the budget. Then edit the files and call
    seal_candidate.

    The worktree is handed over until then. Cancelled drafts stay spent. With `adopt: worktree` the change that
    create_round put aside is written back as the draft.
    """
    with context.transaction() as tx:
        value = tx.state.get(Round, request.round_id)
        holdout.require_not_run(value, tx.state.all(Batch))
        lifecycle.require_status(value, "prepare_candidate", "ready", "optimizing")
        plan = lifecycle.plan_of(value, "prepare_candidate")
        pending = tx.state.find(Candidate, value.pending_candidate_id)
        lifecycle.require_nothing_pending(value, pending, "prepare_candidate")
        tx.require_free("worktree", value.id)
        budget.require_candidate(value, plan, tx.state.all(Candidate))
        issue = _issue(request, plan, tx)
        warnings = [*_affordable(value, plan, issue, tx.state), *_put_aside(request, value, tx.state)]
        with context.project.git() as git, context.project.scratch(f"prepare-{tx.number}") as scratch:
            head = ready(git)
            lifecycle.require_at(value, head=head.commit, branch=head.branch)
            around = Surroundings.model_validate(value.surroundings)
            project = tx.state.all(ProjectRecord)[0]
            surrounding.require_clean(git, value, project, scratch)
            surrounding.require_inputs(git, value, project, tx.state.all(Candidate))
            adopted = _adopted(git, request, value, around)
            frozen = surrounding.frozen_paths(git, around)
        candidate = _drafted(request, context, tx, value, plan, issue, adopted)
        scope.check_declared(_scope(candidate, plan, frozen), in_scope)
        tx.put(candidate)
        tx.put(
            lifecycle.changed(
                value,
                status="optimizing",
                pending_candidate_id=candidate.id,
                candidate_ids=(*value.candidate_ids, candidate.id),
            )
        )
        left = plan.budget.candidates - 1 - sum(c.round_id == value.id for c in tx.state.all(Candidate))
        response = PrepareCandidateResponse(
            message=f"{candidate.id} is a draft for {issue.id}. Edit the files, then seal it.",
            warnings=warnings,
            round_id=value.id,
            candidate_id=candidate.id,
            issue_id=issue.id,
            parent_revision_id=value.current_revision_id,
            allowed_paths=list(plan.allowed_paths),
            declared_paths=list(candidate.declared_paths),
            candidates_left=left,
            next=steps(NextCall("seal_candidate", {"round_id": value.id, "candidate_id": candidate.id})),
        )
        if not adopted:
            return tx.commit(response)
        announced = tx.intend([effects.rewrite(adopted, head=head)], response, claims=["worktree", value.id])
    answer: PrepareCandidateResponse = announced.carry_out()
    return answer


def _issue(request: PrepareCandidateRequest, plan: Plan, tx: Transaction) -> Issue:
    planned = [tx.state.get(Issue, issue_id) for issue_id in plan.issue_ids]
    named = {issue.name: issue.id for issue in planned}  # a name is one Issue's within a Round
    given = request.primary_issue_id
    if given is None and len(plan.issue_ids) == 1:
        given = plan.issue_ids[0]
    if given is None:
        raise _not_planned(request, plan, "No Issue is named, and there are several")
    primary = given if given in plan.issue_ids else named.get(given, given)
    for issue_id in (primary, *request.related_issue_ids):
        if issue_id not in plan.issue_ids:
            raise _not_planned(request, plan, f"{issue_id} is not", issue_id)
    if request.supersedes:
        earlier = tx.state.get(Candidate, request.supersedes)
        if earlier.primary_issue_id != primary or earlier.sealed_commit is None:
            raise NotSuperseding(candidate_id=earlier.id, status=earlier.status, issue_id=earlier.primary_issue_id)
    return tx.state.get(Issue, primary)


def _not_planned(
    request: PrepareCandidateRequest, plan: Plan, problem: str, issue_id: str | None = None
) -> IssueNotPlanned:
    return IssueNotPlanned(
        round_id=request.round_id,
        issue_id=issue_id,
        planned=list(plan.issue_ids),
        first=plan.issue_ids[0],
        problem=problem,
    )


def _affordable(value: Round, plan: Plan, issue: Issue, state: State) -> list[str]:
    """Refuses a Candidate whose own side cannot be paid, and warns where its parent's is to be paid besides.

    Raises:
        BudgetExhausted: It could be sealed and never compared.
    """
    batches = state.all(Batch)
    cost = running.incremental_side(plan, value, state.all(Candidate), state.all(Validation), issue.id)
    budget.require_executions(value, plan, batches, cost, final=False, step="the candidate's side of a comparison")
    free = budget.account(value, plan, batches).free
    if 2 * cost <= free or running.stands(value, value.current_revision_id, batches):
        return []
    warning = (
        f"A comparison of this candidate takes {counted(cost, 'Execution')} a side, and {free} are free: its parent "
        "has not been run yet, so only one of the two sides can be paid."
    )
    return [warning]


def _put_aside(request: PrepareCandidateRequest, value: Round, state: State) -> list[str]:
    """Warns where the change that create_round put aside is in no draft yet, nor in this one."""
    taken_up = any(c.adopted for c in state.all(Candidate) if c.round_id == value.id)
    if value.adopt_commit is None or request.adopt or taken_up:
        return []
    ref = f"refs/atk/adopt/{value.id}"
    warning = (
        f"The change that create_round put aside is not in this draft, which was asked for without adopt. It stays in "
        f"{ref}; `git restore --source {ref} PATH` brings a file of it here."
    )
    return [warning]


def _adopted(git: Git, request: PrepareCandidateRequest, value: Round, around: Surroundings) -> tuple[Change, ...]:
    """Returns what writes the adopted change back, which was made on B0, on top of what was kept since."""
    if not request.adopt:
        return ()
    if value.adopt_commit is None:
        raise NoAdoptedChange(round_id=value.id)
    kept = {c.path for c in changes_between(git, value.baseline_commit, value.current_commit, around.raw)}
    changes = changes_between(git, value.baseline_commit, value.adopt_commit, around.raw)
    if both := [shown_path(git, c.path) for c in changes if c.path in kept]:
        raise AdoptedChangeOverlaps(round_id=value.id, paths=both)
    return changes


def _drafted(  # noqa: PLR0913, PLR0917 - what a draft begins with
    request: PrepareCandidateRequest,
    context: Context,
    tx: Transaction,
    value: Round,
    plan: Plan,
    issue: Issue,
    adopted: tuple[Change, ...],
) -> Candidate:
    given, issues = request.blocked_by_issue_ids, tx.state.all(Issue)
    blocked = blocking.blockers(value.id, issue, given, request.change_kind, issues)
    return Candidate(
        id=tx.new_id("candidate"),
        round_id=value.id,
        status="draft",
        primary_issue_id=issue.id,
        issue_revision=issue.revision,
        target_case_ids=plan.target_case_ids_by_issue[issue.id],
        related_issue_ids=tuple(request.related_issue_ids),
        change_kind=request.change_kind,
        blocked_by_issue_ids=blocked,
        supersedes=request.supersedes,
        declared_paths=tuple(request.paths),
        parent_commit=value.current_commit,
        parent_revision_id=value.current_revision_id,
        created_at=context.timestamp,
        adopted=bool(adopted),
    )


def _scope(candidate: Candidate, plan: Plan, frozen: frozenset[str]) -> scope.Scope:
    return scope.Scope(
        round_id=candidate.round_id,
        candidate_id=candidate.id,
        declared=candidate.declared_paths,
        allowed=plan.allowed_paths,
        protected=plan.protected_paths,
        frozen=frozen,
    )
