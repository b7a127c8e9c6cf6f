"""Finds what a span was given and what it answered, in each dialect, as messages of one form.

A message is `{role, parts}`, as the GenAI conventions have it since 1.37. A part has a `type`: `text` and `reasoning`
with `content`, `tool_call` with `id`, `name` and `arguments`, `tool_call_response` with `id` and `response`, and what
else the source says. What is exported in that form is taken as it is; the older events, the numbered attributes of
`gen_ai.prompt.N` and OpenInference's `llm.input_messages.N` are brought into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from operations.importers._cells import decoded, loosened

DIRECT = {"input": "gen_ai.input.messages", "output": "gen_ai.output.messages"}
NUMBERED = {"input": "gen_ai.prompt", "output": "gen_ai.completion"}
LLM = {"input": "llm.input_messages", "output": "llm.output_messages"}
DETAILS = "gen_ai.client.inference.operation.details"
_CONTENT_EVENTS = {"input": "gen_ai.content.prompt", "output": "gen_ai.content.completion"}
DEEPEST = 20
"""Parts of an attribute's name that are taken apart; the deepest of the conventions has eight."""

_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}


@dataclass(frozen=True, slots=True)
class Found:
    """What was found for a span's input or output: its content as `Content` takes it, and what it was read from."""

    content: dict[str, Any]
    used: tuple[str, ...] = ()
    """Attributes that are in the content and need not be kept beside it."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The content where it is a list of messages, else nothing."""
        value = self.content.get("value")
        whole = isinstance(value, list) and all(isinstance(item, dict) and "role" in item for item in value)
        return value if isinstance(value, list) and whole else []


ABSENT = Found({"status": "not_exported"})


def content_of(side: str, attributes: Mapping[str, Any], events: Iterable[Mapping[str, Any]], *, model: bool) -> Found:
    """Returns a span's `input` or `output`. A model's messages come before its request as OpenInference shows it."""
    events = list(events)
    ways = (
        [_direct, _llm, _numbered, _from_events, _value] if model else [_direct, _value, _llm, _numbered, _from_events]
    )
    for way in ways:
        found = way(side, attributes, events)
        if found is not None:
            return found
    return ABSENT


def read(value: Any, *, json: bool = True) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Returns a value as `Content` takes it; text that should be JSON is read as such."""
    if value is None:
        return {"status": "null"}
    if not isinstance(value, str):
        return {"status": "value", "value": value}
    if not json:
        return {"status": "value", "value": value} if value else {"status": "empty"}
    cell = decoded(value)
    return {"status": "empty"} if cell.status == "empty" else {"status": cell.status, "value": cell.value}


def _direct(side: str, attributes: Mapping[str, Any], events: list[Mapping[str, Any]]) -> Found | None:
    name = DIRECT[side]
    if name in attributes:
        return Found(read(attributes[name]), (name,))
    for event in events:
        own = event.get("attributes") or {}
        if event.get("name") == DETAILS and name in own:
            return Found(read(own[name]))
        body = event.get("body")
        if event.get("name") == DETAILS and isinstance(body, Mapping) and name in body:
            return Found(read(body[name]))
    return None


def _value(side: str, attributes: Mapping[str, Any], events: list[Mapping[str, Any]]) -> Found | None:
    del events
    name = f"{side}.value"
    if name not in attributes:
        return None
    mime = f"{side}.mime_type"
    is_json = "json" in str(attributes.get(mime, "")).lower()
    used = (name, mime) if mime in attributes else (name,)
    return Found(read(attributes[name], json=is_json), used)


# -- OpenInference's messages ------------------------------------------------------------------------------------------


def tree(attributes: Mapping[str, Any], prefix: str) -> tuple[Any, tuple[str, ...]]:
    """Returns what stands under a prefix as objects and lists, and the attributes that it was made of.

    The attributes are flat (`a.0.b.c`), or nested where an export keeps them so (`a`: [{`b.c`: …}]).
    """
    root: dict[str, Any] = {}
    used: list[str] = []
    for name, value in attributes.items():
        if name == prefix and isinstance(value, list | dict):
            _put(root, "", value)
            used.append(name)
        elif name.startswith(f"{prefix}."):
            _put(root, name[len(prefix) + 1 :], value)
            used.append(name)
    return _listed(root), tuple(used)


def _put(root: dict[str, Any], path: str, value: Any) -> None:  # noqa: ANN401 - JSON
    """Puts a value where its path leads; nested objects with dotted names are taken apart in the same way."""
    if isinstance(value, dict) and value:
        for name, item in value.items():
            _put(root, f"{path}.{name}" if path else str(name), item)
        return
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        for number, item in enumerate(value):
            _put(root, f"{path}.{number}" if path else str(number), item)
        return
    *folders, last = path.split(".") if path.count(".") < DEEPEST else [path]
    at = root
    for name in folders:
        inner = at.setdefault(name, {})
        if not isinstance(inner, dict):
            inner = at[name] = {"": inner}
        at = inner
    at[last] = value


def _listed(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Makes lists of the objects whose names count from 0; a gap in the count leaves an object."""
    if not isinstance(value, dict):
        return value
    made = {name: _listed(item) for name, item in value.items()}
    if made and all(name.isascii() and name.isdigit() for name in made):
        order = sorted(made, key=int)
        if [int(name) for name in order] == list(range(len(order))):
            return [made[name] for name in order]
    return made


def _llm(side: str, attributes: Mapping[str, Any], events: list[Mapping[str, Any]]) -> Found | None:
    del events
    value, used = tree(attributes, LLM[side])
    if not used:
        return None
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        return Found({"status": "value", "value": value}, used)
    return Found({"status": "value", "value": [_inference_message(item.get("message", item)) for item in value]}, used)


def _inference_message(given: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    if not isinstance(given, dict):
        return {"role": "unknown", "parts": [{"type": "unknown", "content": given}]}
    rest = dict(given)
    role = str(rest.pop("role", "unknown"))
    parts: list[dict[str, Any]] = []
    call_id = rest.pop("tool_call_id", None)
    content = rest.pop("content", None)
    if call_id is not None or role == "tool":
        parts.append({"type": "tool_call_response", "id": call_id, "response": content})
    elif content not in (None, ""):
        parts.append({"type": "text", "content": content})
    contents = rest.pop("contents", None)
    for item in contents if isinstance(contents, list) else ():
        inner = item.get("message_content", item) if isinstance(item, dict) else {"content": item}
        parts.append(_inference_part(dict(inner)))
    calls = rest.pop("tool_calls", None)
    parts += [
        _call(item.get("tool_call", item) if isinstance(item, dict) else {"name": item})
        for item in (calls if isinstance(calls, list) else ())
    ]
    return {"role": role, "parts": parts, **rest}


def _inference_part(part: dict[str, Any]) -> dict[str, Any]:
    kind = part.pop("type", "unknown")
    if kind == "text" and isinstance(part.get("text"), str):
        part["content"] = part.pop("text")
    return {"type": kind, **part}


def _call(given: Mapping[str, Any]) -> dict[str, Any]:
    """A tool call with or without an object for its function; arguments are JSON in text."""
    rest = dict(given)
    function = rest.pop("function", None)
    inner = dict(function) if isinstance(function, Mapping) else {"name": function} if function is not None else {}
    name = inner.pop("name", rest.pop("name", None))
    arguments = inner.pop("arguments", rest.pop("arguments", None))
    made: dict[str, Any] = {"type": "tool_call", "id": rest.pop("id", None), "name": name}
    made["arguments"] = loosened(arguments) if isinstance(arguments, str) else arguments
    rest.pop("type", None)
    return {**made, **rest, **inner}


# -- older conventions -------------------------------------------------------------------------------------------------


def _numbered(side: str, attributes: Mapping[str, Any], events: list[Mapping[str, Any]]) -> Found | None:
    del events
    name = NUMBERED[side]
    if isinstance(attributes.get(name), str):
        return Found(read(attributes[name]), (name,))
    value, used = tree(attributes, name)
    if not used:
        return None
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        return Found({"status": "value", "value": value}, used)
    default = "assistant" if side == "output" else "unknown"
    return Found({"status": "value", "value": [_body_message(item, default) for item in value]}, used)


def _from_events(side: str, attributes: Mapping[str, Any], events: list[Mapping[str, Any]]) -> Found | None:
    del attributes
    messages: list[dict[str, Any]] = []
    for event in events:
        name = str(event.get("name"))
        own = dict(event.get("attributes") or {})
        if name == _CONTENT_EVENTS[side] and NUMBERED[side] in own:
            return Found(read(own[NUMBERED[side]]))
        body = _body(event, own)
        if name == "gen_ai.choice" and side == "output":
            inner = body.pop("message", None)
            inner = loosened(inner) if isinstance(inner, str) else inner
            message = inner if isinstance(inner, dict) else {"content": inner} if inner is not None else {}
            messages.append(_body_message({**body, **message}, "assistant"))
        elif name in _ROLES and side == "input":
            messages.append(_body_message(body, _ROLES[name]))
    return Found({"status": "value", "value": messages}) if messages else None


def _body(event: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """What an event says: its body, its attributes, or the attribute that holds it as JSON."""
    said = event.get("body")
    said = loosened(said) if isinstance(said, str) else said
    if not isinstance(said, Mapping):
        said = {} if said is None else {"content": said}
    given = own.get("gen_ai.event.content")
    inner = loosened(given) if isinstance(given, str) else None
    plain = {k: v for k, v in own.items() if not k.startswith(("gen_ai.", "event."))}
    return {**plain, **(inner if isinstance(inner, dict) else {}), **said}


def _body_message(given: Mapping[str, Any], role: str) -> dict[str, Any]:
    rest = dict(given)
    role = str(rest.pop("role", None) or role)
    content = rest.pop("content", None)
    call_id = rest.pop("tool_call_id", None)
    if role == "tool":
        call_id = rest.pop("id", None) if call_id is None else call_id
        parts: list[dict[str, Any]] = [{"type": "tool_call_response", "id": call_id, "response": content}]
    else:
        parts = [{"type": "text", "content": content}] if content not in (None, "") else []
    calls = rest.pop("tool_calls", None)
    calls = loosened(calls) if isinstance(calls, str) else calls
    parts += [_call(item) for item in calls if isinstance(item, Mapping)] if isinstance(calls, list) else []
    return {"role": role, "parts": parts, **rest}


# -- what messages hold ------------------------------------------------------------------------------------------------


def parts_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the parts of a message; content beside them is a text."""
    parts = message.get("parts")
    if isinstance(parts, list) and all(isinstance(part, dict) for part in parts):
        return parts
    content = message.get("content")
    return [{"type": "text", "content": content}] if isinstance(content, str) else []


def plain_text(content: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the content of one message of one text as that text; any other as it is."""
    value = content.get("value")
    if content.get("status") != "value" or not isinstance(value, list) or len(value) != 1:
        return dict(content)
    (message,) = value
    if not isinstance(message, dict) or message.keys() - {"role", "parts", "content", "finish_reason"}:
        return dict(content)
    parts = parts_of(message)
    if len(parts) != 1 or parts[0].get("type") != "text" or parts[0].keys() - {"type", "content"}:
        return dict(content)
    text = parts[0].get("content")
    if not isinstance(text, str) or ("parts" in message and "content" in message):
        return dict(content)
    return {"status": "value", "value": text} if text else {"status": "empty"}
