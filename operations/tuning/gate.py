"""The gate: what two outcome tables mean under a frozen rule.

Both rules report the same statistics. Results are found in this order, and the first that holds is returned:

1. `invalid`: the sides are not comparable.
2. `insufficient`: the caller found a reason that forbids relying on a side, or no Case was compared.
3. `regression`: harm was shown, whatever the unknown outcomes were.
4. `no_effect`: a plan that could show an improvement of the targets showed none, whatever the unknown outcomes were.
5. `insufficient`: a required outcome is unknown, a Case fell from all to nothing, the margin is not excluded, or the
   plan is too small to tell.
6. `pass`.

The `counts` rule is point comparison, as of ATK 1.0.0: there an unknown outcome comes before `regression`. A required
unknown never passes under either rule; `worst` and `best` say what it could have changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from operations.statistics.distributions import units_for_zero_events
from operations.tuning.comparison import CaseFacts, DimensionComparison, Side, compare, mean_difference, mismatches
from operations.tuning.ledger import alpha_left, alpha_of_look, alpha_spent
from operations.tuning.questions import (
    FIXED_ALPHA,
    LEAST_UNITS,
    Efficiency,
    Groups,
    efficiency,
    general_claim,
    harms,
    improvement,
    non_inferiority,
)
from storage.schema.rounds import Rule
from storage.schema.validations import GateResult, GateStatistics, Mode, QuestionStatistics, Result

_Finding = tuple[Result, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class GateQuestion:
    """Everything that a result depends on.

    `left` and `right` hold a Side for each dimension. `case_ids` and `repeats` are what the plan expects in this mode.
    `protected_case_ids` are the Cases that must not get worse, kept repairs among them; none given means all.
    `look` is the largest count of looks among the targets, this comparison included when it is an incremental one.
    `invalid`, `insufficient` and `regressions` are sentences about what the caller found: sides that cannot be
    compared, a reason not to rely on one, a frozen metric limit that the right side exceeds.
    """

    rule: Rule
    mode: Mode
    primary_dimension: str
    required_dimensions: tuple[str, ...]
    left: Mapping[str, Side]
    right: Mapping[str, Side]
    case_ids: tuple[str, ...]
    repeats: int
    target_case_ids: tuple[str, ...]
    protected_case_ids: tuple[str, ...]
    source_groups: Groups = field(default_factory=dict)
    margin: float = 0.15
    alpha: float = 0.05
    look: int = 1
    min_fixed_cases: int = 1
    min_primary_delta: float = 0.0
    efficiency: Efficiency | None = None
    """Set when the objective is efficiency: it then takes the place of the improvement question."""
    invalid: tuple[str, ...] = ()
    insufficient: tuple[str, ...] = ()
    regressions: tuple[str, ...] = ()

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The primary dimension, then the other required ones."""
        return tuple(dict.fromkeys((self.primary_dimension, *self.required_dimensions)))

    @property
    def charged(self) -> bool:
        """Whether this look is charged to the error ledger: only an incremental look by the statistical rule is."""
        return self.rule == "statistical" and self.mode == "incremental"

    @property
    def improvement_alpha(self) -> float:
        """What the improvement question is tested at."""
        return alpha_of_look(self.alpha, self.look) if self.charged else FIXED_ALPHA


def decide(question: GateQuestion) -> GateResult:
    """Returns the result by the question's rule, its reasons, and the statistics beside it."""
    evidence = _Evidence(question)
    result, reasons = _unusable(question, evidence) or (
        _by_counts(question, evidence) if question.rule == "counts" else _by_statistics(question, evidence)
    )
    return GateResult(
        result=result, reasons=reasons, limitations=_limitations(question, evidence), statistics=evidence.statistics
    )


class _Evidence:
    """The comparison of each dimension and the answer to each question, found once."""

    def __init__(self, question: GateQuestion) -> None:
        self.question = question
        self.targets = frozenset(question.target_case_ids)
        self.protected = frozenset(question.protected_case_ids or question.case_ids)
        self.comparisons: dict[str, DimensionComparison] = {}
        self.mismatches: list[str] = _strangers(question)
        for name in question.dimensions:
            left, right = question.left.get(name, {}), question.right.get(name, {})
            planned = question.case_ids, question.repeats
            self.mismatches += mismatches(name, left, right, case_ids=planned[0], repeats=planned[1])
            self.comparisons[name] = compare(name, left, right, case_ids=planned[0], repeats=planned[1])

    @cached_property
    def primary(self) -> DimensionComparison:
        return self.comparisons[self.question.primary_dimension]

    @cached_property
    def target_facts(self) -> tuple[CaseFacts, ...]:
        return self.primary.of(self.targets)

    def guarded(self, *, least: int) -> dict[str, tuple[CaseFacts, ...]]:
        """By dimension, the Cases that must not get worse.

        In the dimension that is to improve these are the protected Cases that are not targets, if there are at least
        `least` of them, so that a repaired target cannot hide harm elsewhere. In every other dimension, and where the
        objective is efficiency, the targets belong to them.
        """
        improves = self.question.primary_dimension if self.question.efficiency is None else None
        everything, rest = self.protected | self.targets, self.protected - self.targets
        return {
            n: c.of(rest if n == improves and len(rest) >= least else everything) for n, c in self.comparisons.items()
        }

    @cached_property
    def fallen(self) -> dict[str, tuple[str, ...]]:
        """By dimension, the protected Cases and targets that fell from all to nothing."""
        watched = self.protected | self.targets
        found = {n: tuple(f.case_id for f in c.of(watched) if f.fell_to_nothing) for n, c in self.comparisons.items()}
        return {n: ids for n, ids in found.items() if ids}

    @cached_property
    def unknown(self) -> dict[str, tuple[str, ...]]:
        """By dimension, the Cases of which a required outcome is unknown."""
        return {n: c.unknown for n, c in self.comparisons.items() if c.unknown}

    @cached_property
    def improvement(self) -> QuestionStatistics:
        q = self.question
        if q.efficiency is not None:
            return efficiency(q.efficiency, q.case_ids, q.improvement_alpha)
        return improvement(q.primary_dimension, self.target_facts, q.improvement_alpha)

    @cached_property
    def harms(self) -> tuple[QuestionStatistics, ...]:
        """Where most Cases are targets the few others show little, so harm is then asked of all."""
        return harms(self.guarded(least=len(self.targets)))

    @cached_property
    def non_inferiority(self) -> tuple[QuestionStatistics, ...]:
        q = self.question
        return tuple(
            non_inferiority(n, facts, q.margin, q.source_groups)
            for n, facts in self.guarded(least=1).items()
            if facts or n == q.primary_dimension
        )

    @cached_property
    def statistics(self) -> GateStatistics:
        q = self.question
        looks = q.look if q.charged or q.mode == "final" else q.look - 1
        claim = general_claim(q.primary_dimension, self.primary.facts, q.source_groups)
        return GateStatistics(
            rule=q.rule,
            primary_dimension=q.primary_dimension,
            primary_delta=self.primary.delta,
            questions=(self.improvement, *self.harms, *self.non_inferiority, claim),
            outcome_counts=tuple(c.counts for c in self.comparisons.values()),
            cases=tuple(c.lists for c in self.comparisons.values()),
            repeats=q.repeats,
            look=q.look,
            alpha=q.alpha,
            alpha_of_this_look=q.improvement_alpha,
            alpha_spent=alpha_spent(q.alpha, looks),
            alpha_left=alpha_left(q.alpha, looks),
        )


def _strangers(question: GateQuestion) -> list[str]:
    """Returns a sentence for targets or protected Cases that the comparison does not run."""
    expected = set(question.case_ids)
    named = (("target", question.target_case_ids), ("protected", question.protected_case_ids))
    return [
        f"{len(lost)} {name} Cases are not among those that this comparison runs, such as {lost[0]}."
        for name, ids in named
        if (lost := [c for c in ids if c not in expected])
    ]


def _unusable(question: GateQuestion, evidence: _Evidence) -> _Finding | None:
    """Returns the finding that comes before any rule, if there is one."""
    if reasons := (*question.invalid, *evidence.mismatches):
        return "invalid", reasons
    if question.insufficient:
        return "insufficient", question.insufficient
    if not evidence.primary.facts:
        return "insufficient", ("No Case was compared, and zero Cases never pass.",)
    return None


def _by_counts(question: GateQuestion, evidence: _Evidence) -> _Finding:
    """Point comparison: one lost pass anywhere is a regression."""
    if evidence.unknown:
        return "insufficient", _unknown_reasons(evidence)
    regressed = (_fewer_passes(n, c.lists.regressed) for n, c in evidence.comparisons.items() if c.lists.regressed)
    if reasons := (*question.regressions, *regressed):
        return "regression", reasons
    if question.efficiency is not None:
        return _saved(question.efficiency)
    fixed = evidence.primary.lists.fixed
    if shortfall := _shortfall(question, fixed, evidence.targets.intersection(fixed), evidence.primary.delta or 0.0):
        return "no_effect", (shortfall,)
    return "pass", (f"{len(fixed)} Cases pass more often, among them {_named(fixed)}, and none passes less often.",)


def _saved(measured: Efficiency) -> _Finding:
    fact = (
        f"The total {measured.metric} fell by {measured.saved:g}; the plan asks for more than {measured.min_delta:g}."
    )
    return ("pass" if measured.saved > measured.min_delta else "no_effect"), (fact,)


def _shortfall(
    question: GateQuestion, fixed: Sequence[str], fixed_targets: Collection[str], delta: float
) -> str | None:
    """Returns why the frozen minimum effect was not reached."""
    if not fixed_targets:
        return "No target Case passes more often than before."
    if len(fixed) < question.min_fixed_cases:
        return f"{len(fixed)} Cases pass more often, and the plan asks for at least {question.min_fixed_cases}."
    if delta <= question.min_primary_delta:
        return (
            f"The mean pass rate rose by {delta:.4g}, and the plan asks for more than {question.min_primary_delta:g}."
        )
    return None


def _by_statistics(question: GateQuestion, evidence: _Evidence) -> _Finding:
    """Improvement, harm and non-inferiority, each at its stated error rate."""
    harm = (_harm_reason(q) for q in evidence.harms if q.answer == "yes")
    if reasons := (*question.regressions, *harm):
        return "regression", reasons
    if reason := _no_improvement(question, evidence):
        return "no_effect", (reason,)
    gaps = (
        *_unknown_reasons(evidence),
        *(_fallen_reason(n, ids) for n, ids in evidence.fallen.items()),
        *_improvement_gap(evidence.improvement),
        *(_margin_reason(q) for q in evidence.non_inferiority if q.answer != "yes"),
    )
    if gaps:
        return "insufficient", gaps
    return "pass", _pass_reasons(evidence)


def _no_improvement(question: GateQuestion, evidence: _Evidence) -> str | None:
    """Returns why there is no effect, when the plan could have shown one and every filling of unknowns agrees."""
    found = evidence.improvement
    if found.answer == "no":
        return (
            f"The {_what(found)} did not improve beyond chance: {_probability(found)}, and {found.alpha:.4g} is needed."
        )
    if found.answer == "undecided" or question.efficiency is not None:
        return None
    fixed = [f.case_id for f in evidence.target_facts if f.movement == "fixed"]
    delta = mean_difference(evidence.target_facts) or 0.0
    return None if any(f.unknown for f in evidence.target_facts) else _shortfall(question, fixed, fixed, delta)


def _what(found: QuestionStatistics) -> str:
    return f"{found.dimension} metric" if found.question == "efficiency" else f"{found.n} target Cases"


def _probability(found: QuestionStatistics) -> str:
    return "no probability can be given" if found.p is None else f"p is {found.p:.4g}"


def _improvement_gap(found: QuestionStatistics) -> tuple[str, ...]:
    if found.answer == "yes":
        return ()
    if found.question == "efficiency":
        return (
            f"The {found.dimension} of {found.n} Cases carries no bound: it is missing, or they are too few or alike.",
        )
    if found.least_attainable_p is None:
        return ("No target Case was compared, so nothing can be said about an improvement.",)
    if found.least_attainable_p > found.alpha:
        attainable = f"With {found.n} target Cases the least attainable p is {found.least_attainable_p:.4g}"
        return (f"{attainable}, and {found.alpha:.4g} is needed: plan more repeats or name more target Cases.",)
    return ("Whether the target Cases improved depends on outcomes that are unknown.",)


def _harm_reason(found: QuestionStatistics) -> str:
    return (
        f"The {found.n} Cases to protect pass less often in {found.dimension}: mean difference {found.difference:.4g}, "
        f"p {found.adjusted_p:.4g} of at most {found.alpha:g}."
    )


def _margin_reason(found: QuestionStatistics) -> str:
    start = f"A loss of {found.margin:g} in {found.dimension} is not excluded"
    if found.groups < LEAST_UNITS:
        return f"{start}: {found.groups} independent units to protect, and fewer than {LEAST_UNITS} carry no bound."
    bound = f"lower bound {found.lower or 0.0:.4g} over {found.groups} units"
    fact = f"{start}: mean difference {found.difference or 0.0:.4g}, {bound}"
    if found.method == "zero_event_bound" and found.margin:
        needed = units_for_zero_events(found.margin, found.alpha)
        return f"{fact}. Nothing varied, which bounds the loss and does not exclude it: {needed} such units would."
    return f"{fact}. More Cases, more repeats or a wider margin would tell."


def _fallen_reason(dimension: str, ids: Sequence[str]) -> str:
    return f"{len(ids)} Cases passed every time on the left and never on the right in {dimension}: {_named(ids)}."


def _unknown_reasons(evidence: _Evidence) -> tuple[str, ...]:
    return tuple(
        f"{len(ids)} Cases have an unknown outcome in {n}: {_named(ids)}. Judge or run them again."
        for n, ids in evidence.unknown.items()
    )


def _fewer_passes(dimension: str, ids: Sequence[str]) -> str:
    return f"{len(ids)} Cases pass less often in {dimension}: {_named(ids)}."


def _named(ids: Sequence[str]) -> str:
    shown = ", ".join(c[:60] for c in ids[:3])
    return shown + (f" and {len(ids) - 3} more" if len(ids) > 3 else "")  # noqa: PLR2004 - three name the matter


def _pass_reasons(evidence: _Evidence) -> tuple[str, ...]:
    found = evidence.improvement
    shown = "" if found.p is None else f", {_probability(found)} of at most {found.alpha:.4g}"
    improved = f"The {_what(found)} improved by {abs(found.difference or 0.0):.4g} on average{shown}."
    kept = (
        f"A loss of {q.margin:g} in {q.dimension} is excluded: lower bound {q.lower or 0.0:.4g} over {q.groups} units."
        for q in evidence.non_inferiority
    )
    return improved, *kept, "No harm was shown in any required dimension."


def _limitations(question: GateQuestion, evidence: _Evidence) -> tuple[str, ...]:
    """Returns what the result does not say."""
    found = [
        f"{len(c.excluded)} Cases were left out of {n}, which applies to them on neither side."
        for n, c in evidence.comparisons.items()
        if c.excluded
    ]
    if question.rule == "counts":
        found.append("The counts rule compares points: where the agent varies from run to run, chance can decide it.")
    else:
        found.append("The improvement is shown of the target Cases; the general claim beside it is not required.")
    if any("normal" in q.method for q in evidence.statistics.questions):
        found.append("Some probabilities are normal approximations, because an exact count takes too many steps.")
    return tuple(found)
