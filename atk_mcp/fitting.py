"""Makes a JSON object fit a number of bytes by cutting its longest parts, and says what was left out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Path = tuple[str, ...]

_NOTE = 64
"""Bytes set aside for one line of `truncated`, besides the field's name."""

_SHORTEST = 64
"""Bytes below which a text is left as it is."""

_MARK = "…"


def fit(value: dict[str, Any], limit: int, *, keep: tuple[str, ...] = ()) -> dict[str, Any]:
    """Returns `value`, cut so that its compact JSON takes at most `limit` bytes.

    The longest lists lose their last items first, then the longest texts their ends, then whole fields
    go. `truncated` maps each field that was cut to what was left out. Fields named in `keep` are touched
    last. A value that fits is returned as it is.
    """
    if _size(value) <= limit:
        return value
    cut: dict[str, Any] = json.loads(json.dumps(value))
    left_out: dict[str, str] = {}
    for kept in (keep, ()):
        for shorten in (_shorten_lists, _shorten_texts, _drop_fields):
            shorten(cut, left_out, limit, kept)
            if _size(_noted(cut, left_out)) <= limit:
                return _noted(cut, left_out)
    return {"truncated": {"result": f"all {_size(value)} bytes left out"}}


def _noted(cut: dict[str, Any], left_out: dict[str, str]) -> dict[str, Any]:
    """Returns the cut value with its note. The note stands before `next`, which stays the end."""
    following = {"next": cut["next"]} if "next" in cut else {}
    return {**{k: v for k, v in cut.items() if k != "next"}, "truncated": left_out, **following}


def _excess(cut: dict[str, Any], left_out: dict[str, str], limit: int) -> int:
    return _size(_noted(cut, left_out)) - limit


def _shorten_lists(cut: dict[str, Any], left_out: dict[str, str], limit: int, keep: tuple[str, ...]) -> None:
    """Takes items off the ends of lists, the longest list first; one item of each stays as a sample."""
    done: set[Path] = set()
    while (excess := _excess(cut, left_out, limit)) > 0:
        lists = {p: n for p, n in _nodes(cut, keep) if isinstance(n, list) and len(n) > 1 and p not in done}
        if not lists:
            return
        path = min(lists, key=lambda p: (-_size(lists[p]), p))
        excess += _NOTE + len(_name(path).encode())
        node, dropped = lists[path], 0
        while len(node) > 1 and excess > 0:
            excess -= _size(node.pop()) + 1
            dropped += 1
        done.add(path)
        left_out[_name(path)] = f"{dropped} item{'' if dropped == 1 else 's'} left out"


def _shorten_texts(cut: dict[str, Any], left_out: dict[str, str], limit: int, keep: tuple[str, ...]) -> None:
    found = [(path, node) for path, node in _nodes(cut, keep) if isinstance(node, str)]
    texts = {path: node for path, node in found if _size(node) > _SHORTEST}
    for path in sorted(texts, key=lambda p: (-_size(texts[p]), p)):
        excess = _excess(cut, left_out, limit)
        if excess <= 0:
            return
        text = texts[path]
        room = max(_SHORTEST, _size(text) - excess - _NOTE - len(_name(path).encode()))
        shorter = _head(text, room)
        _put(cut, path, shorter + _MARK)
        left_out[_name(path)] = f"{len(text) - len(shorter)} characters left out"


def _drop_fields(cut: dict[str, Any], left_out: dict[str, str], limit: int, keep: tuple[str, ...]) -> None:
    for name in sorted(cut, key=lambda n: (-_size(cut[n]), n)):
        if name in keep:
            continue
        if _excess(cut, left_out, limit) <= 0:
            return
        size = _size(cut.pop(name))
        for inner in [x for x in left_out if x == name or x.startswith((f"{name}.", f"{name}["))]:
            del left_out[inner]
        left_out[name] = f"all {size} bytes left out"


def _nodes(value: dict[str, Any], keep: tuple[str, ...]) -> Iterator[tuple[Path, Any]]:
    """Yields every list and text below the fields that are not in `keep`, with its path."""
    waiting: list[tuple[Path, Any]] = [((name,), node) for name, node in value.items() if name not in keep]
    while waiting:
        path, node = waiting.pop()
        yield path, node
        if isinstance(node, dict):
            waiting += [((*path, name), inner) for name, inner in node.items()]
        elif isinstance(node, list):
            waiting += [((*path, f"[{i}]"), inner) for i, inner in enumerate(node)]


def _name(path: Path) -> str:
    return ".".join(path).replace(".[", "[")


def _put(value: Any, path: Path, new: str) -> None:  # noqa: ANN401 - walks any JSON value
    for step in path[:-1]:
        value = value[int(step[1:-1])] if isinstance(value, list) else value[step]
    if isinstance(value, list):
        value[int(path[-1][1:-1])] = new
    else:
        value[path[-1]] = new


def _head(text: str, room: int) -> str:
    """Returns the longest beginning of `text` whose JSON takes at most `room` bytes."""
    low, high = 0, min(len(text), room)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _size(text[:middle]) <= room else (low, middle - 1)
    return text[:low]


def _size(value: object) -> int:
    """Bytes of the value's compact JSON in UTF-8."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
