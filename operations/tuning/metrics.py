"""What both sides spent of a metric, and whether the limits that a plan sets hold.

A total is compared with its limit as it is: it was measured, not sampled. A ratio is a claim about the agent, so by the
statistical rule it holds when its one-sided 95 % bound does, is exceeded when the other bound is, and is otherwise
undecided. Where a figure is missing on either side nothing holds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from operations.statistics.paired import RatioEstimate, paired_log_ratio
from operations.tuning.questions import FIXED_ALPHA, LEAST_UNITS, Groups, unit_of
from operations.wording import counted
from storage.schema.evidence import EvidenceRecord
from storage.schema.rounds import MetricLimit, Rule
from storage.schema.validations import Answer, MetricStatistics

SUPERVISOR = "supervisor"
"""Who measures durations."""

MOST = 1e15
"""A larger figure is no measurement in any unit, and sums of such figures would overflow."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One metric by Case on both sides. A Case of which a figure is missing or not trusted is left out of its side."""

    metric: str
    source: str
    left: Mapping[str, float]
    right: Mapping[str, float]
    limit: MetricLimit | None = None


def spent(
    records: Sequence[EvidenceRecord], metric: str, source: str, case_ids: Sequence[str], repeats: int
) -> dict[str, float]:
    """Returns what each Case took of `metric`, summed over every attempt at its planned slots, retried ones included.

    A Case is left out when a slot has no attempt, or an attempt has no figure from 0 to `MOST` from `source`.
    """
    slots: dict[str, set[int]] = {case_id: set() for case_id in case_ids}
    sums, missing = dict.fromkeys(slots, 0.0), set[str]()
    for record in records:
        if record.case_id not in slots or record.repeat > repeats:
            continue
        figure = record.metrics.get(metric)
        if figure is None or not 0 <= figure <= MOST or record.metric_sources.get(metric) != source:
            missing.add(record.case_id)
            continue
        slots[record.case_id].add(record.repeat)
        sums[record.case_id] += figure
    return {c: total for c, total in sums.items() if c not in missing and len(slots[c]) == repeats}


def weighed(measured: Measured, case_ids: Sequence[str], rule: Rule, groups: Groups) -> MetricStatistics:
    """Returns the figures of both sides and whether the limit holds."""
    both = [c for c in case_ids if c in measured.left and c in measured.right]
    complete = bool(both) and len(both) == len(case_ids)
    left, right = (math.fsum(side[c] for c in both) for side in (measured.left, measured.right))
    ratio = _ratio(measured, both, groups)
    limit = measured.limit
    return MetricStatistics(
        metric=measured.metric,
        source=measured.source,
        n=len(both),
        coverage=len(both) / len(case_ids) if case_ids else 0.0,
        left_total=left if complete else None,
        right_total=right if complete else None,
        ratio=ratio.ratio if ratio else None,
        lower=ratio.lower_one_sided if ratio else None,
        upper=ratio.upper_one_sided if ratio else None,
        most_total=limit.total if limit else None,
        most_ratio=limit.ratio if limit else None,
        held=_held(limit, (left, right), ratio, rule, complete=complete) if limit else None,
    )


def _ratio(measured: Measured, case_ids: Sequence[str], groups: Groups) -> RatioEstimate | None:
    """Returns the mean ratio, or None where a Case has a zero on one side only, which is no finite ratio."""
    pairs = [(c, measured.left[c], measured.right[c]) for c in case_ids]
    if not pairs or any((left > 0) != (right > 0) for _, left, right in pairs):
        return None
    nothing = 1.0, 1.0  # zero on both sides: what was not spent has not changed
    values = [(left, right) if left > 0 else nothing for _, left, right in pairs]
    units = [unit_of(c, groups) for c, _, _ in pairs]
    return paired_log_ratio([v[0] for v in values], [v[1] for v in values], FIXED_ALPHA, units)


def _held(
    limit: MetricLimit, totals: tuple[float, float], ratio: RatioEstimate | None, rule: Rule, *, complete: bool
) -> Answer:
    if not complete:
        return "undecided"
    left, right = totals
    answers: list[Answer] = []
    if limit.total is not None:
        answers.append("yes" if right <= limit.total else "no")
    if limit.ratio is not None:
        answers.append(
            _ratio_held(limit.ratio, ratio) if rule == "statistical" else "yes" if right <= limit.ratio * left else "no"
        )
    return next((a for a in ("no", "undecided") if a in answers), "yes")


def _ratio_held(most: float, found: RatioEstimate | None) -> Answer:
    if found is None or found.units < LEAST_UNITS or found.upper_one_sided is None or found.lower_one_sided is None:
        return "undecided"
    if found.upper_one_sided <= most:
        return "yes"
    return "no" if found.lower_one_sided > most else "undecided"


def exceeded(found: MetricStatistics) -> str:
    """Returns the sentence for a limit that does not hold."""
    return f"The limit of {found.metric} is exceeded: {_figures(found)}."


def open_limit(found: MetricStatistics) -> str:
    """Returns the sentence for a limit of which nothing can be said."""
    if found.coverage < 1:
        return missing(found)
    return f"Whether the limit of {found.metric} holds is not certain: {_figures(found)}."


def missing(found: MetricStatistics) -> str:
    """Returns the sentence for figures that are missing on a side, or that nobody independent measured."""
    lacking = counted(round(found.n / found.coverage) - found.n, "Case") if found.coverage else "all Cases"
    return (
        f"The {found.metric} of {lacking} is not known on both sides: every attempt needs a figure of which the Record "
        f"names {found.source} as its source."
    )


def _figures(found: MetricStatistics) -> str:
    parts = []
    if found.right_total is not None and found.left_total is not None:
        parts.append(f"{found.left_total:.6g} on the left and {found.right_total:.6g} on the right in all")
    if found.ratio is not None:
        bounds = f", between {found.lower:.4g} and {found.upper:.4g}" if found.lower and found.upper else ""
        parts.append(f"{found.ratio:.4g} times by Case{bounds}")
    limits = [f"a total of {found.most_total:g}"] if found.most_total is not None else []
    limits += [f"{found.most_ratio:g} times the left"] if found.most_ratio is not None else []
    return "; ".join([*parts, f"at most {' and '.join(limits)}" if limits else "no limit"])
