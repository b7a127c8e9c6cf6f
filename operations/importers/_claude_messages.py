"""Puts an answer of the model together from the lines in which Claude Code wrote it: each block once, usage once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from operations.importers._claude_lines import Line

_GROWING = {"text": "text", "thinking": "thinking"}
SYNTHETIC = "<synthetic>"
"""The model of what Claude Code says itself in the model's place."""


@dataclass(slots=True, eq=False)
class Block:
    """One piece of a message, and where it was read."""

    value: Any
    line: Line
    place: int
    """Its place in the line's content; -1 where the content is one text."""


@dataclass(slots=True, eq=False)
class Message:
    """One answer of the model."""

    id: str
    blocks: list[Block] = field(default_factory=list)
    usage: dict[str, Any] | None = None
    """As the last line that states one does: an earlier one is a snapshot while the answer was still coming."""
    stop_reason: str | None = None
    rest: dict[str, Any] = field(default_factory=dict)
    """What else the message says."""
    lines: int = 0
    superseded: int = 0
    """Blocks that were written before they were whole, or twice."""
    is_side: bool = False
    copied_from: str | None = None
    model: str | None = None

    @property
    def is_synthetic(self) -> bool:
        """Whether no model wrote it."""
        return self.model == SYNTHETIC


def messages_of(lines: Iterable[Line]) -> dict[str, Message]:
    """Returns the answers of lines in their order, by id."""
    found: dict[str, Message] = {}
    for line in lines:
        if line.type == "assistant":
            key = message_key(line)
            _take(found.setdefault(key, Message(key)), line)
    return found


def message_key(line: Line) -> str:
    """Returns the id of the answer that a line is part of; a line without one is an answer of its own."""
    own = line.message.get("id")
    return own if isinstance(own, str) and own else f"line:{line.uuid or line.locator}"


def blocks_of(line: Line) -> list[Block]:
    """Returns the pieces of a line's message."""
    content = line.message.get("content")
    if isinstance(content, list):
        return [Block(value, line, place) for place, value in enumerate(content)]
    return [Block({"type": "text", "text": content}, line, -1)] if content is not None else []


def _take(message: Message, line: Line) -> None:
    given = line.message
    message.lines += 1
    message.is_side = line.is_side
    message.copied_from = line.copied_from
    if isinstance(given.get("usage"), dict):
        message.usage = given["usage"]
    if isinstance(given.get("stop_reason"), str):
        message.stop_reason = given["stop_reason"]
    if isinstance(given.get("model"), str):
        message.model = given["model"]
    known = ("id", "content", "usage", "model", "role")
    message.rest |= {k: v for k, v in given.items() if k not in known}
    for block in blocks_of(line):
        _put(message, block)


def _put(message: Message, block: Block) -> None:
    for place, known in enumerate(message.blocks):
        if known.value == block.value:
            message.superseded += 1
            return
        if _same_call(known.value, block.value):
            message.superseded += 1
            if block.value.get("input"):
                message.blocks[place] = block
            return
    if message.blocks and _grew(message.blocks[-1].value, block.value):
        message.superseded += 1
        message.blocks[-1] = block
        return
    message.blocks.append(block)


def _same_call(left: Any, right: Any) -> bool:  # noqa: ANN401 - JSON
    if not isinstance(left, dict) or not isinstance(right, dict) or left.get("type") != right.get("type"):
        return False
    return isinstance(left.get("id"), str) and left["id"] == right.get("id")


def _grew(before: Any, after: Any) -> bool:  # noqa: ANN401 - JSON
    """Returns whether a piece of text is what an earlier one had become."""
    if not isinstance(before, dict) or not isinstance(after, dict) or before.get("type") != after.get("type"):
        return False
    name = _GROWING.get(str(before.get("type")))
    if name is None or not isinstance(before.get(name), str) or not isinstance(after.get(name), str):
        return False
    return len(after[name]) > len(before[name]) and after[name].startswith(before[name])
