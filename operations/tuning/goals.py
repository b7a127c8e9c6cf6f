"""What a plan wants to see better, what it may cost, and which of its targets only screen: the rest of its defaults."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from operations.statistics.exact import least_attainable_p
from operations.statistics.power import detectable_effect
from operations.tuning.freezing import PlanInvalid, Stored
from operations.tuning.ledger import alpha_of_look
from operations.tuning.metrics import MOST, SUPERVISOR
from operations.tuning.questions import SCREEN_ALPHA
from storage.schema.rounds import MetricLimit, Plan

NOISIEST = 0.25
"""The variance of one run that passes half of the time: nothing varies more."""

CONFIRMED_EFFECT = 0.45
"""Targets are parted by themselves only where those that confirm still show this much of the noisiest agent: as four
targets of five repeats do, for which the gate's power is stated."""

_SHORTEST = 1e-6
"""Seconds, or times as long: nothing that is started takes less."""

_DEFAULTS = {"objective": "quality", "min_efficiency_delta": 0.0, "metric_limits": {}}


def settled(plan: Plan, given: Mapping[str, Any], stored: Stored) -> Plan:
    """Returns the plan with objective, limits, proof of loading and screening, as asked for or by default.

    Raises:
        PlanInvalid: A field contradicts another one or what is stored.
    """
    where, defaults = stored.round.id, list(plan.defaults)
    limits = _limits(where, given.get("metric_limits") or {})
    objective = given.get("objective") or "quality"
    metric = given.get("efficiency_metric")
    if (objective == "efficiency") != (metric is not None):
        problem = "belongs to objective efficiency: name cost, tool_calls or duration_seconds there, and nothing else"
        raise PlanInvalid(round_id=where, field="efficiency_metric", given=[str(metric)], problem=problem)
    _check_saving(where, plan, metric, given.get("min_efficiency_delta") or 0.0)
    defaults += [name for name in _DEFAULTS if given.get(name) is None]
    screening, left_out = _screening(plan, given, stored)
    loaded = given.get("required_loaded_component_ids")
    if loaded is None:
        defaults.append("required_loaded_component_ids")
        loaded = list(stored.project.loading_verification)
    _observable(where, loaded, stored)
    return plan.model_copy(
        update={
            "objective": objective,
            "efficiency_metric": metric,
            "min_efficiency_delta": given.get("min_efficiency_delta") or 0.0,
            "metric_limits": limits,
            "metric_sources": _sources(where, limits, metric, stored),
            "required_loaded_component_ids": tuple(loaded),
            "screening_case_ids_by_issue": screening,
            "defaults": (*defaults, *left_out),
        }
    )


def _check_saving(where: str, plan: Plan, metric: str | None, wanted: float) -> None:
    """Refuses a saving that is more than the left side can spend."""
    if not wanted:
        return
    executions = len(plan.case_ids) * max(plan.incremental_repeats, plan.final_repeats)
    most = executions * plan.timeout_seconds if metric == "duration_seconds" else MOST
    if wanted >= most:
        problem = f"is more than the {metric} that {executions} Executions can have in all ({most:g})"
        raise PlanInvalid(round_id=where, field="min_efficiency_delta", given=[f"{wanted:g}"], problem=problem)


def _limits(where: str, given: Mapping[str, Any]) -> dict[str, MetricLimit]:
    found = {}
    for metric, asked in given.items():
        field = f"metric_limits.{metric}"
        try:
            limit = MetricLimit.model_validate(asked)
        except ValidationError:
            problem = "needs total, ratio or both, each a number"
            raise PlanInvalid(round_id=where, field=field, given=[str(asked)], problem=problem) from None
        numbers = [n for n in (limit.total, limit.ratio) if n is not None]
        least = 0 if metric != "duration_seconds" else _SHORTEST
        if not numbers or not all(least <= n <= MOST for n in numbers):
            problem = f"needs total, ratio or both, each from {least:g} to {MOST:g}; below that no attempt could be"
            raise PlanInvalid(round_id=where, field=field, given=[str(asked)], problem=problem)
        found[metric] = limit
    return found


def _sources(where: str, limits: Collection[str], objective: str | None, stored: Stored) -> dict[str, str]:
    """Returns who measures each metric; one that only the agent itself reports cannot decide anything."""
    found = {}
    for metric in dict.fromkeys([*limits, *([objective] if objective else [])]):
        declared = stored.project.metric_sources.get(metric)
        if metric != "duration_seconds" and declared is None:
            problem = (
                "relies on a metric that only the agent reports: name an independent collector in the project's "
                "metric_sources (initialize_project with revise: true), or rely on duration_seconds, which ATK measures"
            )
            field = "metric_limits" if metric in limits else "efficiency_metric"
            raise PlanInvalid(round_id=where, field=field, given=[metric], problem=problem)
        found[metric] = declared.source if declared is not None else SUPERVISOR
    return found


def _observable(where: str, loaded: Sequence[str], stored: Stored) -> None:
    """Refuses a proof of what no batch observes: then nothing could ever pass."""
    field, project = "required_loaded_component_ids", stored.project
    known = {c.component_id for c in project.components if c.source_path is not None}
    if strangers := [c for c in loaded if c not in known]:
        there = ", ".join(sorted(known)) or "none"
        problem = f"names what is no component with a source_path, so nothing could prove it loaded ({there} is one)"
        raise PlanInvalid(round_id=where, field=field, given=strangers, problem=problem)
    silent = project.adapter == "command" and not any("{output_dir}" in part for part in project.command)
    if loaded and silent:
        problem = "asks for proof that the command has no place for: give it {output_dir}, where it writes loading.json"
        raise PlanInvalid(round_id=where, field=field, given=list(loaded), problem=problem)


def _screening(
    plan: Plan, given: Mapping[str, Any], stored: Stored
) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Returns, by Issue, the targets that only screen, and the name of the field where it was left to ATK.

    Targets of usage optimization screen and the others confirm, so that a look which fails on the first costs nothing.
    """
    asked = given.get("screening")
    left_out = ("screening",) if asked is None else ()
    if asked is False or plan.decision_rule != "statistical" or given.get("objective") == "efficiency":
        return {}, left_out
    usage = {case.id: case.usage for case in stored.cases}
    found = {}
    for issue, targets in plan.target_case_ids_by_issue.items():
        screen = tuple(c for c in targets if usage[c] == "optimization")
        confirm = len(targets) - len(screen)
        if not screen or not confirm:
            continue
        if _attainable(plan, len(screen), SCREEN_ALPHA) and (asked or _confirms(plan, confirm)):
            found[issue] = screen
    if asked and not found:
        problem = (
            "needs an Issue with targets of usage optimization, which screen, and of usage protection, which confirm, "
            "and enough repeats for both"
        )
        raise PlanInvalid(round_id=stored.round.id, field="screening", given=["true"], problem=problem)
    return found, left_out


def _attainable(plan: Plan, cases: int, alpha: float) -> bool:
    repeats = plan.incremental_repeats
    return least_attainable_p([(repeats, repeats)] * cases) <= alpha


def _confirms(plan: Plan, cases: int) -> bool:
    level = alpha_of_look(plan.alpha, 1)
    error = math.sqrt(2 * NOISIEST / (plan.incremental_repeats * cases))
    return _attainable(plan, cases, level) and detectable_effect(error, level) <= CONFIRMED_EFFECT
