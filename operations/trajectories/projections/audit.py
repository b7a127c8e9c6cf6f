"""Projects a log to records for an audit: who did what when, with which outcome, and digests instead of contents."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from operations.trajectories.log import EventLog, canonical
from operations.trajectories.projections.losses import Losses, LossReport

_ALWAYS = {"id", "turn", "group", "parent", "parent_outside", "at", "ended_at", "duration_seconds", "error", "model"}
_CARRIED = {
    "text": {"role", "name"},
    "reasoning": set[str](),
    "tool_call": {"call_id", "name"},
    "tool_result": {"call_id", "name", "unpaired"},
    "observation": {"type", "name"},
    "reward": {"name", "scope", "value"},
    "memory_op": {"operation", "key"},
    "turn_complete": {"finish_reason", "usage"},
}
_CONTENTS = ("content", "arguments", "input", "output", "prompt")
_ACTORS = {"text": "agent", "reasoning": "agent", "tool_call": "agent", "tool_result": "tool", "memory_op": "agent"}


def audit_records(log: EventLog, log_id: str) -> tuple[list[dict[str, Any]], LossReport]:
    """Returns one record for each event and one for the end of the run, and what they do not carry.

    A record has `log`, `seq`, `actor` (`agent`, `tool`, `environment`, or the role of a text that is not the agent's),
    `action` (the kind), times, ids, `outcome` (`ok`, `error`, or `unknown` for a call without a result) and `sha256`:
    content field → digest of its canonical JSON, so that content that is kept elsewhere can be held against it.

    Args:
        log: The log of one run.
        log_id: What the log is called, such as the id of its Record.
    """
    losses = Losses("audit")
    outcomes = _outcomes(log)
    records = []
    for event in log:
        carried = _ALWAYS | _CARRIED[event["kind"]]
        for name in _CONTENTS:
            if name in event and event[name] not in (None, {}):
                losses.note(event, name, "its digest is kept instead")
        losses.rest(event, {*carried, *_CONTENTS})
        record = {"log": log_id, "seq": event["seq"], "actor": _actor(event), "action": event["kind"]}
        record |= {name: event[name] for name in sorted(carried) if event.get(name) not in (None, False, {})}
        record["outcome"] = outcomes.get(event["seq"], "error" if event.get("error") else "ok")
        digests = {name: _digest(event[name]) for name in _CONTENTS if event.get(name)}
        records.append({**record, **({"sha256": digests} if digests else {})})
    end = {"actor": "environment", "action": "end", "outcome": log.state, "reason": log.end_reason}
    return [*records, {"log": log_id, "seq": len(log), **end}], losses.report()


def _actor(event: Mapping[str, Any]) -> str:
    if event["kind"] == "text" and event["role"] != "assistant":
        return str(event["role"])
    return _ACTORS.get(event["kind"], "environment")


def _outcomes(log: EventLog) -> dict[int, str]:
    """Returns for the `seq` of each call what came of it."""
    found: dict[int, str] = {}
    waiting: dict[str, list[int]] = {}
    for event in log:
        if event["kind"] == "tool_call":
            found[event["seq"]] = "error" if event.get("error") else "unknown"
            waiting.setdefault(event["call_id"], []).append(event["seq"])
        elif event["kind"] == "tool_result" and waiting.get(event["call_id"]):
            call = waiting[event["call_id"]].pop(0)
            if found[call] == "unknown":
                found[call] = "error" if event.get("error") else "ok"
    return found


def _digest(value: Any) -> str:  # noqa: ANN401 - JSON
    return hashlib.sha256(canonical(value).encode()).hexdigest()
