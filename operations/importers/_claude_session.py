"""Makes the record of one Claude Code session: what it was asked and answered, what it cost, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from operations.importers._claude_events import ENVELOPE, EventReader
from operations.importers._claude_lines import Line, ordered, place_of
from operations.importers._claude_messages import Message
from operations.importers._json_values import dumps
from operations.importers._scores import number_of
from operations.importers._session_log import NOT_EXPORTED, added, content_of, message_of, numbers_of, times_of
from operations.importers._tally import Tally
from operations.importers._tool_lists import name_tools

_TITLES = (("custom-title", "customTitle"), ("ai-title", "aiTitle"))
_MEASURED = ("total_cost_usd", "duration_ms", "duration_api_ms", "num_turns")
_ENDED = frozenset(("end_turn", "stop_sequence"))


def record_of(session_id: str, namespace: str, given: Sequence[Line], tally: Tally) -> dict[str, Any]:
    """Returns the session as `ImportedRecord` takes it.

    Raises:
        ValuesConflict: Two lines of one `uuid` and one time say different things.
    """
    lines = ordered(_without_stream(given, tally), tally, session_id)
    envelope, varied = _envelope(lines)
    reader = EventReader(lines, tally, varied)
    events = reader.events()
    messages = list(reader.messages.values())
    missing = _missing(lines, tally)
    found: dict[str, Any] = {
        "source": {"namespace": namespace, "trace_id": session_id},
        "trace_row": False,
        "locators": [lines[0].locator],
        **times_of(next((line.value.get("timestamp") for line in lines if line.at), None)),
        "input": _asked(events),
        "output": _answered(lines, events),
        "log": name_tools({"events": events, **_end(lines, events)}),
        "metrics": _metrics(lines, messages),
        "runtime_metadata": envelope,
    }
    if (name := _title(lines)) is not None:
        found["name"] = name
    copied = sorted({line.copied_from for line in lines if line.copied_from is not None})
    if copied:
        envelope["copied_from"] = copied
        tally.counts["lines_copied"] += sum(line.copied_from is not None for line in lines)
    tally.counts["sessions"] += 1
    tally.counts["model_calls"] += sum(_is_own(message) for message in messages)
    for field in ("input", "output"):
        known = found[field]["status"] in ("value", "empty")
        tally.outcome(f"session.{field}", "kept" if known else "unknown")
        if not known:
            missing.append(f"trace_{field}")
    tally.outcome("session.model", "kept" if any(message.model for message in messages) else "unknown")
    tally.outcome("session.usage", "kept" if any(message.usage for message in messages) else "unknown")
    tally.outcome("session.time", "kept" if "at" in found else "unknown")
    return found | ({"missing": missing} if missing else {})


def _without_stream(lines: Sequence[Line], tally: Tally) -> Sequence[Line]:
    """Leaves out what the stream printed of a session whose file is there: that says more. The stream's end stays."""
    streamed = [line for line in lines if "session_id" in line.value and line.type != "result"]
    if not streamed or len(streamed) == len(lines) or not any("sessionId" in line.value for line in lines):
        return lines
    tally.counts["lines_left_out"] += len(streamed)
    tally.outcome("line.stream", "lossy", len(streamed))
    tally.warn("the stream of a session whose file is there was left out", f"{len(streamed)} lines")
    left = {id(line) for line in streamed}
    return [line for line in lines if id(line) not in left]


def _envelope(lines: Sequence[Line]) -> tuple[dict[str, Any], list[str]]:
    """Returns what the lines agree on, with the values of what they do not, and the names of the latter."""
    found: dict[str, Any] = {}
    varied: list[str] = []
    for name in ENVELOPE:
        values = list({dumps(line.value[name]): line.value[name] for line in lines if name in line.value}.values())
        if len(values) == 1:
            found[name] = values[0]
        elif values:
            found[name] = values
            varied.append(name)
    return found, varied


def _missing(lines: Sequence[Line], tally: Tally) -> list[str]:
    known = {line.uuid for line in lines}
    lost = [line for line in lines if line.parent and line.parent not in known]
    if not lost:
        return []
    tally.counts["parents_unknown"] += len(lost)
    tally.warn("a line goes on from one that is not in its session", place_of(lost[0])[:120])
    return ["parent_lines"]


def _is_own(message: Message) -> bool:
    """Returns whether a model gave the answer in this session, and not in one that it repeats."""
    return message.copied_from is None and not message.is_synthetic


def _metrics(lines: Sequence[Line], messages: Sequence[Message]) -> dict[str, float | int]:
    """Returns the tokens of each answer once, by who asked for it, and what the end of a stream states.

    `main.` and `sidechain.` are parts of the figure without a prefix, and there only where sub-agents worked.
    """
    found: dict[str, float | int] = {}
    split = any(message.is_side for message in messages)
    for message in messages:
        if _is_own(message):
            usage = numbers_of(message.usage) | {"model_calls": 1}
            added(found, usage)
            if split:
                part = "sidechain" if message.is_side else "main"
                added(found, {f"{part}.{name}": number for name, number in usage.items()})
    for line in lines:
        if line.type == "result":
            stated = {name: number for name in _MEASURED if (number := number_of(line.value.get(name))) is not None}
            added(found, stated)
    return found


def _title(lines: Sequence[Line]) -> str | None:
    for kind, name in _TITLES:
        for line in reversed(lines):
            if line.type == kind and isinstance(found := line.value.get(name), str) and found:
                return found
    return None


def _is_main(event: Mapping[str, Any]) -> bool:
    return "sidechain" not in event.get("attributes", {})


def _asked(events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the first thing that the person said; a command to Claude Code only where there is nothing else."""
    asked = [e for e in events if e["kind"] == "text" and e["role"] == "user" and _is_main(e)]
    asked = [e for e in asked if not e.get("attributes", {}).get("context")]
    tasks = [e for e in asked if not str(e["content"].get("value")).startswith("<command-")]
    for event in (*tasks, *asked):
        return {**event["content"], "source": f"event:{event['id']}"}
    return dict(NOT_EXPORTED)


def _answered(lines: Sequence[Line], events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the last answer of the last turn: its text, or its texts where it has several."""
    for line in reversed(lines):
        if line.type == "result" and isinstance(line.value.get("result"), str):
            return {**content_of(line.value["result"]), "source": "line:result"}
    turn = max((event["turn"] for event in events if "turn" in event), default=None)
    said = [
        e
        for e in events
        if e["kind"] == "text"
        and e["role"] == "assistant"
        and "error" not in e
        and _is_main(e)
        and e.get("turn") == turn
    ]
    if not said:
        return dict(NOT_EXPORTED)
    last = [e for e in said if e["attributes"]["message_id"] == said[-1]["attributes"]["message_id"]]
    if len(last) == 1:
        return {**last[0]["content"], "source": f"event:{last[0]['id']}"}
    return {**content_of([e["content"].get("value") for e in last]), "source": f"event:{last[-1]['id']}"}


def _end(lines: Sequence[Line], events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns how the session ended, as `EventLog` says it; most files do not."""
    for line in reversed(lines):
        if line.type == "result":
            failed = line.value.get("is_error") is True
            subtype = str(line.value.get("subtype"))
            return {"state": "failed" if failed else "completed", "end_reason": subtype}
    for event in reversed(events):
        if not _is_main(event) or event["kind"] in ("observation", "turn_complete"):
            continue
        error = event.get("error")
        if event["kind"] == "text" and error is not None:
            state = "interrupted" if error["kind"] == "cancelled" else "failed"
            return {"state": state, "end_reason": message_of(error)}
        stopped = event.get("attributes", {}).get("stop_reason")
        if event["kind"] == "text" and stopped in _ENDED:
            return {"state": "completed", "end_reason": str(stopped)}
        break
    return {"state": "unknown"}
