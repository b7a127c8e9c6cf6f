"""From two outcome tables to what happened to each Case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

from operations.statistics.exact import Stratum
from operations.wording import counted
from storage.schema.validations import CaseLists, OutcomeCounts

Outcome = Literal["pass", "fail", "unknown", "not_applicable"]
Side = Mapping[str, Sequence[Outcome]]
"""Case id → one outcome for each repeat, in the order of the repeats."""
Movement = Literal[
    "fixed", "regressed", "persistent_failure", "stable_success", "unchanged_mixed", "unknown", "not_applicable"
]


@dataclass(frozen=True)
class CaseFacts:
    """One Case in one dimension: passes, known runs and unknown ones on both sides."""

    case_id: str
    left_passes: int
    left_runs: int
    left_unknown: int
    right_passes: int
    right_runs: int
    right_unknown: int

    @property
    def unknown(self) -> int:
        """Outcomes that are missing on either side."""
        return self.left_unknown + self.right_unknown

    @property
    def applicable(self) -> int:
        """Outcomes that were due, on both sides together."""
        return self.left_runs + self.right_runs + self.unknown

    @property
    def known(self) -> bool:
        """Whether each side has a score, from however many repeats."""
        return self.left_runs > 0 and self.right_runs > 0

    @property
    def stratum(self) -> Stratum:
        """The Case as the exact tests take it, unknown outcomes left out."""
        return Stratum(self.left_passes, self.left_runs, self.right_passes, self.right_runs)

    def filled(self, *, favour: Literal["left", "right"]) -> CaseFacts:
        """Returns the Case with its unknown outcomes passed on the favoured side and failed on the other."""
        if not self.unknown:
            return self
        left, right = (self.left_unknown, 0) if favour == "left" else (0, self.right_unknown)
        return CaseFacts(
            self.case_id,
            self.left_passes + left,
            self.left_runs + self.left_unknown,
            0,
            self.right_passes + right,
            self.right_runs + self.right_unknown,
            0,
        )

    @cached_property
    def difference(self) -> Fraction:
        """Right minus left score over the known repeats. Defined where `known`."""
        return Fraction(self.gain, self.left_runs * self.right_runs)

    @property
    def gain(self) -> int:
        """The difference in units of one over the runs of both sides multiplied."""
        return self.right_passes * self.left_runs - self.left_passes * self.right_runs

    @cached_property
    def movement(self) -> Movement:
        """What happened to the Case; one unknown outcome on either side makes it unknown."""
        if not self.applicable:
            return "not_applicable"
        if self.unknown or not self.known:
            return "unknown"
        left, right = self.left_passes * self.right_runs, self.right_passes * self.left_runs
        if left != right:
            return "fixed" if right > left else "regressed"
        if not self.left_passes:
            return "persistent_failure"
        return "stable_success" if self.left_passes == self.left_runs else "unchanged_mixed"

    @property
    def fell_to_nothing(self) -> bool:
        """Whether every known run on the left passed and every one on the right failed."""
        return self.known and self.left_passes == self.left_runs and self.right_passes == 0


@dataclass(frozen=True)
class DimensionComparison:
    """All compared Cases in one dimension, in the plan's order. Those where nothing applied are left out of `facts`."""

    dimension: str
    facts: tuple[CaseFacts, ...]
    excluded: tuple[str, ...]

    def of(self, case_ids: frozenset[str]) -> tuple[CaseFacts, ...]:
        """Returns the facts of the named Cases."""
        return tuple(f for f in self.facts if f.case_id in case_ids)

    @property
    def delta(self) -> float | None:
        """The mean over Cases of right minus left score; None when no Case has both."""
        return mean_difference(self.facts)

    @property
    def unknown(self) -> tuple[str, ...]:
        """The Cases with an unknown outcome on either side."""
        return self._ids("unknown")

    @property
    def counts(self) -> OutcomeCounts:
        """How many Cases moved which way."""
        found: dict[str, int] = Counter(f.movement for f in self.facts)
        return OutcomeCounts(dimension=self.dimension, not_applicable=len(self.excluded), **found)

    @property
    def lists(self) -> CaseLists:
        """The Cases behind the counts that somebody may want to look at."""
        return CaseLists(
            dimension=self.dimension,
            fixed=self._ids("fixed"),
            regressed=self._ids("regressed"),
            persistent_failure=self._ids("persistent_failure"),
            unknown=self.unknown,
            fell_to_nothing=tuple(f.case_id for f in self.facts if f.fell_to_nothing),
        )

    def _ids(self, movement: Movement) -> tuple[str, ...]:
        return tuple(f.case_id for f in self.facts if f.movement == movement)


def mean_difference(facts: Iterable[CaseFacts]) -> float | None:
    """Returns the mean over the known Cases of right minus left score, None without any."""
    gains: dict[int, int] = {}
    known = 0
    for fact in facts:
        if fact.known:
            known += 1
            of = fact.left_runs * fact.right_runs
            gains[of] = gains.get(of, 0) + fact.gain
    return float(sum((Fraction(gain, of) for of, gain in gains.items()), Fraction()) / known) if known else None


def compare(dimension: str, left: Side, right: Side, *, case_ids: Sequence[str], repeats: int) -> DimensionComparison:
    """Returns what happened to each of `case_ids` between two sides of `repeats` repeats each.

    A slot that does not apply on both sides was never due; one that does not apply on one side only is unknown, and so
    is a slot that a side lacks. A Case of which no slot was due is excluded.
    """
    facts = [_facts(c, left.get(c, ()), right.get(c, ()), repeats) for c in dict.fromkeys(case_ids)]
    return DimensionComparison(
        dimension=dimension,
        facts=tuple(f for f in facts if f.applicable),
        excluded=tuple(f.case_id for f in facts if not f.applicable),
    )


def _facts(case_id: str, left: Sequence[Outcome], right: Sequence[Outcome], repeats: int) -> CaseFacts:
    unknown: tuple[Outcome, ...] = ("unknown",)
    slots = zip((*left, *unknown * (repeats - len(left))), (*right, *unknown * (repeats - len(right))), strict=False)
    due = [(a, b) for a, b in slots if not a == b == "not_applicable"]
    (left_passes, left_runs), (right_passes, right_runs) = _tally([a for a, _ in due]), _tally([b for _, b in due])
    return CaseFacts(
        case_id, left_passes, left_runs, len(due) - left_runs, right_passes, right_runs, len(due) - right_runs
    )


def _tally(outcomes: Sequence[Outcome]) -> tuple[int, int]:
    passes = outcomes.count("pass")
    return passes, passes + outcomes.count("fail")


def mismatches(dimension: str, left: Side, right: Side, *, case_ids: Sequence[str], repeats: int) -> tuple[str, ...]:
    """Returns why two sides cannot be compared on the planned slots: Cases or repeats that no plan asked for.

    What is missing from a side is unknown, which is another matter.
    """
    expected, found = set(case_ids), []
    for name, side in (("left", left), ("right", right)):
        if strangers := sorted(set(side) - expected):
            found.append(
                f"The {name} side has {counted(len(strangers), 'Case')} in {dimension} outside of this comparison, "
                f"such as {strangers[0]}. Compare batches of the planned Cases only."
            )
        if longer := [c for c, outcomes in side.items() if len(outcomes) > repeats]:
            more = f"more than the planned {counted(repeats, 'repeat')} of {counted(len(longer), 'Case')}"
            said = f"The {name} side has {more}"
            found.append(
                f"{said} in {dimension}, such as {longer[0]}. Give the outcome of the last attempt of each slot."
            )
    return tuple(found)
