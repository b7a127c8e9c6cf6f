"""What a plan can detect, before anything is run: figures for people, and a refusal where no outcome could pass."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from operations.statistics.distributions import units_for_zero_events, zero_event_bound
from operations.statistics.exact import least_attainable_p
from operations.statistics.power import POWER, cases_for_p, cases_needed, detectable_effect, repeats_for_p
from operations.tuning.comparison import Outcome
from operations.tuning.ledger import alpha_of_look
from operations.tuning.questions import FIXED_ALPHA, LEAST_UNITS
from storage.errors import AtkError, NextCall
from storage.schema.rounds import Plan

NOISIEST = 0.25
"""The variance of one run that passes half of the time: nothing varies more."""

_ISSUES_SHOWN = 8
_LEAST_REPEATS = 2


@dataclass(kw_only=True, eq=False)
class PlanCannotPass(AtkError):
    """No outcome of the plan could pass one of its own questions."""

    message = "No outcome of this plan could pass: {problem}. It has {given}, and needs {needed}. {remedy}"
    next_calls = (NextCall("freeze_round", supply={"round_id": "the same Round", "plan": "{remedy}"}),)

    problem: str
    given: str
    needed: str
    remedy: str


@dataclass(frozen=True)
class _Size:
    """Target Cases and repeats of one comparison, and the level at which its improvement is tested."""

    name: str
    targets: int
    repeats: int
    alpha: float

    @property
    def least_p(self) -> float:
        return least_attainable_p([(self.repeats, self.repeats)] * self.targets)

    def detectable(self, variance: float) -> float:
        return detectable_effect(math.sqrt(2 * variance / (self.repeats * self.targets)), self.alpha)


def check_plan(
    plan: Plan,
    *,
    baseline: Mapping[str, Sequence[Outcome]] | None = None,
    looks: Mapping[str, int] | None = None,
    wanted_effect: float | None = None,
) -> dict[str, Any]:
    """Returns what the plan can detect with `POWER`, as JSON values below two kilobytes.

    `baseline` holds the outcomes of B0's repeats, an A/A comparison with itself: their variance within Cases then
    stands for the agent's; without them the noisiest agent is assumed. `looks` are the counts of the error ledger, by
    Case. `wanted_effect` asks how many Cases would show that mean difference over Cases in general.

    Raises:
        PlanCannotPass: No outcome could pass, for a reason that the error names.
    """
    if not plan.case_ids:
        raise PlanCannotPass(
            problem="zero Cases never pass", given="no Case", needed="at least one", remedy="Give case_ids."
        )
    _check_minimum(plan)
    if plan.decision_rule == "counts":
        return {"rule": "counts", "detectable": "any Case with one more pass; one lost pass anywhere is a regression"}
    sizes = [
        size
        for issue, targets in plan.target_case_ids_by_issue.items()
        for size in _sizes(plan, issue, targets, looks or {})
    ]
    for size in sizes:
        _check_targets(size)
    units = _guarded_units(plan)
    if units < LEAST_UNITS:
        raise PlanCannotPass(
            problem=f"a loss of {plan.margin:g} among the Cases to protect cannot be excluded",
            given=f"{units} independent Cases or source groups to protect",
            needed=f"{LEAST_UNITS}",
            remedy="Add Cases to protection_case_ids, or set repeatability to deterministic where the agent truly is.",
        )
    variance = _variance(baseline)
    return _figures(plan, sizes, units, variance, wanted_effect) | {
        "assumed": "the noisiest agent: rates of one half" if variance is None else "the variance of B0's repeats"
    }


def _sizes(plan: Plan, issue: str, targets: Sequence[str], looks: Mapping[str, int]) -> tuple[_Size, _Size]:
    look = 1 + max((looks.get(c, 0) for c in targets), default=0)
    return (
        _Size(issue, len(targets), plan.incremental_repeats, alpha_of_look(plan.alpha, look)),
        _Size(f"{issue} at the final validation", len(targets), plan.final_repeats, FIXED_ALPHA),
    )


def _check_targets(size: _Size) -> None:
    """Refuses targets that could not reach significance if all of them failed before and passed after."""
    if size.targets and size.least_p <= size.alpha:
        return
    repeats = repeats_for_p(size.targets, size.alpha)
    enough = [] if repeats is None else [f"{repeats} repeats"]
    raise PlanCannotPass(
        problem=f"the targets of {size.name} cannot reach p {size.alpha:.4g} even if every run is repaired",
        given=f"{size.targets} target Cases of {size.repeats} repeats, which reach p {size.least_p:.4g} at the least",
        needed=" or ".join([*enough, f"{cases_for_p(size.repeats, size.alpha)} target Cases"]),
        remedy="Raise incremental_repeats and final_repeats, or name more target Cases for the Issue.",
    )


def _check_minimum(plan: Plan) -> None:
    """Refuses a minimum effect that no comparison of the plan can show."""
    largest = max((len(targets) for targets in plan.target_case_ids_by_issue.values()), default=0)
    reachable = largest if plan.decision_rule == "statistical" else len(plan.case_ids)
    if plan.min_fixed_cases > reachable:
        raise PlanCannotPass(
            problem=f"min_fixed_cases asks for {plan.min_fixed_cases} repaired Cases",
            given=f"{reachable} Cases that could be repaired",
            needed=f"min_fixed_cases of at most {reachable}",
            remedy="Lower min_fixed_cases, or name more target Cases.",
        )
    if plan.min_primary_delta >= 1:
        raise PlanCannotPass(
            problem="the mean pass rate can rise by 1 at the most",
            given=f"min_primary_delta {plan.min_primary_delta:g}",
            needed="less than 1",
            remedy="Lower min_primary_delta.",
        )


def _guarded_units(plan: Plan) -> int:
    """Returns the fewest independent units that any comparison of the plan protects beside its targets."""
    protected = set(plan.protection_case_ids or plan.case_ids)
    counts = []
    for targets in plan.target_case_ids_by_issue.values():
        guarded = protected - set(targets) or protected | set(targets)
        counts.append(len({plan.source_groups.get(c) or ("case", c) for c in guarded}))
    return min(counts, default=0)


def _variance(baseline: Mapping[str, Sequence[Outcome]] | None) -> float | None:
    """Returns the mean variance of one run within its Case, over the Cases with at least two known repeats."""
    found = []
    for outcomes in (baseline or {}).values():
        runs = [o for o in outcomes if o in ("pass", "fail")]
        if len(runs) >= _LEAST_REPEATS:
            rate = runs.count("pass") / len(runs)
            found.append(rate * (1 - rate) * len(runs) / (len(runs) - 1))
    return sum(found) / len(found) if found else None


def _figures(
    plan: Plan, sizes: Sequence[_Size], units: int, measured: float | None, wanted: float | None
) -> dict[str, Any]:
    variance = NOISIEST if measured is None else measured
    tie = zero_event_bound(units, FIXED_ALPHA)
    excludable = detectable_effect(math.sqrt(2 * variance / (plan.incremental_repeats * units)), FIXED_ALPHA, units - 1)
    figures: dict[str, Any] = {
        "rule": "statistical",
        "power": POWER,
        "targets": [
            {
                "comparison": s.name,
                "targets": s.targets,
                "repeats": s.repeats,
                "alpha": _short(s.alpha),
                "least_attainable_p": _short(s.least_p),
                "smallest_detectable_effect": _short(min(1.0, s.detectable(NOISIEST))),
            }
            for s in sizes[: 2 * _ISSUES_SHOWN]
        ],
        "protection": {
            "units": units,
            "margin": plan.margin,
            "loss_excluded_when_unchanged": _short(excludable),
            "cases_needed_for_the_margin": _cases(plan.margin, variance, plan.incremental_repeats),
            "bound_when_nothing_varies": _short(tie),
        },
        "warnings": _warnings(plan, units, excludable, tie),
    }
    if wanted:
        figures["cases_needed_for_wanted_effect"] = _cases(wanted, variance, plan.final_repeats)
    return figures


def _cases(effect: float, variance: float, repeats: int) -> int | None:
    if effect <= 0:
        return None
    return max(LEAST_UNITS, cases_needed(effect, between=0.0, within=2 * variance, repeats=repeats))


def _warnings(plan: Plan, units: int, excludable: float, tie: float) -> list[str]:
    """Returns what is likely to end in `insufficient` although some outcome could pass."""
    found = []
    if excludable > plan.margin:
        found.append(
            f"An unchanged agent as noisy as assumed shows the margin of {plan.margin:g} in fewer than four of five "
            f"comparisons of {units} units: more repeats, more Cases or a margin of {excludable:.2g} would."
        )
    if tie >= plan.margin > 0:
        found.append(
            f"If no protected Case varies at all, a loss of {tie:.2g} stays possible and the result is insufficient: "
            f"{units_for_zero_events(plan.margin, FIXED_ALPHA)} such units exclude {plan.margin:g}."
        )
    return found


def _short(value: float) -> float:
    return float(f"{value:.4g}")
