"""Short words for the events of a log."""

from __future__ import annotations

from typing import Any

from operations.trajectories import EventLog


def value(given: Any) -> dict[str, Any]:
    """Returns a content that has a value."""
    return {"status": "value", "value": given}


def user(text: Any, **more: Any) -> dict[str, Any]:
    return {"kind": "text", "role": "user", "content": value(text), **more}


def say(text: Any, **more: Any) -> dict[str, Any]:
    return {"kind": "text", "role": "assistant", "content": value(text), **more}


def think(text: str, **more: Any) -> dict[str, Any]:
    return {"kind": "reasoning", "content": value(text), **more}


def call(call_id: str, name: str = "find", /, *, arguments: Any = None, **more: Any) -> dict[str, Any]:
    given = arguments if isinstance(arguments, dict) and "status" in arguments else value(arguments or {})
    return {"kind": "tool_call", "call_id": call_id, "name": name, "arguments": given, **more}


def result(call_id: str, content: Any = "found", **more: Any) -> dict[str, Any]:
    return {"kind": "tool_result", "call_id": call_id, "content": value(content), **more}


def ended(finish_reason: str | None = None, **more: Any) -> dict[str, Any]:
    return {"kind": "turn_complete", "finish_reason": finish_reason, **more}


def reward(amount: float | None, scope: str = "episode", **more: Any) -> dict[str, Any]:
    return {"kind": "reward", "name": "r", "scope": scope, "value": amount, **more}


def memory(operation: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"kind": "memory_op", "operation": operation, "content": value(content), **more}


def a_log(*events: dict[str, Any], state: str = "completed", tools: Any = None) -> EventLog:
    """Returns a log of some events."""
    log = EventLog(tools)
    for event in events:
        log.append(event)
    if state != "running":
        log.end(state)
    return log


def sampled(event: dict[str, Any], *token_ids: int, policy: bool = True) -> dict[str, Any]:
    """Returns an event with tokens, and log-probabilities where the policy wrote it."""
    logprobs = {"logprobs": [-0.5 * (n + 1) for n in range(len(token_ids))]} if policy else {}
    return {**event, "tokens": {"token_ids": list(token_ids), **logprobs}}
