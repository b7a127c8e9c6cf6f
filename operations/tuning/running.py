"""What a run may run: which Revision, which Cases, how often, and whether its result could count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from storage.errors import AtkError, NextCall
from storage.schema.batches import Batch, Spending
from storage.schema.candidates import Candidate
from storage.schema.projects import Preparation, Project
from storage.schema.rounds import Plan, Revision, Round
from storage.schema.validations import Validation

Metric = Literal["cost", "tool_calls", "duration_seconds"]
_NAMED = 10
"""So many Cases are named in a sentence."""


@dataclass(kw_only=True, eq=False)
class UnprotectedEffects(AtkError):
    """The agent can act on the world outside, and nothing is recorded that keeps a run from it."""

    message = (
        "These external effects have no protection: {names}. Say for each what protects it (test_environment, stub or "
        "approved_safeguard, with an evidence_ref) with initialize_project and revise: true."
    )
    next_calls = (
        NextCall("initialize_project", {"revise": True}, {"arguments": "the whole configuration, with protections"}),
        NextCall("read_record", {"record_id": "{project_id}"}),
    )

    project_id: str
    names: list[str]


@dataclass(kw_only=True, eq=False)
class RevisionMismatch(AtkError):
    """What was asked to run is not a Revision that may run here."""

    message = "{given} cannot run here: {problem}. Revisions that can: {possible}."
    next_calls = (NextCall("get_status"),)

    given: str
    problem: str
    possible: list[str]


@dataclass(kw_only=True, eq=False)
class RunNotPlanned(AtkError):
    """A field of the run is not what the frozen plan says."""

    message = "{field} is {given}, and the plan of {round_id} froze {planned}. Leave the field out to take the plan's."
    next_calls = (NextCall("get_status", {"round_id": "{round_id}"}),)

    round_id: str
    field: str
    given: str
    planned: str


@dataclass(kw_only=True, eq=False)
class FinalWithoutRound(AtkError):
    """A run is to be a final side, and names no Round that it could be a side of."""

    message = (
        "phase final is a side of a Round's final validation, and no round_id is given: the run would count for "
        "nothing. Give round_id, or leave phase out for a run outside of any Round."
    )
    next_calls = (
        NextCall("run_evaluation", {"phase": "incremental"}, {"revision_commit": "HEAD"}),
        NextCall("get_status"),
    )


@dataclass(kw_only=True, eq=False)
class DatasetNotNamed(AtkError):
    """A run outside of a Round names no dataset, and the project has none or several."""

    message = "The run needs a dataset_id: the project has {known}."
    next_calls = (
        NextCall("run_evaluation", {"dataset_id": "{newest}"}, {"revision_commit": "HEAD's commit"}),
        NextCall("get_status"),
    )

    known: str
    newest: str
    """The dataset that was stored last; empty where there is none."""
    given: dict[str, Any] = field(default_factory=dict)
    """The arguments of the call, as far as they are short."""

    @property
    def next(self) -> tuple[NextCall, ...]:
        """Without any dataset, one is stored first; else the same call names the newest."""
        if not self.newest:
            return (NextCall("store_dataset", supply={"source": "a file of Cases"}), NextCall("get_status"))
        run, *others = super().next
        supply = {name: said for name, said in run.supply.items() if name not in self.given}
        return (NextCall(run.tool, {**self.given, **run.arguments}, supply), *others)

    @classmethod
    def of(cls, ids: Sequence[str], given: Mapping[str, Any]) -> DatasetNotNamed:
        """Returns the refusal of a call with the arguments `given`, in a project with these datasets, oldest first."""
        known = f"{len(ids)}, the newest first: {', '.join(ids[:-6:-1])}" if ids else "none yet"
        return cls(known=known, newest=ids[-1] if ids else "", given=dict(given))


@dataclass(kw_only=True, eq=False)
class UnknownCases(AtkError):
    """The run names Cases that are not there, or none."""

    message = "case_ids names {problem}. Leave it out to run all that count."
    next_calls = (NextCall("run_evaluation", supply={"case_ids": "Cases of the dataset"}),)

    problem: str
    given: list[str]


@dataclass(kw_only=True, eq=False)
class FinalSideStands(AtkError):
    """A side of the final validation was run already and sealed; a second try would let one choose."""

    message = "{batch_id} is the final side of {revision_id} already. Assess it; a final side is run once."
    next_calls = (
        NextCall("store_assessment", {"batch_id": "{batch_id}"}, {"rows": "verdicts, or a judger that ATK runs"}),
    )

    batch_id: str
    revision_id: str


@dataclass(kw_only=True, eq=False)
class NothingToValidate(AtkError):
    """A final validation holds what was kept against the baseline, and nothing was kept."""

    message = (
        "{round_id} keeps no candidate, so a final run has nothing to validate, and it would end the optimizing. "
        "Prepare a candidate, or close the Round without adoption."
    )
    next_calls = (
        NextCall("get_status", {"round_id": "{round_id}"}),
        NextCall(
            "finish_round", {"round_id": "{round_id}", "action": "close_without_adoption"}, {"reason": "why it ends"}
        ),
    )

    round_id: str


def spending(project: Project, metric: Metric, limit: float) -> Spending:
    """Returns a limit of what a run may spend, with who measures it and whether that is the agent itself."""
    if metric == "duration_seconds":
        return Spending(metric=metric, limit=limit, source="supervisor", trust="independent")
    declared = project.metric_sources.get(metric)
    if declared is not None:
        return Spending(metric=metric, limit=limit, source=declared.source, trust="independent")
    return Spending(metric=metric, limit=limit, source="agent_sidecar", trust="self_reported")


def preparation_of(plan: Plan | None, project: Project) -> Preparation:
    """Returns what prepares the runtime before a batch: what the plan froze, else what the project has."""
    frozen = plan.replay_preparation if plan else None
    if frozen is None or frozen.source is None:
        return project.replay_preparation or Preparation()
    return frozen


def require_cases(wanted: Sequence[str], possible: Collection[str]) -> None:
    """Refuses Cases that a run cannot have.

    Raises:
        UnknownCases: There is none, one is not there, or one is named twice.
    """
    known = set(possible)
    strangers = [case_id for case_id in wanted if case_id not in known]
    twice = [case_id for case_id, times in Counter(wanted).items() if times > 1]
    if strangers:
        problem = f"{_named(strangers)}, and the dataset or plan has no such {'Cases' if strangers[1:] else 'Case'}"
        raise UnknownCases(given=strangers, problem=problem)
    if twice:
        raise UnknownCases(given=twice, problem=f"{_named(twice)} more than once; repeats says how often each runs")
    if not wanted:
        raise UnknownCases(given=[], problem="no Case, and there would be nothing to run")


def _named(case_ids: Sequence[str]) -> str:
    more = len(case_ids) - _NAMED
    return ", ".join(case_ids[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def require_protected(project: Project) -> None:
    """Refuses to run an agent whose effects nothing holds back."""
    names = [e.name for e in project.external_effects if e.protection is None]
    if names:
        raise UnprotectedEffects(project_id=project.id, names=names)


def incremental_cases(
    plan: Plan, value: Round, candidates: Collection[Candidate], validations: Sequence[Validation], issue_id: str | None
) -> tuple[str, ...]:
    """Returns the Cases of an incremental comparison, in the plan's order.

    Protection, the Issue's targets (every Issue's while none is chosen), and what accepted candidates fixed.
    """
    wanted = {*plan.protection_case_ids, *fixed_by_accepted(value, candidates, validations)}
    for known, targets in plan.target_case_ids_by_issue.items():
        if issue_id in (None, known):
            wanted |= set(targets)
    return tuple(c for c in plan.case_ids if c in wanted)


def compared_cases(
    plan: Plan, value: Round, candidates: Collection[Candidate], validations: Sequence[Validation], phase: str
) -> tuple[str, ...]:
    """Returns the Cases of the comparison that is due: of the undecided candidate, or of the Round as a whole."""
    if phase == "final":
        return plan.case_ids
    issues = (c.primary_issue_id for c in candidates if c.id == value.pending_candidate_id)
    return incremental_cases(plan, value, candidates, validations, next(issues, None))


def incremental_side(
    plan: Plan, value: Round, candidates: Collection[Candidate], validations: Sequence[Validation], issue_id: str | None
) -> int:
    """Returns the Executions of one side of an incremental comparison."""
    return len(incremental_cases(plan, value, candidates, validations, issue_id)) * plan.incremental_repeats


def stands(value: Round, revision_id: str, batches: Sequence[Batch]) -> bool:
    """Whether a side of an incremental comparison was run for the frozen plan, or is running."""
    frozen = value.plan.frozen_after_record if value.plan else 0
    wanted = (value.id, revision_id, "incremental")
    return any(
        (b.round_id, b.revision_id, b.phase) == wanted
        and b.status in ("sealed", "running")
        and b.started_record > frozen
        for b in batches
    )


def fixed_by_accepted(
    value: Round, candidates: Collection[Candidate], validations: Sequence[Validation]
) -> tuple[str, ...]:
    """Returns the Cases that accepted candidates fixed: they are protected from then on."""
    accepted = [c for c in candidates if c.id in value.accepted_candidate_ids]
    newest = {v.candidate_id: v for v in validations if v.mode == "incremental"}
    found: dict[str, None] = {}
    for candidate in accepted:
        validation = newest.get(candidate.id)
        for lists in validation.statistics.cases if validation else ():
            if validation and lists.dimension == validation.statistics.primary_dimension:
                found |= dict.fromkeys(lists.fixed)
    return tuple(found)


def require_kept(value: Round) -> None:
    """Refuses a final run of a Round that keeps nothing.

    Raises:
        NothingToValidate: No candidate is accepted, so there is nothing to hold against the baseline.
    """
    if not value.accepted_candidate_ids and value.external_fix is None:
        raise NothingToValidate(round_id=value.id)


def require_final_open(
    value: Round, revision: Revision, batches: Sequence[Batch], *, follows: str | None = None
) -> None:
    """Refuses a second run of a final side that stands. A batch may follow the one that it retries.

    Raises:
        RevisionMismatch: The Revision is not a side of the final validation.
        FinalSideStands: It was run and sealed.
    """
    sides = [value.baseline_revision_id, value.current_revision_id]
    if revision.id not in sides:
        problem = "a final side is the baseline or the current revision"
        raise RevisionMismatch(given=revision.id, problem=problem, possible=sides)
    for batch in batches:
        same = (batch.round_id, batch.revision_id, batch.phase) == (value.id, revision.id, "final")
        if same and batch.status in ("running", "sealed") and batch.id != follows:
            raise FinalSideStands(batch_id=batch.id, revision_id=revision.id)
