"""`freeze_round`: commit a Round to the plan by which its candidates are judged."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from operations import validations
from operations.context import Context
from operations.definition import Effect, Example, Model, Reason, Response, WriteRequest, operation, steps
from operations.execution import isolation, surrounding
from operations.importers.freshness import KnownInputs
from operations.tuning import comparing, freezing, goals, holdout, lifecycle, planning
from operations.tuning.budget import side
from storage import contents
from storage.errors import NextCall
from storage.frames import canonical, digest
from storage.projection import State, UnknownObject
from storage.schema.assessments import Assessment, EvaluationSpec, Judger
from storage.schema.base import ObjectId
from storage.schema.batches import Batch
from storage.schema.candidates import Issue
from storage.schema.datasets import Dataset
from storage.schema.exposures import Exposure
from storage.schema.projects import Project as ProjectRecord
from storage.schema.rounds import Plan, Round
from storage.schema.validations import Validation
from storage.sealing import HoldoutKeyMissing, HoldoutKeyUnusable
from storage.worktree import UnsafePattern, check_patterns, in_scope, ready

CaseIds = list[str]

_REPEATED = 1_500
"""Bytes of a plan that an answer repeats; a longer one the caller has."""

_INSTEAD = (
    "Give plan.incremental_repeats and plan.final_repeats for more repeats, plan.margin for another margin, or a "
    "larger dataset; a frozen plan cannot be changed."
)


class BudgetGiven(Model):
    executions: Annotated[int | None, Field(ge=1, description="All attempts of the Round.")] = None
    candidates: Annotated[int | None, Field(ge=1, description="Drafts. Default: one an Issue.")] = None


class PlanGiven(Model):
    dataset_id: ObjectId | None = None
    case_ids: Annotated[CaseIds | None, Field(description="Default: every Case of the dataset.")] = None
    protection_case_ids: Annotated[CaseIds | None, Field(description="Default: what is no target or holdout.")] = None
    holdout_case_ids: Annotated[CaseIds | None, Field(description="Default: every holdout Case; [] for none.")] = None
    issue_ids: Annotated[list[ObjectId] | None, Field(description="Default: the Round's local_candidate ones.")] = None
    target_case_ids_by_issue: Annotated[dict[str, CaseIds] | None, Field(description="Default: the Issues' Cases.")] = (
        None
    )
    allowed_paths: Annotated[list[str] | None, Field(description="Default: the project's.")] = None
    protected_paths: Annotated[list[str] | None, Field(description="Default: the project's.")] = None
    spec_id: Annotated[ObjectId | None, Field(description="Default: that of the newest assessment.")] = None
    judger_id: Annotated[ObjectId | None, Field(description="Default: that of the newest assessment.")] = None
    repeatability: Annotated[
        Literal["deterministic", "stochastic", "unknown"] | None, Field(description="Default: unknown.")
    ] = None
    repeatability_basis: Annotated[Reason | None, Field(description="How that is known.")] = None
    decision_rule: Annotated[
        Literal["counts", "statistical"] | None, Field(description="Default: counts if deterministic.")
    ] = None
    margin: Annotated[float | None, Field(gt=0, le=0.5, description="Tolerated mean loss. Default 0.15.")] = None
    alpha: Annotated[float | None, Field(gt=0, le=0.2, description="Chance of a false keep. Default 0.05.")] = None
    min_fixed_cases: Annotated[int | None, Field(ge=1, description="Default 1.")] = None
    min_primary_delta: Annotated[float | None, Field(ge=0, le=1, description="Default 0.")] = None
    objective: Annotated[Literal["quality", "efficiency"] | None, Field(description="Default quality.")] = None
    efficiency_metric: Annotated[
        Literal["cost", "tool_calls", "duration_seconds"] | None, Field(description="What has to fall.")
    ] = None
    min_efficiency_delta: Annotated[float | None, Field(ge=0, description="Default 0.")] = None
    metric_limits: Annotated[
        dict[Literal["cost", "tool_calls", "duration_seconds"], dict[Literal["total", "ratio"], float]] | None,
        WithJsonSchema({"type": "object"}),
        Field(description="By metric {total}, {ratio} to the left."),
    ] = None
    required_loaded_component_ids: Annotated[list[str] | None, Field(description="Default: loading_verification.")] = (
        None
    )
    screening: Annotated[
        bool | None,
        Field(description="By optimization targets. Default: if others suffice."),
    ] = None
    incremental_repeats: Annotated[int | None, Field(ge=1, le=1000, description="Default 5; 1 for counts.")] = None
    final_repeats: Annotated[int | None, Field(ge=1, le=1000, description="Default 5; 1 for counts.")] = None
    budget: BudgetGiven | None = None
    max_retries_per_slot: Annotated[int | None, Field(ge=0, le=10, description="Default 0.")] = None
    concurrency: Annotated[int | None, Field(ge=1, le=64, description="Default 2.")] = None
    timeout_seconds: Annotated[float | None, Field(gt=0, le=86_400, description="Default: the project's.")] = None
    timeout_is_failure: Annotated[bool | None, Field(description="A timeout is the agent's. Default false.")] = None
    primary_dimension: Annotated[str | None, Field(description="Default: the first of the specification.")] = None
    required_dimensions: Annotated[list[str] | None, Field(description="Default: all.")] = None
    replay: Annotated[
        Literal["in_place", "isolated"] | None,
        Field(description="Default in_place. isolated: outside your folder, with committed and declared files."),
    ] = None
    replay_preparation: Annotated[
        dict[str, Any] | None,
        Field(description="Before each batch: stateless, or command with its fields. Default: the project's."),
    ] = None
    commit_authorized: Annotated[bool | None, Field(description="A keep may commit. Default true.")] = None


class FreezeRoundRequest(WriteRequest):
    round_id: ObjectId
    plan: Annotated[PlanGiven | None, Field(description="Only what should differ from the defaults.")] = None
    preview: Annotated[bool, Field(description="True: show the whole plan and freeze nothing.")] = False
    wanted_effect: Annotated[float | None, Field(gt=0, le=1, description="What size shows this?")] = None


class FreezeRoundResponse(Response):
    round_id: ObjectId
    revision_id: Annotated[ObjectId, Field(description="The baseline, which both sides' fresh runs begin with.")]
    status: str
    frozen: bool
    plan_digest: str
    plan: Annotated[dict[str, Any], Field(description="The plan; long lists are cut and counted.")]
    defaults: Annotated[list[str], Field(description="Fields that ATK filled in.")]
    executions: Annotated[dict[str, int], Field(description="limit, reserve, incremental_side, final_side")]
    detectable: Annotated[dict[str, Any], Field(description="What a plan of this size can tell.")]


@operation(
    effect=Effect.STORE,
    raises=(
        lifecycle.WrongRoundStatus,
        lifecycle.RoundWithoutBaseline,
        lifecycle.AnotherRoundActive,
        lifecycle.BaselineDrifted,
        lifecycle.SurroundingsChanged,
        freezing.DatasetNotChosen,
        freezing.JudgerNotChosen,
        freezing.NoIssueToAnswer,
        freezing.PlanInvalid,
        planning.PlanCannotPass,
        holdout.HoldoutExposed,
        HoldoutKeyMissing,
        HoldoutKeyUnusable,
        UnsafePattern,
        UnknownObject,
    ),
    examples=(
        Example("See what would be frozen.", {"round_id": "round-9-t4hx", "preview": True}),
        Example("Freeze with ten repeats.", {"round_id": "round-9-t4hx", "plan": {"incremental_repeats": 10}}),
    ),
)
def freeze_round(request: FreezeRoundRequest, context: Context) -> FreezeRoundResponse:
    """Freeze a Round's plan, so that its candidates are judged by rules set before they existed.

    Needs only round_id: the rest has defaults, which preview shows with what the plan's size can detect. It cannot
    be changed afterwards. Runs made before are never a side of a comparison: run both anew.

    Issues, targets, specification and judger come from what is stored. Checks all identities now, not after paid
    runs, and refuses a plan that no outcome could pass. `detectable` says what the size can show; with
    wanted_effect, how many Cases or repeats that rise of the pass rate needs.
    """
    state, known = context.project.state(), KnownInputs(context.project)
    if request.preview:
        return _response(request, _planned(request, context, state, known), frozen=False)
    value = state.find(Round, request.round_id)
    if value is not None and value.status == "analysis_only":
        _planned(request, context, state, known)  # what has to be read for it is read before the lock is taken
    with context.transaction() as tx:
        planned = _planned(request, context, tx.state, known)
        value, plan = planned.round, planned.plan
        with context.project.git() as git, context.project.scratch(f"freeze-{tx.number}") as scratch:
            head = ready(git)
            lifecycle.require_at(value, head=head.commit, branch=head.branch)
            with suppress(lifecycle.FilesInTheWay):  # a change within the scope is prepare_candidate's to refuse
                surrounding.require_clean(git, value, tx.state.all(ProjectRecord)[0], scratch)
        tx.put(lifecycle.changed(value, status="ready", plan=plan, plan_digest=_digest(plan), issue_ids=plan.issue_ids))
        return tx.commit(_response(request, planned, frozen=True))


def _digest(plan: Plan) -> str:
    return digest(canonical(plan.model_dump(mode="json")))


@dataclass(frozen=True)
class _Planned:
    """A plan, the Round that it is for, what it can detect, and what a person should know before it is frozen."""

    plan: Plan
    round: Round
    detectable: dict[str, Any]
    warnings: list[str]


def _planned(request: FreezeRoundRequest, context: Context, state: State, known: KnownInputs) -> _Planned:
    value = state.get(Round, request.round_id)
    lifecycle.require_status(value, "freeze_round", "analysis_only")
    lifecycle.require_no_active(state.all(Round))
    given = request.plan.model_dump(mode="json", exclude_none=True) if request.plan else {}
    issues = [issue for issue in state.all(Issue) if issue.round_id == value.id]
    evidence = list(dict.fromkeys([*value.batch_ids, *(ref.batch_id for i in issues for ref in i.evidence_refs)]))
    used = [b.dataset_id for b in state.all(Batch) if b.id in evidence]
    dataset_id = freezing.choose_dataset(value.id, given.get("dataset_id"), state.all(Dataset), used)
    project = state.all(ProjectRecord)[0]
    spec_id, judger_id = given.get("spec_id"), given.get("judger_id")
    if not (spec_id and judger_id):
        found = freezing.choose_assessment(value.id, state.all(Assessment), evidence)
        spec_id, judger_id = spec_id or found.spec_id, judger_id or found.judger_id
    stored = freezing.Stored(
        project=project,
        round=value,
        dataset=state.get(Dataset, dataset_id),
        cases=contents.cases(context.project, state, dataset_id),
        issues=issues,
        spec=state.get(EvaluationSpec, spec_id),
        judger=state.get(Judger, judger_id),
        position=state.position.number,
    )
    plan = goals.settled(freezing.make_plan(given, stored), given, stored)
    _require_fresh(context, state, plan=plan, value=value, known=known)
    check_patterns([*plan.allowed_paths, *plan.protected_paths])
    plans = {r.id: r.plan for r in state.all(Round) if r.plan is not None}
    looks = comparing.looks_of(state.all(Validation), plans, plan)
    aa = validations.baseline_outcomes(context.project, state, value, plan)
    if aa:
        planning.check_repeatability(value.id, plan, *aa)
    detectable = planning.check_plan(
        plan, baseline=aa[1] if aa else None, looks=looks, wanted_effect=request.wanted_effect
    ) | ({"b0_batch_id": aa[0]} if aa else {})
    warnings = [f"{said} {_INSTEAD}" for said in detectable.get("warnings", [])]
    warnings += [*_of_replay(context, value, project, plan), *freezing.widened(plan, project, in_scope)]
    used_judgers = dict.fromkeys(a.judger_id for a in state.all(Assessment) if a.batch_id in evidence)
    if not given.get("judger_id") and len(used_judgers) > 1:
        warnings.append(
            f"The Round's evidence was judged by {', '.join(list(used_judgers)[:5])}; the plan takes {judger_id}, the "
            "newest assessment's. Give plan.judger_id, and plan.spec_id, for another."
        )
    return _Planned(plan, value, detectable, warnings)


def _require_fresh(context: Context, state: State, *, value: Round, plan: Plan, known: KnownInputs) -> None:
    """Refuses a plan whose holdout was seen, in whichever dataset or Round that was."""
    if plan.holdout_case_ids:
        datasets = (contents.cases(context.project, state, dataset.id) for dataset in state.all(Dataset))
        elsewhere = (case for found in datasets for case in found)
        seen = holdout.seen_groups(state.all(Exposure), elsewhere)
        holdout.require_fresh(value, plan, {**known.groups(state, plan), **seen})


def _of_replay(context: Context, value: Round, project: ProjectRecord, plan: Plan) -> list[str]:
    """Returns what a person has to know about how Revisions are run, and refuses a target that does not allow it."""
    said = []
    if plan.replay == "isolated":
        with context.project.git() as git:
            if problem := isolation.unfit(git, value, project, plan):
                raise freezing.PlanInvalid(round_id=value.id, field="replay", given=["isolated"], problem=problem)
            said += isolation.cautions(git, value)
    if plan.replay_preparation.mode == "command" and not plan.replay_preparation.probe:
        said.append("replay_preparation has no probe, so nothing proves that the runtime is the Revision's.")
    return said


def _repeated(request: FreezeRoundRequest) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the arguments that freeze what a preview showed, and what the caller has to add where it is too long."""
    arguments: dict[str, Any] = {"round_id": request.round_id}
    if request.plan is None:
        return arguments, {}
    given = request.plan.model_dump(mode="json", exclude_none=True)
    if len(canonical(given)) > _REPEATED:
        return arguments, {"plan": "the same as in the preview"}
    return {**arguments, "plan": given}, {}


def _response(request: FreezeRoundRequest, planned: _Planned, *, frozen: bool) -> FreezeRoundResponse:
    value, plan = planned.round, planned.plan
    compared = len({*plan.protection_case_ids, *(c for ids in plan.target_case_ids_by_issue.values() for c in ids)})
    run = {"round_id": value.id, "dataset_id": plan.dataset_id, "revision_id": value.baseline_revision_id}
    return FreezeRoundResponse(
        message=(
            f"The plan of {value.id} is frozen. Keeping a candidate commits to your branch."
            if frozen
            else f"Preview only: this is what freeze_round would freeze for {value.id}."
        ),
        round_id=value.id,
        revision_id=value.baseline_revision_id,
        status="ready" if frozen else value.status,
        frozen=frozen,
        plan_digest=_digest(plan),
        plan=_shown(plan),
        defaults=list(plan.defaults),
        executions={
            "limit": plan.budget.executions,
            "reserve": 2 * side(plan),
            "incremental_side": compared * plan.incremental_repeats,
            "final_side": side(plan),
        },
        detectable=planned.detectable,
        warnings=planned.warnings,
        next=steps(NextCall("run_evaluation", {**run, "phase": "incremental"}))
        if frozen
        else steps(NextCall("freeze_round", *_repeated(request))),
    )


def _shown(plan: Plan) -> dict[str, Any]:
    """The plan with long lists cut: read_record has the whole."""
    shown: dict[str, Any] = {}
    for name, found in plan.model_dump(mode="json").items():
        if name in ("case_fingerprints", "input_digests", "source_groups", "defaults"):
            shown[f"{name}_count"] = len(found)
        elif name == "target_case_ids_by_issue":
            shown[name] = {issue: _head(ids, 4, 120) for issue, ids in list(found.items())[:8]}
        elif isinstance(found, list):
            shown[name] = _head(found)
        else:
            shown[name] = found
    return shown


def _head(entries: list[Any], most: int = 12, room: int = 400) -> list[Any]:
    """The first entries that fit `room` characters, and how many there are besides."""
    shown: list[Any] = []
    for entry in entries[:most]:
        room -= len(str(entry))
        if room < 0:
            break
        shown.append(entry)
    left = len(entries) - len(shown)
    return [*shown, f"… {left} more"] if left else shown
