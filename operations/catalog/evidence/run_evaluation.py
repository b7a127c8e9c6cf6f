"""`run_evaluation`: run a Revision of the agent over Cases."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from operations import confirming
from operations.context import Context
from operations.definition import Effect, Example, Model, Reason, Response, WriteRequest, operation, steps
from operations.execution import heading, keeper, kept, unseen
from operations.execution.adapters.options import BadAdapterOption
from operations.execution.adapters.process import AdapterScriptChanged
from operations.execution.adapters.variables import EnvFileUnusable, VariablesMissing
from operations.execution.binding import BoundRun, WorktreeNotTheRevision
from operations.execution.plan import RunPlan, write_plan
from operations.execution.telling import told
from operations.execution.wanted import ContinueOrRetry, Wanted
from operations.tuning import budget, continuing, holdout, lifecycle, retrying, running, sides
from operations.wording import counted
from storage.attempts import FILE, carried_frames
from storage.checkpoints import IsolatedContentDiffers, NoPlaceOutside
from storage.founding import KEY
from storage.frames import canonical
from storage.owners import Owner
from storage.projection import UnknownObject
from storage.schema.base import ObjectId
from storage.schema.batches import Batch, UnknownAuthorization
from storage.schema.rounds import Round
from storage.sealing import HoldoutKeyMissing, HoldoutKeyUnusable
from storage.transaction import ResourceBusy, Transaction


class UnknownAuthorizationGiven(Model):
    source: Annotated[Literal["user"], Field(description="Only a person can authorize.")]
    batch_id: Annotated[ObjectId, Field(description="The batch that is continued.")]
    record_ids: Annotated[list[ObjectId], Field(description="Exactly its unknown_record_ids.")]
    reason: Annotated[Reason, Field(description="Why they may run again.")]
    risk: Annotated[Reason, Field(description="What a second run may do outside.")]


class SpendLimitGiven(Model):
    metric: Annotated[running.Metric, Field(description="cost and tool_calls are what the agent reports.")]
    limit: Annotated[float, Field(gt=0, description="Of this run's attempts together.")]


STOPPED_WITHIN_SECONDS = 30.0
"""How long a call that was given up waits for its run to end."""


class RunEvaluationRequest(WriteRequest):
    dataset_id: Annotated[ObjectId | None, Field(description="Default: the plan's, or the only dataset.")] = None
    revision_id: Annotated[ObjectId | None, Field(description="With a Round: B0, the current or the sealed one.")] = (
        None
    )
    revision_commit: Annotated[
        str | None, Field(min_length=1, description="Without a Round: HEAD, or a branch, tag or commit that is HEAD's.")
    ] = None
    round_id: Annotated[ObjectId | None, Field(description="The Round that pays for the run and counts it.")] = None
    phase: Annotated[Literal["incremental", "final"], Field(description="final: a side of the final validation.")] = (
        "incremental"
    )
    purpose: Annotated[Literal["evaluation"], Field(description="What the run is for.")] = "evaluation"
    case_ids: Annotated[list[str] | None, Field(description="Default: all that the phase compares.")] = None
    repeats: Annotated[int | None, Field(ge=1, le=1000, description="Default: the plan's; 1 without a Round.")] = None
    concurrency: Annotated[int | None, Field(ge=1, le=64, description="Default: the plan's; 2 without a Round.")] = None
    timeout_seconds: Annotated[
        float | None, Field(gt=0, le=86_400, description="Of one attempt. Default: planned.")
    ] = None
    batch_timeout_seconds: Annotated[int, Field(ge=1, le=604_800, description="Of the whole run.")] = 3600
    continue_batch_id: Annotated[
        ObjectId | None,
        Field(description="A partial, interrupted or contaminated batch to finish in a new one; all else is its."),
    ] = None
    unknown_execution_authorization: Annotated[
        UnknownAuthorizationGiven | None, Field(description="Where its attempts of unknown end are to run again.")
    ] = None
    retry_batch_id: Annotated[
        ObjectId | None, Field(description="A batch with Records that infrastructure spoiled; all else is its.")
    ] = None
    retry_execution_ids: Annotated[
        list[ObjectId], Field(max_length=1000, description="Its Records with infra_error or timeout to try again.")
    ] = []
    stop_after_infra_failures: Annotated[
        int, Field(ge=0, le=1000, description="In a row, the run stops itself, to be continued. 0: never.")
    ] = 5
    spend_limit: Annotated[SpendLimitGiven | None, Field(description="At which the run stops itself.")] = None
    wait_seconds: Annotated[
        float, Field(ge=0, le=240, description="How long the call waits; the run goes on after it.")
    ] = 20


class RunEvaluationResponse(Response):
    batch_id: ObjectId
    revision_id: ObjectId
    commit: Annotated[str, Field(description="What ran.")] = ""
    dataset_id: ObjectId
    round_id: ObjectId | None
    status: Annotated[str, Field(description="running, sealed, partial, interrupted or contaminated")]
    phase: str
    counts: Annotated[dict[str, int], Field(description="planned, done, and done by status")]
    carried: Annotated[int, Field(description="Records taken over from the batch that this one follows.")] = 0
    supersedes_batch_id: ObjectId | None = None
    end_reason: str | None = None
    unknown: Annotated[list[str], Field(description="Records of unknown end; the first 20.")] = []
    spending: Annotated[dict[str, Any] | None, Field(description="metric, limit, spent, source, trust")] = None
    executions_left: Annotated[int | None, Field(description="Free Executions of the Round's budget.")] = None
    notes: list[str] = []


def _again(request: RunEvaluationRequest, context: Context, recorded: RunEvaluationResponse) -> RunEvaluationResponse:
    """A repeated request is answered with the run's present state."""
    return _followed(request, context, recorded)


@operation(
    effect=Effect.RUN,
    replay=_again,
    raises=(
        lifecycle.NotRunnable,
        lifecycle.WrongRoundStatus,
        lifecycle.CandidatePending,
        lifecycle.BaselineDrifted,
        lifecycle.FilesInTheWay,
        heading.UncommittedFiles,
        lifecycle.SurroundingsChanged,
        running.UnprotectedEffects,
        running.RevisionMismatch,
        running.RunNotPlanned,
        running.UnknownCases,
        running.DatasetNotNamed,
        running.FinalSideStands,
        running.FinalWithoutRound,
        sides.SideStands,
        sides.SideToContinue,
        running.NothingToValidate,
        budget.BudgetExhausted,
        ContinueOrRetry,
        continuing.BatchStillRuns,
        continuing.AlreadyFollowed,
        continuing.NothingToContinue,
        continuing.UnknownNeedsTheUser,
        confirming.NotConfirmed,
        continuing.DiffersFromPredecessor,
        retrying.NotRetryable,
        retrying.RetriesUsedUp,
        holdout.HoldoutOnlyFinal,
        holdout.NoCaseButHoldout,
        HoldoutKeyMissing,
        HoldoutKeyUnusable,
        AdapterScriptChanged,
        BadAdapterOption,
        EnvFileUnusable,
        VariablesMissing,
        WorktreeNotTheRevision,
        NoPlaceOutside,
        IsolatedContentDiffers,
        UnknownObject,
        ResourceBusy,
    ),
    examples=(
        Example(
            "Before any Round: see how the agent does at HEAD.",
            {"dataset_id": "dataset-2-7hq1", "revision_commit": "HEAD"},
        ),
        Example("One side of a comparison.", {"round_id": "round-9-t4hx", "revision_id": "revision-13-c2ke"}),
        Example("Finish what a dead server left.", {"continue_batch_id": "batch-14-m3qa"}),
    ),
)
def run_evaluation(request: RunEvaluationRequest, context: Context) -> RunEvaluationResponse:
    """Run a Revision of the agent over Cases, several times each, and keep every attempt as evidence.

    Follow it with wait_for_batch, end it with stop_batch. With round_id its plan fills in the rest; without, give
    revision_commit, which is HEAD. Finish an incomplete batch with continue_batch_id, try again what
    infrastructure spoiled with retry_batch_id; the last attempt counts.

    Binds the batch to the Revision's real tree: another Revision than the one in the worktree is put in place for
    the run and taken away after it; where the plan says isolated, it runs in a folder outside the user's. Starts
    the agents, waits up to wait_seconds and answers with the batch finished or running. With a Round its budget
    pays. When a batch is continued, confirmed Records are carried into a new batch and the rest runs. Retries are
    linked; nobody picks the best.
    """
    _require_attachments(request, context)
    with context.transaction() as tx, context.project.staging("evidence") as staging:
        run = BoundRun(_wanted(request), context, tx)
        with context.project.git() as git, context.project.scratch(f"run-{tx.number}") as scratch:
            details = run.bind(git, scratch)
        run.plan_slots()
        run.wanted = _allowed(run, context, tx)
        unseen.key_path_of(run)  # before anything is recorded that could then not be run
        batch = tx.put(run.batch())
        unseen.record_exposure(run, batch)
        run.record_revision()
        staging.write("slots.jsonl", (canonical(s.model_dump(mode="json")) + b"\n" for s in run.slots))
        if batch.carried:  # the log begins with them, so that the supervisor finds them confirmed
            store = context.project.store
            store.write_new(f"{staging.path}/{FILE}", carried_frames(unseen.carried_records(run)))
        tx.place(staging, f"evidence/{run.batch_id}")
        owner = Owner(context.project.store)
        try:
            answer = tx.start_run({**details, "batch_id": batch.id, "owner": owner.nonce}, _begun(batch))
        except BaseException:
            owner.release()
            raise
    _start(context, run, owner)
    return _followed(request, context, answer)


def _require_attachments(request: RunEvaluationRequest, context: Context) -> None:
    """Reads what the dataset keeps before the lock is taken: that may be gigabytes, and nobody changes it."""
    state = context.project.state()
    follows = request.continue_batch_id or request.retry_batch_id
    dataset = kept.dataset_of(state, dataset_id=request.dataset_id, round_id=request.round_id, follows=follows)
    if dataset is not None:
        kept.require_whole(context.project, state, dataset, request.case_ids)


def _wanted(request: RunEvaluationRequest) -> Wanted:
    given = request.unknown_execution_authorization
    return Wanted(
        dataset_id=request.dataset_id,
        revision_id=request.revision_id,
        revision_commit=request.revision_commit,
        round_id=request.round_id,
        phase=request.phase,
        case_ids=request.case_ids,
        repeats=request.repeats,
        concurrency=request.concurrency,
        timeout_seconds=request.timeout_seconds,
        batch_timeout_seconds=request.batch_timeout_seconds,
        continue_batch_id=request.continue_batch_id,
        unknown_execution_authorization=UnknownAuthorization(**given.model_dump()) if given else None,
        retry_batch_id=request.retry_batch_id,
        retry_execution_ids=tuple(request.retry_execution_ids),
        stop_after_infra_failures=request.stop_after_infra_failures or None,
        spend_metric=request.spend_limit.metric if request.spend_limit else None,
        spend_limit=request.spend_limit.limit if request.spend_limit else 0,
    )


def _allowed(run: BoundRun, context: Context, tx: Transaction) -> Wanted:
    """Asks the person whether attempts of unknown end may be made again, where there are any."""
    word = run.wanted.unknown_execution_authorization
    if word is None or not word.record_ids:
        return run.wanted
    question = confirming.Question(
        operation="run_evaluation",
        subject=word.batch_id,
        text=(
            f"Make {counted(len(word.record_ids), 'attempt')} of {word.batch_id} again? Nobody saw how they ended, and "
            f"they may have acted already. {confirming.grounds(word.reason, word.risk)}"
        ),
        facts={"action": "run_unknown_again", **word.model_dump(mode="json", exclude={"recorded_as"})},
    )
    how = confirming.confirmed(question, context, tx)
    told = word.model_copy(update={"recorded_as": how})
    return replace(run.wanted, unknown_execution_authorization=told)


def _begun(batch: Batch) -> RunEvaluationResponse:
    """What is answered, and recorded, when the run begins."""
    return RunEvaluationResponse(
        message=f"{batch.id} is running {counted(batch.slots - batch.carried, 'attempt')} of {batch.revision_id}.",
        batch_id=batch.id,
        revision_id=batch.revision_id,
        commit=batch.commit,
        dataset_id=batch.dataset_id,
        round_id=batch.round_id,
        status="running",
        phase=batch.phase,
        counts={"planned": batch.slots, "done": batch.carried},
        carried=batch.carried,
        supersedes_batch_id=batch.supersedes_batch_id,
    )


def _start(context: Context, run: BoundRun, owner: Owner) -> None:
    """Puts the Revision in place and starts the supervisor. What fails here is sealed as a run without attempts."""
    project = context.project
    try:
        with project.git() as git, project.scratch(owner.nonce) as scratch:
            run.put_in_place(git, scratch)
        project.store.make_folders(f"work/{run.batch_id}", durable=False)
        plan_path = write_plan(_plan(context, run))
    except BaseException:
        owner.release()
        project.settle(context.call)
        raise
    revision, present = run.revisions
    keeper.keep(
        project,
        context.call,
        keeper.Begun(
            batch_id=run.batch_id,
            plan_path=plan_path,
            owner=owner,
            configuration=run.project,
            process=run.process,
            tree=revision.tree,
            commit=revision.commit,
            back=(present.tree, present.commit) if run.switch else None,
            root=run.root,
            preparation=run.preparation,
        ),
    )


def _plan(context: Context, run: BoundRun) -> RunPlan:
    store = context.project.store
    return RunPlan(
        batch_id=run.batch_id,
        evidence_folder=store.full(f"evidence/{run.batch_id}"),
        work_folder=store.full(f"work/{run.batch_id}"),
        working_directory=run.process.working_directory,
        command=run.process.command,
        environment=run.process.environment,
        timeout_seconds=run.timeout,
        batch_timeout_seconds=run.wanted.batch_timeout_seconds,
        concurrency=run.concurrency,
        infrastructure_exit_codes=run.process.infrastructure_exit_codes,
        slots=tuple(run.due),
        attachments_folder=context.root,
        kept_attachments=store.full(kept.folder_of(run.dataset)) if run.dataset.kept_attachments else None,
        cases_path=store.full(f"datasets/{run.dataset.id}/cases.jsonl"),
        seal_key_path=unseen.key_path_of(run),
        metric_sources=tuple(sorted({declared.source for declared in run.project.metric_sources.values()})),
        component_ids=tuple(c.component_id for c in run.project.components),
        mask_key_path=store.full(KEY),
        redact_keys=run.project.redact_keys,
        redact_patterns=run.project.redact_patterns,
        second_look=run.project.second_look,
        stop_after_infra_failures=run.wanted.stop_after_infra_failures,
        spend_metric=run.wanted.spend_metric,
        spend_limit=run.wanted.spend_limit,
    )


def _followed(request: RunEvaluationRequest, context: Context, answer: RunEvaluationResponse) -> RunEvaluationResponse:
    """Waits as long as the caller said, and returns the run as it is then. A caller that gives up stops the run."""
    project = context.project
    seconds = 1e9 if context.stays else request.wait_seconds
    found = keeper.follow(
        project,
        context.call,
        answer.batch_id,
        seconds=seconds,
        progress=context.progress,
        stop_waiting=context.cancelled,
    )
    if found.alive and context.cancelled():
        # Who stays is a person at a terminal, where a second Ctrl-C leaves at once.
        seconds = seconds if context.stays else STOPPED_WITHIN_SECONDS
        found = keeper.follow(
            project, context.call, answer.batch_id, seconds=seconds, progress=context.progress, stop=True
        )
    batch = found.batch
    left = None
    if batch.round_id:
        state = project.state()
        value = state.get(Round, batch.round_id)
        left = budget.account(value, lifecycle.plan_of(value, "run_evaluation"), state.all(Batch)).free
    message, leads = told(project, found)
    return answer.model_copy(
        update={
            "message": message,
            "status": batch.status,
            "counts": keeper.summary(found),
            "end_reason": batch.end_reason,
            "unknown": list(batch.unknown_record_ids)[:20],
            "spending": keeper.spending(found),
            "executions_left": left,
            "notes": list(batch.notes)[:5],
            "warnings": [*answer.warnings, *keeper.warnings(found)],
            "next": steps(*leads),
        }
    )
