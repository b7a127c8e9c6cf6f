"""Turns the score rows of an export into typed evidence; none of them becomes a verdict."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from operations.importers._cells import instant, shown_time
from operations.importers._fields import SCORE, Shape
from operations.importers._tally import Tally

PLACED = (
    "id", "name", "data_type", "value", "string_value", "source", "comment", "timestamp", "trace_id",
    "observation_id", "session_id", "dataset_run_id", "subject",
)  # fmt: skip

_SUBJECTS = {"trace": "trace", "observation": "observation", "session": "session", "experiment": "dataset_run"}


def score_of(
    row: Mapping[str, Any], shape: Shape, marks: Mapping[str, str], locator: dict[str, Any], tally: Tally
) -> dict[str, Any]:
    """Returns a score as `ExternalScore` takes it. `marks` are those of the row's own names."""
    shape.rows += 1
    own = {canonical: row[name] for canonical, name in shape.names.items()}
    for canonical, value in own.items():
        if value is None:
            tally.null(SCORE, canonical)
    data_type = own.get("data_type")
    kind, value, status = _typed(data_type, own)
    if shape.names.get("value") in marks:
        value, status = own["value"], "unparsable"
    if kind == "unknown" and data_type not in (None, ""):
        tally.warn("unknown data_type", str(data_type)[:40])
    if status == "unparsable":
        tally.marks[SCORE, "value", "unparsable"] += 1
        tally.warn("score value is no finite number", str(own.get("id") or own.get("name"))[:80])
    tally.score_type(own.get("name"), str(data_type))
    subject_kind, subject_id = _subject(own)
    beside = {name: own[name] for name in _ALSO if own.get(name) not in (None, "", subject_id)}
    if kind in _SAID_IN_TEXT and own.get("value") not in (None, "", value):
        beside["value"] = own["value"]
    elif kind == "numeric" and own.get("string_value") not in (None, ""):
        beside["string_value"] = own["string_value"]
    when = instant(own.get("timestamp"))
    found = {
        "id": _text(own.get("id")),
        "name": _text(own.get("name")),
        "type": kind,
        "status": status,
        "value": value,
        "subject_kind": subject_kind,
        "subject_id": _text(subject_id),
        "trace_id": _text(own.get("trace_id") or _trace_of(own.get("subject"))),
        "comment": _text(own.get("comment")),
        "source": _text(own.get("source")),
        "at": shown_time(when) if when else None,
        "at_text": _text(own.get("timestamp")),
        "attributes": {canonical: row[name] for name, canonical in shape.rest} | beside,
        "locator": locator,
    }
    return {name: item for name, item in found.items() if item is not None or name in _NEEDED}


_ALSO = ("observation_id", "session_id", "dataset_run_id")
"""What a score may name beside the narrowest thing that it is about."""

_SAID_IN_TEXT = frozenset(("categorical", "text", "correction"))
_NEEDED = frozenset(("id", "name", "subject_id"))


def number_of(value: object) -> float | int | None:
    """Returns a finite number, also from its text, or None."""
    if isinstance(value, bool) or (isinstance(value, str) and (not value.isascii() or "_" in value)):
        return None  # what Python reads beyond ASCII, and `1_000`, are numbers to nobody else
    try:
        number = _read_number(value) if isinstance(value, str) else value
        return number if isinstance(number, int | float) and math.isfinite(number) else None
    except (ValueError, OverflowError):  # no number, or an integer beyond what is one
        return None


def _read_number(text: str) -> float | int:
    """Returns a number; a whole one beyond what a float holds exactly stays whole."""
    number = float(text)
    return int(text) if abs(number) >= 2**53 and _WHOLE.fullmatch(text.strip()) else number


_WHOLE = re.compile(r"[+-]?[0-9]{16,40}")


def _typed(data_type: object, own: Mapping[str, Any]) -> tuple[str, Any, str]:
    """Returns the score's type, its value and its status."""
    value, text = own.get("value"), own.get("string_value")
    match str(data_type).upper():
        case "NUMERIC":
            return "numeric", *_status(number_of(value), value)
        case "BOOLEAN":
            number, word = _truth(value, None), _truth(None, text)
            if None not in (number, word) and number != word:
                return "boolean", {"value": value, "string_value": text}, "collided"
            return "boolean", *_status(_truth(value, text), value if value is not None else text)
        case ("CATEGORICAL" | "TEXT" | "CORRECTION") as kind:
            said = text if text not in (None, "") else value if isinstance(value, str) else text
            return kind.lower(), *_status(said, said)
        case _:
            raw = {name: own[name] for name in ("value", "string_value") if own.get(name) not in (None, "")}
            return "unknown", raw, "value" if raw else "null"


def _status(value: Any, given: object) -> tuple[Any, str]:  # noqa: ANN401 - JSON
    if value is not None and value != "":
        return value, "value"
    if given is None:
        return None, "null"
    return given, "empty" if given == "" else "unparsable"


def _truth(value: object, text: object) -> bool | None:
    for given in (value, text):
        found = {"1": True, "1.0": True, "true": True, "0": False, "0.0": False, "false": False}.get(str(given).lower())
        if found is not None:
            return found
    return None


def _subject(own: Mapping[str, Any]) -> tuple[str, Any]:
    """Returns what the score is about: the narrowest thing that it names."""
    subject = own.get("subject")
    if isinstance(subject, dict):
        return _SUBJECTS.get(str(subject.get("kind")), "unknown"), subject.get("id")
    for kind in ("observation", "trace", "session", "dataset_run"):
        if (found := own.get(f"{kind}_id")) not in (None, ""):
            return kind, found
    return "unknown", None


def _trace_of(subject: object) -> object:
    if not isinstance(subject, dict):
        return None
    return subject.get("traceId") or (subject.get("id") if subject.get("kind") == "trace" else None)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) or value is None else str(value)
