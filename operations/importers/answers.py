"""Cuts what an import has to say to what an answer has room for, counted in bytes of its JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TypeVar

ValueT = TypeVar("ValueT")


def size(value: object) -> int:
    """Returns how many bytes `value` takes as compact JSON in UTF-8."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return len(text.encode(errors="surrogatepass"))


def cut(text: str, room: int) -> str:
    """Returns `text`, or the beginning of it that takes at most `room` bytes, with an ellipsis."""
    if len(text) <= room and size(text) <= room:
        return text
    shown = text[:room]
    while (taken := size(shown) + 3) > room and shown:
        shown = shown[: min(len(shown) - 1, len(shown) * room // taken)]
    return f"{shown}…"


def ranked(fields: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """Returns fields with what became of them, those first that were not all kept."""
    order = sorted(fields, key=lambda name: (set(fields[name]) <= {"kept"}, name))
    return {name: dict(fields[name]) for name in order}


def first_texts(texts: Iterable[str], room: int, *, each: int) -> list[str]:
    """Returns the first of `texts` that there is room for, each cut to `each` bytes."""
    shown: list[str] = []
    for text in texts:
        short = cut(text, each)
        room -= size(short) + 1
        if room < 0:
            break
        shown.append(short)
    return shown


def first_items(items: Iterable[tuple[str, ValueT]], room: int, *, each: int) -> dict[str, ValueT]:
    """Returns the first of `items` that there is room for, by name, each name cut to `each` bytes."""
    shown: dict[str, ValueT] = {}
    for name, value in items:
        short = cut(name, each)
        room -= size(short) + size(value) + 2
        if room < 0:
            break
        shown[short] = value
    return shown
