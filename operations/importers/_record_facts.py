"""What a stored Record says of itself, in one form for runs and imports; what it does not say is `UNKNOWN`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from storage.schema.evidence import FieldStatus


class _Unknown:
    """The type of `UNKNOWN`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()
"""What a Record does not say. It is neither null nor empty, and equals nothing else."""

_SAID: frozenset[FieldStatus] = frozenset(("value", "empty", "unparsable", "collided"))
"""Statuses of a field that holds what the source wrote."""

_PLACES = frozenset(("locator", "id", "parent", "group", "kind", "at", "at_text", "ended_at", "ended_text", "marks"))
"""Fields of an event that say where and when it was, not what happened."""

RecordValue = Mapping[str, Any]


def status(record: RecordValue) -> Any:  # noqa: ANN401 - a text or UNKNOWN
    """Returns how the attempt or the trace ended: an Execution's status, or the state of an imported log."""
    execution = record.get("execution")
    found = execution["status"] if execution is not None else record.get("log", {}).get("state", "unknown")
    return UNKNOWN if found == "unknown" else found


def has_error(record: RecordValue) -> Any:  # noqa: ANN401 - a boolean or UNKNOWN
    """Returns whether the attempt failed, or whether an event of an imported log says that something did."""
    ended = status(record)
    if "execution" in record:
        return UNKNOWN if ended is UNKNOWN else ended != "completed"
    if ended == "failed" or any(event.get("error") for event in events(record)):
        return True
    return UNKNOWN if "observations" in record.get("missing", ()) else False


def events(record: RecordValue) -> list[dict[str, Any]]:
    """Returns the events of a Record, as they are stored."""
    found: list[dict[str, Any]] = record["events"] if "execution" in record else record.get("log", {}).get("events", [])
    return found


def content(record: RecordValue, name: str, inputs: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON or UNKNOWN
    """Returns the `input`, `output` or `expected` of a Record; of a run the input is its Case's, from `inputs`."""
    if "execution" not in record:
        field = record.get(name) or {}
        return field.get("value", "") if field.get("status") in _SAID else UNKNOWN
    if name == "input":
        return inputs.get(record["case_id"], UNKNOWN)
    if name == "output" and record["output_status"] in _SAID:
        return record["output"] or ""
    return UNKNOWN


def when(record: RecordValue) -> Any:  # noqa: ANN401 - a time or UNKNOWN
    """Returns when the attempt or the trace began."""
    text = record["execution"]["started_at"] if "execution" in record else record.get("at")
    return datetime.fromisoformat(text) if text else UNKNOWN


def case_id(record: RecordValue) -> Any:  # noqa: ANN401 - a text or UNKNOWN
    """Returns the Case that the Record is of."""
    return record.get("case_id") or UNKNOWN


def source(record: RecordValue, name: str) -> Any:  # noqa: ANN401 - a text or UNKNOWN
    """Returns the `trace_id`, `session_id` or `user_id` that the source gave."""
    return record.get("source", {}).get(name) or UNKNOWN


def tags(record: RecordValue, *, exported: bool) -> Any:  # noqa: ANN401 - a list or UNKNOWN
    """Returns the tags; none is an answer only where the export has tags at all."""
    if found := record.get("tags"):
        return found
    return [] if exported and record.get("trace_row") else UNKNOWN


def metadata(record: RecordValue, path: str) -> Any:  # noqa: ANN401 - any JSON or UNKNOWN
    """Returns what lies at a dotted path of the metadata, or of the metrics for a path below `metrics`.

    A name may hold dots itself: the longest that fits is taken.
    """
    parts = path.split(".")
    found: Any = record.get("runtime_metadata", {})
    if parts[0] == "metrics":
        parts, found = parts[1:], record.get("metrics", {})
    while parts:
        taken = next((n for n in range(len(parts), 0, -1) if _has(found, ".".join(parts[:n]))), 0)
        if not taken:
            return UNKNOWN
        name = ".".join(parts[:taken])
        found = found[int(name)] if isinstance(found, list) else found[name]
        parts = parts[taken:]
    return UNKNOWN if found is None else found


def _has(holder: Any, name: str) -> bool:  # noqa: ANN401 - any JSON
    if isinstance(holder, list):
        return name.isascii() and name.isdigit() and int(name) < len(holder)
    return isinstance(holder, dict) and name in holder


def scores(record: RecordValue, name: str) -> list[dict[str, Any]]:
    """Returns the scores of a name, as the source gave them."""
    return [score for score in record.get("scores", ()) if score["name"] == name]


def texts(value: Any) -> Iterator[str]:  # noqa: ANN401 - any JSON
    """Yields every text in a JSON value, names of fields left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts(item)
    elif value is not None and value is not UNKNOWN:
        yield json.dumps(value)


def event_texts(record: RecordValue) -> Iterator[str]:
    """Yields what was said and done in a Record, without ids, times and places."""
    for event in events(record):
        for name, value in event.items():
            if name not in _PLACES:
                yield from texts(value)


def snippet(value: Any, length: int) -> str | None:  # noqa: ANN401 - any JSON or UNKNOWN
    """Returns the beginning of a value on one line, or None where it is not known."""
    if value is UNKNOWN:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    line = " ".join(text[: 4 * length].split()).encode(errors="replace").decode()
    return line if len(line) <= length and len(text) <= 4 * length else line[:length] + "…"
