"""How much of the allowed chance of a false keep the looks at each Case have spent, over candidates and Rounds.

The i-th incremental comparison that a Case is a target of is tested at alpha / (i (i + 1)); these sum to alpha over
endless looks. A comparison of several targets counts as the latest look of any of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from storage.schema.validations import Look


def next_look(looks: Iterable[Look], target_case_ids: Iterable[str]) -> int:
    """Returns the number, from 1, of the look that a comparison with these targets is."""
    counts = {look.case_id: look.count for look in looks}
    return 1 + max((counts.get(c, 0) for c in target_case_ids), default=0)


def after_look(looks: Iterable[Look], target_case_ids: Iterable[str]) -> tuple[Look, ...]:
    """Returns the ledger after one more comparison with these targets, in the order of Case ids."""
    counts = {look.case_id: look.count for look in looks}
    for case_id in set(target_case_ids):
        counts[case_id] = counts.get(case_id, 0) + 1
    return tuple(Look(case_id=c, count=n) for c, n in sorted(counts.items()))


def alpha_of_look(alpha: float, look: int) -> float:
    """Returns what the `look`-th look is tested at."""
    return alpha / (look * (look + 1))


def alpha_spent(alpha: float, looks: int) -> float:
    """Returns what `looks` looks spent together: the sum telescopes to alpha (1 - 1 / (looks + 1))."""
    return alpha * looks / (looks + 1)


def alpha_left(alpha: float, looks: int) -> float:
    """Returns what is left for all looks to come."""
    return alpha / (looks + 1)
