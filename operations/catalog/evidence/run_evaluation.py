"""`run_evaluation`: run a Revision of the agent over Cases."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from operations.context import Context
from operations.definition import Effect, Example, Response, WriteRequest, operation, steps
from operations.execution import keeper
from operations.execution.plan import RunPlan, agent_environment, write_plan
from operations.tuning import budget, lifecycle, running
from operations.tuning.identity import declared_inputs, runner_digest
from storage import contents, effects
from storage.checkpoints import Change, changes_between, draft_changes, inverse
from storage.errors import AtkError, NextCall
from storage.frames import canonical
from storage.git import Git
from storage.owners import Owner
from storage.project import KEY
from storage.projection import UnknownObject
from storage.schema.base import ObjectId
from storage.schema.batches import Batch
from storage.schema.candidates import Candidate
from storage.schema.datasets import Case, Dataset
from storage.schema.evidence import Slot
from storage.schema.projects import Project as ProjectRecord
from storage.schema.rounds import Plan, Revision, Round
from storage.schema.validations import Validation
from storage.transaction import ResourceBusy, Transaction
from storage.worktree import Head, Surroundings, ready, surroundings


@dataclass(kw_only=True, eq=False)
class WorktreeNotTheRevision(AtkError):
    """The worktree holds something else than what was sealed or committed."""

    message = (
        "The worktree is not {revision_id} any more: {paths} differ. A run is bound to a Revision's real content. Put "
        "those files back; edits to a sealed candidate belong in a new one."
    )
    next_calls = (NextCall("get_status"),)

    revision_id: str
    paths: list[str]


class RunEvaluationRequest(WriteRequest):
    dataset_id: Annotated[ObjectId | None, Field(description="Default: the plan's, or the only dataset.")] = None
    revision_id: Annotated[ObjectId | None, Field(description="With a Round: B0, the current or the sealed one.")] = (
        None
    )
    revision_commit: Annotated[
        str | None, Field(min_length=7, description="Without a Round: HEAD's commit, and nothing uncommitted in scope.")
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
    wait_seconds: Annotated[
        float, Field(ge=0, le=240, description="How long the call waits; the run goes on after it.")
    ] = 20


class RunEvaluationResponse(Response):
    batch_id: ObjectId
    revision_id: ObjectId
    dataset_id: ObjectId
    round_id: ObjectId | None
    status: Annotated[str, Field(description="running, sealed, partial, interrupted or contaminated")]
    phase: str
    counts: Annotated[dict[str, int], Field(description="planned, done, and done by status")]
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
        running.UnprotectedEffects,
        running.RevisionMismatch,
        running.RunNotPlanned,
        running.UnknownCases,
        running.FinalSideStands,
        budget.BudgetExhausted,
        WorktreeNotTheRevision,
        UnknownObject,
        ResourceBusy,
    ),
    examples=(
        Example(
            "Before any Round: see how the agent does at HEAD.",
            {"dataset_id": "dataset-2-7hq1", "revision_commit": "3f2c1d9"},
        ),
        Example("One side of a comparison.", {"round_id": "round-9-t4hx", "revision_id": "revision-13-c2ke"}),
    ),
)
def run_evaluation(request: RunEvaluationRequest, context: Context) -> RunEvaluationResponse:
    """Run a Revision of the agent over Cases, several times each, and keep every attempt as evidence.

    Binds the batch to the Revision's real tree: another Revision than the one in the worktree is put in place for the
    run and taken away after it. Starts the agents, waits up to wait_seconds and answers with the batch finished or
    running; follow it with wait_for_batch, end it with stop_batch. With a Round its budget pays and the plan fills in
    every field; without one, revision_commit has to be HEAD.
    """
    with context.transaction() as tx, context.project.staging("evidence") as staging:
        run = _Run(request, context, tx)
        with context.project.git() as git, context.project.scratch(f"run-{tx.number}") as scratch:
            switch, details = run.bind(git, scratch)
        slots = run.slots()
        staging.write("slots.jsonl", (canonical(s.model_dump(mode="json")) + b"\n" for s in slots))
        tx.place(staging, f"evidence/{run.batch_id}")
        owner = Owner(context.project.store)
        batch = tx.put(run.batch(len(slots)))
        run.record_revision()
        answer = tx.start_run({**details, "batch_id": batch.id, "owner": owner.nonce}, run.response(batch))
    _start(context, run, slots, owner, switch)
    return _followed(request, context, answer)


class _Run:
    """One run being planned: what it runs, over what, and what that costs."""

    def __init__(self, request: RunEvaluationRequest, context: Context, tx: Transaction) -> None:
        self.request, self.context, self.tx = request, context, tx
        self.project = tx.state.all(ProjectRecord)[0]
        if not self.project.command:
            raise lifecycle.NotRunnable(step="run_evaluation")
        running.require_protected(self.project)
        tx.require_free("worktree")
        self.round = tx.state.get(Round, request.round_id) if request.round_id else None
        self.plan: Plan | None = None
        self.batch_id = tx.new_id("batch")
        self.revision: Revision | None = None
        if self.round is not None:
            self.plan = lifecycle.plan_of(self.round, "run_evaluation")
            allowed = ("ready", "optimizing") if request.phase == "incremental" else ("optimizing", "finalizing")
            lifecycle.require_status(self.round, f"a run of phase {request.phase}", *allowed)
        self.dataset = tx.state.get(Dataset, self._dataset_id())
        self.cases = {c.id: c for c in contents.cases(context.project, tx.state, self.dataset.id)}

    def _dataset_id(self) -> str:
        if self.plan is not None:
            self._as_planned("dataset_id", self.request.dataset_id, self.plan.dataset_id)
            return self.plan.dataset_id
        if self.request.dataset_id:
            return self.request.dataset_id
        known = self.tx.state.all(Dataset)
        if len(known) != 1:
            raise UnknownObject(kind="dataset", given="(not given)", known=[d.id for d in known[-5:]])
        return known[0].id

    def _as_planned(self, field: str, given: object, planned: object) -> None:
        if given is not None and given != planned and self.round is not None:
            raise running.RunNotPlanned(round_id=self.round.id, field=field, given=str(given), planned=str(planned))

    # ---- which content ------------------------------------------------------------------------------------

    def bind(self, git: Git, scratch: str) -> tuple[tuple[Change, ...], dict[str, Any]]:
        """Returns the changes that bring the worktree to the Revision, and what sealing the run needs to know."""
        head = ready(git)
        if self.round is None:
            present, around = self._head(git, head)
        else:
            lifecycle.require_at(self.round, head=head.commit, branch=head.branch)
            around = Surroundings.model_validate(self.round.surroundings)
            present = self._present(self.round)
        if differing := [c.path for c in draft_changes(git, present.commit, around, scratch)]:
            if present.origin == "candidate" and self.round and self.round.pending_candidate_id:
                raise WorktreeNotTheRevision(revision_id=present.id, paths=differing)
            raise lifecycle.FilesInTheWay(paths=differing)
        revision = self._revision(present)
        switch = changes_between(git, present.commit, revision.commit, around.raw)
        baseline = self.round.baseline_commit if self.round else head.commit
        own = changes_between(git, baseline, revision.commit, around.raw)
        back = effects.rewrite(inverse(switch), around.folders) if switch else None
        return switch, {
            "commit": revision.commit,
            "surroundings": around.model_dump(mode="json"),
            "inputs": declared_inputs(self.project),
            "own_changes": [{"path": c.path} for c in own],
            "switch": bool(switch),
            "switch_back": back,
        }

    def _head(self, git: Git, head: Head) -> tuple[Revision, Surroundings]:
        given = self.request.revision_commit
        if given is None or not head.commit.startswith(given.lower()):
            problem = (
                "without a Round, revision_commit has to be HEAD"
                if given
                else "neither round_id nor revision_commit is given"
            )
            raise running.RevisionMismatch(
                given=given or self.request.revision_id or "(nothing)", problem=problem, possible=[head.commit]
            )
        around = surroundings(git, declared_inputs(self.project))
        if around.dirty:
            raise lifecycle.FilesInTheWay(paths=sorted(around.dirty))
        for known in self.tx.state.all(Revision):
            if (known.origin, known.commit, known.surroundings_digest) == ("head", head.commit, around.digest):
                return known, around
        fresh = Revision(
            id=self.tx.new_id("revision"),
            origin="head",
            commit=head.commit,
            tree=head.tree,
            surroundings_digest=around.digest,
            created_at=self.context.timestamp,
        )
        return fresh, around

    def _present(self, value: Round) -> Revision:
        """The Revision that the worktree holds now."""
        pending = self.tx.state.find(Candidate, value.pending_candidate_id)
        if pending is None:
            return self.tx.state.get(Revision, value.current_revision_id)
        if pending.status == "draft":
            lifecycle.require_nothing_pending(value, pending, "run_evaluation")
        return self.tx.state.get(Revision, str(pending.revision_id))

    def _revision(self, present: Revision) -> Revision:
        if self.round is None:
            self.revision = present
            return present
        state = self.tx.state
        accepted = [state.get(Candidate, c).revision_id for c in self.round.accepted_candidate_ids]
        possible = [self.round.baseline_revision_id, *(str(r) for r in accepted), present.id]
        wanted = self.request.revision_id or present.id
        if wanted not in possible:
            problem = "it is neither the baseline, nor an accepted, nor the sealed revision of this Round"
            raise running.RevisionMismatch(given=wanted, problem=problem, possible=list(dict.fromkeys(possible)))
        self.revision = state.get(Revision, wanted)
        if self.request.phase == "final":
            pending = state.find(Candidate, self.round.pending_candidate_id)
            lifecycle.require_nothing_pending(self.round, pending, "a final run")
            running.require_final_open(self.round, self.revision, state.all(Batch))
        return self.revision

    def record_revision(self) -> None:
        """Records a Revision that the run issues, and that a first final run ends the optimizing."""
        if self.revision is not None and self.tx.state.find(Revision, self.revision.id) is None:
            self.tx.put(self.revision)
        if self.round is not None and self.request.phase == "final" and self.round.status != "finalizing":
            self.tx.put(lifecycle.changed(self.round, status="finalizing"))

    # ---- over what ----------------------------------------------------------------------------------------

    def slots(self) -> list[Slot]:
        """Returns the slots of the run, its budget checked: each Case at each repeat, numbered from 1."""
        chosen, repeats = self._chosen(), self._repeats()
        if self.round is not None and self.plan is not None:
            budget.require_executions(
                self.round,
                self.plan,
                self.tx.state.all(Batch),
                len(chosen) * repeats,
                final=self.request.phase == "final",
                step=f"a run of {len(chosen)} Cases at {repeats} repeats",
            )
        planned = [(case, repeat) for repeat in range(1, repeats + 1) for case in chosen]
        return [
            Slot(
                n=n,
                record_id=f"{self.batch_id}.{n}",
                case_id=case.id,
                case_fingerprint=case.fingerprint,
                repeat=repeat,
            )
            for n, (case, repeat) in enumerate(planned, start=1)
        ]

    def _chosen(self) -> list[Case]:
        possible = list(self.cases)
        whole = possible
        if self.plan is not None and self.round is not None:
            possible = list(self.plan.case_ids)
            whole = possible
            if self.request.phase == "incremental":
                state = self.tx.state
                pending = state.find(Candidate, self.round.pending_candidate_id)
                issue_id = pending.primary_issue_id if pending else None
                compared = running.incremental_cases(
                    self.plan, self.round, state.all(Candidate), state.all(Validation), issue_id
                )
                whole = list(compared)
            for case_id in possible:
                self._as_planned(
                    f"fingerprint of {case_id}", self.cases[case_id].fingerprint, self.plan.case_fingerprints[case_id]
                )
        wanted = whole if self.request.case_ids is None else self.request.case_ids
        strangers = [c for c in wanted if c not in possible]
        if strangers or not wanted or len(set(wanted)) != len(wanted):
            raise running.UnknownCases(given=strangers or list(wanted) or ["nothing"])
        if self.request.phase == "final" and set(wanted) != set(whole):
            self._as_planned("case_ids", f"{len(wanted)} Cases", f"all {len(whole)} Cases for a final side")
        return (
            [self.cases[c] for c in whole if c in set(wanted)]
            if set(wanted) <= set(whole)
            else [self.cases[c] for c in wanted]
        )

    def _repeats(self) -> int:
        if self.plan is None:
            return self.request.repeats or 1
        planned = self.plan.final_repeats if self.request.phase == "final" else self.plan.incremental_repeats
        self._as_planned("repeats", self.request.repeats, planned)
        return planned

    @property
    def concurrency(self) -> int:
        """How many attempts run side by side."""
        if self.plan is None:
            return self.request.concurrency or 2
        self._as_planned("concurrency", self.request.concurrency, self.plan.concurrency)
        return self.plan.concurrency

    @property
    def timeout(self) -> float:
        """Seconds that one attempt may take."""
        if self.plan is None:
            return self.request.timeout_seconds or self.project.timeout_seconds
        self._as_planned("timeout_seconds", self.request.timeout_seconds, self.plan.timeout_seconds)
        return self.plan.timeout_seconds

    def batch(self, slots: int) -> Batch:
        """Returns the batch as it begins."""
        revision = self._bound()
        return Batch(
            id=self.batch_id,
            status="running",
            phase=self.request.phase,
            dataset_id=self.dataset.id,
            round_id=self.round.id if self.round else None,
            revision_id=revision.id,
            commit=revision.commit,
            tree=revision.tree,
            case_ids=tuple(c.id for c in self._chosen()),
            repeats=self._repeats(),
            slots=slots,
            concurrency=self.concurrency,
            timeout_seconds=self.timeout,
            run_config_digest=self.project.run_config_digest,
            runner_digest=runner_digest(self.project),
            started_at=self.context.timestamp,
            started_record=self.tx.number,
            environment={
                "python": platform.python_version(),
                "platform": platform.platform(),
                "target_python": self.project.python,
                "variables": sorted(agent_environment(self.project.environment)),
                "executable": sys.executable,
            },
        )

    def _bound(self) -> Revision:
        if self.revision is None:
            raise RuntimeError("BUG: a run is recorded before it is bound to a Revision")
        return self.revision

    def response(self, batch: Batch) -> RunEvaluationResponse:
        """Returns what is answered, and recorded, when the run begins."""
        return RunEvaluationResponse(
            message=f"{batch.id} is running {batch.slots} attempts of {batch.revision_id}.",
            batch_id=batch.id,
            revision_id=batch.revision_id,
            dataset_id=batch.dataset_id,
            round_id=batch.round_id,
            status="running",
            phase=batch.phase,
            counts={"planned": batch.slots, "done": 0},
        )


def _start(context: Context, run: _Run, slots: list[Slot], owner: Owner, switch: tuple[Change, ...]) -> None:
    """Puts the Revision in place and starts the supervisor. What fails here is sealed as a run in which nothing began."""
    project = context.project
    try:
        if switch:
            with project.git() as git, project.scratch(owner.nonce) as scratch:
                effects.make_it_so(git, [effects.rewrite(switch)], since_ns=0, scratch=scratch)
        project.store.make_folders(f"work/{run.batch_id}", durable=False)
        plan_path = write_plan(_plan(context, run, slots))
    except BaseException:
        owner.release()
        project.settle(context.call)
        raise
    keeper.keep(project, context.call, run.batch_id, plan_path, owner)


def _plan(context: Context, run: _Run, slots: list[Slot]) -> RunPlan:
    store = context.project.store
    return RunPlan(
        batch_id=run.batch_id,
        evidence_folder=store.full(f"evidence/{run.batch_id}"),
        work_folder=store.full(f"work/{run.batch_id}"),
        working_directory=os.path.normpath(os.path.join(context.root, run.project.working_directory)),
        command=run.project.command,
        environment=agent_environment(run.project.environment),
        timeout_seconds=run.timeout,
        batch_timeout_seconds=run.request.batch_timeout_seconds,
        concurrency=run.concurrency,
        infrastructure_exit_codes=run.project.infrastructure_exit_codes,
        slots=tuple(slots),
        cases_path=store.full(f"datasets/{run.dataset.id}/cases.jsonl"),
        mask_key_path=store.full(KEY),
        redact_keys=run.project.redact_keys,
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
        keeper.request_stop(project, answer.batch_id)
        found = keeper.follow(
            project, context.call, answer.batch_id, seconds=30, progress=context.progress, stop_waiting=lambda: False
        )
    batch = found.batch
    left = None
    if batch.round_id:
        state = project.state()
        value = state.get(Round, batch.round_id)
        left = budget.account(value, lifecycle.plan_of(value, "run_evaluation"), state.all(Batch)).free
    done = f"{sum(found.counts.values())} of {batch.slots} attempts are done"
    return answer.model_copy(
        update={
            "message": f"{batch.id} is {batch.status}: {done}.",
            "status": batch.status,
            "counts": keeper.summary(found),
            "executions_left": left,
            "notes": list(batch.notes)[:5],
            "next": steps(*_next(batch, alive=found.alive)),
        }
    )


def _next(batch: Batch, *, alive: bool) -> list[NextCall]:
    if alive:
        return [NextCall("wait_for_batch", {"batch_id": batch.id}), NextCall("stop_batch", {"batch_id": batch.id})]
    return [
        NextCall("store_assessment", {"batch_id": batch.id}, {"rows": "verdicts, or a judger that ATK runs"}),
        NextCall("read_record", {"record_id": batch.id}),
    ]
