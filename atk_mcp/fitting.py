"""Makes a JSON object fit a number of bytes by cutting its longest parts, and says what was left out."""

from __future__ import annotations

import heapq
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


def _note(left_out: dict[str, str], name: str, said: str) -> int:
    """Notes what was left out of a field, and returns by how many bytes that makes the note longer."""
    before = _size(left_out[name]) if name in left_out else None
    longer = _size(said) - before if before is not None else _size(name) + 1 + _size(said) + bool(left_out)
    left_out[name] = said
    return longer


def _shorten_lists(cut: dict[str, Any], left_out: dict[str, str], limit: int, keep: tuple[str, ...]) -> None:
    """Takes items off the ends of lists, the longest list first; one item of each stays as a sample."""
    lists = {path: node for path, node in _nodes(cut, keep) if isinstance(node, list) and len(node) > 1}
    sizes = {path: _size(node) for path, node in lists.items()}
    waiting = [(-size, path) for path, size in sizes.items()]
    heapq.heapify(waiting)
    ends: dict[Path, int] = {}
    excess = _excess(cut, left_out, limit)
    while excess > 0 and waiting:
        size, path = heapq.heappop(waiting)
        if -size != sizes[path] or _gone(path, ends):
            continue  # a list that became shorter waits again, and one in a dropped item is not there any more
        node, name = lists[path], _name(path)
        room, freed, dropped = excess + _NOTE + len(name.encode()), 0, 0
        while len(node) > 1 and freed < room:
            freed += _size(node.pop()) + 1
            dropped += 1
        ends[path] = len(node)
        for outer in (path[:n] for n in range(1, len(path))):
            if outer in lists and outer not in ends:
                sizes[outer] -= freed
                heapq.heappush(waiting, (-sizes[outer], outer))
        excess += _note(left_out, name, f"{dropped} item{'' if dropped == 1 else 's'} left out") - freed


def _gone(path: Path, ends: dict[Path, int]) -> bool:
    """Whether a node was in an item that a list lost; `ends` says how many items each shortened list has."""
    return any(int(path[n][1:-1]) >= ends[path[:n]] for n in range(1, len(path)) if path[:n] in ends)


def _shorten_texts(cut: dict[str, Any], left_out: dict[str, str], limit: int, keep: tuple[str, ...]) -> None:
    texts = {path: node for path, node in _nodes(cut, keep) if isinstance(node, str)}
    sizes = {path: size for path, node in texts.items() if (size := _size(node)) > _SHORTEST}
    excess = _excess(cut, left_out, limit)
    for path in sorted(sizes, key=lambda p: (-sizes[p], p)):
        if excess <= 0:
            return
        text, name = texts[path], _name(path)
        room = max(_SHORTEST, sizes[path] - excess - _NOTE - len(name.encode()))
        shorter = _head(text, room)
        _put(cut, path, shorter + _MARK)
        longer = _note(left_out, name, f"{len(text) - len(shorter)} characters left out")
        excess += _size(shorter + _MARK) - sizes[path] + longer


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
