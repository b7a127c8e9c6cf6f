"""The questions that a gate puts to two outcome tables, each answered yes, no or undecided.

Unknown outcomes are filled both ways: an answer holds only when every way of filling them gives it. The probabilities
and differences that are reported leave the unknown outcomes out; `worst` and `best` bound them.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypedDict

from operations.statistics.distributions import zero_event_bound
from operations.statistics.exact import ExactTest, conditional_test, least_attainable_p, sign_flip
from operations.statistics.falls import steep_falls_test
from operations.statistics.multiplicity import holm
from operations.statistics.paired import PairedEstimate, paired_log_ratio, paired_mean
from operations.statistics.power import detectable_effect, error_of_rates
from operations.tuning.comparison import CaseFacts, mean_difference
from storage.schema.validations import Answer, QuestionStatistics

FIXED_ALPHA = 0.05
"""One-sided, for harm, non-inferiority, the final validation and every bound that is shown."""

SCREEN_ALPHA = 0.2
"""One-sided, for the targets that only screen: no claim is made of them."""

FALLS_ALPHA = 0.3
"""For steep falls of single Cases, which withhold a pass: the most often that an unchanged agent may meet it."""

LEAST_UNITS = 5
"""Fewer independent units than this carry no bound on a mean difference."""

Groups = Mapping[str, str | None]
Rates = Literal["screen", "improvement", "harm"]


@dataclass(frozen=True)
class Efficiency:
    """A positive metric by Case, less being better, summed over all attempts of the Case's planned slots."""

    metric: str
    left: Mapping[str, float]
    right: Mapping[str, float]
    min_delta: float = 0.0

    @property
    def saved(self) -> float:
        """Left total minus right total, in the metric's own unit."""
        return math.fsum(self.left.values()) - math.fsum(self.right.values())


def improvement(dimension: str, facts: Sequence[CaseFacts], alpha: float) -> QuestionStatistics:
    """Did these Cases pass more often on the right? The exact conditional test over their repeats."""
    return _rates("improvement", dimension, facts, alpha)


def screen(dimension: str, facts: Sequence[CaseFacts]) -> QuestionStatistics:
    """Is it worth a look that these Cases pass more often on the right? No claim is made of them."""
    return _rates("screen", dimension, facts, SCREEN_ALPHA)


def harms(facts: Mapping[str, Sequence[CaseFacts]]) -> tuple[QuestionStatistics, ...]:
    """Did these Cases pass less often on the right, in any dimension? The same test in the other direction.

    Holm's correction over the dimensions keeps the chance of calling an unchanged agent harmful at `FIXED_ALPHA` for
    the question as a whole.
    """
    asked = {d: _rates("harm", d, fs, FIXED_ALPHA) for d, fs in facts.items() if fs}
    extremes = [_extremes("harm", facts[d]) for d in asked]
    helped, hindered = holm([p for p, _ in extremes]), holm([p for _, p in extremes])
    shown = holm([1.0 if q.p is None else q.p for q in asked.values()])
    return tuple(
        q.model_copy(
            update={"adjusted_p": p, "answer": _answer(high, low, FIXED_ALPHA) if _attainable(q) else "undecided"}
        )
        for q, p, high, low in zip(asked.values(), shown, helped, hindered, strict=True)
    )


def concentrated_harm(dimension: str, facts: Sequence[CaseFacts]) -> QuestionStatistics:
    """Do single Cases fall steeply, in greater number than chance explains? What the mean over many Cases hides.

    Unknown outcomes are left out: where one is required, nothing passes anyway.
    """
    known = [f for f in facts if f.known]
    p = steep_falls_test([f.stratum for f in known])
    return QuestionStatistics(
        question="concentrated_harm",
        dimension=dimension,
        answer="yes" if p <= FALLS_ALPHA else "no" if known else "undecided",
        unit="case",
        n=len(known),
        groups=len(known),
        **_shared(facts),
        p=p if known else None,
        method="steep_falls_exact",
        alpha=FALLS_ALPHA,
    )


def _attainable(question: QuestionStatistics) -> bool:
    return question.least_attainable_p is not None and question.least_attainable_p <= question.alpha


def _test(question: Rates, facts: Iterable[CaseFacts]) -> ExactTest:
    """The few targets are worth a finer test; harm, over many Cases, is judged by the total alone."""
    if question == "harm":
        return conditional_test(f.stratum.swapped for f in facts)
    return conditional_test((f.stratum for f in facts), break_ties=True)


def _answer(helped: float, hindered: float, alpha: float) -> Answer:
    """Returns what every way of filling the unknown outcomes agrees on, from the two extreme probabilities."""
    if hindered <= alpha:
        return "yes"
    return "no" if helped > alpha else "undecided"


def _extremes(question: Rates, facts: Sequence[CaseFacts]) -> tuple[float, float]:
    """Returns p with the unknown outcomes filled so as to help the question to a yes, and so as to hinder it."""
    right = _test(question, [f.filled(favour="right") for f in facts]).p
    left = _test(question, [f.filled(favour="left") for f in facts]).p if any(f.unknown for f in facts) else right
    return (left, right) if question == "harm" else (right, left)


def _rates(question: Rates, dimension: str, facts: Sequence[CaseFacts], alpha: float) -> QuestionStatistics:
    known = [f for f in facts if f.known]
    test = _test(question, known)
    least = least_attainable_p((f.left_runs + f.left_unknown, f.right_runs + f.right_unknown) for f in facts)
    answer: Answer = "undecided"
    if facts and least <= alpha:
        answer = _answer(*_extremes(question, facts), alpha)
    error = _error_of_rates(known)
    return QuestionStatistics(
        question=question,
        dimension=dimension,
        answer=answer,
        unit="execution_within_case",
        n=len(known),
        groups=len(known),
        **_shared(facts),
        standard_error=error,
        p=test.p if known else None,
        method=f"conditional_{test.method}",
        alpha=alpha,
        least_attainable_p=least if facts else None,
        smallest_detectable_effect=None if error is None else detectable_effect(error, alpha),
    )


def _error_of_rates(known: Sequence[CaseFacts]) -> float | None:
    if not known:
        return None
    return error_of_rates(
        [(f.left_passes, f.left_runs) for f in known], [(f.right_passes, f.right_runs) for f in known]
    )


class _Shared(TypedDict):
    left_executions: int
    right_executions: int
    difference: float | None
    coverage: float
    worst: float | None
    best: float | None


def _shared(facts: Sequence[CaseFacts]) -> _Shared:
    """Returns the fields that every question over outcomes reports alike."""
    due, unknown, seen = sum(f.applicable for f in facts), sum(f.unknown for f in facts), mean_difference(facts)
    return {
        "left_executions": sum(f.left_runs for f in facts),
        "right_executions": sum(f.right_runs for f in facts),
        "difference": seen,
        "coverage": 1 - unknown / due if due else 0.0,
        "worst": mean_difference(f.filled(favour="left") for f in facts) if unknown else seen,
        "best": mean_difference(f.filled(favour="right") for f in facts) if unknown else seen,
    }


def non_inferiority(dimension: str, facts: Sequence[CaseFacts], margin: float, groups: Groups) -> QuestionStatistics:
    """Are these Cases on average no worse than `margin`, by Case or source group, at `FIXED_ALPHA`?

    Fewer than `LEAST_UNITS` units leave it undecided. Where nothing varied, the bound is the one that no event in so
    many units gives.
    """
    shown = worst = best = _estimate([f for f in facts if f.known], groups)
    if any(f.unknown for f in facts):
        worst = _estimate([f.filled(favour="left") for f in facts], groups)
        best = _estimate([f.filled(favour="right") for f in facts], groups)
    answer: Answer = "undecided"
    if worst.units >= LEAST_UNITS:
        held, broken = worst.lower(FIXED_ALPHA) > -margin, best.upper(FIXED_ALPHA) < -margin
        answer = "yes" if held else "no" if broken else "undecided"
    return _of_mean("non_inferiority", dimension, facts, shown, groups).model_copy(
        update={"answer": answer, "margin": margin, "p": shown.p_above(-margin)}
    )


def general_claim(dimension: str, facts: Sequence[CaseFacts], groups: Groups) -> QuestionStatistics:
    """Is the right better on Cases like these? Sign-flip over Cases or source groups, reported and never required."""
    known = [f for f in facts if f.known]
    test = sign_flip(_by_unit(known, groups))
    answer: Answer = "yes" if test.p <= FIXED_ALPHA and not any(f.unknown for f in facts) else "undecided"
    return _of_mean("general_claim", dimension, facts, _estimate(known, groups), groups).model_copy(
        update={
            "answer": answer,
            "p": test.p if known else None,
            "method": f"sign_flip_{test.method}",
            "least_attainable_p": 0.5**test.informative,
        }
    )


def _of_mean(
    question: Literal["non_inferiority", "general_claim"],
    dimension: str,
    facts: Sequence[CaseFacts],
    estimate: PairedEstimate,
    groups: Groups,
) -> QuestionStatistics:
    error = estimate.standard_error
    bounded = estimate.units > 0
    return QuestionStatistics(
        question=question,
        dimension=dimension,
        answer="undecided",
        unit=_unit_name([f.case_id for f in facts], groups),
        n=estimate.n,
        groups=estimate.units,
        **_shared(facts),
        standard_error=error,
        lower=estimate.lower(FIXED_ALPHA) if bounded else None,
        upper=estimate.upper(FIXED_ALPHA) if bounded else None,
        method="paired_t" if error else "zero_event_bound",
        alpha=FIXED_ALPHA,
        smallest_detectable_effect=(
            detectable_effect(error, FIXED_ALPHA, estimate.df)
            if error
            else zero_event_bound(estimate.units, FIXED_ALPHA)
            if bounded
            else None
        ),
    )


def unit_of(case_id: str, groups: Groups) -> Hashable:
    """Returns what the Case is evidence with: its source group, or itself where it has none."""
    group = groups.get(case_id)
    return ("group", group) if group else ("case", case_id)


def _unit_name(case_ids: Sequence[str], groups: Groups) -> Literal["case", "source_group"]:
    return "source_group" if any(groups.get(c) for c in case_ids) else "case"


def _estimate(facts: Sequence[CaseFacts], groups: Groups) -> PairedEstimate:
    return paired_mean([f.difference for f in facts], [unit_of(f.case_id, groups) for f in facts])


def _by_unit(facts: Sequence[CaseFacts], groups: Groups) -> list[Fraction]:
    sums: dict[Hashable, Fraction] = {}
    for fact in facts:
        unit = unit_of(fact.case_id, groups)
        sums[unit] = sums.get(unit, Fraction()) + fact.difference
    return list(sums.values())


def efficiency(measured: Efficiency, case_ids: Sequence[str], alpha: float, groups: Groups) -> QuestionStatistics:
    """Did the right cost less? Paired log ratios by Case or source group.

    `difference` and `upper` are the logarithm of right over left, and its one-sided bound. A Case that cost nothing on
    both sides has not changed; one that cost nothing on one side only has no ratio, and leaves the question undecided.
    """
    both = [c for c in case_ids if (measured.left.get(c, -1) > 0) == (measured.right.get(c, -1) > 0)]
    both = [c for c in both if c in measured.left and c in measured.right]
    pairs = [(measured.left[c], measured.right[c]) if measured.left[c] > 0 else (1.0, 1.0) for c in both]
    units = [unit_of(c, groups) for c in both]
    logs = paired_log_ratio([a for a, _ in pairs], [b for _, b in pairs], alpha, units)
    error = logs.standard_error_log
    decided = len(both) == len(case_ids) and logs.units >= LEAST_UNITS and logs.log_upper_one_sided is not None
    lower = decided and logs.log_upper_one_sided is not None and logs.log_upper_one_sided < 0
    return QuestionStatistics(
        question="efficiency",
        dimension=measured.metric,
        answer="yes" if lower else "no" if decided else "undecided",
        unit=_unit_name([*case_ids], groups),
        n=len(both),
        groups=logs.units,
        left_executions=len(both),
        right_executions=len(both),
        difference=logs.log_ratio if both else None,
        standard_error=error,
        upper=logs.log_upper_one_sided,
        p=logs.p_below,
        method="paired_log_ratio" if error else "sign_test",
        alpha=alpha,
        smallest_detectable_effect=detectable_effect(error, alpha, logs.units - 1) if error else None,
        coverage=len(both) / len(case_ids) if case_ids else 0.0,
    )
