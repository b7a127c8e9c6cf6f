"""What a log itself says of the tools that the agent had."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from operations.trajectories.log import EventLog

_WHERE = ("tool_definitions", "tools")
"""Attributes under which importers keep the definitions that a model was given."""

_SCHEMAS = ("parameters", "inputSchema", "input_schema")
"""What providers call the schema of a tool's arguments."""


def tools_of(log: EventLog) -> dict[str, Mapping[str, Any] | None] | None:
    """Returns tool → JSON Schema of its arguments, as a log says at its head, else in its events; None if nowhere."""
    if log.tools is None:
        return tools_in(log)
    schemas = {name: tool.get("parameters") for name, tool in log.tools.items()}
    return {name: schema if isinstance(schema, Mapping) else None for name, schema in schemas.items()}


def tools_in(events: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any] | None] | None:
    """Returns tool → JSON Schema of its arguments, over all models' calls; None where no event records any tool."""
    found: dict[str, Mapping[str, Any] | None] = {}
    told, last = False, None
    for event in events:
        attributes = event.get("attributes") or {}
        for where in _WHERE:
            listed = attributes.get(where)
            if not isinstance(listed, list) or listed == last:
                continue
            last = listed  # the same list comes with every call of a model
            for one in listed:
                name, schema = _tool(one)
                if name is not None:
                    told = True
                    found[name] = schema if schema is not None else found.get(name)
    return found if told else None


def _tool(given: Any) -> tuple[str | None, Mapping[str, Any] | None]:  # noqa: ANN401 - as a provider wrote it
    """Returns name and schema of a definition in one of the forms that providers use."""
    for _ in range(3):  # a tool in a "function" in a "tool", at the most
        if isinstance(given, str):
            try:
                given = json.loads(given)
            except (ValueError, RecursionError):
                return None, None
        if not isinstance(given, Mapping):
            return None, None
        inner = next((given[n] for n in ("function", "tool", "json_schema", "tool.json_schema") if given.get(n)), None)
        if inner is None or isinstance(given.get("name"), str):
            break
        given = inner
    if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
        return None, None
    schema = next((given[name] for name in _SCHEMAS if isinstance(given.get(name), Mapping)), None)
    return given["name"], schema
