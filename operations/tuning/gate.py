"""The gate: what two outcome tables mean under a frozen rule.

Both rules report the same statistics. Results are found in this order, and the first that holds is returned:

1. `invalid`: the sides are not comparable.
2. `insufficient`: the caller found a reason that forbids relying on a side, or no Case was compared.
3. `regression`: harm was shown, whatever the unknown outcomes were.
4. `no_effect`: a plan that could show an improvement of the targets showed none, whatever the unknown outcomes were.
5. `insufficient`: a required outcome is unknown, a Case fell from all to nothing, single Cases fell steeply, the
   margin is not excluded, or the plan is too small to tell.
6. `pass`.

The `counts` rule is point comparison, as of ATK 1.0.0: there an unknown outcome comes before `regression`. A required
unknown never passes under either rule; `worst` and `best` say what it could have changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from operations.statistics.falls import weight_of_fall
from operations.tuning import metrics, reasons
from operations.tuning.comparison import CaseFacts, DimensionComparison, Side, compare, mean_difference, mismatches
from operations.tuning.ledger import alpha_left, alpha_of_look, alpha_spent
from operations.tuning.questions import (
    FIXED_ALPHA,
    Efficiency,
    Groups,
    concentrated_harm,
    efficiency,
    general_claim,
    harms,
    improvement,
    non_inferiority,
    screen,
)
from operations.wording import counted, either
from storage.schema.rounds import Rule
from storage.schema.validations import (
    GateResult,
    GateStatistics,
    MetricStatistics,
    Mode,
    QuestionStatistics,
    Result,
)

RULE_VERSION = 2
"""Of the rules below; a plan freezes it."""

_FALLS_SINCE = 2
"""From this version on, steep falls of single Cases withhold a pass."""

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
    rule_version: int = RULE_VERSION
    mode: Mode
    primary_dimension: str
    required_dimensions: tuple[str, ...]
    left: Mapping[str, Side]
    right: Mapping[str, Side]
    case_ids: tuple[str, ...]
    repeats: int
    target_case_ids: tuple[str, ...]
    protected_case_ids: tuple[str, ...]
    screening_case_ids: tuple[str, ...] = ()
    """Targets that only screen an incremental look, so that the others alone show the improvement."""
    source_groups: Groups = field(default_factory=dict)
    margin: float = 0.15
    alpha: float = 0.05
    look: int = 1
    min_fixed_cases: int = 1
    min_primary_delta: float = 0.0
    measured: tuple[metrics.Measured, ...] = ()
    """The metrics that the plan limits or wants to see fall."""
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
        """Whether this is a look of the error ledger: an incremental one by the statistical rule."""
        return self.rule == "statistical" and self.mode == "incremental"

    @property
    def screened(self) -> bool:
        """Whether some targets screen the look before the others confirm it."""
        return self.charged and self.efficiency is None and bool(self.screening_case_ids)

    @property
    def claimed_case_ids(self) -> tuple[str, ...]:
        """The Cases of which an improvement is claimed, so that a look is charged to them."""
        if self.efficiency is not None:
            return self.case_ids
        if not self.screened:
            return self.target_case_ids
        screening = set(self.screening_case_ids)
        return tuple(c for c in self.target_case_ids if c not in screening)

    @property
    def improvement_alpha(self) -> float:
        """What the improvement question is tested at."""
        return alpha_of_look(self.alpha, self.look) if self.charged else FIXED_ALPHA


def decide(question: GateQuestion) -> GateResult:
    """Returns the result by the question's rule, its reasons, and the statistics beside it."""
    evidence = _Evidence(question)
    result, reasons = _found(question, evidence)
    return GateResult(
        result=result, reasons=reasons, limitations=_limitations(question, evidence), statistics=evidence.statistics
    )


def result_alone(question: GateQuestion) -> tuple[Result, bool]:
    """Returns what `decide` comes to, and whether screening ended the look, without the figures beside it."""
    evidence = _Evidence(question)
    return _found(question, evidence)[0], evidence.screened_out


def _found(question: GateQuestion, evidence: _Evidence) -> _Finding:
    """Returns the first result that holds, and its reasons."""
    by_rule = _by_counts if question.rule == "counts" else _by_statistics
    return _unusable(question, evidence) or by_rule(question, evidence)


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
            return efficiency(q.efficiency, q.case_ids, q.improvement_alpha, q.source_groups)
        return improvement(q.primary_dimension, self.primary.of(frozenset(q.claimed_case_ids)), q.improvement_alpha)

    @cached_property
    def screen(self) -> QuestionStatistics | None:
        q = self.question
        if not q.screened:
            return None
        return screen(q.primary_dimension, self.primary.of(frozenset(q.screening_case_ids)))

    @property
    def screened_out(self) -> bool:
        """Whether the screening targets did not improve, however their unknown outcomes are filled."""
        return self.screen is not None and self.screen.answer == "no"

    @cached_property
    def metrics(self) -> tuple[MetricStatistics, ...]:
        q = self.question
        return tuple(metrics.weighed(m, q.case_ids, q.rule, q.source_groups) for m in q.measured)

    @cached_property
    def harms(self) -> tuple[QuestionStatistics, ...]:
        """Where most Cases are targets the few others show little, so harm is then asked of all."""
        return harms(self.guarded(least=len(self.targets)))

    @cached_property
    def concentrated_harms(self) -> tuple[QuestionStatistics, ...]:
        if self.question.rule_version < _FALLS_SINCE:
            return ()
        return tuple(concentrated_harm(n, facts) for n, facts in self.guarded(least=1).items() if facts)

    def steep(self, dimension: str) -> tuple[str, ...]:
        """The guarded Cases of a dimension that fell steeply."""
        return tuple(f.case_id for f in self.guarded(least=1)[dimension] if f.known and weight_of_fall(f.stratum))

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
        looks = q.look if (q.charged and not self.screened_out) or q.mode == "final" else q.look - 1
        asked = [] if self.screen is None else [self.screen]
        if not self.screened_out:  # what was not asked is not reported either
            asked.append(self.improvement)
        claim = general_claim(q.primary_dimension, self.primary.facts, q.source_groups)
        return GateStatistics(
            rule=q.rule,
            primary_dimension=q.primary_dimension,
            primary_delta=self.primary.delta,
            questions=(*asked, *self.harms, *self.concentrated_harms, *self.non_inferiority, claim),
            outcome_counts=tuple(c.counts for c in self.comparisons.values()),
            cases=tuple(c.lists for c in self.comparisons.values()),
            repeats=q.repeats,
            look=q.look,
            alpha=q.alpha,
            alpha_of_this_look=q.improvement_alpha,
            alpha_spent=alpha_spent(q.alpha, looks),
            alpha_left=alpha_left(q.alpha, looks),
            metrics=self.metrics,
        )


def _strangers(question: GateQuestion) -> list[str]:
    """Returns a sentence for targets or protected Cases that the comparison does not run."""
    expected = set(question.case_ids)
    named = (("target", question.target_case_ids), ("protected", question.protected_case_ids))
    return [
        f"{counted(len(lost), f'{name} Case')} {either(len(lost), 'is', 'are')} not among those that this comparison "
        f"runs, such as {lost[0]}."
        for name, ids in named
        if (lost := [c for c in ids if c not in expected])
    ]


def _unusable(question: GateQuestion, evidence: _Evidence) -> _Finding | None:
    """Returns the finding that comes before any rule, if there is one."""
    if mistakes := (*question.invalid, *evidence.mismatches):
        return "invalid", mistakes
    if question.insufficient:
        return "insufficient", question.insufficient
    if not evidence.primary.facts:
        return "insufficient", ("No Case was compared, and zero Cases never pass.",)
    return None


def _by_counts(question: GateQuestion, evidence: _Evidence) -> _Finding:
    """Point comparison: one lost pass anywhere is a regression."""
    if gaps := (*reasons.of_unknown(evidence.unknown), *_open_metrics(evidence)):
        return "insufficient", gaps
    fewer = (reasons.fewer_passes(n, c.lists.regressed) for n, c in evidence.comparisons.items() if c.lists.regressed)
    if harm := (*question.regressions, *fewer, *_exceeded(evidence)):
        return "regression", harm
    if question.efficiency is not None:
        return ("pass" if _saves_enough(question.efficiency) else "no_effect"), (reasons.saved(question.efficiency),)
    fixed = evidence.primary.lists.fixed
    if shortfall := _shortfall(question, fixed, evidence.targets.intersection(fixed), evidence.primary.delta or 0.0):
        return "no_effect", (shortfall,)
    return "pass", (f"{reasons.more_passes(fixed)} ({reasons.named(fixed)}), and none passes less often.",)


def _saves_enough(measured: Efficiency) -> bool:
    return measured.saved > measured.min_delta


def _exceeded(evidence: _Evidence) -> tuple[str, ...]:
    return tuple(metrics.exceeded(m) for m in evidence.metrics if m.held == "no")


def _open_metrics(evidence: _Evidence) -> tuple[str, ...]:
    """Returns a sentence for each metric that the plan relies on and that is missing or not certain."""
    return tuple(
        metrics.missing(m) if m.coverage < 1 else metrics.open_limit(m)
        for m in evidence.metrics
        if m.coverage < 1 or m.held == "undecided"
    )


def _shortfall(
    question: GateQuestion, fixed: Sequence[str], fixed_targets: Collection[str], delta: float
) -> str | None:
    """Returns why the frozen minimum effect was not reached."""
    if not fixed_targets:
        return "No target Case passes more often than before."
    if len(fixed) < question.min_fixed_cases:
        return f"{reasons.more_passes(fixed)}, and the plan asks for at least {question.min_fixed_cases}."
    if delta <= question.min_primary_delta:
        return (
            f"The mean pass rate rose by {delta:.4g}, and the plan asks for more than {question.min_primary_delta:g}."
        )
    return None


def _by_statistics(question: GateQuestion, evidence: _Evidence) -> _Finding:
    """Improvement, harm and non-inferiority, each at its stated error rate."""
    shown = (reasons.of_harm(q) for q in evidence.harms if q.answer == "yes")
    if harm := (*question.regressions, *shown, *_exceeded(evidence)):
        return "regression", harm
    if reason := _no_improvement(question, evidence):
        return "no_effect", (reason,)
    gaps = (
        *reasons.of_unknown(evidence.unknown),
        *(reasons.of_fall(n, ids) for n, ids in evidence.fallen.items()),
        *(
            reasons.of_steep_falls(q, evidence.steep(q.dimension))
            for q in evidence.concentrated_harms
            if q.answer == "yes"
        ),
        *_open_metrics(evidence),
        *(reasons.gap(evidence.screen) if evidence.screen else ()),
        *reasons.gap(evidence.improvement),
        *(reasons.of_margin(q) for q in evidence.non_inferiority if q.answer != "yes"),
    )
    if gaps:
        return "insufficient", gaps
    return "pass", reasons.of_pass(evidence.improvement, evidence.non_inferiority)


def _no_improvement(question: GateQuestion, evidence: _Evidence) -> str | None:
    """Returns why there is no effect, when the plan could have shown one and every filling of unknowns agrees."""
    if evidence.screen is not None and evidence.screened_out:
        return reasons.screened_out(evidence.screen)
    found = evidence.improvement
    if found.answer == "no":
        return reasons.no_improvement(found)
    if found.answer == "undecided":
        return None
    if question.efficiency is not None:
        return None if _saves_enough(question.efficiency) else reasons.saved(question.efficiency)
    fixed = [f.case_id for f in evidence.target_facts if f.movement == "fixed"]
    delta = mean_difference(evidence.target_facts) or 0.0
    return None if any(f.unknown for f in evidence.target_facts) else _shortfall(question, fixed, fixed, delta)


def _limitations(question: GateQuestion, evidence: _Evidence) -> tuple[str, ...]:
    """Returns what the result does not say."""
    found = [
        f"{counted(len(c.excluded), 'Case')} left out of {n}, which applies on neither side."
        if c.facts
        else f"{n} applies to no Case on either side, so the result says nothing of it."
        for n, c in evidence.comparisons.items()
        if c.excluded
    ]
    if question.rule == "counts":
        found.append("The counts rule compares points: where the agent varies from run to run, chance can decide it.")
    else:
        found.append("The improvement is shown of the target Cases; the general claim beside it is not required.")
    if evidence.screen is not None:
        found.append("Some targets only screened this look: the improvement is shown of the others.")
    if any("normal" in q.method for q in evidence.statistics.questions):
        found.append("Some probabilities are normal approximations, because an exact count takes too many steps.")
    return tuple(found)
