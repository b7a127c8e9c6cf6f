"""Gives the events of a source the order of a log: places, names, and which result answers which call.

A source may repeat ids, give results of calls that it does not hold, and name parents that are elsewhere. None of it is
dropped or guessed: what does not fit is kept, and says so.
"""

from __future__ import annotations

from typing import Any


def settled(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the same list, whose events now have what `storage.schema.event_order` asks for.

    Args:
        events: In order, each with its `kind` and the fields of it; `id`, `seq` and `call_id` may be missing or repeat.
            They are changed in place.

    An id that is taken becomes `e<seq>`, and the source's own is kept as the attribute `source_id`. A call id that is
    taken gets `~<n>`, and the next result of that id answers it. A result without an open call gets `unpaired`, an
    event whose parent is not in the log `parent_outside`; what a source says of either itself is not taken over.
    """
    given = {(event["kind"], event["id"]) for event in events if event.get("id")}
    used: set[tuple[str, str]] = set()
    calls = _Calls()
    ids: set[str] = set()
    with_parent: list[dict[str, Any]] = []
    for seq, event in enumerate(events):
        kind = event["kind"]
        event["seq"] = seq
        own = event.get("id")
        if not own or (kind, own) in used:
            event["id"] = _free(f"e{seq}", kind, given)
            if own:
                event["attributes"] = {**event.get("attributes", {}), "source_id": own}
        used.add((kind, event["id"]))
        ids.add(event["id"])
        if kind == "tool_call":
            calls.call(event)
            ids.add(event["call_id"])
        elif kind == "tool_result":
            calls.result(event)
        event.pop("parent_outside", None)
        if event.get("parent") is not None:
            with_parent.append(event)
    for event in with_parent:
        if event["parent"] not in ids:
            event["parent_outside"] = True
    return events


class _Calls:
    """The calls so far, and those that wait for their result."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}
        self._taken: set[str] = set()
        self._open: dict[str, list[dict[str, Any]]] = {}
        """Call id as the source gives it → its calls without a result."""

    def call(self, event: dict[str, Any]) -> None:
        """Gives a call an id of its own."""
        source = event["call_id"] = event.get("call_id") or event["id"]
        while event["call_id"] in self._taken:
            self._times[source] = self._times.get(source, 1) + 1
            event["call_id"] = f"{source}~{self._times[source]}"
        self._taken.add(event["call_id"])
        self._open.setdefault(source, []).append(event)

    def result(self, event: dict[str, Any]) -> None:
        """Gives a result the call that it answers: one of the same span, else the earliest that waits."""
        source = event["call_id"] = event.get("call_id") or event["id"]
        event.pop("unpaired", None)
        waiting = self._open.get(source)
        if not waiting:
            event["unpaired"] = True
            return
        place = next((n for n, call in enumerate(waiting) if call["id"] == event["id"]), 0)
        event["call_id"] = waiting.pop(place)["call_id"]


def _free(wanted: str, kind: str, given: set[tuple[str, str]]) -> str:
    while (kind, wanted) in given:
        wanted += "'"
    return wanted
