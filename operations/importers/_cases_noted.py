"""What is noted of Cases while they are read, to be told with what they came to."""

from __future__ import annotations

from dataclasses import dataclass, field

from storage.schema.datasets import Case

FIRST = 10
"""So many ids are told."""


@dataclass
class CasesNoted:
    """The first ids, and how many Cases have an expected answer."""

    first: list[str] = field(default_factory=list)
    count: int = 0
    without_expected: int = 0

    def note(self, case: Case) -> None:
        """Counts a Case."""
        self.count += 1
        self.without_expected += not case.expected_present
        if len(self.first) < FIRST:
            self.first.append(case.id)

    def warnings(self) -> list[str]:
        """Says where some Cases have an expected answer and some have none."""
        if not 0 < self.without_expected < self.count:
            return []
        number = f"{self.without_expected} of {self.count}"
        return [f"Cases without an expected answer: {number}. A rule that compares with one says unknown of those."]
