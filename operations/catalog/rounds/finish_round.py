"""`finish_round`: end a Round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from operations import confirming, external_fixes
from operations.confirming import TOLD, confirmed
from operations.context import Context
from operations.definition import Effect, Example, Model, Reason, Response, WriteRequest, operation, steps
from operations.execution import surrounding
from operations.tuning import deciding, lifecycle
from operations.tuning.external_fix import ExternalFixNotShown
from operations.wording import counted
from storage.errors import AtkError, NextCall
from storage.git import Git
from storage.projection import UnknownObject
from storage.schema.approvals import HowConfirmed
from storage.schema.assessments import Assessment
from storage.schema.base import ObjectId
from storage.schema.batches import Batch
from storage.schema.candidates import Authorization, Candidate, Decision, Issue
from storage.schema.projects import Project as ProjectRecord
from storage.schema.rounds import CLOSED, Round
from storage.schema.validations import ExternalValidation, Validation
from storage.transaction import ResourceBusy, Transaction
from storage.worktree import Head, read_head, ready

STATUS = {
    "complete": "completed",
    "complete_with_override": "completed_with_override",
    "complete_external_fix": "completed",
    "close_without_adoption": "closed_without_adoption",
    "abandon": "abandoned",
}


@dataclass(kw_only=True, eq=False)
class CannotCloseSo(AtkError):
    """The Round is not in the state that this ending describes."""

    message = "{round_id} cannot end with {action}: {problem}."
    next_calls = (NextCall("get_status", {"round_id": "{round_id}"}),)

    round_id: str
    action: str
    problem: str


class FinalAuthorization(Model):
    source: Annotated[Literal["user"], Field(description="Only a person can authorize.")]
    action: Literal["retain_without_final_pass"]
    reason: Reason
    risk: Reason


class FinishRoundRequest(WriteRequest):
    round_id: ObjectId
    action: Annotated[
        Literal["complete", "complete_with_override", "complete_external_fix", "close_without_adoption", "abandon"],
        Field(
            description="complete: a final pass. complete_with_override: kept without one, as the person authorized. "
            "complete_external_fix: the repair made elsewhere passes. close_without_adoption: nothing was kept. "
            "abandon: the branch moved, or it is given up."
        ),
    ]
    reason: Reason
    validation_id: Annotated[ObjectId | None, Field(description="Default: the newest final Validation.")] = None
    validation_missing_reason: Annotated[
        Reason | None, Field(description="Why there is no final Validation, for an override without one.")
    ] = None
    override_authorization: Annotated[
        FinalAuthorization | None, Field(description="As the person gave it, for complete_with_override.")
    ] = None


class FinishRoundResponse(Response):
    round_id: ObjectId
    decision_id: ObjectId
    validation_id: ObjectId | None
    validation_result: str | None
    status: str
    commit: Annotated[str | None, Field(description="Null where the Round had no baseline.")]
    accepted_candidate_ids: list[str]


@operation(
    effect=Effect.STORE,
    raises=(
        lifecycle.WrongRoundStatus,
        lifecycle.CandidatePending,
        lifecycle.BaselineDrifted,
        lifecycle.FilesInTheWay,
        lifecycle.SurroundingsChanged,
        deciding.ValidationNeeded,
        deciding.NotNewestValidation,
        deciding.ValidationOutdated,
        deciding.ResultForbids,
        deciding.OverrideUnauthorized,
        confirming.NotConfirmed,
        CannotCloseSo,
        ExternalFixNotShown,
        UnknownObject,
        ResourceBusy,
    ),
    examples=(
        Example(
            "The final validation passed.",
            {"round_id": "round-9-t4hx", "action": "complete", "reason": "the final validation passed"},
        ),
    ),
)
def finish_round(request: FinishRoundRequest, context: Context) -> FinishRoundResponse:
    """End a Round: complete it on a passing final validation, close it with nothing kept, or give it up.

    complete needs a passing final Validation, and HEAD and worktree at the current revision. abandon is the way
    out when the branch moved; it changes no file.

    The final Validation is the newest one, of the baseline against the current revision. abandon records why. A
    Round without a baseline ends with close_without_adoption or abandon.
    """
    with context.transaction() as tx:
        value = tx.state.get(Round, request.round_id)
        if value.status in CLOSED or (value.status == "paused" and request.action != "abandon"):
            lifecycle.require_status(value, "finish_round", "ready", "optimizing", "finalizing", "analysis_only")
        if value.without_baseline:
            return _without_baseline(request, context, tx, value)
        tx.require_free(value.id, *(() if request.action == "abandon" else ("worktree",)))
        pending = tx.state.find(Candidate, value.pending_candidate_id)
        if request.action != "abandon":
            lifecycle.require_nothing_pending(value, pending, "finish_round")
        with context.project.git() as git, context.project.scratch(f"finish-{tx.number}") as scratch:
            head = read_head(git) if request.action == "abandon" else _at_home(git, value, tx, scratch)
        validation = _grounds(request, value, tx, head)
        if STATUS[request.action] in ("completed", "completed_with_override"):
            deciding.require_current(validation, tx.state.all(Assessment), tx.state.all(Batch))
        overrides = request.action == "complete_with_override"
        how = confirmed(_question(request, value, validation), context, tx) if overrides else None
        decision = tx.put(
            Decision(
                id=tx.new_id("decision"),
                round_id=value.id,
                action=request.action,
                reason=request.reason,
                created_at=context.timestamp,
                validation_id=validation.id if validation else None,
                validation_result=validation.result if validation else None,
                validation_missing_reason=request.validation_missing_reason,
                override=overrides,
                override_authorization=_authorization(request, how),
                before_commit=head.commit,
                after_commit=head.commit,
            )
        )
        if request.action == "complete_external_fix":
            _resolve(tx, value, decision.id)
        update: dict[str, Any] = {
            "status": STATUS[request.action],
            "closed_at": context.timestamp,
            "final_decision_id": decision.id,
            "pause": None,
        }
        if pending is not None:
            tx.put(pending.model_copy(update={"status": "cancelled", "decision_id": decision.id}))
            update["pending_candidate_id"] = None
        ended = tx.put(lifecycle.changed(value, **update))
        kept = counted(len(ended.accepted_candidate_ids), "candidate")
        return tx.commit(
            FinishRoundResponse(
                message=f"{value.id} is {ended.status}; {kept} kept.",
                warnings=[
                    *([f"Kept without a passing final Validation: {TOLD[how]}."] if how else []),
                    *_left_behind(pending, value),
                ],
                round_id=value.id,
                decision_id=decision.id,
                validation_id=decision.validation_id,
                validation_result=decision.validation_result,
                status=ended.status,
                commit=head.commit,
                accepted_candidate_ids=list(ended.accepted_candidate_ids),
                next=steps(NextCall("get_status"), NextCall("read_record", {"record_id": value.id})),
            )
        )


def _without_baseline(
    request: FinishRoundRequest, context: Context, tx: Transaction, value: Round
) -> FinishRoundResponse:
    """Ends a Round that only looked at evidence: nothing was changed, and nothing is asked of Git."""
    if request.action not in ("close_without_adoption", "abandon"):
        problem = "it has no baseline, so nothing was kept; close_without_adoption ends it"
        raise CannotCloseSo(round_id=value.id, action=request.action, problem=problem)
    decision = tx.put(
        Decision(
            id=tx.new_id("decision"),
            round_id=value.id,
            action=request.action,
            reason=request.reason,
            created_at=context.timestamp,
            before_commit=value.current_commit,
            after_commit=value.current_commit,
        )
    )
    issues = [issue.id for issue in tx.state.all(Issue) if issue.round_id == value.id]
    update: dict[str, Any] = {
        "status": STATUS[request.action],
        "closed_at": context.timestamp,
        "final_decision_id": decision.id,
        "pause": None,
    }
    ended = tx.put(lifecycle.changed(value, **update, issue_ids=tuple(issues)))
    return tx.commit(
        FinishRoundResponse(
            message=f"{value.id} is {ended.status}; {counted(len(issues), 'Issue')} came of it.",
            round_id=value.id,
            decision_id=decision.id,
            validation_id=None,
            validation_result=None,
            status=ended.status,
            commit=None,
            accepted_candidate_ids=[],
            next=steps(NextCall("get_status"), NextCall("read_record", {"record_id": value.id})),
        )
    )


def _at_home(git: Git, value: Round, tx: Transaction, scratch: str) -> Head:
    head = ready(git)
    lifecycle.require_at(value, head=head.commit, branch=head.branch)
    surrounding.require_clean(git, value, tx.state.all(ProjectRecord)[0], scratch)
    return head


def _repaired(value: Round, tx: Transaction) -> ExternalValidation:
    """Returns the validation of a repair made elsewhere, which has to pass."""
    last = external_fixes.newest(tx.state, value)
    if value.external_fix is None:
        problem = "it was not opened with external_fix_identity; complete or close_without_adoption ends it"
        raise CannotCloseSo(round_id=value.id, action="complete_external_fix", problem=problem)
    if last is None or last.result != "pass":
        problem = f"{last.id} says {last.result}" if last else "nothing was validated yet"
        raise ExternalFixNotShown(round_id=value.id, problem=problem)
    return last


def _resolve(tx: Transaction, value: Round, decision_id: str) -> None:
    """Stores a revision of each Issue that was handed over: it is resolved, and by what."""
    for issue in [tx.state.get(Issue, issue_id) for issue_id in value.issue_ids]:
        told = f"repaired elsewhere, as {decision_id} of {value.id} says"
        tx.put(issue.model_copy(update={"revision": issue.revision + 1, "resolution": "resolved", "next_action": told}))


def _grounds(
    request: FinishRoundRequest, value: Round, tx: Transaction, head: Head
) -> Validation | ExternalValidation | None:
    """Returns the Validation that the ending rests on, or refuses it."""
    if request.action == "complete_external_fix":
        _check_authorized(request, value, None)
        return _repaired(value, tx)
    finals = deciding.of_round(value, tx.state.all(Validation))
    validation = deciding.newest(finals, request.validation_id, value.id)
    if request.action == "close_without_adoption":
        _check_nothing_kept(value, head)
    elif request.action != "abandon" and not value.accepted_candidate_ids:
        problem = "no candidate is kept; close_without_adoption ends it"
        raise CannotCloseSo(round_id=value.id, action=request.action, problem=problem)
    if request.action == "complete":
        _check_passed(value, validation)
    _check_authorized(request, value, validation)
    return validation


def _check_nothing_kept(value: Round, head: Head) -> None:
    kept = len(value.accepted_candidate_ids)
    if kept:
        problem = f"it keeps {counted(kept, 'candidate')}; roll back to B0 first, or complete it"
        raise CannotCloseSo(round_id=value.id, action="close_without_adoption", problem=problem)
    if head.tree != value.baseline_tree:
        problem = f"HEAD does not hold the content of B0, {value.baseline_commit:.12}; go back to it, or abandon it"
        raise CannotCloseSo(round_id=value.id, action="close_without_adoption", problem=problem)


def _check_passed(value: Round, validation: Validation | None) -> None:
    if validation is None:
        raise deciding.ValidationNeeded(
            action="complete",
            subject=value.id,
            round_id=value.id,
            mode="final",
            candidate_id=None,
            needed="a final Validation of B0 against the current revision, both run with phase final",
        )
    if validation.result != "pass":
        raise deciding.ResultForbids(
            round_id=value.id,
            validation_id=validation.id,
            result=validation.result,
            action="complete",
            way_on="roll back and close without adoption, or ask the person for complete_with_override",
        )


def _check_authorized(request: FinishRoundRequest, value: Round, validation: Validation | None) -> None:
    problem = None
    if request.action != "complete_with_override":
        problem = "It is for complete_with_override only" if request.override_authorization else None
    elif validation is not None and validation.result == "pass":
        raise CannotCloseSo(
            round_id=value.id, action=request.action, problem=f"{validation.id} passes, so complete ends it"
        )
    elif request.override_authorization is None:
        problem = "It is missing"
    elif validation is None and not request.validation_missing_reason:
        problem = "There is no final Validation, so validation_missing_reason is needed too"
    if problem:
        raise deciding.OverrideUnauthorized(
            round_id=value.id, action=request.action, needed="retain_without_final_pass", problem=problem
        )


def _question(
    request: FinishRoundRequest, value: Round, validation: Validation | ExternalValidation | None
) -> confirming.Question:
    given = request.override_authorization
    grounds = f"{validation.id} says {validation.result}" if validation else "there is no final Validation"
    return confirming.Question(
        operation="finish_round",
        subject=value.id,
        text=(
            f"Complete {value.id} and keep {counted(len(value.accepted_candidate_ids), 'change')} although {grounds}? "
            f"{confirming.grounds(given.reason if given else None, given.risk if given else None)}"
        ),
        facts={
            "action": "complete_with_override",
            "revision_id": value.current_revision_id,
            "commit": value.current_commit,
            "validation_id": validation.id if validation else None,
            "authorization": given.model_dump() if given else None,
        },
    )


def _authorization(request: FinishRoundRequest, how: HowConfirmed | None) -> Authorization | None:
    given = request.override_authorization
    return Authorization(**given.model_dump(), recorded_as=how) if given and how else None


def _left_behind(pending: Candidate | None, value: Round) -> list[str]:
    found = []
    if pending is not None and value.pause is not None and value.pause.held_as:
        found.append(f"{pending.id} was undecided and is cancelled; what was put away stays in {value.pause.held_as}.")
    elif pending is not None:
        held = f" (its sealed content is in refs/atk/candidates/{pending.id})" if pending.sealed_commit else ""
        found.append(f"{pending.id} was undecided and is cancelled; its files stay in the worktree as they are{held}.")
    if value.adopt_commit and not value.candidate_ids:
        found.append(f"The adopted change is still held by refs/atk/adopt/{value.id}.")
    return found
