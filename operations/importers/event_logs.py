"""The EventLog of a stored Record, whether it was imported or run.

An import stores the log itself. A run stores what the agent wrote to its events file, as it wrote it; the log is read
from that, so that a better reader serves older runs too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from operations.importers import _codex_session
from operations.importers._claude_lines import line_of, session_of
from operations.importers._claude_session import record_of
from operations.importers._json_values import is_deep
from operations.importers._rows import MAX_DEPTH
from operations.importers._session_log import content_of
from operations.importers._tally import Tally
from operations.trajectories.form import KINDS, STATUSES, problem_of
from operations.trajectories.log import EventLog, LogProblem
from operations.trajectories.settling import settled
from storage.errors import AtkError, NextCall

EVENTS_FILE = "events.jsonl"
"""What locators of a run's events name."""

_CONTENTS = ("content", "arguments", "input", "output", "prompt")
_STATES = {
    "completed": "completed",
    "agent_error": "failed",
    "infra_error": "failed",
    "timeout": "interrupted",
    "cancelled": "cancelled",
}
"""Status of an Execution → how its run ended."""


@dataclass(kw_only=True, eq=False)
class LogNotWhole(AtkError):
    """An imported log breaks a rule of this version: another version of ATK stored it."""

    message = (
        "The log of {record_id} cannot be used: {problem}. Import the export again; the Record itself stays readable."
    )
    next_calls = (NextCall("read_record", {"record_id": "{record_id}", "field": "log"}),)

    record_id: str
    problem: str


def log_of(record: Mapping[str, Any]) -> EventLog:
    """Returns the log of a Record, as it is stored or may be shown.

    Of a run: an EventLog that the agent wrote, events of the eight kinds with bare or full contents, and the streams of
    Codex (`codex exec --json`) and Claude Code (`stream-json`) are read as what they are. A line that is none of them
    becomes an observation that holds it whole. Where the agent's own end is not known, the Execution's status is.

    Raises:
        LogNotWhole: The log of an import is not what this version stores.
    """
    if "execution" not in record:
        try:
            return EventLog.from_stored(record.get("log") or {})
        except LogProblem as problem:
            raise LogNotWhole(record_id=str(record.get("id")), problem=str(problem)) from problem
    execution = record["execution"]
    status = execution["status"]
    end = {"state": _STATES.get(status, "unknown"), "end_reason": execution.get("error")}
    if end["end_reason"] is None and end["state"] not in ("completed", "unknown"):
        end["end_reason"] = status
    given = [*record.get("events", ())]
    if not any(is_deep(one, MAX_DEPTH) for one in given):
        if (own := _own(given, end)) is not None:
            return own
        if (streamed := _streamed(given)) is not None:
            return EventLog.from_stored({**streamed, **end})
    return EventLog.from_stored({**end, "events": settled(_Reader().events(given))})


def _own(given: Sequence[Mapping[str, Any]], end: Mapping[str, Any]) -> EventLog | None:
    """Returns the log that the agent wrote as one, or None."""
    if not given or "format" not in given[0] or given[0].keys() - {"format", "tools"}:
        return None
    events, said = [*given[1:]], {**end}
    if events and events[-1].keys() == {"end"}:
        told = events.pop()["end"]
        if end["state"] == "completed" and isinstance(told, Mapping):
            said = {"state": told.get("state"), "end_reason": told.get("reason")}
    try:
        return EventLog.from_stored({**given[0], **said, "events": events})
    except LogProblem:  # cut, or written by another program: read line by line like any other file
        return None


def _streamed(given: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Returns the log of a coding agent's stream, or None where it is not one."""
    try:
        if any(one.get("type") == "thread.started" for one in given):
            session = _codex_session.Session("run", Tally())
            for number, one in enumerate(given, 1):
                session.take(0, EVENTS_FILE, number, None, one)
            return dict(session.record(None)["log"])
        heads = [one for one in given if one.get("type") == "system" and one.get("subtype") == "init"]
        if heads:
            lines = [line_of(dict(one), _place(number), None) for number, one in enumerate(given, 1)]
            return dict(record_of(session_of(heads[0]) or "run", "run", lines, Tally())["log"])
    except AtkError:  # two lines contradict each other: no reading of them is better than another
        return None
    return None


class _Reader:
    """Reads events of the eight kinds, and keeps everything else as observations."""

    def __init__(self) -> None:
        self._waiting: list[dict[str, Any]] = []
        """Calls without an id of the agent's that have no result yet."""

    def events(self, given: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Returns the events, as `settled` takes them."""
        return [self._event(one, number) for number, one in enumerate(given, 1)]

    def _event(self, one: Mapping[str, Any], number: int) -> dict[str, Any]:
        kind = one.get("kind")
        why = None
        if is_deep(one, MAX_DEPTH):
            why = f" nests deeper than {MAX_DEPTH}; the Record has it whole"
        elif isinstance(kind, str) and kind in KINDS:
            event = {k: v for k, v in one.items() if k not in ("seq", "unpaired", "parent_outside")}
            event |= {name: _content(event[name]) for name in _CONTENTS if name in event and name in _HELD[kind]}
            event.setdefault("locator", _place(number))
            self._name_call(event, number)
            why = problem_of({"seq": 0, "id": "", **event}) or _unfit_reward(event)
            if why is None:
                return event
        made: dict[str, Any] = {"kind": "observation", "type": _text(one.get("type")) or _text(kind)}
        made |= {"name": _text(one.get("name")), "locator": _place(number)}
        made |= {"input": {"status": "not_exported"}}
        made |= {"output": {"status": "unparsable"} if is_deep(one, MAX_DEPTH) else content_of(dict(one))}
        return made | ({} if why is None else {"attributes": {"problem": f"the event{why}"}})

    def _name_call(self, event: dict[str, Any], number: int) -> None:
        """Gives a call without an id one; a result without an id answers it where no other such call waits."""
        if event["kind"] == "tool_call":
            event.setdefault("name", None)
            if "call_id" not in event:
                event["call_id"] = f"call-{number}"
                self._waiting.append(event)
        elif event["kind"] == "tool_result" and "call_id" not in event:
            waiting = self._waiting
            same = len(waiting) == 1 and event.get("name") in (None, waiting[0]["name"])
            event["call_id"] = waiting.pop()["call_id"] if same else f"call-{number}"


def _content(value: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    if isinstance(value, Mapping) and value.get("status") in STATUSES and not value.keys() - {"status", "value"}:
        return dict(value)
    return content_of(value)


def _unfit_reward(event: Mapping[str, Any]) -> str | None:
    lacks = {"turn": "turn", "step": "parent"}.get(str(event.get("scope")))
    if event["kind"] != "reward" or lacks is None or event.get(lacks) is not None:
        return None
    return f", a reward for a {event['scope']}, lacks {lacks}"


def _place(number: int) -> dict[str, Any]:
    return {"file": EVENTS_FILE, "row": number}


def _text(value: Any) -> str | None:  # noqa: ANN401 - JSON
    return value if isinstance(value, str) else None


_HELD = {
    "text": ("content", "prompt"),
    "reasoning": ("content",),
    "tool_call": ("arguments",),
    "tool_result": ("content",),
    "observation": ("input", "output"),
    "turn_complete": (),
    "reward": (),
    "memory_op": ("content",),
}
