"""What a plan can detect, before anything is run: figures for people, and a refusal where no outcome could pass."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from operations.statistics.distributions import units_for_zero_events, zero_event_bound
from operations.statistics.exact import least_attainable_p
from operations.statistics.power import (
    POWER,
    cases_for_p,
    cases_needed,
    detectable_effect,
    repeats_for_effect,
    repeats_for_p,
)
from operations.tuning.comparison import Outcome
from operations.tuning.freezing import PlanInvalid
from operations.tuning.goals import NOISIEST
from operations.tuning.ledger import alpha_of_look
from operations.tuning.questions import FIXED_ALPHA, LEAST_UNITS, SCREEN_ALPHA
from operations.wording import counted
from storage.errors import AtkError, NextCall
from storage.schema.rounds import Plan

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
    case_ids: tuple[str, ...]
    repeats: int
    alpha: float

    @property
    def targets(self) -> int:
        return len(self.case_ids)

    @property
    def least_p(self) -> float:
        return least_attainable_p([(self.repeats, self.repeats)] * self.targets)

    def detectable(self, variance: float) -> float:
        return detectable_effect(math.sqrt(2 * variance / (self.repeats * self.targets)), self.alpha)

    def repeats_for(self, effect: float) -> int | None:
        return repeats_for_effect(effect, cases=self.targets, variance=NOISIEST, alpha=self.alpha)


def check_plan(
    plan: Plan,
    *,
    baseline: Mapping[str, Sequence[Outcome]] | None = None,
    looks: Mapping[str, int] | None = None,
    wanted_effect: float | None = None,
) -> dict[str, Any]:
    """Returns what the plan can detect with `POWER`, as JSON values.

    `baseline` holds the outcomes of B0's repeats, by Case: compared with itself B0 shows nothing but noise, so their
    variance within Cases then stands for the agent's; without them the noisiest agent is assumed. `looks` are the
    counts of the error ledger, by Case. `wanted_effect` asks how many Cases show that mean difference over Cases in
    general, and how many repeats show it of each Issue's targets.

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
    sizes = _all_sizes(plan, looks or {})
    for size in sizes:
        _check_targets(size)
    units = _guarded_units(plan)
    if units < LEAST_UNITS:
        raise PlanCannotPass(
            problem=f"a loss of {plan.margin:g} among the Cases to protect cannot be excluded",
            given=f"{counted(units, 'independent unit')} to protect (Cases or source groups)",
            needed=f"{LEAST_UNITS}",
            remedy="Add Cases to protection_case_ids, or set repeatability to deterministic where the agent truly is.",
        )
    return _figures(plan, sizes, units, baseline or {}, wanted_effect)


def check_repeatability(round_id: str, plan: Plan, batch_id: str, baseline: Mapping[str, Sequence[Outcome]]) -> None:
    """Refuses to take an agent for deterministic whose own runs of one Revision say that it is not.

    Raises:
        PlanInvalid: It names Cases that passed and failed in one batch.
    """
    mixed = [case_id for case_id, outcomes in baseline.items() if {"pass", "fail"} <= set(outcomes)]
    if plan.repeatability == "deterministic" and mixed:
        problem = (
            f"is contradicted by {batch_id}, in which B0 passed and failed the same Cases: {', '.join(mixed[:5])}. "
            "Leave it out, or say stochastic"
        )
        raise PlanInvalid(round_id=round_id, field="repeatability", given=[plan.repeatability], problem=problem)


def _all_sizes(plan: Plan, looks: Mapping[str, int]) -> list[_Size]:
    """Returns each comparison whose improvement is asked of targets: none where the objective is efficiency."""
    if plan.objective == "efficiency":
        return []
    named = plan.target_case_ids_by_issue.items()
    return [size for issue, targets in named for size in _sizes(plan, issue, tuple(targets), looks)]


def _sizes(plan: Plan, issue: str, targets: tuple[str, ...], looks: Mapping[str, int]) -> list[_Size]:
    screening = plan.screening_case_ids_by_issue.get(issue, ())
    claimed = tuple(c for c in targets if c not in screening)
    look = 1 + max((looks.get(c, 0) for c in claimed), default=0)
    repeats = plan.incremental_repeats
    screen = [_Size(f"{issue}, screening", tuple(screening), repeats, SCREEN_ALPHA)] if screening else []
    return [
        *screen,
        _Size(issue, claimed, repeats, alpha_of_look(plan.alpha, look)),
        _Size(f"{issue} at the final validation", targets, plan.final_repeats, FIXED_ALPHA),
    ]


def _check_targets(size: _Size) -> None:
    """Refuses targets that could not reach significance if all of them failed before and passed after."""
    if size.targets and size.least_p <= size.alpha:
        return
    repeats = repeats_for_p(size.targets, size.alpha)
    enough = [] if repeats is None else [counted(repeats, "repeat")]
    raise PlanCannotPass(
        problem=f"the targets of {size.name} cannot reach p {size.alpha:.4g} even if every run is repaired",
        given=(
            f"{counted(size.targets, 'target Case')} of {counted(size.repeats, 'repeat')}, with which p is at least "
            f"{size.least_p:.4g}"
        ),
        needed=" or ".join([*enough, counted(cases_for_p(size.repeats, size.alpha), "target Case")]),
        remedy="Raise incremental_repeats and final_repeats, or name more target Cases for the Issue.",
    )


def _check_minimum(plan: Plan) -> None:
    """Refuses a minimum effect that no comparison of the plan can show."""
    fewest = min((len(targets) for targets in plan.target_case_ids_by_issue.values()), default=0)
    reachable = fewest if plan.decision_rule == "statistical" else len(plan.case_ids)
    if plan.min_fixed_cases > reachable:
        raise PlanCannotPass(
            problem=f"min_fixed_cases asks for {counted(plan.min_fixed_cases, 'repaired Case')}",
            given=f"an Issue of {counted(reachable, 'Case')} that could be repaired",
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
        rest = protected - set(targets) if plan.objective == "quality" else set()
        guarded = rest or protected | set(targets)
        counts.append(len({plan.source_groups.get(c) or ("case", c) for c in guarded}))
    return min(counts, default=0)


def _rates(baseline: Mapping[str, Sequence[Outcome]]) -> dict[str, tuple[int, int]]:
    """Returns (passes, runs) of each Case with at least two known repeats."""
    found = {}
    for case_id, outcomes in baseline.items():
        runs = [o for o in outcomes if o in ("pass", "fail")]
        if len(runs) >= _LEAST_REPEATS:
            found[case_id] = runs.count("pass"), len(runs)
    return found


def _variance(rates: Mapping[str, tuple[int, int]]) -> float | None:
    """Returns the mean variance of one run within its Case; None where nothing is known of it."""
    if not rates:
        return None
    return math.fsum(p * (n - p) / (n * (n - 1)) for p, n in rates.values()) / len(rates)


def _of_targets(size: _Size, rates: Mapping[str, tuple[int, int]]) -> dict[str, float]:
    """Returns what B0 compared with itself would hide: the smallest effect beyond the noise of these very Cases.

    Half a pass and half a failure are added to each Case, since a rate of 0 or 1 in a few runs is not certain.
    """
    known = [rates[c] for c in size.case_ids if c in rates]
    if len(known) < size.targets or not known:
        return {}
    shrunk = [(p + 0.5) / (n + 1) for p, n in known]
    variance = math.fsum(r * (1 - r) for r in shrunk) / len(shrunk)
    return {"by_b0": _short(min(1.0, size.detectable(variance)))}


def _figures(
    plan: Plan,
    sizes: Sequence[_Size],
    units: int,
    baseline: Mapping[str, Sequence[Outcome]],
    wanted: float | None,
) -> dict[str, Any]:
    rates = _rates(baseline)
    measured = _variance(rates)
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
                **_of_targets(s, rates),
                **({"repeats_for_wanted_effect": s.repeats_for(wanted)} if wanted else {}),
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
        "warnings": [*_warnings(plan, units, excludable, tie, known=measured is not None), *_last_looks(plan, sizes)],
        "assumed": "the noisiest agent: rates of one half" if measured is None else "the variance of B0's repeats",
    }
    if wanted:
        figures["wanted_effect"] = wanted
        figures["cases_needed_for_wanted_effect"] = _cases(wanted, variance, plan.final_repeats)
    return figures


def _last_looks(plan: Plan, sizes: Sequence[_Size]) -> list[str]:
    """Returns which Issues could not be shown repaired any more if every candidate of the budget were for them."""
    found = []
    for size in (s for s in sizes if s.name in plan.target_case_ids_by_issue):
        first = round((math.sqrt(1 + 4 * plan.alpha / size.alpha) - 1) / 2)
        last = first + plan.budget.candidates - 1
        most = next((k for k in range(first, last + 1) if size.least_p > alpha_of_look(plan.alpha, k)), None)
        if most is not None:
            found.append(
                f"Look {most} at {size.name} is tested at {alpha_of_look(plan.alpha, most):.3g}, which "
                f"{counted(size.targets, 'target')} of {counted(size.repeats, 'repeat')} cannot reach: at most "
                f"{counted(most - first, 'candidate')} can be kept."
            )
    return found[:_ISSUES_SHOWN]


def _cases(effect: float, variance: float, repeats: int) -> int | None:
    if effect <= 0:
        return None
    return max(LEAST_UNITS, cases_needed(effect, between=0.0, within=2 * variance, repeats=repeats))


def _warnings(plan: Plan, units: int, excludable: float, tie: float, *, known: bool) -> list[str]:
    """Returns what is likely to end in `insufficient` although some outcome could pass.

    `known` says whether B0's own noise is what was computed with.
    """
    found = []
    if excludable > plan.margin:
        learn = "" if known else " How noisy it is, run_evaluation of HEAD with repeats tells: the noisiest is assumed."
        found.append(
            f"An unchanged agent as noisy as assumed shows the margin of {plan.margin:g} in fewer than four of five "
            f"comparisons of {counted(units, 'unit')}: more repeats, more Cases or a margin of {_beyond(excludable)} "
            f"would.{learn}"
        )
    if tie >= plan.margin > 0:
        found.append(
            f"If no protected Case varies at all, a loss of {tie:.3g} stays possible and the result is insufficient, "
            f"however many repeats there are: {units_for_zero_events(plan.margin, FIXED_ALPHA)} such units exclude "
            f"{plan.margin:g}, and a margin of {_beyond(tie)} would do."
        )
    return found


def _beyond(loss: float) -> str:
    """Returns the least margin of two digits that is larger than a loss: rounded down it would not do."""
    return f"{(math.floor(round(loss * 100, 6)) + 1) / 100:g}"


def _short(value: float) -> float:
    return float(f"{value:.4g}")
