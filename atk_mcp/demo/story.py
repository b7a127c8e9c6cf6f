"""Tells the demo's story: every number in it is a fact that `atk call read_record` finds again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_DIGITS = 3
"""Significant digits of a printed fraction."""

_COMMIT = 12
"""Characters of a printed commit."""


@dataclass(frozen=True)
class Fact:
    """Something that is printed, and where it stands: a field of a stored record, as `read_record` takes it."""

    value: Any
    """A number, a text, or a list of texts."""
    record_id: str
    field: str

    @property
    def shown(self) -> str:
        """The value as it is printed."""
        if isinstance(self.value, float):
            return f"{self.value:.{_DIGITS}g}"
        if isinstance(self.value, list | tuple):
            return ", ".join(str(part) for part in self.value)
        return str(self.value)


@dataclass(frozen=True)
class Commit(Fact):
    """A commit, of which the beginning is printed."""

    @property
    def shown(self) -> str:
        """The commit's first characters."""
        return str(self.value)[:_COMMIT]


@dataclass
class Story:
    """What was told so far, line by line, to `out`."""

    out: Callable[[str], None]
    facts: list[Fact] = field(default_factory=list)
    """Every fact that was printed, in order."""

    def chapter(self, title: str) -> None:
        """Begins a part of the story."""
        self.out(f"\n{title}")

    def tell(self, line: str, *ids: str, **told: Fact | str) -> None:
        """Prints a line with its facts in place of `{name}`, and the ids of the records that it is about."""
        self.facts += [part for part in told.values() if isinstance(part, Fact)]
        words = {name: part.shown if isinstance(part, Fact) else part for name, part in told.items()}
        where = f"  [{', '.join(ids)}]" if ids else ""
        self.out(f"  {line.format(**words)}{where}")
