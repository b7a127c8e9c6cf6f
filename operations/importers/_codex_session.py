"""Puts a Codex session together from its lines: their order, its turns, what it was asked and what it answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from operations.importers._codex_events import EventReader, is_context
from operations.importers._codex_lines import Line, ancestors_named, read_line, session_named
from operations.importers._codex_usage import Usage
from operations.importers._fields import ValuesConflict
from operations.importers._json_values import dumps, shortened
from operations.importers._session_log import NOT_EXPORTED, content_of, message_of, times_of
from operations.importers._tally import Tally

_STARTS = frozenset(("task_started", "turn_started"))
_ENDS = frozenset(("task_complete", "turn_complete", "turn_aborted"))


class Session:
    """One session. Give it every line, then ask for its record once."""

    def __init__(self, namespace: str, tally: Tally) -> None:
        self._namespace = namespace
        self._tally = tally
        self._files: dict[int, list[Line]] = {}

    def take(self, file: int, name: str, row: int, line_number: int | None, value: Mapping[str, Any]) -> None:
        """Takes one line, masked, with the place at which it was read."""
        line = read_line(value)
        line.locator = {"file": name, "row": row} | ({} if line_number is None else {"line": line_number})
        self._files.setdefault(file, []).append(line)

    def record(self, session_id: str | None) -> dict[str, Any]:
        """Returns the session as `ImportedRecord` takes it.

        Raises:
            ValuesConflict: Two lines of one place in the session say different things.
        """
        missing: list[str] = []
        lines = self._ordered(session_id, missing)
        _number_turns(lines)
        usage = Usage(lines)
        reader = EventReader(self._tally, usage)
        events = reader.events(lines)
        heads = [line for line in lines if session_named(line) is not None]
        counts = self._tally.counts
        counts["sessions"] += 1
        counts["turns"] += len({line.turn for line in lines if line.turn is not None})
        head = heads[0] if heads else None
        found: dict[str, Any] = {
            "source": {"namespace": self._namespace, "trace_id": session_id},
            "trace_row": head is not None,
            "locators": [(head or lines[0]).locator],
            **times_of(_began(head, lines)),
        }
        if session_id is None:
            missing.append("session_id")
        if head is None:
            missing.append("trace_row")
        else:
            self._head(head, heads[1:], found, missing)
        found["input"] = _first_message(events)
        found["output"] = _answer(lines, events)
        found["log"] = {"events": events, **_end(lines)}
        if usage.metrics:
            found["metrics"] = usage.metrics
        found.setdefault("runtime_metadata", {}).update(usage.sources)
        for field in ("input", "output"):
            known = found[field]["status"] in ("value", "empty")
            self._tally.outcome(f"session.{field}", "kept" if known else "unknown")
            if not known:
                missing.append(f"trace_{field}")
        named = any("name" in event.get("model", ()) for event in events)
        self._tally.outcome("session.model", "kept" if named else "unknown")
        self._tally.outcome("session.usage", "kept" if usage.metrics else "unknown")
        self._tally.outcome("session.time", "kept" if "at" in found else "unknown")
        if missing:
            found["missing"] = missing
        return found

    def _head(self, head: Line, copied: Sequence[Line], found: dict[str, Any], missing: list[str]) -> None:
        payload = {k: v for k, v in head.payload.items() if k not in ("id", "thread_id", "timestamp")}
        found["runtime_metadata"] = payload | ({"line": head.rest} if head.rest else {})
        if isinstance(parent := payload.get("session_id"), str) and parent:
            found["source"]["session_id"] = parent
        forked = head.payload.get("forked_from_id")
        if forked is not None and not copied:
            missing.append("forked_history")
            self._tally.warn("a fork goes on from a session that its file does not repeat", f"session {forked}"[:80])
        elif copied and ancestors_named(head):
            missing.append("fork_boundary")
            self._tally.warn("a fork repeats the session that it goes on from", f"{head.locator['file']}"[:120])

    # -- order ---------------------------------------------------------------------------------------------------------

    def _ordered(self, session_id: str | None, missing: list[str]) -> list[Line]:
        """Returns the lines in the order in which they were written, each once."""
        files = self._without_streams(list(self._files.values()))
        if all(line.ordinal is not None for lines in files for line in lines):
            return self._by_ordinal(files, session_id)
        if len(files) == 1:
            return files[0]
        files.sort(key=lambda lines: (lines[0].at or "", -len(lines), [_said(line) for line in lines]))
        if any(lines[0].at is None for lines in files):
            missing.append("order_of_files")
            self._tally.warn("nothing says which file of a session came first", f"session {session_id}"[:80])
        return self._merged(files)

    def _without_streams(self, files: list[list[Line]]) -> list[list[Line]]:
        """Leaves out what `codex exec --json` printed of a session whose rollout is there: that says more."""
        rollouts = [lines for lines in files if any(line.kind != "exec" for line in lines)]
        if not rollouts or len(rollouts) == len(files):
            return files
        left = sum(len(lines) for lines in files) - sum(len(lines) for lines in rollouts)
        self._tally.counts["lines_left_out"] += left
        self._tally.outcome("line.stream", "lossy", left)
        self._tally.warn("the stream of a session whose rollout is there was left out", f"{left} lines")
        return rollouts

    def _merged(self, files: Sequence[list[Line]]) -> list[Line]:
        """Returns the lines of files one after another; those that an earlier one holds already are copies."""
        found: list[Line] = []
        times: dict[bytes, int] = {}
        whole: set[tuple[bytes, ...]] = set()
        for lines in files:
            said_here = tuple(_said(line) for line in lines)
            mine: dict[bytes, int] = {}
            for line, said in zip(lines, said_here, strict=True):
                mine[said] = mine.get(said, 0) + 1
                copied = said_here in whole or (line.at is not None and mine[said] <= times.get(said, 0))
                if copied:
                    self._tally.counts["duplicates_merged"] += 1
                else:
                    found.append(line)
            whole.add(said_here)
            for said, count in mine.items():
                times[said] = max(count, times.get(said, 0))
        return found

    def _by_ordinal(self, files: Sequence[Sequence[Line]], session_id: str | None) -> list[Line]:
        lines = [line for file in files for line in file]
        lines.sort(key=lambda line: (line.ordinal or 0, line.locator["file"], line.locator["row"]))
        found: list[Line] = []
        for line in lines:
            last = found[-1] if found else None
            if last is None or last.ordinal != line.ordinal:
                found.append(line)
            elif _said(last) == _said(line):
                self._tally.counts["duplicates_merged"] += 1
            else:
                raise ValuesConflict(
                    subject=f"session {session_id}",
                    field=f"ordinal {line.ordinal}",
                    left=shortened(last.payload),
                    right=shortened(line.payload),
                    left_place=_place(last),
                    right_place=_place(line),
                )
        return found


def _said(line: Line) -> bytes:
    return dumps([line.kind, line.at, line.payload, line.rest])


def _place(line: Line) -> str:
    return f"{line.locator['file']} line {line.locator.get('line', line.locator['row'])}"


def _number_turns(lines: Sequence[Line]) -> None:
    """Numbers the turns from 0: by their ids, else by what opens one; lines before the first have none."""
    marked = any(_opens(line) or _turn_id(line) for line in lines)
    numbers: dict[str, int] = {}
    current: int | None = None
    for place, line in enumerate(lines):
        named = _turn_id(line)
        if named is not None:
            current = numbers.setdefault(named, len(numbers))
        elif _opens(line) or (not marked and is_request(line)):
            current = numbers.setdefault(f"#{place}", len(numbers))
        line.turn = current


def is_request(line: Line) -> bool:
    """Returns whether a line of the model's history is something that the person asked."""
    if line.kind != "response_item" or line.type != "message" or line.payload.get("role") != "user":
        return False
    return not is_context(line.payload)


def _opens(line: Line) -> bool:
    return (line.kind == "event_msg" and line.type in _STARTS) or (line.kind == "exec" and line.type == "turn.started")


def _turn_id(line: Line) -> str | None:
    inner = line.payload.get("internal_chat_message_metadata_passthrough")
    for holder in (line.payload, inner):
        found = holder.get("turn_id") if isinstance(holder, dict) else None
        if isinstance(found, str) and found:
            return found
    return None


def _began(head: Line | None, lines: Sequence[Line]) -> Any:  # noqa: ANN401 - JSON
    stated = head.payload.get("timestamp") if head is not None else None
    return stated or lines[0].at


def _first_message(events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    for event in events:
        if event["kind"] == "text" and event["role"] == "user" and not event.get("attributes", {}).get("context"):
            return {**event["content"], "source": f"event:{event['id']}"}
    return dict(NOT_EXPORTED)


def _answer(lines: Sequence[Line], events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the last message of the agent in the last turn; what the end of the turn itself says of it counts."""
    turn = max((line.turn for line in lines if line.turn is not None), default=None)
    ends = [line for line in lines if line.kind == "event_msg" and line.type in _ENDS and line.turn == turn]
    said = [e for e in events if e["kind"] == "text" and e["role"] == "assistant" and e.get("turn") == turn]
    stated = ends[-1].payload.get("last_agent_message") if ends else None
    last = said[-1] if said else None
    if isinstance(stated, str) and stated and (last is None or last["content"].get("value") != stated):
        return {**content_of(stated), "source": f"turn:{turn}"}
    if last is not None:
        return {**last["content"], "source": f"event:{last['id']}"}
    return {"status": "null"} if ends and "last_agent_message" in ends[-1].payload else dict(NOT_EXPORTED)


def _end(lines: Sequence[Line]) -> dict[str, Any]:
    """Returns how the last turn ended, as `EventLog` says it."""
    for line in reversed(lines):
        if _opens(line):
            return {"state": "unknown", "end_reason": "the last turn has no end in the file"}
        if line.kind == "event_msg" and line.type == "turn_aborted":
            reason = line.payload.get("reason")
            state = "interrupted" if reason in (None, "interrupted") else "cancelled"
            return {"state": state, "end_reason": None if reason is None else str(reason)}
        if line.kind == "event_msg" and line.type in _ENDS:
            error = line.payload.get("error")
            return {"state": "failed", "end_reason": message_of(error)} if error else {"state": "completed"}
        if line.kind == "exec" and line.type == "turn.failed":
            return {"state": "failed", "end_reason": message_of(line.payload.get("error"))}
        if line.kind == "exec" and line.type == "turn.completed":
            return {"state": "completed"}
    return {"state": "unknown"}
