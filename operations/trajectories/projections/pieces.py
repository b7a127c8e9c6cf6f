"""Takes apart what a log holds as content: texts, parts and whole messages, in each dialect that models speak."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
_NAMES = {"human": "user", "ai": "assistant", "function": "tool"}
_SAID = ("content", "parts", "tool_calls", "function_call")
_TEXT = frozenset({"text", "input_text", "output_text"})
_THOUGHT = frozenset({"reasoning", "thinking"})

PART = "a part"
"""How it is said that something in a message is no text."""

What = Literal["text", "reasoning", "call", "result"]


@dataclass(frozen=True, slots=True)
class Piece:
    """One thing that was said: a text, a reasoning, a call or a result."""

    what: What
    role: str
    text: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: Any = None
    """Of a call: the object; where it is none, what stands there instead, mostly a text."""
    problem: str | None = None
    """What of it is no text, or not known; then it cannot stand in a conversation of texts."""


def is_message(value: Any) -> bool:  # noqa: ANN401 - JSON
    """Whether a value has the form of a chat message."""
    return isinstance(value, Mapping) and role_of(value) in ROLES and any(name in value for name in _SAID)


def is_conversation(value: Any) -> bool:  # noqa: ANN401 - JSON
    """Whether a value is a list of chat messages, at least one."""
    return isinstance(value, list) and bool(value) and all(map(is_message, value))


def role_of(message: Mapping[str, Any]) -> str | None:
    """Returns the role of a message under its usual name."""
    role = message.get("role")
    return _NAMES.get(role, role) if isinstance(role, str) else None


def text_of(value: Any) -> str:  # noqa: ANN401 - JSON
    """Returns a value as text: a text as it is, anything else as JSON with its keys as they stand."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def arguments_of(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Returns arguments as the object that a text of JSON says; what is no JSON stays the text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return value


def opened(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Returns the messages of a request or the one answer of a response, where a value is such; else the value."""
    if isinstance(value, Mapping) and "role" not in value:
        if is_conversation(value.get("messages")):
            return value["messages"]
        choices = value.get("choices")
        if isinstance(choices, list) and len(choices) == 1 and isinstance(choices[0], Mapping):
            message = choices[0].get("message")
            return message if is_message(message) else value
    return value


def has_several_answers(value: Any) -> bool:  # noqa: ANN401 - JSON
    """Whether what a model gave back is a choice of answers, of which nothing says which one counted."""
    if isinstance(value, Mapping):
        choices = value.get("choices")
        return isinstance(choices, list) and len(choices) > 1
    return is_conversation(value) and len(value) > 1 and all(role_of(message) == "assistant" for message in value)


def pieces_of(value: Any, role: str) -> Iterator[Piece]:  # noqa: ANN401 - JSON
    """Yields what a content says; one that is no text, part or message is shown as JSON."""
    value = opened(value)
    if is_message(value):
        yield from _of_message(value)
    elif is_conversation(value):
        for message in value:
            yield from _of_message(message)
    elif isinstance(value, list) and value and all(isinstance(part, Mapping) and "type" in part for part in value):
        yield from _of_parts(value, role)
    else:
        yield Piece("text", role, text_of(value))


def _of_message(message: Mapping[str, Any]) -> Iterator[Piece]:
    role = str(role_of(message))
    thought = message.get("reasoning_content", message.get("reasoning"))
    if isinstance(thought, str) and thought:
        yield Piece("reasoning", role, thought)
    content = message.get("content", message.get("parts"))
    call_id = message.get("tool_call_id")
    if role == "tool" and call_id is not None:
        said = [piece.text or "" for piece in _content(content, role)]
        yield Piece("result", role, "".join(said), str(call_id), _name(message.get("name")))
        return
    yield from _content(content, role)
    calls = message.get("tool_calls")
    yield from (_call(call) for call in calls if isinstance(call, Mapping)) if isinstance(calls, list) else ()
    if isinstance(old := message.get("function_call"), Mapping):
        yield _call(old)


def _content(content: Any, role: str) -> Iterator[Piece]:  # noqa: ANN401 - JSON
    if isinstance(content, list):
        yield from _of_parts(content, role)
    elif content not in (None, ""):
        yield Piece("text", role, text_of(content))


def _of_parts(parts: list[Any], role: str) -> Iterator[Piece]:
    """Yields parts; texts that stand side by side are one."""
    texts: list[str] = []
    for part in parts:
        made = _of_part(part, role)
        if made.what == "text" and made.problem is None:
            texts.append(made.text or "")
            continue
        if texts:
            yield Piece("text", role, "".join(texts))
            texts = []
        yield made
    if texts:
        yield Piece("text", role, "".join(texts))


def _of_part(part: Any, role: str) -> Piece:  # noqa: ANN401 - JSON
    if isinstance(part, str):
        return Piece("text", role, part)
    if not isinstance(part, Mapping):
        return Piece("text", role, problem=f"{PART} that is no text")
    kind = part.get("type")
    if not isinstance(kind, str | None):
        return Piece("text", role, problem=f"{PART} whose type is no text")
    if kind in _TEXT or (kind is None and "text" in part):
        return Piece("text", role, text_of(part.get("text", part.get("content", ""))))
    if kind in _THOUGHT:
        return Piece("reasoning", role, text_of(part.get("content", part.get("thinking", part.get("text", "")))))
    if kind in ("tool_call", "tool_use"):
        return _call(part)
    if kind in ("tool_call_response", "tool_result"):
        given = part.get("response", part.get("result", part.get("content")))
        inner = "".join(p.text or "" for p in _content(given, "tool"))
        return Piece("result", "tool", inner, str(part.get("id", part.get("tool_use_id"))), _name(part.get("name")))
    return Piece("text", role, problem=f"{PART} of type {str(kind)[:40]}")


def _call(call: Mapping[str, Any]) -> Piece:
    function = call.get("function")
    inner: Mapping[str, Any] = function if isinstance(function, Mapping) else call
    given = next((inner[name] for name in ("arguments", "input", "args") if name in inner), None)
    call_id = call.get("id", call.get("tool_call_id"))
    return Piece(
        "call",
        "assistant",
        call_id=None if call_id is None else str(call_id),
        name=_name(inner.get("name")),
        arguments=arguments_of(given),
    )


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _name(value: Any) -> str | None:  # noqa: ANN401 - JSON
    return value if isinstance(value, str) and value else None
