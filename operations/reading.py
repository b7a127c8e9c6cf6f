"""Shows stored values in pieces that a model can take: long lists are paged, long texts are cut by byte range."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from operations.wording import counted
from storage.errors import AtkError, NextCall

PAGE_BYTES = 5_000
"""Bytes of JSON that one answer shows of a value."""

_INLINE = 700
"""Bytes up to which a field is shown within its object; a longer one is named with its size."""

_NAMES = 30
_NAME = 80
"""How many names of fields are listed, and how many characters of each."""

_DIGITS = 15
"""Digits of the largest number that a cursor or an item's place can be."""


@dataclass(kw_only=True, eq=False)
class NoSuchField(AtkError):
    """The object has no such field."""

    message = "{record_id} has no field {given!r}. Give one that it has: {known}."
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
    """The object whose parts are paged, or the batch, selection or deal that is looked in."""
    given: str
    tool: str = "read_record"

    @property
    def next(self) -> tuple[NextCall, ...]:
        """The call that was made, from its beginning."""
        if self.tool in ("read_record", "inspect_trajectory"):
            return (NextCall(self.tool, {"record_id": self.record_id}),)
        kind = self.record_id.partition("-")[0]
        name = f"{kind}_id" if kind in ("selection", "deal") else "batch_id"
        return (NextCall(self.tool, {name: self.record_id}),)


@dataclass(frozen=True)
class Page:
    """A piece of a value, and where the next one begins: an item's or field's number or a byte, or None at the end."""

    value: Any
    next_cursor: str | None


class Rows(list[Any]):
    """A list whose items are made when they are looked at: a page of a large file costs a page."""

    def __init__(self, raw: Iterable[Any], make: Callable[[Any], Any]) -> None:
        super().__init__(raw)
        self._make = make

    def __iter__(self) -> Iterator[Any]:
        return map(self._make, super().__iter__())

    def __getitem__(self, which: Any) -> Any:  # noqa: ANN401 - a slice stays rows, a number gives an item
        found = super().__getitem__(which)
        return Rows(found, self._make) if isinstance(which, slice) else self._make(found)


def select(record_id: str, value: Any, field: str | None) -> Any:  # noqa: ANN401 - any JSON
    """Returns what `field` names in `value`: names and item numbers, separated by dots; a name may hold dots itself.

    Raises:
        NoSuchField: There is nothing of that name; the error lists what there is.
    """
    parts = field.split(".") if field else []
    while parts:
        taken, value = _step(record_id, value, parts, str(field))
        parts = parts[taken:]
    return value


def _step(record_id: str, value: Any, parts: list[str], field: str) -> tuple[int, Any]:  # noqa: ANN401 - any JSON
    """Returns how many parts name the next value, and that value: of names that fit, the longest."""
    if isinstance(value, dict):
        for taken in range(len(parts), 0, -1):
            if (name := ".".join(parts[:taken])) in value:
                return taken, value[name]
    number = whole_number(parts[0])
    if isinstance(value, list) and number is not None and number < len(value):
        return 1, value[number]
    known: Iterable[str] = ()
    if isinstance(value, dict):
        known = list(value)[:_NAMES]
    elif isinstance(value, list) and value:
        known = [f"0 to {len(value) - 1}"]
    raise NoSuchField(record_id=record_id, given=field[: 2 * _NAME], known=[_clean(str(k))[:_NAME] for k in known])


def whole_number(text: str) -> int | None:
    """Returns what `text` counts in ASCII digits, or None."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else None


def page(record_id: str, value: Any, cursor: str | None, tool: str = "read_record") -> Page:  # noqa: ANN401 - any JSON
    """Returns the piece of `value` that begins at `cursor`, as JSON of at most about `PAGE_BYTES`.

    Half a surrogate pair, which no UTF-8 can carry, is shown as U+FFFD. `tool` shows the value, or some object that it
    is of, by `record_id`.

    Raises:
        BadCursor: The cursor is no number, or lies beyond the end.
    """
    start = _start(record_id, value, cursor, tool)
    if isinstance(value, list):
        return _items(value, start)
    if isinstance(value, str):
        return _text(value, start)
    if isinstance(value, dict):
        return _fields(value, start)
    return Page(_short(value), None)


def outline(value: dict[str, Any]) -> dict[str, Any]:
    """Returns an object with its long fields replaced by what they are and how to get them."""
    return {_clean(name): _short(found) for name, found in value.items()}


def _short(found: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(found, Rows):
        return {"left_out": f"{counted(len(found), 'item')}: ask for this field"} if found else []
    size = _size(found)
    if size <= _INLINE:
        return _cleaned(found)
    if isinstance(found, list):
        return {"left_out": f"{counted(len(found), 'item')}, {size} bytes: ask for this field"}
    if isinstance(found, str):
        return {"begins": _clean(found[:300]), "left_out": f"{len(_bytes(found))} bytes in all: ask for this field"}
    if isinstance(found, dict):
        names = [_clean(str(name))[:_NAME] for name in list(found)[: _NAMES // 2]]
        return {"fields": names, "left_out": f"{counted(len(found), 'field')}, {size} bytes: ask for this field"}
    return {"left_out": f"a number of {size} digits"}


def _start(record_id: str, value: Any, cursor: str | None, tool: str) -> int:  # noqa: ANN401 - any JSON
    if cursor is None:
        return 0
    end = len(_bytes(value)) if isinstance(value, str) else len(value) if isinstance(value, list | dict) else 0
    number = whole_number(cursor)
    if number is None or number >= max(1, end):
        raise BadCursor(record_id=record_id, given=cursor[: 2 * _NAME], tool=tool)
    return number


def _items(value: list[Any], start: int) -> Page:
    shown: list[Any] = []
    size = 0
    for item in value[start:]:
        short = outline(item) if isinstance(item, dict) else _short(item)
        if _size(short) > PAGE_BYTES:
            short = _short(item)
        size += _size(short) + 1
        if shown and size > PAGE_BYTES:
            break
        shown.append(short)
    end = start + len(shown)
    return Page(shown, str(end) if end < len(value) else None)


def _fields(value: dict[str, Any], start: int) -> Page:
    shown: dict[str, Any] = {}
    size = 0
    for name, found in list(value.items())[start:]:
        one = outline({name: found})
        size += _size(one)
        if shown and size > PAGE_BYTES:
            break
        shown |= one
    end = start + len(shown)
    return Page(shown, str(end) if end < len(value) else None)


def _text(value: str, start: int) -> Page:
    data = _bytes(value)
    end = min(len(data), start + PAGE_BYTES)
    while (size := _size(data[start:end].decode(errors="replace"))) > PAGE_BYTES + 2:
        end = start + max(4, (end - start) * PAGE_BYTES // size)
    while end < len(data) and end > start and data[end] & 0xC0 == 0x80:  # noqa: PLR2004 - not within a character
        end -= 1
    return Page(data[start:end].decode(errors="replace"), str(end) if end < len(data) else None)


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _size(value: object) -> int:
    """Bytes of the value's compact JSON in UTF-8."""
    return len(_bytes(json.dumps(value, ensure_ascii=False, separators=(",", ":"))))


def _clean(text: str) -> str:
    return text if text.isascii() else _bytes(text).decode(errors="replace")


def _cleaned(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, dict):
        return {_clean(name): _cleaned(found) for name, found in value.items()}
    return value
