"""`try_case`: start the agent once, and see what happens."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from operations.context import Context
from operations.definition import Effect, Example, Request, Response, operation, steps
from operations.execution import smoke
from operations.execution.adapters.options import BadAdapterOption
from operations.execution.adapters.variables import EnvFileUnusable, VariablesMissing
from operations.execution.attending import AttendantLost
from operations.execution.smoke import Smoke
from operations.tuning import lifecycle
from operations.tuning.running import UnprotectedEffects, require_protected
from storage.errors import NextCall
from storage.project import ProjectNotInitialized
from storage.schema.projects import Project as ProjectRecord
from storage.worktree import read_head


class TryCaseRequest(Request):
    input: Annotated[Any, Field(description="The input of one Case: text or any JSON.")]
    case_id: Annotated[str, Field(min_length=1, max_length=512, description="What {case_id} becomes.")] = "try"


class TryCaseResponse(Response):
    smoke: Annotated[Smoke, Field(description="Command, end, exit code, outcome, output (masked), loading evidence.")]


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
    ),
    examples=(Example("Does the agent start and answer at all?", {"input": "Where is my invoice?"}),),
)
def try_case(request: TryCaseRequest, context: Context) -> TryCaseResponse:
    """Try the agent once, as a smoke test before anything is planned: start it on one input and show what happened.

    Runs the worktree as it is, its preparation included, and stores nothing: no batch, no budget, no evidence. Shows
    the command as it was started, how it ended, its output and which components it says that it loaded.
    """
    project = context.project
    record = project.state().all(ProjectRecord)[0]
    if not record.runnable:
        raise lifecycle.NotRunnable(step="try_case")
    require_protected(record)
    head = ("", "")
    if not record.analysis_only:
        with project.git() as git:
            found = read_head(git)
        head = (found.tree, found.commit)
    shown = smoke.try_project(
        record,
        context.root,
        {"id": request.case_id, "input": request.input},
        masker=project.masker,
        head=head,
        cancelled=context.cancelled,
    )
    follow = (
        NextCall("store_dataset", supply={"source": "a CSV or JSONL file of Cases"})
        if shown.outcome == "completed"
        else NextCall("try_case", supply={"input": "once the agent is put right"})
    )
    return TryCaseResponse(
        message=f"The attempt ended as {shown.outcome} after {shown.duration_seconds} s. Nothing of it is kept.",
        smoke=shown,
        next=steps(follow, NextCall("get_status")),
    )
