"""`atk trajectory`: what an agent did in one attempt, an event a line."""

from __future__ import annotations

import argparse
import json
from typing import Any

from atk_mcp.people.attempts import found_record
from atk_mcp.people.tables import as_json
from atk_mcp.terminal import say
from storage.project import Project

_CUT = 300
_OWN = ("kind", "type", "name", "role", "seq", "at", "turn", "call_id", "id")


def trajectory(given: argparse.Namespace, root: str) -> int:
    """Prints the events of a Record.

    Raises:
        UnknownObject: There is no such Record.
    """
    record = found_record(Project.open(root), given.record_id)
    log = record.get("log") or {}
    events = list(record.get("events") or log.get("events") or ())
    if given.json:
        as_json({"record_id": record["id"], "events": events})
        return 0
    for name in ("input", "output"):
        said = record.get(name)
        value = said.get("value") if isinstance(said, dict) and "status" in said else said
        if value is not None:
            say(f"{name}: {_cut(value, whole=given.whole)}")
    if not events:
        say("No event is recorded: the agent wrote no events file, or the export has none.")
    for number, event in enumerate(events):
        say(f"{number:>4}  {_event(event, whole=given.whole)}")
    return 0


def _event(event: dict[str, Any], *, whole: bool) -> str:
    head = " ".join(str(event[name]) for name in ("kind", "type", "role", "name") if event.get(name))
    rest = {k: v for k, v in event.items() if k not in _OWN and v not in (None, {}, [], "")}
    said = _cut(rest, whole=whole) if rest else ""
    return f"{head or 'event':<28} {said}".rstrip()


def _cut(value: Any, *, whole: bool) -> str:  # noqa: ANN401 - any JSON
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if whole or len(text) <= _CUT else f"{text[:_CUT]}… ({len(text)} characters)"
