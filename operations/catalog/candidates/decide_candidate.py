"""`decide_candidate`: keep, reject or defer a sealed candidate."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from operations import confirming
from operations.confirming import TOLD, confirmed
from operations.context import Context
from operations.definition import Effect, Example, Model, Reason, Response, WriteRequest, operation, steps
from operations.tuning import advice, blocking, deciding, lifecycle
from operations.wording import counted
from storage import effects
from storage.checkpoints import Change, Staged, UnknownContent, classify, commit_tree, inverse
from storage.errors import NextCall
from storage.git import Git
from storage.projection import UnknownObject
from storage.schema.approvals import HowConfirmed
from storage.schema.assessments import Assessment
from storage.schema.base import ObjectId
from storage.schema.batches import Batch
from storage.schema.candidates import Authorization, Candidate, Decision, Issue
from storage.schema.rounds import Plan, Round
from storage.schema.validations import Validation
from storage.transaction import ResourceBusy, Transaction
from storage.worktree import Head, Surroundings, ready, surroundings


class AuthorizationGiven(Model):
    source: Annotated[Literal["user"], Field(description="Only a person can authorize.")]
    action: Literal["trial_commit"]
    reason: Reason
    risk: Annotated[Reason, Field(description="What the person was told it risks.")]


class DecideCandidateRequest(WriteRequest):
    round_id: ObjectId
    candidate_id: ObjectId
    action: Annotated[Literal["keep", "reject", "defer"], Field(description="keep commits; the others restore.")]
    reason: Reason
    validation_id: Annotated[ObjectId | None, Field(description="Default: the newest of this candidate.")] = None
    validation_missing_reason: Annotated[
        Reason | None, Field(description="Why there is none; for reject and defer only.")
    ] = None
    override: Annotated[bool, Field(description="Keep against the result; needs override_authorization.")] = False
    override_authorization: Annotated[
        AuthorizationGiven | None, Field(description="As the person gave it; recorded as reported by you.")
    ] = None
    message: Annotated[
        str | None,
        Field(min_length=1, max_length=200, description="The commit's subject. Default names the candidate."),
    ] = None


class DecideCandidateResponse(Response):
    round_id: ObjectId
    candidate_id: ObjectId
    decision_id: ObjectId
    validation_id: ObjectId | None
    validation_result: str | None
    action: str
    revision_id: Annotated[ObjectId, Field(description="The current revision after the decision.")]
    commit: Annotated[str, Field(description="HEAD after the decision.")]
    changed_paths: list[str]


@operation(
    effect=Effect.WORKTREE,
    raises=(
        lifecycle.WrongRoundStatus,
        lifecycle.RoundWithoutBaseline,
        lifecycle.WrongCandidate,
        lifecycle.BaselineDrifted,
        deciding.ValidationNeeded,
        deciding.NotNewestValidation,
        deciding.ValidationOutdated,
        deciding.ResultForbids,
        deciding.OverrideUnauthorized,
        deciding.CandidateLost,
        blocking.BlockedByIssue,
        confirming.NotConfirmed,
        UnknownContent,
        Staged,
        UnknownObject,
        ResourceBusy,
    ),
    examples=(
        Example(
            "Keep what the gate passed.",
            {"round_id": "round-9-t4hx", "candidate_id": "candidate-12-p0vd", "action": "keep", "reason": "passed"},
        ),
    ),
)
def decide_candidate(request: DecideCandidateRequest, context: Context) -> DecideCandidateResponse:
    """Decide a sealed candidate: keep commits it on your branch, reject and defer restore its parent's files.

    Rests on its newest Validation. keep needs the result pass, or the person's authorization to override it. Other
    files, the index and hooks are left alone; nothing is pushed.

    Only the sealed paths are committed or restored, and only where the worktree still holds exactly the sealed
    content; your other files and staged changes stay as they are.
    """
    with context.transaction() as tx:
        value = tx.state.get(Round, request.round_id)
        lifecycle.require_status(value, "decide_candidate", "optimizing")
        plan = lifecycle.plan_of(value, "decide_candidate")
        candidate = tx.state.get(Candidate, request.candidate_id)
        lifecycle.require_pending(value, candidate, "decide_candidate", "sealed")
        tx.require_free("worktree", value.id)
        found = deciding.of_candidate(candidate, tx.state.all(Validation))
        validation = deciding.newest(found, request.validation_id, candidate.id)
        _check(request, candidate, validation)
        if request.action == "keep":
            deciding.require_current(validation, tx.state.all(Assessment), tx.state.all(Batch))
            blocking.require_unblocked(candidate, tx.state.all(Issue), validation.result if validation else None)
        overrides = request.override and validation is not None and validation.result != "pass"
        how = confirmed(_question(request, candidate, validation), context, tx) if overrides else None
        with context.project.git() as git, context.project.scratch(f"decide-{tx.number}") as scratch:
            head = ready(git)
            lifecycle.require_at(value, head=head.commit, branch=head.branch)
            _require_in_place(git, request, candidate, scratch)
            after = head.commit
            if request.action == "keep":
                after = commit_tree(
                    git,
                    str(candidate.tree),
                    [head.commit],
                    _commit_message(request, candidate, tx),
                    int(context.now.timestamp()),
                )
        response = _recorded(request, context, tx, value, candidate, validation, head, after, plan, how)
        steps_ = _steps(request, value, candidate, head, after)
        pending = tx.intend(steps_, response, claims=["worktree", value.id])
    answer: DecideCandidateResponse = pending.carry_out()
    return answer


def _check(request: DecideCandidateRequest, candidate: Candidate, validation: Validation | None) -> None:
    """Refuses a decision that does not rest on what it has to rest on."""
    if validation is None:
        if request.action == "keep":
            raise _needed(request, candidate, "a Validation: run and assess both sides, then compare them")
        if not request.validation_missing_reason:
            raise _needed(request, candidate, "a Validation, or validation_missing_reason saying why there is none")
    elif request.validation_missing_reason:
        raise _needed(request, candidate, f"no validation_missing_reason, since there is {validation.id}")
    if request.action != "keep" and request.override:
        raise _unauthorized(request, "override is for keep only")
    if request.action == "keep" and validation is not None and validation.result != "pass":
        _check_override(request, validation)


def _check_override(request: DecideCandidateRequest, validation: Validation) -> None:
    if not request.override:
        raise deciding.ResultForbids(
            round_id=request.round_id,
            validation_id=validation.id,
            result=validation.result,
            action="keep",
            way_on="reject or defer it, or ask the person for an override",
        )
    if request.override_authorization is None:
        raise _unauthorized(request, "It is missing")


def _question(
    request: DecideCandidateRequest, candidate: Candidate, validation: Validation | None
) -> confirming.Question:
    given = request.override_authorization
    result = validation.result if validation else "none"
    return confirming.Question(
        operation="decide_candidate",
        subject=candidate.id,
        text=(
            f"Keep {candidate.id} and commit it although {validation.id if validation else 'no Validation'} says "
            f"{result}? {confirming.grounds(given.reason if given else None, given.risk if given else None)}"
        ),
        facts={
            "action": "keep",
            "revision_id": candidate.revision_id,
            "validation_id": validation.id if validation else None,
            "authorization": given.model_dump() if given else None,
        },
    )


def _require_in_place(git: Git, request: DecideCandidateRequest, candidate: Candidate, scratch: str) -> None:
    """Refuses before anything is announced: edited sealed files; for a keep, lost objects and what the user staged."""
    sealed = str(candidate.sealed_commit)
    if request.action == "keep" and git.missing([sealed, str(candidate.tree)]):
        ref = f"refs/atk/candidates/{candidate.id}"
        raise deciding.CandidateLost(round_id=request.round_id, candidate_id=candidate.id, commit=sealed[:12], ref=ref)
    changes = [Change.model_validate(c) for c in candidate.changes]
    found = classify(git, changes, scratch)
    wrong = (*found.other, *(found.before if request.action == "keep" else ()))
    if wrong:
        raise UnknownContent(paths=tuple(sorted(wrong)))
    if request.action == "keep" and (mine := {c.path for c in changes} & set(surroundings(git).staged)):
        raise Staged(paths=tuple(sorted(mine)))


def _needed(request: DecideCandidateRequest, candidate: Candidate, what: str) -> deciding.ValidationNeeded:
    return deciding.ValidationNeeded(
        action=request.action,
        subject=candidate.id,
        round_id=candidate.round_id,
        mode="incremental",
        candidate_id=candidate.id,
        needed=what,
    )


def _unauthorized(request: DecideCandidateRequest, problem: str) -> deciding.OverrideUnauthorized:
    return deciding.OverrideUnauthorized(
        round_id=request.round_id, action=request.action, needed="trial_commit", problem=problem
    )


def _commit_message(request: DecideCandidateRequest, candidate: Candidate, tx: Transaction) -> str:
    subject = request.message or f"Keep ATK candidate {candidate.id}"
    position = tx.state.position
    return (
        f"{subject}\n\nATK-Round: {candidate.round_id}\nATK-Candidate: {candidate.id}\n"
        f"ATK-Operation: {tx.number}\nATK-Journal: {position.number} {position.digest}\n"
    )


def _steps(
    request: DecideCandidateRequest, value: Round, candidate: Candidate, head: Head, after: str
) -> list[effects.Step]:
    changes = [Change.model_validate(c) for c in candidate.changes]
    if request.action == "keep":
        kept = f"refs/atk/kept/{candidate.id}"
        return [effects.publish(head, after, changes), effects.hold(kept, after)]
    return [effects.rewrite(inverse(changes), Surroundings.model_validate(value.surroundings).folders, head)]


def _recorded(  # noqa: PLR0913, PLR0917 - what a decision is made of
    request: DecideCandidateRequest,
    context: Context,
    tx: Transaction,
    value: Round,
    candidate: Candidate,
    validation: Validation | None,
    head: Head,
    after: str,
    plan: Plan,
    how: HowConfirmed | None,
) -> DecideCandidateResponse:
    given = request.override_authorization
    decision = tx.put(
        Decision(
            id=tx.new_id("decision"),
            round_id=value.id,
            candidate_id=candidate.id,
            action=request.action,
            reason=request.reason,
            created_at=context.timestamp,
            validation_id=validation.id if validation else None,
            validation_result=validation.result if validation else None,
            validation_missing_reason=request.validation_missing_reason,
            override=how is not None,
            override_authorization=Authorization(**given.model_dump(), recorded_as=how) if given and how else None,
            before_commit=head.commit,
            after_commit=after,
        )
    )
    keep = request.action == "keep"
    status = {"keep": "accepted", "reject": "rejected", "defer": "deferred"}[request.action]
    decided = tx.put(
        candidate.model_copy(
            update={"status": status, "decision_id": decision.id, "accepted_commit": after if keep else None}
        )
    )
    update: dict[str, Any] = {"pending_candidate_id": None}
    if keep:
        update |= {
            "current_commit": after,
            "current_revision_id": candidate.revision_id,
            "accepted_candidate_ids": (*value.accepted_candidate_ids, candidate.id),
        }
    now = tx.put(lifecycle.changed(value, **update))
    paths = [c["path"] for c in candidate.changes]
    final = {"round_id": value.id, "dataset_id": plan.dataset_id, "phase": "final"}
    known = [decided if c.id == candidate.id else c for c in tx.state.all(Candidate)]
    more = advice.another_candidate(now, tx.state.all(Batch), known, tx.state.all(Validation))
    ending = (
        [NextCall("run_evaluation", {**final, "revision_id": value.baseline_revision_id})]
        if now.accepted_candidate_ids
        else [
            NextCall(
                "finish_round", {"round_id": value.id, "action": "close_without_adoption"}, {"reason": "why it ends"}
            )
        ]
    )
    return DecideCandidateResponse(
        message=f"{candidate.id} is {status}. "
        + (f"HEAD is {after[:12]}." if keep else f"As before it: {counted(len(paths), 'path')}."),
        warnings=[f"Kept against the result: {TOLD[how]}."] if how else [],
        round_id=value.id,
        candidate_id=candidate.id,
        decision_id=decision.id,
        validation_id=decision.validation_id,
        validation_result=decision.validation_result,
        action=request.action,
        revision_id=now.current_revision_id,
        commit=after,
        changed_paths=paths[:50],
        next=steps(*more, *ending),
    )
