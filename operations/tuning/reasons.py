"""The sentences of a gate: what was found, and what would help."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from operations.statistics.distributions import units_for_zero_events
from operations.tuning.questions import LEAST_UNITS, Efficiency
from operations.wording import counted, either
from storage.schema.validations import QuestionStatistics


def saved(measured: Efficiency) -> str:
    """Returns by how much a total fell, and what the plan asks for."""
    return (
        f"The total {measured.metric} fell by {measured.saved:g}; the plan asks for more than {measured.min_delta:g}."
    )


def no_improvement(found: QuestionStatistics) -> str:
    """Returns that chance explains what is seen of the targets."""
    return f"The {_what(found)} did not improve beyond chance: {_probability(found)}, and {found.alpha:.4g} is needed."


def screened_out(found: QuestionStatistics) -> str:
    """Returns that the screening targets do not look better, which costs nothing of the error budget."""
    return (
        f"The {_cases(found, 'target Case')} that {either(found.n, 'screens does', 'screen do')} not look better: "
        f"{_probability(found)}, and {found.alpha:.4g} is needed. The others were not asked, and nothing of the error "
        "budget was spent."
    )


def _what(found: QuestionStatistics) -> str:
    return f"{found.dimension} metric" if found.question == "efficiency" else _cases(found, "target Case")


def _cases(found: QuestionStatistics, noun: str) -> str:
    return counted(found.n, noun)


def _probability(found: QuestionStatistics) -> str:
    return "no probability can be given" if found.p is None else f"p is {found.p:.4g}"


def gap(found: QuestionStatistics) -> tuple[str, ...]:
    """Returns why a question about an improvement has no answer, or nothing where it is yes."""
    if found.answer == "yes":
        return ()
    if found.question == "efficiency":
        of = f"The {found.dimension} of {_cases(found, 'Case')}"
        return (f"{of} carries no bound: it is missing, or there are too few of them, or they are too much alike.",)
    if found.least_attainable_p is None:
        return ("No target Case was compared, so nothing can be said about an improvement.",)
    if found.least_attainable_p > found.alpha:
        attainable = f"With {_cases(found, 'target Case')} the least attainable p is {found.least_attainable_p:.4g}"
        return (f"{attainable}, and {found.alpha:.4g} is needed: plan more repeats or name more target Cases.",)
    return ("Whether the target Cases improved depends on outcomes that are unknown.",)


def of_harm(found: QuestionStatistics) -> str:
    """Returns the harm that was shown."""
    return (
        f"The {_cases(found, 'Case')} to protect {either(found.n, 'passes', 'pass')} less often in {found.dimension}: "
        f"mean difference {found.difference:.4g}, p {found.adjusted_p:.4g} of at most {found.alpha:g}."
    )


def of_margin(found: QuestionStatistics) -> str:
    """Returns why a loss of the margin stays possible, and what would exclude it."""
    start = f"A loss of {found.margin:g} in {found.dimension} is not excluded"
    if found.groups < LEAST_UNITS:
        units = counted(found.groups, "independent unit")
        return f"{start}: {units} to protect, and fewer than {LEAST_UNITS} carry no bound."
    bound = f"lower bound {found.lower or 0.0:.4g} over {counted(found.groups, 'unit')}"
    fact = f"{start}: mean difference {found.difference or 0.0:.4g}, {bound}"
    if found.method == "zero_event_bound" and found.margin:
        needed = units_for_zero_events(found.margin, found.alpha)
        return f"{fact}. Nothing varied, which bounds the loss and does not exclude it: {needed} such units would."
    return f"{fact}. More Cases, more repeats or a wider margin would tell."


def of_fall(dimension: str, ids: Sequence[str]) -> str:
    """Returns which Cases fell from all to nothing."""
    fell = f"{counted(len(ids), 'Case')} passed every time on the left and never on the right"
    return f"{fell} in {dimension}: {named(ids)}."


def of_steep_falls(found: QuestionStatistics, ids: Sequence[str]) -> str:
    """Returns which single Cases fell more steeply, or more of them, than chance explains."""
    return (
        f"{counted(len(ids), 'Case')} fell by three fifths or more in {found.dimension}, {named(ids)}: chance does so"
        f" with p {found.p or 0.0:.3g}, and more than {found.alpha:g} is needed. More repeats would tell."
    )


def of_unknown(unknown: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Returns what is not known, by dimension."""
    return tuple(
        f"{counted(len(ids), 'Case')} {either(len(ids), 'has', 'have')} an unknown outcome in {n}: {named(ids)}. Judge "
        f"or run {either(len(ids), 'it', 'them')} again."
        for n, ids in unknown.items()
    )


def fewer_passes(dimension: str, ids: Sequence[str]) -> str:
    """Returns which Cases lost a pass."""
    return f"{counted(len(ids), 'Case')} {either(len(ids), 'passes', 'pass')} less often in {dimension}: {named(ids)}."


def more_passes(ids: Sequence[str]) -> str:
    """Returns how many Cases gained a pass, as the beginning of a sentence."""
    return f"{counted(len(ids), 'Case')} {either(len(ids), 'passes', 'pass')} more often"


def named(ids: Sequence[str]) -> str:
    """Returns the first three ids, and how many there are besides."""
    shown = ", ".join(c[:60] for c in ids[:3])
    return shown + (f" and {len(ids) - 3} more" if len(ids) > 3 else "")  # noqa: PLR2004 - three name the matter


def of_pass(found: QuestionStatistics, margins: Iterable[QuestionStatistics]) -> tuple[str, ...]:
    """Returns what a pass rests on."""
    shown = "" if found.p is None else f", {_probability(found)} of at most {found.alpha:.4g}"
    improved = f"The {_what(found)} improved by {abs(found.difference or 0.0):.4g} on average{shown}."
    kept = (
        f"A loss of {q.margin:g} in {q.dimension} is excluded: lower bound {q.lower or 0.0:.4g} over "
        f"{counted(q.groups, 'unit')}."
        for q in margins
    )
    return improved, *kept, "No harm was shown in any required dimension."
