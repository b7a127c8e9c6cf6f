"""Counts what an import kept, and what it could not: per field, and as sentences for the person."""

from __future__ import annotations

from collections import Counter
from typing import Any

from operations.importers._fields import CORE, ROLES, Shapes

OUTCOMES = ("kept", "lossy", "unknown", "unparsable", "collided")
_MANY = 1000


class Tally:
    """The counts of one import. What it holds does not grow with the export."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.nulls: tuple[dict[str, int], ...] = ({}, {}, {})
        """By role: canonical field → rows in which it is null."""
        self.marks: Counter[tuple[int, str, str]] = Counter()
        """(role, field, status) → rows."""
        self._first: dict[str, str] = {}
        self._times: Counter[str] = Counter()
        self._score_types: dict[str, set[str]] = {}
        self._outcomes: dict[str, Counter[str]] = {}

    def said(self) -> tuple[Any, ...]:
        """Returns all of it as `marshal` takes it."""
        types = {name: sorted(types) for name, types in self._score_types.items()}
        outcomes = {name: dict(counts) for name, counts in self._outcomes.items()}
        return dict(self.counts), self.nulls, dict(self.marks), self._first, dict(self._times), types, outcomes

    def add(self, said: tuple[Any, ...]) -> None:
        """Adds what another said of rows that come after those of this one."""
        counts, nulls, marks, first, times, types, outcomes = said
        for name, count in counts.items():
            self.counts[name] += count
        for role, others in enumerate(nulls):
            mine = self.nulls[role]
            for field, rows in others.items():
                mine[field] = mine.get(field, 0) + rows
        for mark, rows in marks.items():
            self.marks[mark] += rows
        for about, example in first.items():
            self._first.setdefault(about, example)
            self._times[about] += times[about]
        for name, found in types.items():
            for data_type in found:
                self.score_type(name, data_type)
        for name, found in outcomes.items():
            for outcome, rows in found.items():
                self.outcome(name, outcome, rows)

    def outcome(self, field: str, outcome: str, rows: int = 1) -> None:
        """Counts what became of a field, `<role>.<field>`, in some rows: one of `OUTCOMES`."""
        if field in self._outcomes or len(self._outcomes) < _MANY:
            self._outcomes.setdefault(field, Counter())[outcome] += rows

    def outcomes(self) -> dict[str, dict[str, int]]:
        """Returns `<role>.<field>` → outcome → rows, of what `outcome` counted."""
        return {
            name: {outcome: counts[outcome] for outcome in OUTCOMES if counts[outcome]}
            for name, counts in sorted(self._outcomes.items())
        }

    def null(self, role: int, field: str) -> None:
        """Counts a null."""
        counts = self.nulls[role]
        counts[field] = counts.get(field, 0) + 1

    def warn(self, about: str, example: str) -> None:
        """Counts something worth a warning. The first example of each is shown."""
        self._times[about] += 1
        self._first.setdefault(about, example)

    def score_type(self, name: object, data_type: str) -> None:
        """Notes that a score of this name had this type."""
        if (name := str(name)) in self._score_types or len(self._score_types) < _MANY:
            self._score_types.setdefault(name, set()).add(data_type)

    def warnings(self) -> list[str]:
        """Returns a sentence for each thing that was noted."""
        found = [
            f"{about}: {self._first[about]}" + (f" and {times - 1} more" if times > 1 else "")
            for about, times in self._times.items()
        ]
        for name, types in sorted(self._score_types.items()):
            if len(types) > 1:
                found.append(f"score name {name[:80]!r} has types {' and '.join(sorted(types))}")
        return found

    def fields(self, shapes: tuple[Shapes, ...], rows: tuple[int, ...]) -> dict[str, dict[str, int]]:
        """Returns `<role>.<field>` → outcome → rows, of those that are not zero."""
        found: dict[str, dict[str, int]] = {}
        for role, name in enumerate(ROLES):
            if not rows[role]:
                continue
            present = shapes[role].presence()
            for canonical in sorted({*present, *CORE[role]} - {"observations"}):
                there = present.get(canonical, 0)
                nulls = self.nulls[role].get(canonical, 0)
                marks = {status: self.marks[role, canonical, status] for status in ("lossy", "unparsable", "collided")}
                counts = {
                    "kept": there - nulls - sum(marks.values()),
                    "unknown": nulls + rows[role] - there,
                    **marks,
                }
                found[f"{name}.{canonical}"] = {outcome: counts[outcome] for outcome in OUTCOMES if counts[outcome]}
        return found
