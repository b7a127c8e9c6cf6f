"""Reads what an agent left in its folder, bounded, as bytes or JSON.

The agent may have put anything there: links, pipes, devices, text that is not UTF-8, JSON without an end.
"""

from __future__ import annotations

import json
import os
import re
import stat
from typing import Any

from operations.trajectories.log import verified
from storage.frames import canonical

SIDE_FILE_BYTES = 1024 * 1024
"""The largest `loading.json` or `metrics.json` that is read."""
EVENTS = "events.jsonl"
EVENTS_BYTES = 4 * 1024 * 1024
"""How much of `events.jsonl` is read, from its beginning,"""
EVENTS_LINES = 100_000
"""and how many lines of it: the supervisor reads for all attempts, and lines of nothing take it as long as others."""
_METRICS = ("cost", "tool_calls")
_SOURCE_CHARACTERS = 200
_CHAINED = re.compile(rb"[0-9a-f]{64} \{")

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Unusable(ValueError):
    """A file that cannot be used; says why."""


def read(folder: str, name: str, limit: int, *, from_end: bool = False) -> bytes | None:
    """Returns up to `limit` bytes of a regular file in `folder`, or None when there is no file of this name.

    Raises:
        Unusable: It is something else, or the folder is.
    """
    try:
        at = os.open(folder, _FOLDER)
        try:
            handle = os.open(name, _FILE, dir_fd=at)
        finally:
            os.close(at)
    except FileNotFoundError:
        return None
    except OSError as trouble:
        raise Unusable(f"it cannot be opened ({trouble.strerror})") from trouble
    about = os.fstat(handle)
    if not stat.S_ISREG(about.st_mode):
        os.close(handle)
        raise Unusable("it is not a regular file")
    with open(handle, "rb") as file:
        if from_end:
            file.seek(max(0, about.st_size - limit))
        return file.read(limit)


def loading(folder: str) -> list[dict[str, Any]] | None:
    """Returns the events of `loading.json`, or None when the agent wrote none.

    Raises:
        Unusable: It is not a list of JSON objects.
    """
    found = _json(folder, "loading.json")
    if found is None:
        return None
    if not isinstance(found[0], list) or not all(isinstance(event, dict) for event in found[0]):
        raise Unusable("it is not a list of objects")
    return found[0]


def metrics(folder: str) -> dict[str, float]:
    """Returns the known metrics of `metrics.json`; empty when the agent wrote none.

    Raises:
        Unusable: It is not an object, or a known metric is not a number of 0 or more.
    """
    found = _json(folder, "metrics.json")
    if found is None:
        return {}
    if not isinstance(found[0], dict):
        raise Unusable("it is not an object")
    known = {name: found[0][name] for name in _METRICS if found[0].get(name) is not None}
    for name, value in known.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise Unusable(f"{name} is not a number of 0 or more")
    return {name: _float(value) for name, value in known.items()}


def metric_sources(folder: str) -> dict[str, str]:
    """Returns who measured the metrics of `metrics.json`, as its `sources` says; empty where it says nothing.

    Raises:
        Unusable: It is not an object, or a source is no short text.
    """
    found = _json(folder, "metrics.json")
    named = found[0].get("sources") if found is not None and isinstance(found[0], dict) else None
    if named is None:
        return {}
    if not isinstance(named, dict):
        raise Unusable("sources is not an object")
    known = {name: named[name] for name in _METRICS if name in named}
    for name, source in known.items():
        if not isinstance(source, str) or not 0 < len(source) <= _SOURCE_CHARACTERS:
            raise Unusable(f"the source of {name} is no text of 1 to {_SOURCE_CHARACTERS} characters")
        if source == "supervisor":
            raise Unusable(f"the source of {name} is supervisor, which is ATK's own")
    return known


def events(folder: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns the events of `events.jsonl`, one JSON object to a line, and sentences about what is not used of it.

    An EventLog may be written as its chained lines: they are taken up to the first that is not what was written there.

    Raises:
        Unusable: It is not a regular file.
    """
    data = read(folder, EVENTS, EVENTS_BYTES + 1)
    if data is None:
        return [], []
    notes: list[str] = []
    if len(data) > EVENTS_BYTES:
        data = data[: data.rfind(b"\n", 0, EVENTS_BYTES) + 1]
        notes.append(f"{EVENTS} is larger than {EVENTS_BYTES} bytes; the events that begin after that are not used.")
    if data.count(b"\n", 0, len(data) - 1) >= EVENTS_LINES:
        data = b"\n".join(data.split(b"\n", EVENTS_LINES)[:EVENTS_LINES]) + b"\n"
        notes.append(f"{EVENTS} has more than {EVENTS_LINES} lines; the events after that are not used.")
    if _CHAINED.match(data):
        return _chained(data, notes)
    found: list[dict[str, Any]] = []
    bad: list[tuple[int, str]] = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            found.append(_event(line))
        except Unusable as why:
            bad.append((number, str(why)))
    if bad:
        number, reason = bad[0]
        some = (
            f"1 line of {EVENTS} is not used: it"
            if len(bad) == 1
            else f"{len(bad)} lines of {EVENTS} are not used; the first"
        )
        notes.append(f"{some} is line {number}: {reason}.")
    return found, notes


def _chained(data: bytes, notes: list[str]) -> tuple[list[dict[str, Any]], list[str]]:
    found: list[dict[str, Any]] = []
    try:
        whole = verified(data.split(b"\n")[: data.count(b"\n")])  # what has no line feed was not written whole
        found.extend(_event(json.dumps(body.get("event", body)).encode()) for body in whole)
    except ValueError as why:
        notes.append(f"{EVENTS} is used up to a line that is wrong: {why}.")
    return found, notes


def _event(line: bytes) -> dict[str, Any]:
    value = _value(line)
    if not isinstance(value, dict):
        raise Unusable("it is not an object")
    return value


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError as large:
        raise Unusable("it has a number that is too large") from large


def _json(folder: str, name: str) -> tuple[Any] | None:
    """Returns the value of a JSON file that the store can hold, in a tuple, since the value may be null."""
    data = read(folder, name, SIDE_FILE_BYTES + 1)
    if data is None:
        return None
    if len(data) > SIDE_FILE_BYTES:
        raise Unusable(f"it is larger than {SIDE_FILE_BYTES} bytes")
    return (_value(data),)


def _value(data: bytes) -> Any:  # noqa: ANN401 - JSON
    try:
        value = json.loads(data)
        json.dumps(value, ensure_ascii=False).encode()
        canonical(value)
    except UnicodeError as broken:
        raise Unusable("it is not UTF-8 text") from broken
    except json.JSONDecodeError as broken:
        raise Unusable(f"it is not JSON (line {broken.lineno}, column {broken.colno})") from broken
    except RecursionError as broken:
        raise Unusable("it is nested too deeply") from broken
    except ValueError as broken:
        raise Unusable("it has a number that is infinite, not a number or too long") from broken
    return value
