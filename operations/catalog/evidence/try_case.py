"""`try_case`: start the agent once, and see what happens."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from operations.context import Context
from operations.definition import Effect, Example, Request, Response, operation, steps
from operations.execution import kept, probing, smoke
from operations.execution.adapters.options import BadAdapterOption
from operations.execution.adapters.variables import EnvFileUnusable, VariablesMissing
from operations.execution.attending import AttendantLost
from operations.execution.smoke import Smoke
from operations.tuning import lifecycle
from operations.tuning.running import UnprotectedEffects, require_protected
from storage import contents
from storage.errors import AtkError, NextCall
from storage.project import ProjectNotInitialized
from storage.projection import UnknownObject
from storage.schema.base import ObjectId
from storage.schema.datasets import Dataset
from storage.schema.projects import Project as ProjectRecord

_PATHS = 20
_NAMED = 5


@dataclass(kw_only=True, eq=False)
class NothingToTry(AtkError):
    """No one Case is given: neither an input nor a stored Case, both, or a Case that is not there."""

    message: ClassVar[str] = (
        "try_case makes one attempt at one Case, and {problem}. Give input, or dataset_id and the case_id of one of "
        "its Cases."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (NextCall("try_case", supply={"input": "the input of one Case"}),)

    problem: str


class TryCaseRequest(Request):
    input: Annotated[Any, Field(description="The input of one Case: text or any JSON.")] = None
    dataset_id: Annotated[
        ObjectId | None, Field(description="In place of input: a stored Case, its attachments included.")
    ] = None
    case_id: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=512,
            description="What {case_id} becomes; default try. With dataset_id: which Case; default the first.",
        ),
    ] = None


class TryCaseResponse(Response):
    smoke: Annotated[Smoke, Field(description="Command, end, exit code, outcome, output (masked), loading evidence.")]
    changed_paths: Annotated[
        list[str], Field(description="What the attempt changed in the worktree, the first 20; a run would not count.")
    ] = []


@operation(
    effect=Effect.RUN,
    raises=(
        lifecycle.NotRunnable,
        UnprotectedEffects,
        BadAdapterOption,
        EnvFileUnusable,
        VariablesMissing,
        AttendantLost,
        ProjectNotInitialized,
        NothingToTry,
        UnknownObject,
    ),
    examples=(
        Example("Does the agent start and answer at all?", {"input": "Where is my invoice?"}),
        Example("Does it get a stored Case with its attachments?", {"dataset_id": "dataset-2-7hq1", "case_id": "c-7"}),
    ),
)
def try_case(request: TryCaseRequest, context: Context) -> TryCaseResponse:
    """Try the agent once, as a smoke test before anything is planned: start it on one input and show what happened.

    Runs the worktree as it is and stores nothing: no batch, no budget, no evidence.

    Its preparation is included. Shows the command as it was started, how it ended, its output and which components
    it says that it loaded.
    """
    project = context.project
    record = project.state().all(ProjectRecord)[0]
    if not record.runnable:
        raise lifecycle.NotRunnable(step="try_case")
    require_protected(record)
    case, kept_in = _case(request, context)
    before = probing.look(project, record)
    head = (before.head.tree, before.head.commit) if before else ("", "")
    shown = smoke.try_project(
        record,
        context.root,
        case,
        kept=kept_in,
        masker=project.masker,
        head=head,
        cancelled=context.cancelled,
    )
    follow = (
        NextCall("store_dataset", supply={"source": "a CSV or JSONL file of Cases"})
        if shown.outcome == "completed"
        else NextCall("try_case", supply={"input": "once the agent is put right"})
    )
    changed = probing.changed_since(project, record, before)
    return TryCaseResponse(
        message=f"The attempt ended as {shown.outcome} after {shown.duration_seconds} s. Nothing of it is kept.",
        warnings=[_changes(changed)] if changed else [],
        smoke=shown,
        changed_paths=changed[:_PATHS],
        next=steps(follow, NextCall("get_status")),
    )


def _changes(paths: list[str]) -> str:
    named = ", ".join(paths[:_NAMED]) + (f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else "")
    return (
        f"The attempt changed the worktree: {named}. A run during which that happens is contaminated and no side of a "
        "comparison. Put those files back, and let the agent write to {output_dir}, or have Git ignore what it writes."
    )


def _case(request: TryCaseRequest, context: Context) -> tuple[dict[str, Any], str | None]:
    """Returns what is tried, and the folder that keeps its attachments, where a dataset does."""
    given = "input" in request.model_fields_set
    if given == (request.dataset_id is not None):
        raise NothingToTry(problem="both input and dataset_id are given" if given else "neither is given")
    if request.dataset_id is None:
        return {"id": request.case_id or "try", "input": request.input}, None
    project, state = context.project, context.project.state()
    dataset = state.get(Dataset, request.dataset_id)
    # A holdout Case stays unseen: what it is and what the agent answers would be shown.
    seen = [c for c in contents.cases(project, state, dataset.id) if c.usage != "holdout"]
    chosen = [c for c in seen if request.case_id in (None, c.id)][:1]
    if not chosen:
        raise NothingToTry(problem=f"{dataset.id} has no Case {request.case_id or 'at all'} that may be shown")
    kept.require_whole(project, state, dataset, [chosen[0].id])
    case = chosen[0].model_dump(mode="json", include={"id", "input", "attachments"})
    if dataset.kept_attachments:
        return case, project.store.full(kept.folder_of(dataset))
    located = [{**file, "path": os.path.join(context.root, file["path"])} for file in case["attachments"]]
    return {**case, "attachments": located}, None
