"""The form of one event, checked without a library: which fields a kind has, and what may stand in them.

It says what `storage.schema.events` says; a test holds the two together.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from storage.schema.event_order import ROUNDING

KINDS = ("text", "reasoning", "tool_call", "tool_result", "observation", "turn_complete", "reward", "memory_op")
ROLES = ("system", "developer", "user", "assistant", "tool", "unknown")
SCOPES = ("step", "turn", "episode")
ERRORS = ("tool", "model", "agent", "timeout", "cancelled", "infrastructure", "unknown")
STATUSES = ("value", "empty", "null", "not_exported", "unparsable", "collided")
MEMORY = ("read", "write", "update", "delete", "search", "unknown")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)", re.ASCII)

Check = Callable[[Any], str | None]
"""Returns what is wanted where a value is something else, else None."""


def problem_of(event: Mapping[str, Any]) -> str | None:
    """Returns what is wrong with an event that stands in a log, as the end of a sentence about it, or None."""
    kind = event.get("kind")
    if not isinstance(kind, str) or kind not in _FIELDS:
        return f"is of no known kind: {str(kind)[:40]!r}; there are {', '.join(KINDS)}"
    needed, fields = _NEEDED[kind], _FIELDS[kind]
    if lacking := [name for name in needed if name not in event]:
        return f", a {kind}, lacks {', '.join(lacking)}"
    for name, value in event.items():
        check = fields.get(name)
        if check is None:
            near = get_close_matches(str(name), fields, 1)
            return f", a {kind}, has no field {str(name)[:40]!r}" + (f"; do you mean {near[0]}?" if near else "")
        if wanted := check(value):
            return f": {name} is {wanted}, and this is {str(value)[:40]!r}"
    return None


def problem_of_tools(tools: Any) -> str | None:  # noqa: ANN401 - what was given
    """Returns what is wrong with what is said of the tools that an agent was given, or None."""
    if tools is None:
        return None
    if not isinstance(tools, Mapping):
        return f"tools is an object of names, and this is {str(tools)[:40]!r}"
    for name, tool in tools.items():
        if wanted := _text(name) or _tool(tool):
            return f"the tool {str(name)[:40]!r} is {wanted}"
    return None


def _anything(_: Any) -> str | None:  # noqa: ANN401 - any JSON
    return None


def _text(value: Any) -> str | None:  # noqa: ANN401 - what was given
    return None if isinstance(value, str) else "a text"


def _flag(value: Any) -> str | None:  # noqa: ANN401 - what was given
    return None if isinstance(value, bool) else "true or false"


def _count(value: Any) -> str | None:  # noqa: ANN401 - what was given
    return None if _is_whole(value) and value >= 0 else "a whole number from 0"


def _is_whole(value: Any) -> bool:  # noqa: ANN401 - what was given
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any) -> str | None:  # noqa: ANN401 - what was given
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "a number"
    try:
        return None if math.isfinite(value) else "a finite number"
    except OverflowError:
        return "a number of no more than 64 bits"


def _seconds(value: Any) -> str | None:  # noqa: ANN401 - what was given
    return _number(value) or (None if value >= 0 else "a number of seconds from 0")


def _logprob(value: Any) -> str | None:  # noqa: ANN401 - what was given
    return _number(value) or (None if value <= ROUNDING else "a log-probability, which is at most 0")


def _token(value: Any) -> str | None:  # noqa: ANN401 - what was given
    return None if _is_whole(value) and value >= 0 else "an id of a token: a whole number from 0"


def _moment(value: Any) -> str | None:  # noqa: ANN401 - what was given
    wanted = "a time with its offset, such as 2026-01-31T12:00:00Z"
    if not isinstance(value, str) or _MOMENT.fullmatch(value) is None:
        return wanted
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return wanted
    return None


def _maybe(check: Check) -> Check:
    return lambda value: None if value is None else check(value)


def _one_of(*words: str) -> Check:
    return lambda value: None if isinstance(value, str) and value in words else f"one of {', '.join(words)}"


def _each(check: Check) -> Check:
    def found(value: Any) -> str | None:  # noqa: ANN401 - what was given
        if not isinstance(value, list | tuple):
            return "a list"
        return next((f"a list, each {wanted}" for item in value if (wanted := check(item))), None)

    return found


def _named(check: Check) -> Check:
    def found(value: Any) -> str | None:  # noqa: ANN401 - what was given
        if not isinstance(value, Mapping):
            return "an object"
        wrong = (wanted for name, item in value.items() if (wanted := _text(name) or check(item)))
        return next((f"an object, each {wanted}" for wanted in wrong), None)

    return found


def _object(needed: Mapping[str, Check], more: Mapping[str, Check]) -> Check:
    known = {**needed, **more}

    def found(value: Any) -> str | None:  # noqa: ANN401 - what was given
        if not isinstance(value, Mapping) or any(name not in value for name in needed):
            return f"an object with {', '.join(needed)}" if needed else f"an object of {', '.join(known)}"
        for name, item in value.items():
            if name not in known:
                return f"an object of {', '.join(known)}, without {str(name)[:40]!r}"
            if wanted := known[name](item):
                return f"an object whose {name} is {wanted}"
        return None

    return found


def _span(value: Any) -> str | None:  # noqa: ANN401 - what was given
    if wanted := _TOKENS(value):
        return wanted
    count = len(value["token_ids"])
    for name in ("logprobs", "mask"):
        if (found := value.get(name)) is not None and len(found) != count:
            return f"an object with one {name.removesuffix('s')} for each token ({len(found)} for {count} tokens)"
    return None


_TEXT = _maybe(_text)
_CONTENT = _object({"status": _one_of(*STATUSES)}, {"value": _anything})
_TOKENS = _object(
    {"token_ids": _each(_token)}, {"logprobs": _maybe(_each(_logprob)), "mask": _maybe(_each(_flag))}
)  # fmt: skip
_PLACE: Mapping[str, Check] = {"line": _maybe(_count), "pointer": _TEXT}
_tool = _object({}, {"description": _TEXT, "parameters": _anything, "server": _TEXT, "version": _TEXT})


def _row(value: Any) -> str | None:  # noqa: ANN401 - what was given
    return None if _is_whole(value) and value >= 1 else "a whole number from 1"


_COMMON: Mapping[str, Check] = {
    "kind": _text,
    "seq": _count,
    "id": _text,
    "turn": _maybe(_count),
    "group": _TEXT,
    "parent": _TEXT,
    "parent_outside": _flag,
    "at": _maybe(_moment),
    "at_text": _TEXT,
    "ended_at": _maybe(_moment),
    "ended_text": _TEXT,
    "duration_seconds": _maybe(_seconds),
    "error": _maybe(_object({"kind": _one_of(*ERRORS)}, {"message": _TEXT, "code": _TEXT})),
    "model": _maybe(_object({}, {"name": _TEXT, "provider": _TEXT, "version": _TEXT, "parameters": _anything})),
    "attributes": _named(_anything),
    "marks": _named(_text),
    "tokens": _maybe(_span),
    "locator": _maybe(_object({"file": _text, "row": _row}, _PLACE)),
}
_NEEDED: Mapping[str, Mapping[str, Check]] = {
    "text": {"role": _one_of(*ROLES), "content": _CONTENT},
    "reasoning": {"content": _CONTENT},
    "tool_call": {"call_id": _text, "name": _TEXT, "arguments": _CONTENT},
    "tool_result": {"call_id": _text, "content": _CONTENT},
    "observation": {"input": _CONTENT, "output": _CONTENT},
    "turn_complete": {},
    "reward": {"name": _text, "scope": _one_of(*SCOPES), "value": _maybe(_number)},
    "memory_op": {"operation": _one_of(*MEMORY), "content": _CONTENT},
}
"""What one of each kind cannot do without,"""
_MORE: Mapping[str, Mapping[str, Check]] = {
    "text": {"name": _TEXT, "prompt": _maybe(_CONTENT)},
    "reasoning": {"opaque": _flag},
    "tool_result": {"name": _TEXT, "unpaired": _flag},
    "observation": {"type": _TEXT, "name": _TEXT},
    "turn_complete": {"usage": _named(_number), "finish_reason": _TEXT},
    "memory_op": {"key": _TEXT},
}
"""and what else it may say."""
_FIELDS = {kind: {**_COMMON, **_NEEDED[kind], **_MORE.get(kind, {})} for kind in KINDS}
