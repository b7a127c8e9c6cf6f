"""Reads single values of an export: times, JSON inside text, quoted integers, and what is left of damaged ones."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from operations.importers._json_values import NotFinite, strict

_SHORTEST_TIME = 19
_TO_THE_MICROSECOND = 26
_SHORT = 200
"""Characters of a text whose value is remembered: parameters and such repeat in every row."""


class Cell(NamedTuple):
    """What a text held: its value, its status, and whether it was JSON within JSON."""

    value: Any
    status: str
    double: bool = False


def instant(given: object) -> datetime | None:
    """Returns a time in UTC, or None for what is none. A time without a zone is in UTC, as the exporters write it."""
    if not isinstance(given, str) or len(given) < _SHORTEST_TIME:
        return None
    try:
        found = datetime.fromisoformat(given)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def moment(given: object) -> tuple[datetime | None, str]:
    """Returns a time in UTC and how it is shown; None and nothing for what is no time."""
    if isinstance(given, str) and len(given) == _TO_THE_MICROSECOND and given[19] == ".":
        text = given
        try:  # the form of most exports, which needs no reformatting
            found = datetime.fromisoformat(text)
        except ValueError:
            return None, ""
        if found.tzinfo is None:
            return found.replace(tzinfo=UTC), f"{text[:10]}T{text[11:]}Z"
    time = instant(given)
    return time, shown_time(time) if time else ""


def shown_time(time: datetime) -> str:
    """Returns a time in UTC as ISO 8601 with microseconds, ending in Z."""
    return time.isoformat(timespec="microseconds")[:26] + "Z"


def decoded(text: str) -> Cell:
    """Returns the value of a cell that should hold JSON; see `_decoded`. The value must not be changed."""
    return _remembered(text) if len(text) <= _SHORT else _decoded(text)


def _decoded(text: str) -> Cell:
    """Returns the value of a cell that should hold JSON.

    Text that is no JSON stays as it is, and is `unparsable` when it looks like an object or an array. Old exports wrote
    text as JSON once more: then both layers come off.
    """
    if not text:
        return Cell("", "empty")
    try:
        value = strict(text)
    except (ValueError, RecursionError):
        return Cell(text, "unparsable" if text.lstrip()[:1] in ("{", "[") else "value")
    if isinstance(value, NotFinite):
        return Cell(text, "unparsable")
    if not isinstance(value, str):
        return Cell(value, "value")
    if value.lstrip()[:1] in ("{", "[", '"'):
        try:
            return Cell(strict(value), "value", double=True)
        except (ValueError, RecursionError):
            return Cell(value, "value", double=True)
    return Cell(value, "value", double=True)


_remembered = lru_cache(maxsize=4096)(_decoded)


def loosened(text: str) -> Any:  # noqa: ANN401 - JSON
    """Returns the value of text that a format always writes as raw text, whatever the value was."""
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return text
    try:
        return strict(text)
    except (ValueError, RecursionError):
        return text


def whole_numbers(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Returns an object of counts with quoted integers as numbers; anything else as it is."""
    if isinstance(value, dict) and any(isinstance(item, str) for item in value.values()):
        return {
            name: int(item) if isinstance(item, str) and item.isascii() and item.isdigit() and len(item) < 25 else item  # noqa: PLR2004 - 64 bits have 20 digits
            for name, item in value.items()
        }
    return value


def is_score_column(value: object) -> bool:
    """Whether this is what exports of the UI write for a score: all its values, whatever else has the name."""
    return isinstance(value, list) and bool(value) and all(item.__class__ in (int, float) for item in value)


def has_not_finite(value: Any) -> bool:  # noqa: ANN401 - JSON
    """Returns whether a number in the value was none, so that only its text is kept."""
    if isinstance(value, NotFinite):
        return True
    if isinstance(value, dict):
        return any(has_not_finite(item) for item in value.values())
    return isinstance(value, list) and any(has_not_finite(item) for item in value)
