"""Agents whose true pass rates are known, for benchmarks of the gate: what a change does to them, and draws."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Literal

from operations.tuning.comparison import Outcome
from operations.tuning.gate import GateQuestion, result_alone
from operations.tuning.questions import FIXED_ALPHA
from storage.schema.rounds import Rule
from storage.schema.validations import Mode

Scenario = Literal["unchanged", "regression", "fix", "fix and break two", "fix and lose the margin"]
Kind = Literal["drawn", "noisy"]
Outcomes = dict[str, tuple[Outcome, ...]]

RESULTS = ("pass", "no_effect", "regression", "insufficient")
LIFT = 0.6
"""What a fix adds to the pass rate of a target: .2 becomes .8."""

STEADY, MIDDLING, TARGET, BROKEN = 0.95, 0.6, 0.2, 0.2


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a plan fixes for a comparison."""

    repeats: int
    margin: float = 0.15
    look: int = 1
    rule: Rule = "statistical"
    mode: Mode = "incremental"
    screening: int = 0
    """How many of the targets only screen."""


@dataclass(frozen=True)
class Mix:
    """True pass rates of the Cases before the change; the first `targets` of them are the targets."""

    name: str
    rates: tuple[float, ...]
    targets: int

    @property
    def case_ids(self) -> tuple[str, ...]:
        """The Cases, the targets first."""
        return tuple(f"c{i}" for i in range(len(self.rates)))

    def changed(self, scenario: Scenario, margin: float = 0.15) -> tuple[float, ...]:
        """Returns the rates after the change.

        A regression lowers every rate by a third. A fix lifts the targets by `LIFT`; it may also let the two steadiest
        others fall to `BROKEN`, or lower every other by `margin`.
        """
        if scenario == "regression":
            return tuple(r * 2 / 3 for r in self.rates)
        if scenario == "unchanged":
            return self.rates
        others = list(self.rates[self.targets :])
        if scenario == "fix and break two":
            for index in sorted(range(len(others)), key=lambda i: -others[i])[:2]:
                others[index] = BROKEN
        if scenario == "fix and lose the margin":
            others = [max(0.0, r - margin) for r in others]
        return (*(min(1.0, r + LIFT) for r in self.rates[: self.targets]), *others)

    def best_possible(self, terms: Terms) -> float:
        """Returns how often the margin can be excluded for an unchanged agent by a test that knows every true rate.

        The mean difference of the others is a sum of runs: its standard error follows from their rates. No test at
        `FIXED_ALPHA` excludes the margin oftener than the most powerful one (Neyman and Pearson), here the normal one.
        """
        others = self.rates[self.targets :]
        error = math.sqrt(sum(2 * r * (1 - r) / terms.repeats for r in others)) / len(others)
        return NormalDist().cdf(terms.margin / error - NormalDist().inv_cdf(1 - FIXED_ALPHA))


def standard_mix(cases: int, targets: int | None = None) -> Mix:
    """Returns the reference mix: a fifth targets that pass at .2, a fifth that pass at .6, the rest at .95."""
    named = round(cases * 0.2) if targets is None else targets
    middling = round(cases * 0.2)
    return Mix("standard", (TARGET,) * named + (MIDDLING,) * middling + (STEADY,) * (cases - named - middling), named)


def drawn_mix(kind: Kind, number: int, cases: int, seed: int) -> Mix:
    """Returns a mix whose rates are drawn.

    `drawn` keeps the proportions of the reference: targets between .1 and .3, middling Cases between .45 and .75,
    steady ones between .9 and 1. `noisy` makes half of the others, on average, agents of their own that pass anywhere
    between .4 and .9, and the rest between .85 and 1.
    """
    rng = random.Random(f"{seed}/{kind}/{number}")
    named = middling = round(cases * 0.2)
    targets = [rng.uniform(0.1, 0.3) for _ in range(named)]
    if kind == "drawn":
        others = [rng.uniform(0.45, 0.75) if i < middling else rng.uniform(0.9, 1.0) for i in range(cases - named)]
    else:
        others = [rng.choice((rng.uniform(0.85, 1.0), rng.uniform(0.4, 0.9))) for _ in range(cases - named)]
    return Mix(f"{kind} {number}", (*targets, *others), named)


def table(rates: tuple[float, ...], repeats: int, rng: random.Random) -> Outcomes:
    """Returns one side: each Case's outcomes, each run drawn on its own."""
    return {
        f"c{i}": tuple("pass" if rng.random() < rate else "fail" for _ in range(repeats))
        for i, rate in enumerate(rates)
    }


def result_of(mix: Mix, left: Outcomes, right: Outcomes, terms: Terms, targets: tuple[str, ...] | None = None) -> str:
    """Returns the gate's result for two tables; `screened out` where the screening targets ended the look."""
    cases = mix.case_ids
    named = cases[: mix.targets] if targets is None else targets
    result, screened_out = result_alone(
        GateQuestion(
            rule=terms.rule,
            mode=terms.mode,
            primary_dimension="correct",
            required_dimensions=("correct",),
            left={"correct": left},
            right={"correct": right},
            case_ids=cases,
            repeats=terms.repeats,
            target_case_ids=named,
            protected_case_ids=tuple(c for c in cases if c not in named),
            screening_case_ids=named[: terms.screening],
            margin=terms.margin,
            look=terms.look,
        )
    )
    return "screened out" if screened_out else result


def picked_targets(mix: Mix, repeats: int, rng: random.Random) -> tuple[str, ...]:
    """Returns the Cases that failed in more than half of the repeats of a run of B0: those that people name.

    Where none did, B0 is run again.
    """
    while True:
        before = table(mix.rates, repeats, rng)
        if named := tuple(c for c in before if 2 * before[c].count("fail") > repeats):
            return named


def compared(mix: Mix, scenario: Scenario, terms: Terms, rng: random.Random, *, picked: bool = False) -> str:
    """Returns the result of one comparison; both sides run afresh, after the targets were named."""
    targets = picked_targets(mix, terms.repeats, rng) if picked else None
    left, right = (table(r, terms.repeats, rng) for r in (mix.rates, mix.changed(scenario, terms.margin)))
    return result_of(mix, left, right, terms, targets)


def keeps_one(mix: Mix, terms: Terms, candidates: int, rng: random.Random) -> bool:
    """Returns whether at least one of `candidates` changes without effect passes.

    As in a Round, one run of the parent is the left side of all of them; a look that screening ends is not charged.
    """
    left, look = table(mix.rates, terms.repeats, rng), 1
    for _ in range(candidates):
        result = result_of(mix, left, table(mix.rates, terms.repeats, rng), replace(terms, look=look))
        if result == "pass":
            return True
        look += result != "screened out"
    return False


def completes(mix: Mix, terms: Terms, rng: random.Random) -> bool:
    """Returns whether a true fix passes its first look and then the final validation, each on runs of its own."""
    return all(compared(mix, "fix", t, rng) == "pass" for t in (terms, replace(terms, mode="final")))
