"""What a detector says of one log: its findings, or why it cannot tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from operations.trajectories.detectors.episode import Episode

Status = Literal["found", "clean", "not_applicable"]

QUOTED = 40
"""Characters of evidence that a reason repeats at the most."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a rule saw: the events it rests on, how sure it is, and why in a sentence."""

    seqs: tuple[int, ...]
    """Ascending. First and last name a finding among those of one rule and `limit` on one log."""
    confidence: float
    """From 0 to 1: an order among findings, set by the rule, not a measured frequency."""
    reason: str
    limit: str | None = None
    """The stated limit that was passed, such as `calls=4`; what was found holds for that one only."""
    needs: str | None = None
    """The input beside the log that it rests on, such as `tools`."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """What a rule cannot tell, for want of what input."""

    reason: str


Rule = Callable[[Episode], Iterator[Seen | Unknown]]


@dataclass(frozen=True, slots=True)
class Finding:
    """A failure that a rule found in one log."""

    detector: str
    rule_version: int
    seqs: tuple[int, ...]
    confidence: float
    reason: str
    limit: str | None = None
    needs: str | None = None

    @property
    def name(self) -> str:
        """What it is called within its log: detector, version, first and last event, limit."""
        named = f"{self.detector}.{self.rule_version}/{self.seqs[0]}-{self.seqs[-1]}"
        return named if self.limit is None else f"{named}/{self.limit}"


@dataclass(frozen=True, slots=True)
class Result:
    """What one detector says of one log."""

    detector: str
    rule_version: int
    findings: tuple[Finding, ...]
    not_applicable: str | None
    """What it could not look at and why; beside findings, what else there might be."""

    @property
    def status(self) -> Status:
        """`clean` only where everything that the rule needs was there."""
        if self.findings:
            return "found"
        return "clean" if self.not_applicable is None else "not_applicable"


@dataclass(frozen=True, slots=True)
class Detector:
    """A rule with its name and version. A change of what it finds is a new version."""

    name: str
    version: int
    rule: str
    """In a sentence."""
    look: Rule

    def __call__(self, episode: Episode) -> Result:
        """Returns what the rule says of an episode."""
        seen = list(self.look(episode))
        reasons = [one.reason for one in seen if isinstance(one, Unknown)]
        findings = tuple(
            Finding(self.name, self.version, one.seqs, one.confidence, one.reason, one.limit, one.needs)
            for one in seen
            if isinstance(one, Seen)
        )
        return Result(self.name, self.version, findings, "; ".join(dict.fromkeys(reasons)) or None)


def quoted(text: object) -> str:
    """Returns a piece of evidence for a reason: on one line, cut, in quotes."""
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)[: 4 * QUOTED]).split())
    return f"'{line[:QUOTED]}…'" if len(line) > QUOTED else f"'{line}'"


def no_calls(episode: Episode) -> str | None:
    """Returns why a rule about calls and their outcomes cannot tell, or None where it can."""
    if not episode.calls:
        return "the log has no call"
    if all(call.outcome is None for call in episode.calls):
        return "the log has no result of any call"
    return None
