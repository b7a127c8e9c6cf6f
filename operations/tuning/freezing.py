"""From what a caller asks for and what is stored to a whole plan: every default is worked out here, and named."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError

from operations import mistakes
from operations.tuning.gate import RULE_VERSION
from operations.tuning.identity import input_digest, runner_digest
from storage.errors import AtkError, NextCall
from storage.schema.assessments import Assessment, EvaluationSpec, Judger
from storage.schema.candidates import Issue
from storage.schema.datasets import Case, Dataset
from storage.schema.projects import Preparation, Project
from storage.schema.rounds import Budget, Plan, Repeatability, Replay, ReplayPreparation, Round, Rule

DEFAULT_REPEATS = 5
IN_PLACE: Replay = "in_place"
_SHOWN = 5
"""How many of the names that a field can have a refusal tells."""
ValueT = TypeVar("ValueT")


@dataclass(kw_only=True, eq=False)
class DatasetNotChosen(AtkError):
    """The plan names no dataset, and what is stored does not say which one it is."""

    message = "The plan needs a dataset. {reason}. Give plan.dataset_id; store_dataset stores Cases."
    next_calls = (
        NextCall("freeze_round", {"round_id": "{round_id}", "preview": True}, {"plan": "with dataset_id"}),
        NextCall("store_dataset", supply={"source": "a CSV or JSONL file of Cases"}),
    )

    round_id: str
    reason: str


@dataclass(kw_only=True, eq=False)
class JudgerNotChosen(AtkError):
    """The plan names no specification or judger, and no evidence of the Round was judged."""

    message = (
        "The plan needs a specification and a judger, and no assessment of the evidence of {round_id} is stored. Judge "
        "one of its batches, or give plan.spec_id and plan.judger_id of ones stored before: {known}."
    )
    next_calls = (NextCall("get_status", {"round_id": "{round_id}"}),)

    round_id: str
    known: list[str]


@dataclass(kw_only=True, eq=False)
class NoIssueToAnswer(AtkError):
    """The Round has no Issue that a candidate could answer."""

    message = (
        "The plan needs an Issue, and none with disposition local_candidate is stored for {round_id}. Store the "
        "diagnosis first."
    )
    next_calls = (NextCall("store_diagnosis", {"round_id": "{round_id}"}, {"issues": "what fails and why"}),)

    round_id: str


@dataclass(kw_only=True, eq=False)
class PlanInvalid(AtkError):
    """One field of the plan contradicts another, or what is stored."""

    message = "plan.{field} {problem} (given: {given}). Correct it; preview: true shows the plan that comes of it."
    next_calls = (
        NextCall("freeze_round", {"round_id": "{round_id}", "preview": True}, {"plan": "with {field} corrected"}),
    )

    round_id: str
    field: str
    given: list[str]
    problem: str


@dataclass(frozen=True, kw_only=True)
class Stored:
    """What the project holds that a plan is made from."""

    project: Project
    round: Round
    dataset: Dataset
    cases: Sequence[Case]
    issues: Sequence[Issue]
    spec: EvaluationSpec
    judger: Judger
    position: int
    """The number of the last journal record: runs up to it were visible when the targets were named."""


@dataclass
class _Choices:
    """The caller's fields, and the names of those that were left out."""

    given: Mapping[str, Any]
    defaults: list[str] = field(default_factory=list)

    def take(self, name: str, otherwise: ValueT) -> ValueT:
        value: ValueT | None = self.given.get(name)
        if value is None:
            self.defaults.append(name)
            return otherwise
        return value


def choose_dataset(round_id: str, given: str | None, datasets: Sequence[Dataset], evidence: Iterable[str]) -> str:
    """Returns the dataset of a plan: the one given, the one behind the Round's evidence, or the only one."""
    if given:
        return given
    used = list(dict.fromkeys(evidence))
    if len(used) == 1:
        return used[0]
    if len(datasets) == 1:
        return datasets[0].id
    reason = "The project has none" if not datasets else f"The newest are {', '.join(d.id for d in datasets[-5:])}"
    raise DatasetNotChosen(round_id=round_id, reason=reason)


def choose_assessment(round_id: str, assessments: Sequence[Assessment], batches: Iterable[str]) -> Assessment:
    """Returns the Assessment whose specification and judger a plan takes over: the newest of the Round's evidence."""
    wanted = set(batches)
    for found in reversed(assessments):
        if found.batch_id in wanted or not wanted:
            return found
    known = [name for a in assessments[-2:] for name in (a.spec_id, a.judger_id)]
    raise JudgerNotChosen(round_id=round_id, known=list(dict.fromkeys(known)))


def make_plan(given: Mapping[str, Any], stored: Stored) -> Plan:
    """Returns the plan that `given` asks for, whole.

    Raises:
        NoIssueToAnswer: The Round has no Issue for a candidate.
        PlanInvalid: A field contradicts another one or what is stored.
    """
    choices = _Choices(given, [name for name in ("dataset_id", "spec_id", "judger_id") if not given.get(name)])
    where = stored.round.id
    by_id = {case.id: case for case in stored.cases}
    chosen = tuple(choices.take("case_ids", list(by_id)))
    _known(where, "case_ids", chosen, by_id)
    usual_cases = tuple(case_id for case_id in chosen if by_id[case_id].usage != "holdout")
    blind = [case_id for case_id in chosen if by_id[case_id].usage == "holdout"]
    holdout = tuple(choices.take("holdout_case_ids", blind))
    _known(where, "holdout_case_ids", holdout, blind)
    kept = {*usual_cases, *holdout}
    case_ids = tuple(case_id for case_id in chosen if case_id in kept)
    issues = _issues(choices, stored)
    targets = _targets(choices, stored, issues, usual_cases)
    every_target = {case_id for ids in targets.values() for case_id in ids}
    others = [case_id for case_id in usual_cases if case_id not in every_target]
    protection = tuple(choices.take("protection_case_ids", others))
    _known(where, "protection_case_ids", protection, usual_cases)
    repeatability: Repeatability = choices.take("repeatability", "unknown")
    deterministic = repeatability == "deterministic"
    usual: Rule = "counts" if deterministic else "statistical"
    rule = choices.take("decision_rule", usual)
    if rule == "counts" and not deterministic:
        problem = "counts compares single points, which takes chance for change: it needs repeatability deterministic"
        raise PlanInvalid(round_id=where, field="decision_rule", given=[rule], problem=problem)
    repeats = 1 if rule == "counts" else DEFAULT_REPEATS
    incremental = choices.take("incremental_repeats", repeats)
    final = choices.take("final_repeats", repeats)
    allowed = tuple(choices.take("allowed_paths", list(stored.project.allowed_paths)))
    if not allowed:
        problem = "is empty, so no candidate could change anything"
        raise PlanInvalid(round_id=where, field="allowed_paths", given=[], problem=problem)
    dimensions = stored.spec.dimensions
    primary = choices.take("primary_dimension", dimensions[0])
    required = tuple(choices.take("required_dimensions", list(dimensions)))
    _known(where, "primary_dimension", [primary], dimensions)
    _known(where, "required_dimensions", required, dimensions)
    budget = _budget(choices, where, len(issues), len(case_ids), len({*protection, *every_target}), incremental, final)
    if not choices.take("commit_authorized", True):  # noqa: FBT003 - a default, not a flag
        problem = "is false, and keeping a candidate is a commit"
        raise PlanInvalid(round_id=where, field="commit_authorized", given=["false"], problem=problem)
    return Plan(
        dataset_id=stored.dataset.id,
        case_ids=case_ids,
        case_fingerprints={case_id: by_id[case_id].fingerprint for case_id in case_ids},
        source_groups={c: g for c in case_ids if (g := by_id[c].source_group_id)},
        input_digests={c: input_digest(by_id[c]) for c in usual_cases},
        protection_case_ids=protection,
        holdout_case_ids=holdout,
        issue_ids=tuple(issue.id for issue in issues),
        target_case_ids_by_issue=targets,
        allowed_paths=allowed,
        protected_paths=tuple(choices.take("protected_paths", list(stored.project.protected_paths))),
        spec_id=stored.spec.id,
        spec_digest=stored.spec.digest,
        judger_id=stored.judger.id,
        judger_digest=stored.judger.digest,
        run_config_digest=stored.project.run_config_digest,
        runner_digest=runner_digest(stored.project),
        repeatability=repeatability,
        repeatability_basis=choices.take("repeatability_basis", "not known; treated as stochastic"),
        decision_rule=rule,
        rule_version=RULE_VERSION,
        margin=choices.take("margin", 0.15),
        alpha=choices.take("alpha", 0.05),
        min_fixed_cases=choices.take("min_fixed_cases", 1),
        min_primary_delta=choices.take("min_primary_delta", 0.0),
        incremental_repeats=incremental,
        final_repeats=final,
        budget=budget,
        max_retries_per_slot=choices.take("max_retries_per_slot", 0),
        concurrency=choices.take("concurrency", 2),
        timeout_seconds=choices.take("timeout_seconds", stored.project.timeout_seconds),
        timeout_is_failure=choices.take("timeout_is_failure", False),  # noqa: FBT003 - a default, not a flag
        primary_dimension=primary,
        required_dimensions=required,
        replay=choices.take("replay", IN_PLACE),
        replay_preparation=_preparation(choices, stored),
        commit_authorized=True,
        defaults=tuple(choices.defaults),
        frozen_after_record=stored.position,
    )


def widened(plan: Plan, project: Project, in_scope: Callable[[str, Sequence[str]], bool]) -> list[str]:
    """Returns a warning where the plan lets candidates change what the project protects or calls fixed."""
    fixed = [c.source_path for c in project.components if c.change_role == "fixed" and c.source_path]
    kept = dict.fromkeys((*project.protected_paths, *fixed))
    opened = [p for p in kept if in_scope(p, plan.allowed_paths) and not in_scope(p, plan.protected_paths)]
    if not opened:
        return []
    lets = f"The plan lets candidates change what the project protects or calls fixed: {', '.join(opened[:5])}."
    return [f"{lets} Add them to plan.protected_paths, unless the person wants that."]


def _preparation(choices: _Choices, stored: Stored) -> ReplayPreparation:
    """Returns what prepares the runtime before every batch of every Revision: the caller's word, else the project's."""
    given = choices.given.get("replay_preparation")
    if given is None:
        choices.defaults.append("replay_preparation")
        known = stored.project.replay_preparation or Preparation()
        return ReplayPreparation(**known.model_dump(), source="project")
    where, field = stored.round.id, "replay_preparation"
    try:
        found = ReplayPreparation.model_validate({"mode": "command", **given, "source": "plan"})
    except ValidationError as invalid:
        first = invalid.errors(include_url=False, include_input=False)[0]
        at = ".".join([field, *(str(part) for part in first["loc"])])
        known_fields = ", ".join(name for name in ReplayPreparation.model_fields if name != "source")
        problem = f"{mistakes.said(first)}; the fields of replay_preparation are {known_fields}"
        raise PlanInvalid(round_id=where, field=at, given=list(given), problem=problem) from None
    if found.mode == "command" and not (found.argv or found.service):
        problem = "of mode command needs an argv or a service"
        raise PlanInvalid(round_id=where, field=field, given=list(given), problem=problem)
    if found.mode == "stateless" and (found.argv or found.service or found.probe):
        problem = "of mode stateless runs nothing: leave argv, service and probe out, or set mode to command"
        raise PlanInvalid(round_id=where, field=field, given=list(given), problem=problem)
    return found


def _issues(choices: _Choices, stored: Stored) -> list[Issue]:
    candidates = [issue for issue in stored.issues if issue.disposition == "local_candidate"]
    wanted = choices.take("issue_ids", [issue.id for issue in candidates])
    _known(stored.round.id, "issue_ids", wanted, [issue.id for issue in stored.issues])
    if not wanted:
        raise NoIssueToAnswer(round_id=stored.round.id)
    return [issue for issue in stored.issues if issue.id in wanted]


def _targets(
    choices: _Choices, stored: Stored, issues: Sequence[Issue], case_ids: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    possible = set(case_ids)
    otherwise = {issue.id: [c for c in issue.case_ids if c in possible] for issue in issues}
    given = choices.take("target_case_ids_by_issue", otherwise)
    where = stored.round.id
    _known(where, "target_case_ids_by_issue", list(given), [issue.id for issue in issues])
    for issue in issues:
        targets = given.get(issue.id, otherwise[issue.id])
        _known(where, f"target_case_ids_by_issue.{issue.id}", targets, otherwise[issue.id])
        if not targets:
            problem = "has no target Case, so nothing could show that the Issue is repaired"
            raise PlanInvalid(round_id=where, field=f"target_case_ids_by_issue.{issue.id}", given=[], problem=problem)
    return {issue.id: tuple(given.get(issue.id, otherwise[issue.id])) for issue in issues}


def _budget(  # noqa: PLR0913, PLR0917 - what a budget follows from
    choices: _Choices, where: str, issues: int, cases: int, compared: int, incremental: int, final: int
) -> Budget:
    given = choices.given.get("budget") or {}
    reserve = 2 * cases * final
    candidates = given.get("candidates")
    if candidates is None:
        choices.defaults.append("budget.candidates")
        candidates = issues
    executions = given.get("executions")
    if executions is None:
        choices.defaults.append("budget.executions")
        executions = reserve + (candidates + 1) * compared * incremental
    if executions < reserve + 2 * compared * incremental:
        problem = (
            f"is too small: the final validation takes {reserve} and one comparison {2 * compared * incremental}, "
            f"so at least {reserve + 2 * compared * incremental}"
        )
        raise PlanInvalid(round_id=where, field="budget.executions", given=[str(executions)], problem=problem)
    return Budget(executions=executions, candidates=candidates)


def _known(where: str, name: str, given: Sequence[str], allowed: Collection[str]) -> None:
    known = set(allowed)
    strangers = [value for value in given if value not in known]
    if strangers:
        there = ", ".join(list(dict.fromkeys(allowed))[:_SHOWN]) or "nothing"
        more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
        problem = f"names what it cannot; it can name {there}{more}"
        raise PlanInvalid(round_id=where, field=name, given=strangers, problem=problem)
    if len(known.intersection(given)) != len(given):
        raise PlanInvalid(round_id=where, field=name, given=list(given), problem="names something twice")
