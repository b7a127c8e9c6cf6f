"""Says what a projection could not carry: by kind of event and field, how often, where first, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

SHOWN = 5
"""Events that a loss names by their `seq`."""

NO_PLACE = "the target has no place for it"
_ORDER = frozenset({"kind", "seq"})
"""What every target has in some form: which kind of event it is, and its place among the others."""


@dataclass(frozen=True, slots=True)
class Loss:
    """One field of one kind of event that was left out or changed, for one reason."""

    kind: str
    field: str
    """A field of the event; `*` for the whole event."""
    reason: str
    events: int
    first: tuple[int, ...]
    """The `seq` of the first of these events, at most five."""


@dataclass(frozen=True, slots=True)
class LossReport:
    """What one projection, or several of the same target, left out. Empty where everything was carried."""

    target: str
    losses: tuple[Loss, ...] = ()
    refused: str | None = None
    """Why there is no result at all; None where there is one."""

    def as_json(self) -> dict[str, Any]:
        """Returns the report as a JSON object."""
        return {
            "target": self.target,
            "refused": self.refused,
            "losses": [
                {"kind": x.kind, "field": x.field, "reason": x.reason, "events": x.events, "first": list(x.first)}
                for x in self.losses
            ],
        }


class Carried:
    """Which fields of an event a target holds: those of its kind, and a result's name where its call says the same."""

    def __init__(self, of_kind: Mapping[str, Collection[str]], log: Iterable[Mapping[str, Any]]) -> None:
        """`of_kind` are the fields of each kind of event; the names of the calls are read off the log."""
        self._of_kind = of_kind
        self._names = {event["call_id"]: event.get("name") for event in log if event["kind"] == "tool_call"}

    def of(self, event: Mapping[str, Any]) -> set[str]:
        """Returns the fields of an event that are carried."""
        found = set(self._of_kind[event["kind"]])
        if event["kind"] == "tool_result" and event.get("name") == self._names.get(event["call_id"]):
            found.add("name")
        return found


class Losses:
    """Collects what a projection leaves out while it is made."""

    def __init__(self, target: str) -> None:
        """Begins with nothing left out."""
        self.target = target
        self._found: dict[tuple[str, str, str], list[int]] = {}
        self._counts: dict[tuple[str, str, str], int] = {}
        self._gone: set[int] = set()

    def note(self, event: Mapping[str, Any], field: str, reason: str) -> None:
        """Notes that a field of an event was left out or changed."""
        self.count((event["kind"], field, reason), 1, (event["seq"],))

    def count(self, what: tuple[str, str, str], events: int, first: Iterable[int]) -> None:
        """Notes that a field of some events was left out; `what` is kind, field and reason."""
        shown = self._found.setdefault(what, [])
        shown += list(first)[: SHOWN - len(shown)]
        self._counts[what] = self._counts.get(what, 0) + events

    def whole(self, event: Mapping[str, Any], reason: str) -> None:
        """Notes that an event was left out."""
        self.note(event, "*", reason)
        self._gone.add(event["seq"])

    def rest(self, event: Mapping[str, Any], carried: Collection[str]) -> None:
        """Notes each field of an event that says something and is not among those that were carried."""
        if event["seq"] in self._gone:
            return
        for name, value in event.items():
            if name not in carried and name not in _ORDER and value not in (None, False, {}, [], ""):
                self.note(event, name, NO_PLACE)

    def report(self, refused: str | None = None) -> LossReport:
        """Returns what was noted, in the order in which it was met first."""
        losses = tuple(
            Loss(kind, field, reason, self._counts[kind, field, reason], tuple(first))
            for (kind, field, reason), first in self._found.items()
        )
        return LossReport(self.target, losses, refused)


def merged(target: str, reports: Iterable[LossReport]) -> LossReport:
    """Returns one report of several; `first` then names events of the first logs that lost something."""
    together = Losses(target)
    for report in reports:
        for loss in report.losses:
            together.count((loss.kind, loss.field, loss.reason), loss.events, loss.first)
    return together.report()
