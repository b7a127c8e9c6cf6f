"""Reads the lines of one Claude Code session: which repeat others, and in which order they were written.

Facts of the format: a line of the conversation has a `uuid` and names the line before it (`parentUuid`, after a
compaction `logicalParentUuid`); an answer of the model is written as several lines with one `message.id`; a resumed
session's file begins with copies of the lines of the one before; a sub-agent's lines are marked `isSidechain` and stand
in the same file or in one of their own. `claude -p --output-format stream-json` prints lines without times, in order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from operations.importers._cells import instant, shown_time
from operations.importers._fields import ValuesConflict
from operations.importers._json_values import dumps, shortened
from operations.importers._tally import Tally

TYPES = frozenset((
    "user", "assistant", "system", "summary", "file-history-snapshot", "queue-operation", "progress", "attachment",
    "custom-title", "ai-title", "last-prompt", "permission-mode", "agent-name", "agent-color", "agent-setting", "mode",
    "pr-link", "result", "tag", "stream_event", "saved_hook_context",
))  # fmt: skip
"""Types of lines whose meaning is known."""

_ANCHORS = ("leafUuid", "messageId")
"""What a line without a time of its own says of the line that it belongs to."""


@dataclass(slots=True, eq=False)
class Line:
    """One line of a session."""

    value: dict[str, Any]
    locator: dict[str, Any]
    copied_from: str | None
    """The session that the line was written in first, where it is a copy."""
    uuid: str = ""
    parent: str = ""
    at: str = ""
    """For sorting: the time in UTC, empty where there is none."""

    @property
    def type(self) -> str:
        """The line's type."""
        found = self.value.get("type")
        return found if isinstance(found, str) else ""

    @property
    def message(self) -> dict[str, Any]:
        """The message that the line carries; empty where it carries none."""
        found = self.value.get("message")
        return found if isinstance(found, dict) else {}

    @property
    def is_side(self) -> bool:
        """Whether a sub-agent wrote it."""
        return self.value.get("isSidechain") is True or bool(self.value.get("parent_tool_use_id"))


def line_of(value: dict[str, Any], locator: dict[str, Any], copied_from: str | None) -> Line:
    """Returns a line with what its order is told by."""
    line = Line(value, locator, copied_from)
    line.uuid = _text(value.get("uuid"))
    line.parent = _text(value.get("parentUuid")) or _text(value.get("logicalParentUuid"))
    snapshot = value.get("snapshot")
    given = value.get("timestamp") or (snapshot.get("timestamp") if isinstance(snapshot, dict) else None)
    when = instant(given)
    line.at = shown_time(when) if when else ""
    return line


def session_of(value: Mapping[str, Any]) -> str | None:
    """Returns the session that a line names."""
    for name in ("sessionId", "session_id"):
        if isinstance(found := value.get(name), str) and found:
            return found
    return None


def identity_of(value: Mapping[str, Any], raw: bytes) -> bytes:
    """Returns what is the same in every copy of a line: its answer's id, else its own, else all that it says."""
    message = value.get("message")
    if value.get("type") == "assistant" and isinstance(message, dict) and (own := _text(message.get("id"))):
        return b"m" + own.encode("utf-8", "surrogatepass")
    if own := _text(value.get("uuid")):
        return b"u" + own.encode("utf-8", "surrogatepass")
    return b"l" + hashlib.sha256(raw).digest()


def is_line(value: Mapping[str, Any]) -> bool:
    """Returns whether a row is a line of Claude Code, by what it holds."""
    kind = _text(value.get("type"))
    if kind in ("user", "assistant"):
        message = value.get("message")
        return isinstance(message, dict) and "content" in message and session_of(value) is not None
    if kind == "summary":
        return "leafUuid" in value
    if kind == "file-history-snapshot":
        return "messageId" in value
    if kind == "result":
        return "session_id" in value and "subtype" in value
    return kind in TYPES and session_of(value) is not None


def ordered(lines: Sequence[Line], tally: Tally, session_id: str) -> list[Line]:
    """Returns the lines in the order in which they were written, each once.

    By time, each after the line that it names as the one before; what has no time stands after the line it is about. A
    stream, which has no times, keeps its order.

    Raises:
        ValuesConflict: Two lines of one `uuid` and one time say different things.
    """
    distinct = _distinct(lines, tally, session_id)
    if not any(line.at for line in distinct):
        return distinct
    timed = sorted((line for line in distinct if line.at), key=lambda line: (line.at, line.uuid or _said(line)))
    found = _parents_first(timed)
    anchored: dict[str, list[Line]] = {}
    places = {line.uuid for line in found if line.uuid}
    for line in distinct:
        if not line.at:
            anchor = next((a for name in _ANCHORS if (a := _text(line.value.get(name))) in places), "")
            anchored.setdefault(anchor or (line.parent if line.parent in places else ""), []).append(line)
    for waiting in anchored.values():
        waiting.sort(key=_said)
    woven: list[Line] = []
    for line in found:
        woven.append(line)
        if line.uuid:
            woven += anchored.get(line.uuid, ())
    return woven + anchored.get("", [])


def _distinct(lines: Sequence[Line], tally: Tally, session_id: str) -> list[Line]:
    places: dict[str, int] = {}
    found: list[Line] = []
    for line in lines:
        key = line.uuid or _said(line)
        if (not line.uuid and "session_id" in line.value) or key not in places:
            places.setdefault(key, len(found))
            found.append(line)
            continue
        other = found[places[key]]
        tally.counts["duplicates_merged"] += 1
        if other.value != line.value:
            if other.at == line.at:
                raise _conflict(other, line, session_id)
            found[places[key]] = max(other, line, key=lambda one: one.at)
    return found


def _conflict(left: Line, right: Line, session_id: str) -> ValuesConflict:
    name = next(n for n in {**left.value, **right.value} if left.value.get(n) != right.value.get(n))
    return ValuesConflict(
        subject=f"session {session_id}: line {left.uuid}",
        field=name,
        left=shortened(left.value.get(name)),
        right=shortened(right.value.get(name)),
        left_place=place_of(left),
        right_place=place_of(right),
    )


def place_of(line: Line) -> str:
    """Returns where a line was read, in words."""
    return f"{line.locator['file']} line {line.locator.get('line', line.locator['row'])}"


def _parents_first(timed: Sequence[Line]) -> list[Line]:
    """Returns lines by time, each after its parent; a circle of parents is cut at its earliest."""
    by_uuid = {line.uuid: line for line in timed if line.uuid}
    done: set[int] = set()
    found: list[Line] = []
    for line in timed:
        chain: dict[int, Line] = {}
        at: Line | None = line
        while at is not None and id(at) not in done and id(at) not in chain:
            chain[id(at)] = at
            at = by_uuid.get(at.parent)
        for one in reversed(chain.values()):
            done.add(id(one))
            found.append(one)
    return found


def _said(line: Line) -> str:
    return dumps(line.value).decode("utf-8", "surrogatepass")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
