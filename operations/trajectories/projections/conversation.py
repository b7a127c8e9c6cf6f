"""Reads a log as one conversation: what was said in order, who said it, which result answers which call, what is whole.

A call and its result belong together by their ids, so calls of equal names that run side by side stay apart. Nothing is
made up: what is not known, or does not make one conversation, is named as a problem.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from operations.trajectories.log import EventLog
from operations.trajectories.projections.losses import Losses
from operations.trajectories.projections.pieces import (
    Piece,
    has_several_answers,
    is_conversation,
    is_message,
    opened,
    pieces_of,
    role_of,
    text_of,
)
from operations.trajectories.roles import is_aside, is_told

Kind = Literal["text", "reasoning", "call", "result"]

CUT_OFF = frozenset({"failed", "cancelled", "interrupted", "running"})
"""States of a run in which its last turn did not come to its end."""

_CUT_SHORT = frozenset({"length", "max_tokens", "model_length", "content_filter", "error", "failed", "interrupted"})
"""Reasons for which a model stopped before it was done, as providers name them."""

UNTRAINED = "no whole segment is the agent's, so nothing is to be trained on"
"""Why there is no row."""

_KNOWN = ("value", "unparsable")
_NOTHING = ("null", "empty")


@dataclass(slots=True)
class Said:
    """One thing that was said, in a form of its own whatever the source's was."""

    event: Mapping[str, Any]
    what: Kind
    role: str
    text: str = ""
    call_id: str | None = None
    name: str | None = None
    arguments: Any = None
    history: bool = False
    """Whether it was given to the agent, and not said by it now."""
    left: str | None = None
    """Why it is no whole segment, so that nobody is trained on it."""
    answered: bool = False
    """Of a call: whether its result is known."""
    raw: Any = None
    """The content as it was, where that is a text or parts; None where it came out of a message."""

    @property
    def seq(self) -> int:
        """The event in which it stands."""
        return int(self.event["seq"])

    @property
    def by_agent(self) -> bool:
        """Whether the agent said it in this run."""
        return self.role == "assistant" and not self.history


@dataclass(slots=True)
class Conversation:
    """What was said, where turns begin, and what stands in the way of using it."""

    said: list[Said] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    """Where in `said` each turn begins."""
    placed: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)
    """Rewards, memory operations and ends of turns, each with how much had been said before it."""
    problems: list[str] = field(default_factory=list)
    """Why this is not one whole conversation; empty where it is."""


def conversation(log: EventLog, losses: Losses, *, whole: bool = True, silence: bool = False) -> Conversation:
    """Returns a log as a conversation; what has no place in one is noted in `losses`.

    With `whole`, a last turn that did not come to its end is left out. With `silence`, an answer without a text is
    there all the same.
    """
    made = _Reader(log, losses, silence=silence).read()
    _pair(made, losses if whole else None)
    if whole:
        _close(made, log, losses)
    return made


class _Reader:
    def __init__(self, log: EventLog, losses: Losses, *, silence: bool) -> None:
        self._log = log
        self._silence = silence
        self._losses = losses
        self._made = Conversation()
        self._opening: list[tuple[str, str]] | None = None
        """What the first model was given before anything was said, as role and text."""
        self._asked = any(e["kind"] == "text" and e["role"] == "user" and not is_aside(e) for e in log)
        """Whether the log has events of what was asked, so that prompts only repeat it."""
        self._told: dict[str, int] = {}
        """Call id → the event that tells the call."""
        self._same: dict[tuple[str | None, str], deque[int]] = {}
        """Name and arguments → the events that tell such a call, in order."""
        for event in log:
            if event["kind"] == "tool_call":
                self._told.setdefault(event["call_id"], event["seq"])
                asked = event.get("name"), _canonical(event["arguments"].get("value"))
                self._same.setdefault(asked, deque()).append(event["seq"])
        self._called: set[str | None] = set()
        self._answered: set[str | None] = set()
        self._fresh = True
        self._spoke = False

    def read(self) -> Conversation:
        made = self._made
        for event in self._log:
            if is_aside(event):
                self._losses.whole(event, "it was said in a sub-agent's conversation, which is another one")
                continue
            match event["kind"]:
                case "text":
                    self._text(event)
                case "reasoning":
                    self._reasoning(event)
                case "tool_call":
                    self._call(event)
                case "tool_result":
                    self._result(event)
                case "observation":
                    self._observation(event)
                case _:
                    made.placed.append((len(made.said), event))
                    self._fresh = self._fresh or event["kind"] == "turn_complete"
        return made

    # -- events --------------------------------------------------------------------------------------------------------

    def _text(self, event: Mapping[str, Any]) -> None:
        role = event["role"]
        if role == "assistant":
            self._given(event)
        if role == "unknown":
            self._made.problems.append(f"event {event['seq']}: nobody knows who said it")
            return
        content = event["content"]
        if content["status"] in _KNOWN and content.get("value") is not None:
            failed = bool(event.get("error")) and role == "assistant"
            why = "it is the report of an error, not an answer" if failed else None
            if role == "assistant" and has_several_answers(content["value"]):
                self._made.problems.append(f"event {event['seq']}: it holds several answers to one question")
            pieces, value = list(pieces_of(content["value"], role)), opened(content["value"])
            if all(piece.what == "text" for piece in pieces) and not (is_message(value) or is_conversation(value)):
                self._texts(event, role, pieces, why)
                return
            for piece in pieces:  # what others say that the agent said is nothing that it says now
                self._piece(event, piece, history=role != "assistant", left=why)
        elif content["status"] in (*_NOTHING, *_KNOWN):
            if role != "assistant" or self._silence:
                self._add(Said(event, "text", role))
        else:
            self._made.problems.append(f"event {event['seq']}: what was said is {content['status']}")

    def _texts(self, event: Mapping[str, Any], role: str, pieces: list[Piece], left: str | None) -> None:
        """Adds a content that is text, or parts of which some may be none."""
        for problem in dict.fromkeys(piece.problem for piece in pieces if piece.problem is not None):
            self._made.problems.append(f"event {event['seq']}: it holds {problem}")
        text = "".join(piece.text or "" for piece in pieces)
        value = event["content"].get("value")
        self._add(Said(event, "text", role, text, left=left, raw=value if _is_plain(value) else None))

    def _reasoning(self, event: Mapping[str, Any]) -> None:
        content = event["content"]
        if event.get("opaque") or content["status"] != "value":
            why = "opaque" if event.get("opaque") else str(content["status"])
            self._losses.note(event, "content", f"the reasoning is {why}, so there is nothing to carry")
            return
        value = content.get("value")
        text = "\n\n".join(map(text_of, value)) if isinstance(value, list) else _joined(value)
        self._add(Said(event, "reasoning", "assistant", text))

    def _call(self, event: Mapping[str, Any]) -> None:
        arguments = event["arguments"]
        status, seq = arguments["status"], event["seq"]
        value = arguments.get("value") if status in _KNOWN else None
        if status not in (*_KNOWN, *_NOTHING):
            self._made.problems.append(f"event {seq}: the arguments of the call are {status}")
        if not event.get("name"):
            self._made.problems.append(f"event {seq}: the call does not name its tool")
        self._add(Said(event, "call", "assistant", "", event["call_id"], event.get("name"), value))

    def _result(self, event: Mapping[str, Any]) -> None:
        content, error = event["content"], event.get("error") or {}
        if content["status"] in _KNOWN:
            text = _joined(content.get("value"))
        elif error.get("message"):
            text = str(error["message"])
            self._losses.note(event, "error", "its message stands as the content, since there is no other")
        else:
            text = ""
            if content["status"] not in _NOTHING:
                self._made.problems.append(f"event {event['seq']}: the result of the call is {content['status']}")
        raw = content.get("value") if content["status"] in _KNOWN else None
        said = Said(event, "result", "tool", text, event["call_id"], event.get("name"))
        said.raw = raw if _is_plain(raw) else None
        self._add(said)

    def _observation(self, event: Mapping[str, Any]) -> None:
        if is_told(event):
            self._add(Said(event, "text", "user", _joined(event["output"].get("value")), history=True))
        else:
            self._losses.whole(event, "it is a span around the agent, and no message to it")

    def _piece(self, event: Mapping[str, Any], piece: Piece, *, history: bool = False, left: str | None = None) -> None:
        if piece.problem is not None:
            self._made.problems.append(f"event {event['seq']}: it holds {piece.problem}")
            return
        call_id = piece.call_id
        if piece.what == "call":
            if self._is_told(event, piece):
                self._losses.note(event, "content", "a call in it is an event of its own, and is told by that")
                return
            if not piece.name:
                self._made.problems.append(f"event {event['seq']}: a call in it does not name its tool")
            call_id = call_id or f"{event['id']}:{len(self._made.said)}"
        role = "assistant" if piece.what in ("call", "reasoning") else piece.role
        said = Said(event, piece.what, role, piece.text or "", call_id, piece.name, piece.arguments, history, left)
        self._add(said)

    def _is_told(self, event: Mapping[str, Any], piece: Piece) -> bool:
        """Whether a later event tells the same call as one within a message: by its id, else by what it asks."""
        if piece.call_id in self._told:
            return True
        later = self._same.get((piece.name, _canonical(piece.arguments)), deque())
        while later and later[0] <= event["seq"]:
            later.popleft()
        if not later:
            return False
        later.popleft()
        return True

    # -- what a model was given ----------------------------------------------------------------------------------------

    def _given(self, event: Mapping[str, Any]) -> None:
        """Takes from a model's prompt what the log has no event of: the opening, then what was added since."""
        prompt = event.get("prompt") or {}
        if prompt.get("status") != "value" or prompt.get("value") in (None, "", []):
            return
        value = opened(prompt["value"])
        messages = value if is_conversation(value) else [{"role": "user", "content": value}]
        opening = [(str(role_of(m)), _canonical(m.get("content", m.get("parts")))) for m in _beginning(messages)]
        if self._opening is None:
            self._opening = opening
            self._open(event, messages)
        elif opening != self._opening:
            self._made.problems.append(f"event {event['seq']}: its model was given another conversation")
        else:
            self._added(event, messages)
        self._losses.note(event, "prompt", "only what was not said before is carried")

    def _open(self, event: Mapping[str, Any], messages: list[Any]) -> None:
        system = (event.get("attributes") or {}).get("system_instructions")
        if system not in (None, "", []) and not any(said.role == "system" for said in self._made.said):
            for piece in pieces_of(system, "system"):
                self._piece(event, piece, history=True)
        if self._asked:
            return
        for message in messages:
            for piece in pieces_of(message, str(role_of(message))):
                self._piece(event, piece, history=True)

    def _added(self, event: Mapping[str, Any], messages: list[Any]) -> None:
        last = max((n for n, m in enumerate(messages) if role_of(m) == "assistant"), default=-1)
        if last < 0:
            return
        for message in messages[last + 1 :]:
            for piece in pieces_of(message, str(role_of(message))):
                if piece.what == "result":
                    if piece.call_id in self._called and piece.call_id not in self._answered:
                        self._piece(event, piece, history=True)
                elif piece.role != "tool" and not self._asked:
                    self._piece(event, piece, history=True)

    def _add(self, said: Said) -> None:
        made = self._made
        if self._fresh or (said.role == "user" and self._spoke):
            made.turns.append(len(made.said))
            self._fresh = self._spoke = False
        self._spoke = self._spoke or said.by_agent
        if said.what == "call":
            self._called.add(said.call_id)
        elif said.what == "result":
            self._answered.add(said.call_id)
        made.said.append(said)


def _pair(made: Conversation, losses: Losses | None) -> None:
    """Marks the calls that were answered, each by the first result of its id that comes after it."""
    waiting: dict[str | None, list[Said]] = {}
    for said in made.said:
        if said.what == "call":
            waiting.setdefault(said.call_id, []).append(said)
        elif said.what == "result":
            if not waiting.get(said.call_id):
                made.problems.append(f"event {said.seq}: a result of no call that is known")
                continue
            waiting[said.call_id].pop(0).answered = True
    for said in made.said:
        if said.what == "call" and not said.answered and said.left is None:
            said.left = "its call has no result"
            if losses is not None:
                losses.note(said.event, "*", "its call has no result, so nobody is trained on it")


def cut_turn(made: Conversation, log: EventLog) -> tuple[int, str] | None:
    """Returns where a last turn that did not come to its end begins, and why it is none; None where it did."""
    if not made.said:
        return None
    last, start = made.said[-1], made.turns[-1] if made.turns else 0
    ended = next((e for n, e in reversed(made.placed) if e["kind"] == "turn_complete" and n > start), None)
    own = last.event.get("attributes") or {}
    reason = str((ended or {}).get("finish_reason") or own.get("finish_reason") or own.get("stop_reason") or "")
    why = None
    if log.state in CUT_OFF:
        why = f"the run is {log.state}"
    elif not (last.by_agent and last.what == "text" and last.left is None):
        why = "it does not end with an answer"
    elif reason.lower() in _CUT_SHORT or (ended or {}).get("error"):
        why = f"it was cut short ({reason[:40] or 'an error'})"
    return None if why is None else (start, why)


def _close(made: Conversation, log: EventLog, losses: Losses) -> None:
    """Takes away a last turn that did not come to its end."""
    if (found := cut_turn(made, log)) is None:
        return
    start, why = found
    for said in made.said[start:]:
        losses.note(said.event, "*", f"the last turn was cut off: {why}")
    del made.said[start:]
    made.turns = made.turns[:-1]
    made.placed = [(min(n, start), event) for n, event in made.placed]


def _beginning(messages: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    found = []
    for message in messages:
        if role_of(message) not in ("system", "developer", "user"):
            break
        found.append(message)
    return found


def _is_plain(value: Any) -> bool:  # noqa: ANN401 - JSON
    """Whether a content is what a message may hold as it is: a text, or parts."""
    parts = isinstance(value, list) and bool(value) and all(isinstance(x, Mapping) and "type" in x for x in value)
    return isinstance(value, str) or (parts and not is_conversation(value))


def _joined(value: Any) -> str:  # noqa: ANN401 - JSON
    """Returns a result as the text that the agent was shown."""
    pieces = list(pieces_of(value, "tool"))
    if any(piece.problem is not None or piece.what != "text" for piece in pieces):
        return json.dumps(value, ensure_ascii=False)
    return "".join(piece.text or "" for piece in pieces)


def _canonical(value: Any) -> str:  # noqa: ANN401 - JSON
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
