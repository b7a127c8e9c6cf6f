"""Reads what became of a tool's call in Codex: its output, its exit code and its error, as each form states them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from operations.importers._json_values import strict
from operations.importers._session_log import NOT_EXPORTED, content_of, message_of

ENDS = frozenset((
    "exec_command_end", "mcp_tool_call_end", "patch_apply_end", "web_search_end", "view_image_tool_call",
    "dynamic_tool_call_response", "image_generation_end", "collab_agent_spawn_end", "collab_agent_interaction_end",
    "collab_waiting_end", "collab_close_end", "collab_resume_end",
))  # fmt: skip
"""Events that tell the end of a call beside the model's history."""

_HEAD = 400
"""Characters of an output in which Codex puts a line of its own that says the exit code."""

_EXIT = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d+)$", re.MULTILINE)
_REFUSED = (
    (re.compile(r"^unsupported call: "), {"kind": "tool", "code": "unsupported_call"}),
    (re.compile(r"^(?:Wall time: .*\n)?aborted by user"), {"kind": "cancelled", "code": "aborted_by_user"}),
)
"""What Codex itself says in a tool's place."""

_FAILED = frozenset(("failed", "declined", "error"))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a call."""

    content: dict[str, Any]
    exit_code: int | None = None
    error: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """What was called, where only the call's end says it."""

    name: str
    arguments: dict[str, Any]
    used: tuple[str, ...]


def call_of_end(said: Mapping[str, Any]) -> Call | None:
    """Returns the call that an event at a call's end, or a completed item, names; None where it names none."""
    invocation = said.get("invocation")
    inner = invocation if isinstance(invocation, dict) else said
    if isinstance(name := inner.get("tool"), str):
        return Call(name, content_of(inner.get("arguments")), ("tool", "arguments"))
    for field, called in _CALLED.items():
        if field in said:
            return Call(called, content_of(said[field]), (field,))
    return None


_CALLED = {"command": "exec_command", "changes": "apply_patch", "query": "web_search", "path": "view_image"}


def outcome_of(given: Any) -> Outcome:  # noqa: ANN401 - JSON
    """Returns the outcome that an output in the model's history states.

    An output is text, or pieces, or `{content, success}`; of a shell the text is `{output, metadata: {exit_code}}` as
    JSON in older versions, and begins with lines that Codex adds in newer ones.
    """
    success: Any = None
    if isinstance(given, dict) and "content" in given and set(given) <= {"content", "success"}:
        given, success = given["content"], given.get("success")
    exit_code: int | None = None
    value = given
    if isinstance(given, str):
        value, exit_code = _shell(given)
        if exit_code is None:
            head = given[:_HEAD].partition("\nOutput:")[0]
            exit_code = int(found[1]) if (found := _EXIT.search(head)) else None
        for pattern, error in _REFUSED:
            if pattern.match(given):
                return Outcome(content_of(value), exit_code, {**error, "message": given[:_HEAD]})
    return Outcome(content_of(value), exit_code, _error(exit_code, failed=success is False, message=None))


def outcome_of_end(payload: Mapping[str, Any]) -> Outcome:
    """Returns the outcome that an event at a call's end, or a completed item, states."""
    code = payload.get("exit_code")
    exit_code = code if isinstance(code, int) and not isinstance(code, bool) else None
    result = payload.get("result")
    inner = result.get("Ok", result) if isinstance(result, dict) else None
    wrong = result.get("Err") if isinstance(result, dict) else None
    is_error = isinstance(inner, dict) and (inner.get("isError") or inner.get("is_error"))
    failed = bool(
        str(payload.get("status")) in _FAILED
        or payload.get("success") is False
        or is_error
        or wrong is not None
        or payload.get("error")
    )
    message = message_of(payload.get("error")) or (wrong if isinstance(wrong, str) else None)
    shown = next((payload[name] for name in _SHOWN if payload.get(name) is not None), None)
    content = content_of(shown) if shown is not None else dict(NOT_EXPORTED)
    return Outcome(content, exit_code, _error(exit_code, failed=failed, message=message))


_SHOWN = ("aggregated_output", "formatted_output", "result", "stdout", "content_items", "changes")


def _shell(text: str) -> tuple[Any, int | None]:
    if text.startswith("{") and '"metadata"' in text:
        try:
            value = strict(text)
        except (ValueError, RecursionError):
            return text, None
        metadata = value.get("metadata") if isinstance(value, dict) else None
        if isinstance(metadata, dict) and set(value) == {"output", "metadata"}:
            code = metadata.get("exit_code")
            return value, code if isinstance(code, int) and not isinstance(code, bool) else None
    return text, None


def _error(exit_code: int | None, *, failed: bool, message: str | None) -> dict[str, Any] | None:
    if not failed and exit_code in (None, 0):
        return None
    return {"kind": "tool", "message": message, "code": None if exit_code is None else f"exit_{exit_code}"}
