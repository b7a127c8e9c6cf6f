"""Collects the events of one session in order: their ids, what they hold, and which result answers which call."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from operations.importers._cells import instant, shown_time
from operations.importers._json_values import NotFinite, shortened, strict
from operations.importers._scores import number_of
from operations.importers._tally import Tally
from operations.trajectories.settling import settled

_TOO_MANY = 2.0**63
"""No counter reaches this; a sum that does is of no counters."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS = 253_402_300_800_000
"""Milliseconds until the year 10000."""

NOT_EXPORTED = {"status": "not_exported"}


def content_of(value: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Returns a value as `Content` takes it."""
    if value is None:
        return {"status": "null"}
    if value == "":
        return {"status": "empty"}
    return {"status": "value", "value": value}


def parts_of(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Returns a message's content: the text of a single piece of text, else the pieces as they are."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        only = value[0]
        if set(only) <= {"type", "text"} and isinstance(only.get("text"), str):
            return only["text"]
    return value


def json_of(text: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Returns what a text of JSON holds, as `Content` takes it; text that is none is kept and `unparsable`."""
    if not isinstance(text, str) or not text:
        return content_of(text)
    try:
        value = strict(text)
    except (ValueError, RecursionError):
        return {"status": "unparsable", "value": text}
    if isinstance(value, NotFinite):
        return {"status": "unparsable", "value": text}
    return content_of(value)


def message_of(error: Any) -> str | None:  # noqa: ANN401 - JSON
    """Returns what an error says."""
    found = error.get("message") if isinstance(error, dict) else error
    return found if found is None or isinstance(found, str) else shortened(found)


def times_of(text: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Returns `at` and `at_text` of an event, as far as the line says them."""
    if not isinstance(text, str) or not text:
        return {}
    when = instant(text)
    return {"at_text": text} | ({"at": shown_time(when)} if when else {})


def time_of_ms(given: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Returns `at` and `at_text` of milliseconds since 1970."""
    if not isinstance(given, int) or isinstance(given, bool) or not 0 <= given < _LAST_MS:
        return {}
    return {"at": shown_time(_EPOCH + timedelta(milliseconds=given)), "at_text": str(given)}


def numbers_of(usage: Any) -> dict[str, float | int]:  # noqa: ANN401 - JSON
    """Returns the counters of a usage object; what is no number, or an object of its own, is not among them."""
    if not isinstance(usage, Mapping):
        return {}
    return {name: number for name, given in usage.items() if (number := number_of(given)) is not None}


def added(totals: dict[str, float | int], usage: Mapping[str, float | int]) -> None:
    """Adds counters to totals."""
    for name, number in usage.items():
        total = totals.get(name, 0) + number
        if abs(total) < _TOO_MANY:
            totals[name] = total


class SessionLog:
    """The events of one session, as `EventLog` takes them once `finish` was called."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._parts: list[list[dict[str, Any]]] = [[]]
        self._at = 0
        self._count = 0
        self._open: dict[str, list[dict[str, Any]]] = {}
        """Call id as the source says it → calls that have no result yet, at least one."""
        self._calls: dict[str, int] = {}

    def slot(self) -> int:
        """Keeps a place for events that are known only when all lines were read; what is added next follows it."""
        self._parts += [[], []]
        self._at = len(self._parts) - 1
        return self._at - 1

    def fill(self, slot: int) -> None:
        """Puts what is added next into a place that was kept."""
        self._at = slot

    def has_call(self, call_id: str) -> bool:
        """Returns whether there is a call of this id, as the source says it."""
        return call_id in self._calls

    def waiting(self, name: str) -> str | None:
        """Returns the latest call of a tool that has no result yet."""
        found = [call["call_id"] for calls in self._open.values() for call in calls if call["name"] == name]
        return found[-1] if found else None

    def add(self, event: dict[str, Any], source_id: Any = None) -> dict[str, Any]:  # noqa: ANN401 - JSON
        """Appends an event. `source_id` becomes its id where no event of its kind has it yet."""
        if isinstance(source_id, str) and source_id:
            event["id"] = source_id
        self._parts[self._at].append(event)
        self._count += 1
        field = _CONTENT.get(event["kind"])
        if field is not None:
            status = event[field]["status"]
            outcome = {"value": "kept", "empty": "kept", "unparsable": "unparsable"}.get(status, "unknown")
            self._tally.outcome(f"{event['kind']}.{field}", outcome)
        self._tally.outcome(f"{event['kind']}.time", "kept" if "at" in event else "unknown")
        return event

    def call(self, event: dict[str, Any], call_id: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        """Appends a call. A call id that was used before gets `~<n>`, so that a result has one call."""
        given = call_id if isinstance(call_id, str) and call_id else f"call-{self._count}"
        times = self._calls[given] = self._calls.get(given, 0) + 1
        event["call_id"] = given if times == 1 else f"{given}~{times}"
        self._open.setdefault(given, []).append(event)
        self._tally.counts["tool_calls"] += 1
        return self.add(event, event["call_id"])

    def result(self, event: dict[str, Any], call_id: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        """Appends a result to the earliest call of its id that has none."""
        given = call_id if isinstance(call_id, str) and call_id else f"call-{self._count}"
        waiting = self._open.get(given)
        if waiting:
            call = waiting.pop(0)
            if not waiting:
                del self._open[given]  # what waits is looked through for lines that come with it
            event["call_id"], event["name"] = call["call_id"], call["name"]
            if "group" in call and "group" not in event:
                event["group"] = call["group"]
        else:
            event["call_id"] = given
            self._tally.counts["tool_results_without_call"] += 1
        self._tally.counts["tool_results"] += 1
        return self.add(event, event["call_id"])

    def finish(self) -> list[dict[str, Any]]:
        """Returns the events with places and ids: the source's own, else `e<seq>`."""
        unanswered = sum(len(calls) for calls in self._open.values())
        if unanswered:
            self._tally.counts["tool_calls_without_result"] += unanswered
        events = [event for part in self._parts for event in part]
        return settled(events)


_CONTENT = {
    "text": "content",
    "reasoning": "content",
    "tool_call": "arguments",
    "tool_result": "content",
    "observation": "output",
}
