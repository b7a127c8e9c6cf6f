"""Whose an event is: written by the policy, told to the agent, or of a sub-agent's conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TOLD = frozenset({"environment", "message", "user"})
"""Types of observations that were told to the agent, as is a text without a type; others are spans around it."""


def is_written(event: Mapping[str, Any]) -> bool:
    """Whether the policy wrote it."""
    return event["kind"] in ("reasoning", "tool_call") or (event["kind"] == "text" and event["role"] == "assistant")


def is_told(event: Mapping[str, Any]) -> bool:
    """Whether it is an observation that the agent was told, as by its environment."""
    if event["kind"] != "observation" or event["output"]["status"] != "value" or event["input"]["status"] == "value":
        return False
    type_ = event.get("type")
    return type_ in _TOLD or (type_ is None and isinstance(event["output"].get("value"), str))


def is_aside(event: Mapping[str, Any]) -> bool:
    """Whether it belongs to a sub-agent, which has a conversation of its own."""
    return "sidechain" in (event.get("attributes") or {})
