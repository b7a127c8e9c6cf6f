"""Shows stored values in pieces that a model can take: long lists are paged, long texts are cut by byte range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from storage.errors import AtkError, NextCall
from storage.frames import canonical

PAGE_BYTES = 5_000
"""Bytes of JSON that one answer shows of a value."""

_INLINE = 700
"""Bytes up to which a field is shown within its object; a longer one is named with its size."""


@dataclass(kw_only=True, eq=False)
class NoSuchField(AtkError):
    """The object has no such field."""

    message = "{record_id} has no field {given!r}. Fields there: {known}."
    next_calls = (NextCall("read_record", {"record_id": "{record_id}"}),)

    record_id: str
    given: str
    known: list[str]


@dataclass(kw_only=True, eq=False)
class BadCursor(AtkError):
    """The cursor is not one that was handed out."""

    message = "cursor {given!r} is none of {record_id}'s. Take next_cursor from the last answer, or leave it out."
    next_calls = (NextCall("read_record", {"record_id": "{record_id}"}),)

    record_id: str
    given: str


@dataclass(frozen=True)
class Page:
    """A piece of a value, and where the next one begins: an item's number or a byte, or None at the end."""

    value: Any
    next_cursor: str | None


def select(record_id: str, value: Any, field: str | None) -> Any:  # noqa: ANN401 - any JSON
    """Returns what `field` names in `value`: names and item numbers, separated by dots.

    Raises:
        NoSuchField: There is nothing of that name; the error lists what there is.
    """
    for part in field.split(".") if field else ():
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            known = (
                list(value)[:30]
                if isinstance(value, dict)
                else [f"0 to {len(value) - 1}"]
                if isinstance(value, list)
                else []
            )
            raise NoSuchField(record_id=record_id, given=str(field), known=[str(k) for k in known])
    return value


def page(record_id: str, value: Any, cursor: str | None) -> Page:  # noqa: ANN401 - any JSON
    """Returns the piece of `value` that begins at `cursor`.

    Raises:
        BadCursor: The cursor is no number, or lies beyond the end.
    """
    start = _start(record_id, value, cursor)
    if isinstance(value, list):
        return _items(value, start)
    if isinstance(value, str):
        return _text(value, start)
    if isinstance(value, dict):
        return Page(outline(value), None)
    return Page(value, None)


def outline(value: dict[str, Any]) -> dict[str, Any]:
    """Returns an object with its long fields replaced by what they are and how to get them."""
    return {name: _short(found) for name, found in value.items()}


def _short(found: Any) -> Any:  # noqa: ANN401 - any JSON
    size = len(canonical(found))
    if size <= _INLINE:
        return found
    if isinstance(found, list):
        return {"left_out": f"{len(found)} items, {size} bytes: ask for this field"}
    if isinstance(found, str):
        return {"begins": found[:300], "left_out": f"{len(found.encode())} bytes in all: ask for this field"}
    return {"fields": list(found)[:30], "left_out": f"{size} bytes: ask for this field"}


def _start(record_id: str, value: Any, cursor: str | None) -> int:  # noqa: ANN401 - any JSON
    if cursor is None:
        return 0
    end = len(value.encode()) if isinstance(value, str) else len(value) if isinstance(value, list) else 0
    if not cursor.isdigit() or int(cursor) >= max(1, end):
        raise BadCursor(record_id=record_id, given=cursor)
    return int(cursor)


def _items(value: list[Any], start: int) -> Page:
    shown: list[Any] = []
    size = 0
    for item in value[start:]:
        short = outline(item) if isinstance(item, dict) else _short(item)
        size += len(canonical(short)) + 1
        if shown and size > PAGE_BYTES:
            break
        shown.append(short)
    end = start + len(shown)
    return Page(shown, str(end) if end < len(value) else None)


def _text(value: str, start: int) -> Page:
    data = value.encode()
    end = min(len(data), start + PAGE_BYTES)
    while end < len(data) and end > start and data[end] & 0xC0 == 0x80:  # noqa: PLR2004 - not within a character
        end -= 1
    return Page(data[start:end].decode(errors="replace"), str(end) if end < len(data) else None)
