"""What holds among the events of one log: one order, names of their own, results with their calls, parents that exist.

No more than the standard library is needed, so that a log outside of a project is held to the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ROUNDING = 1e-6
"""How far above 0 a log-probability may lie, since engines round."""


class EventOrder:
    """Takes the events of a log one by one, and refuses the first that does not fit to those before it."""

    def __init__(self) -> None:
        """Begins with an empty log."""
        self.count = 0
        self._names: set[tuple[str, str]] = set()
        self._ids: set[str] = set()
        """What a parent can be: ids of events and of calls."""
        self._open: dict[str, bool] = {}
        """Call id → whether its result is still to come."""
        self._outside: set[str] = set()
        self._awaited: dict[str, int] = {}
        """Parents that no event before bears → the first event that names them."""

    def take(self, event: Mapping[str, Any], *, parents_first: bool = False) -> None:
        """Takes the next event, which has the form of one.

        Args:
            event: At least `seq`, `kind`, `id`, and what its kind needs.
            parents_first: Whether a parent has to stand before what happened in it. A source may tell them in another
                order; then `finish` says which is missing.

        Raises:
            ValueError: The event does not fit; nothing was taken.
        """
        place, kind, own = self.count, event["kind"], event["id"]
        if event["seq"] != place:
            raise ValueError(f"event {place} has seq {event['seq']}; a log counts from 0 without gaps")
        if (kind, own) in self._names:
            raise ValueError(f"two events of kind {kind} have the id {own}")
        self._check_call(place, event)
        if kind == "reward":
            _check_reward(place, event)
        borne = {own, event["call_id"]} if kind == "tool_call" else {own}
        if said := borne & self._outside:
            raise ValueError(f"event {place} has the id {min(map(str, said))}, which an event before calls outside")
        self._check_parent(place, event, first=parents_first)
        self._keep(place, event)

    def _keep(self, place: int, event: Mapping[str, Any]) -> None:
        kind, parent = event["kind"], event.get("parent")
        self.count += 1
        self._names.add((kind, event["id"]))
        self._bear(event["id"])
        if kind == "tool_call":
            self._bear(event["call_id"])
            self._open[event["call_id"]] = True
        elif kind == "tool_result" and not event.get("unpaired"):
            self._open[event["call_id"]] = False
        if parent is None:
            return
        if event.get("parent_outside"):
            self._outside.add(parent)
        elif parent not in self._ids:
            self._awaited.setdefault(parent, place)

    def _bear(self, name: str) -> None:
        self._ids.add(name)
        self._awaited.pop(name, None)

    def finish(self) -> None:
        """Says that there are no more events.

        Raises:
            ValueError: A parent is neither in the log nor said to be outside.
        """
        for parent, place in self._awaited.items():
            raise ValueError(f"event {place} has the parent {parent}, which is not in the log; {_OUTSIDE}")

    def free_id(self, kind: object, wanted: str) -> str:
        """Returns `wanted`, or a longer id where an event of that kind has it."""
        while (kind, wanted) in self._names:
            wanted += "'"
        return wanted

    def open_calls(self) -> list[str]:
        """Returns the ids of the calls that have no result, in order."""
        return [call_id for call_id, is_open in self._open.items() if is_open]

    def _check_call(self, place: int, event: Mapping[str, Any]) -> None:
        call_id = event.get("call_id")
        is_open = self._open.get(str(call_id))
        if event["kind"] == "tool_call" and is_open is not None:
            raise ValueError(f"event {place}: two calls have the call_id {call_id}; its results could not be told")
        if event["kind"] != "tool_result":
            return
        unpaired = bool(event.get("unpaired"))
        if unpaired and is_open:
            raise ValueError(f"event {place} is said to be unpaired, but its call {call_id} is open")
        if not unpaired and not is_open:
            why = "has its result already" if is_open is False else "does not stand before it"
            raise ValueError(
                f"event {place} is a result of the call {call_id}, which {why}; "
                "where the source has it so, say unpaired: true"
            )

    def _check_parent(self, place: int, event: Mapping[str, Any], *, first: bool) -> None:
        parent, outside = event.get("parent"), bool(event.get("parent_outside"))
        if parent is None:
            if outside:
                raise ValueError(f"event {place} says parent_outside and names no parent")
        elif outside:
            if parent in self._ids or parent in self._awaited:
                raise ValueError(f"event {place} says that its parent {parent} is outside, but it is in the log")
        elif parent in self._outside:
            raise ValueError(f"event {place} has the parent {parent}, which an event before calls outside")
        elif first and parent not in self._ids:
            raise ValueError(f"event {place} has the parent {parent}, which does not stand before it; {_OUTSIDE}")


_OUTSIDE = "where the source does not hold it, say parent_outside: true"


def _check_reward(place: int, event: Mapping[str, Any]) -> None:
    """A reward says what it is for: an episode needs no name, a turn has its number, a step is an event."""
    scope = event["scope"]
    if scope == "turn" and event.get("turn") is None:
        raise ValueError(f"event {place} rewards a turn and does not say which: it lacks turn")
    if scope == "step" and event.get("parent") is None:
        raise ValueError(f"event {place} rewards a step and does not say which: it lacks parent, the id of an event")
