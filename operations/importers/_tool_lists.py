"""Puts the tools that an agent was given at the head of its log, where the source says them."""

from __future__ import annotations

from typing import Any

from operations.trajectories.detectors.toolbox import tools_in


def name_tools(log: dict[str, Any]) -> dict[str, Any]:
    """Returns a log, as `EventLog` takes it, with `tools`: those that models were given, or a session began with.

    Nothing is added where no event records any.
    """
    found = tools_in(log["events"])
    if found is not None:
        log["tools"] = {name: {} if schema is None else {"parameters": schema} for name, schema in found.items()}
        return log
    names = [name for event in log["events"] if event.get("type") == "system.init" for name in _names(event)]
    if names:
        log["tools"] = {name: {} for name in names}
    return log


def _names(event: dict[str, Any]) -> list[str]:
    """Returns the tools that the first line of a stream of Claude Code lists."""
    value = event.get("output", {}).get("value")
    listed = value.get("tools") if isinstance(value, dict) else None
    return [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
