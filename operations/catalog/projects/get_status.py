"""`get_status`: what is open, what is blocked, what to do next."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from operations import commits, confirming
from operations.context import Context
from operations.definition import Effect, Example, Request, Response, operation, steps
from operations.execution import importing
from operations.tuning import advice, budget, holdout
from operations.wording import counted
from storage import probes
from storage.errors import AtkError, NextCall
from storage.files import StoreDamaged
from storage.masking import MaskingKeyDamaged
from storage.owners import is_alive
from storage.project import LegacyStore, Project, ProjectNotInitialized
from storage.projection import State, UnknownObject
from storage.schema.approvals import Approval
from storage.schema.base import ObjectId
from storage.schema.batches import Batch
from storage.schema.candidates import Candidate, Issue
from storage.schema.exposures import Exposure
from storage.schema.projects import Project as ProjectRecord
from storage.schema.rounds import ACTIVE, Round
from storage.schema.validations import Validation
from storage.worktree import read_head

SHOWN = 6
SHOWN_APPROVALS = 3
QUESTION_SHOWN = 400
"""Characters of a question that a status repeats; read_record has the whole."""
_DAMAGED = "The journal of {} is damaged: what it held from there on is not shown, and nothing can be changed."


class GetStatusRequest(Request):
    round_id: Annotated[ObjectId | None, Field(description="Default: the open Round.")] = None


class GetStatusResponse(Response):
    initialized: bool
    project_id: str | None = None
    project_root: str
    analysis_only: bool = False
    writable: Annotated[bool, Field(description="False while the store is damaged: it can be read, not changed.")] = (
        True
    )
    head: Annotated[str | None, Field(description="HEAD's commit now, for revision_commit.")] = None
    branch: str | None = None
    position: Annotated[int, Field(description="The last journal record.")] = 0
    counts: Annotated[dict[str, int], Field(description="How many objects of each kind there are.")] = {}
    open_operations: Annotated[list[str], Field(description="Effects announced and not done, and whose they are.")] = []
    running_batches: list[dict[str, Any]] = []
    running_imports: Annotated[
        list[dict[str, Any]], Field(description="Imports that are carried out, and how many rows and bytes were read.")
    ] = []
    open_approvals: Annotated[
        list[dict[str, str]], Field(description="Questions that wait for a person, and how they answer in a terminal.")
    ] = []
    round: Annotated[dict[str, Any] | None, Field(description="The Round asked for, or the open or newest one.")] = None
    newest: Annotated[dict[str, list[str]], Field(description="The newest ids of each kind.")] = {}


@operation(effect=Effect.READ, raises=(UnknownObject, LegacyStore), examples=(Example("Where do things stand?", {}),))
def get_status(request: GetStatusRequest, context: Context) -> GetStatusResponse:
    """Say where a project stands: the open Round, running batches, what is blocked, budgets left, and the next call.

    Start here, also in a folder that is no project yet, or with a damaged store.

    Reads only.
    """
    try:
        project = Project.open(context.root)
        state, damage = project.state(), project.damage()
    except ProjectNotInitialized:
        traces = commits.left_behind(context.root)
        return GetStatusResponse(
            message=f"There is no ATK project in {context.root} yet.",
            warnings=[traces] if traces else [],
            initialized=False,
            project_root=context.root,
            next=steps(
                NextCall(
                    "initialize_project",
                    supply={
                        "command": "how the agent is started, as a list",
                        "external_effects": "what it acts on outside; [] for nothing",
                        "allowed_paths": "what candidates may change",
                    },
                ),
                NextCall("initialize_project", {"analysis_only": True}),
            ),
        )
    except (StoreDamaged, MaskingKeyDamaged) as error:
        return GetStatusResponse(
            message=f"The store of {context.root} cannot be opened: nothing of it can be read or changed.",
            warnings=[str(error)],
            initialized=True,
            project_root=context.root,
            writable=False,
        )
    if damage is not None and not state.all(ProjectRecord):
        return GetStatusResponse(
            message="The journal is damaged where it begins: nothing of this project can be read or changed.",
            warnings=[str(damage)],
            initialized=True,
            project_root=context.root,
            writable=False,
        )
    record = state.all(ProjectRecord)[0]
    value = _round(request, state)
    head, branch, refused = _head(project, analysis_only=record.analysis_only)
    running = [_running(project, state, batch_id) for batch_id in list(state.runs)[:SHOWN]]
    importing_now = [_importing(job) for job in importing.running(project)[:SHOWN]]
    opened = [
        f"record {i.number}: {i.operation} ({'at work' if is_alive(project.store, i.owner) else 'its process is gone'})"
        for i in state.intents.values()
    ] + [
        f"{p.id}: diagnostic_probe ({'at work' if is_alive(project.store, p.owner) else 'its process is gone'})"
        for p in probes.open_probes(state)
    ]
    warnings = [str(damage)] if damage else []
    warnings += refused
    warnings += [] if opened else _drifted(value, head)
    warnings += _left_in_the_worktree(project, state)
    warnings += [f"record {u.number} ({u.operation}) is stuck: {u.error}" for u in project.unresolved]
    warnings += [f"{path} was edited by hand or rotten; it was written anew." for path in project.edited_views[:SHOWN]]
    return GetStatusResponse(
        message=_DAMAGED.format(record.id)
        if damage
        else _message(record, value, state, running, importing_now, opened),
        warnings=warnings,
        initialized=True,
        project_id=record.id,
        project_root=context.root,
        analysis_only=record.analysis_only,
        writable=damage is None,
        head=head,
        branch=branch,
        position=state.position.number,
        counts={kind: len(found) for kind, found in state.objects.items()},
        open_operations=opened[:SHOWN],
        running_batches=running,
        running_imports=importing_now,
        open_approvals=[_waiting(approval) for approval in confirming.waiting(state)[-SHOWN_APPROVALS:]],
        round=_round_facts(value, state) if value else None,
        newest={kind: list(found)[-SHOWN:] for kind, found in state.objects.items() if kind != "project"},
        next=[] if damage else steps(*_next(state, value, [*running, *importing_now], opened, head)),
    )


def _round(request: GetStatusRequest, state: State) -> Round | None:
    if request.round_id:
        return state.get(Round, request.round_id)
    known = state.all(Round)
    for wanted in (ACTIVE, {"analysis_only"}, {"paused"}):
        if opened := [r for r in known if r.status in wanted]:
            return opened[-1]
    return known[-1] if known else None


def _head(project: Project, *, analysis_only: bool) -> tuple[str | None, str | None, list[str]]:
    """Returns HEAD and its branch, and what keeps Git from saying: a status is given either way."""
    if analysis_only:
        return None, None, []
    try:
        with project.git() as git:
            head = read_head(git)
    except AtkError as error:
        return None, None, [str(error)]
    return head.commit, head.branch, []


def _drifted(value: Round | None, head: str | None) -> list[str]:
    """Tells that HEAD is not where the open Round stands, which every step that changes files refuses."""
    if value is None or value.without_baseline or value.status not in ACTIVE or head in (None, value.current_commit):
        return []
    stands = f"HEAD is {str(head)[:12]}, and {value.id} stands at {value.current_commit[:12]}"
    return [f"{stands}: go back to that commit, or abandon the Round with finish_round. `atk doctor` looks further."]


def _left_in_the_worktree(project: Project, state: State) -> list[str]:
    """Names the Revisions that dead runs may have left in the worktree in the place of its own content."""
    found = []
    for run in state.runs.values():
        batch = state.get(Batch, run.batch_id)
        value = state.find(Round, batch.round_id)
        if value is None or run.details.get("isolated") or is_alive(project.store, run.owner):
            continue
        pending = state.find(Candidate, value.pending_candidate_id)
        own = pending.revision_id if pending is not None and pending.revision_id else value.current_revision_id
        if batch.revision_id != own:
            found.append(
                f"The process of {batch.id} is gone, and may have left {batch.revision_id} in the worktree instead of "
                f"{own}. The next changing call, or inspect_or_recover_operation, puts {own} back."
            )
    return found


def _running(project: Project, state: State, batch_id: str) -> dict[str, Any]:
    batch, run = state.get(Batch, batch_id), state.runs[batch_id]
    alive = is_alive(project.store, run.owner)
    return {
        "batch_id": batch.id,
        "revision_id": batch.revision_id,
        "planned": batch.slots,
        "state": "running" if alive else "its server is gone: the next wait_for_batch seals what was confirmed",
    }


def _waiting(approval: Approval) -> dict[str, str]:
    question = approval.question
    return {
        "approval_id": approval.id,
        "operation": approval.operation,
        "subject": approval.subject,
        "question": question if len(question) <= QUESTION_SHOWN else f"{question[:QUESTION_SHOWN]}…",
        "approve_with": f"atk approve {approval.id}",
    }


def _importing(job: importing.Job) -> dict[str, Any]:
    said = {"source": job.about.source, "since": job.about.began, "note": job.progress.note}
    return {"import_id": job.import_id, **said, **job.counts}


def _round_facts(value: Round, state: State) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "round_id": value.id,
        "status": value.status,
        **(
            {"without_baseline": True, "batch_ids": list(value.batch_ids)}
            if value.without_baseline
            else _stands_at(value)
        ),
        "issue_ids": [i.id for i in state.all(Issue) if i.round_id == value.id],
        "accepted_candidate_ids": list(value.accepted_candidate_ids),
    }
    pending = state.find(Candidate, value.pending_candidate_id)
    if pending:
        facts["pending_candidate"] = {
            "candidate_id": pending.id,
            "status": pending.status,
            "revision_id": pending.revision_id,
            "issue_id": pending.primary_issue_id,
        }
    if value.pause:
        facts["paused"] = value.pause.model_dump(mode="json", exclude={"changes", "held_commit"}, exclude_none=True)
    if value.plan:
        now = budget.account(value, value.plan, state.all(Batch))
        drafted = sum(c.round_id == value.id for c in state.all(Candidate))
        looks = [v.look for v in state.all(Validation) if v.round_id == value.id and v.mode == "incremental"]
        facts["budget"] = {
            "executions": now.limit,
            "used": now.used,
            "final_reserve": now.reserve,
            "free": now.free,
            "candidates_left": value.plan.budget.candidates - drafted,
        }
        facts["error_budget"] = {"alpha": value.plan.alpha, "looks_of_this_round": len(looks)}
        facts["decision_rule"] = value.plan.decision_rule
        facts["holdout"] = holdout.standing(value, state.all(Batch), state.all(Exposure)) or None
    return {k: v for k, v in facts.items() if v not in (None, [], ())}


def _stands_at(value: Round) -> dict[str, Any]:
    return {
        "baseline_revision_id": value.baseline_revision_id,
        "baseline_commit": value.baseline_commit,
        "current_revision_id": value.current_revision_id,
        "current_commit": value.current_commit,
        "branch": value.branch,
    }


def _message(  # noqa: PLR0913, PLR0917 - what a sentence is made of
    record: ProjectRecord,
    value: Round | None,
    state: State,
    running: list[dict[str, Any]],
    importing_now: list[dict[str, Any]],
    opened: list[str],
) -> str:
    parts = [f"Project {record.id}"]
    if value is not None:
        unplanned = value.status == "analysis_only" and not value.without_baseline
        parts.append(f"{value.id} is {'open and its plan is not frozen yet' if unplanned else value.status}")
    if running:
        parts.append("1 batch is running" if len(running) == 1 else f"{len(running)} batches are running")
    if importing_now:
        parts.append("1 import is running" if len(importing_now) == 1 else f"{len(importing_now)} imports are running")
    if opened:
        parts.append("1 operation is open" if len(opened) == 1 else f"{len(opened)} operations are open")
    if value is None:
        parts.append(f"{counted(len(state.objects.get('dataset', {})), 'dataset')} and no Round yet")
    return "; ".join(parts) + "."


def _next(
    state: State, value: Round | None, running: list[dict[str, Any]], opened: list[str], head: str | None
) -> list[NextCall]:
    if opened:
        return [NextCall("inspect_or_recover_operation")]
    if running and "batch_id" in running[0]:
        return [NextCall("wait_for_batch", {"batch_id": running[0]["batch_id"]})]
    follow = [NextCall("wait_for_batch", {"batch_id": job["import_id"]}) for job in running[:1]]
    return [*follow, *advice.of_state(state, value, head)][:3]
