"""Projects a log to messages of OpenAI's chat completions, and reads such messages as a log."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from operations.trajectories.log import EventLog, LogProblem
from operations.trajectories.projections.conversation import UNTRAINED, Conversation, Said, conversation, cut_turn
from operations.trajectories.projections.evaluator import results_of
from operations.trajectories.projections.losses import Carried, Losses, LossReport
from operations.trajectories.projections.pieces import PART, ROLES

_OWN = "openai"
"""The attribute under which a log keeps what only this format has."""

_CARRIED = {
    "text": {"role", "content", "prompt", "turn", "group"},
    "reasoning": {"content", "opaque", "turn", "group"},
    "tool_call": {"call_id", "name", "arguments", "turn", "group"},
    "tool_result": {"call_id", "content", "turn", "unpaired"},
    "observation": {"output"},
    "reward": set[str](),
    "memory_op": set[str](),
    "turn_complete": set[str](),
}
_TAKEN = ("role", "content", "reasoning_content", "tool_calls", "tool_call_id")
_KINDS = frozenset({"call", "text", "reasoning"})


def openai_messages(log: EventLog, *, to_train: bool = False) -> tuple[list[dict[str, Any]], LossReport]:
    """Returns a log as messages, and what they do not carry.

    What the agent said in one go is one message; its calls stand in it in their order, and their results follow it,
    each with the id of its call. Arguments are a text of JSON, as the format has them; arguments that were no JSON are
    the text that they were. Reasoning is `reasoning_content`, as servers of open models have it.

    Args:
        log: The log of one run.
        to_train: Whether the messages are to be learned. Then one of the agent's that nobody should learn has `weight`
            0, as OpenAI's fine-tuning takes it: one that was given to it, that has the report of an error, a call
            without a result or with arguments that are no object, or that belongs to a last turn which was cut off.
            The report says `refused` where this is no whole conversation, or nothing in it is to be learned.
    """
    losses = Losses("openai_messages")
    made = conversation(log, losses, whole=False, silence=True)
    carried = Carried(_CARRIED, log)
    for event in log:
        if event["kind"] in ("reward", "memory_op", "turn_complete"):
            losses.whole(event, "messages have no place for it")
        own = set(event.get("attributes") or {}) == {_OWN}
        losses.rest(event, carried.of(event) | ({"attributes"} if own else set()))
    for problem in made.problems:
        losses.count(("log", "*", problem), 1, ())
    if not to_train:
        return _messages(made, losses), losses.report()
    cut = cut_turn(made, log)
    messages = _messages(made, losses, len(made.said) if cut is None else cut[0])
    refused = next(
        (problem for problem in made.problems if not problem.partition(": ")[2].startswith(f"it holds {PART}")), None
    )
    if not any(message["role"] == "assistant" and message.get("weight") != 0 for message in messages):
        refused = refused or UNTRAINED
    return messages, losses.report(refused)


def _messages(made: Conversation, losses: Losses, trained: int | None = None) -> list[dict[str, Any]]:
    """Returns the messages; with `trained`, those are told apart that are to be learned, which end there."""
    results, found = results_of(made), list[dict[str, Any]]()
    place = 0
    while place < len(made.said):
        said = made.said[place]
        if said.what == "result":
            if place in results.unpaired:
                found.append(_result(said, said))
            place += 1
            continue
        if not (said.role == "assistant" and said.what in _KINDS):
            found.append({"role": said.role, "content": _content_of(said), **_more(said)})
            place += 1
            continue
        end = _end_of_message(made.said, place)
        group = made.said[place:end]
        found.append(_message(group))
        if trained is not None and not (end <= trained and all(map(_is_learned, group))):
            found[-1]["weight"] = 0
        calls = [(n, one) for n, one in enumerate(group, place) if one.what == "call"]
        answers = [(results[n], one) for n, one in calls if n in results]
        for answer, call in sorted(answers, key=lambda pair: pair[0].seq):
            found.append(_result(answer, call))
        for n, call in calls:
            if n not in results:
                losses.note(call.event, "*", "it has no result; a server would refuse to go on from here")
        place = end
    return found


def _is_learned(said: Said) -> bool:
    return said.by_agent and said.left is None and (said.what != "call" or isinstance(said.arguments, Mapping))


def _end_of_message(said: list[Said], start: int) -> int:
    """Returns where the next message begins: at most one reasoning, one text, then calls of one group."""
    order = {"reasoning": 0, "text": 1, "call": 2}
    first = said[start]
    for place in range(start + 1, len(said)):
        before, now = said[place - 1], said[place]
        groups = {one.event.get("group") for one in (first, now)}
        apart = len(groups) > 1 and None not in groups
        if now.role != "assistant" or now.what == "result" or apart or now.history != first.history:
            return place
        if order[now.what] < order[before.what] or (now.what == before.what != "call"):
            return place
    return len(said)


def _message(group: list[Said]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    for said in group:
        if said.what == "text":
            message["content"] = _content_of(said)
        elif said.what == "reasoning":
            message["reasoning_content"] = said.text
        else:
            own = _own(said)
            given = own["arguments"] if _says(own.get("arguments"), said.arguments) else said.arguments
            if not isinstance(given, str):
                given = "" if given is None else json.dumps(given, ensure_ascii=False)
            call = {"id": _source_id(own, said), "type": "function"}
            function = {"name": said.name, "arguments": given}
            message.setdefault("tool_calls", []).append({**call, "function": function})
    for said in group:
        message |= _more(said)
    return message


def _result(said: Said, call: Said) -> dict[str, Any]:
    content = _content_of(said)
    return {"role": "tool", "tool_call_id": _source_id(_own(call), said), "content": content, **_more(said)}


def _content_of(said: Said) -> Any:  # noqa: ANN401 - JSON
    silent = said.what == "text" and not said.history and said.event["content"]["status"] == "null"
    return None if silent else said.raw if said.raw is not None else said.text


def _own(said: Said) -> Mapping[str, Any]:
    found = (said.event.get("attributes") or {}).get(_OWN)
    return found if isinstance(found, Mapping) else {}


def _more(said: Said) -> dict[str, Any]:
    """Returns what a message has besides. A log of any source may hold such an attribute, so it changes nothing."""
    more = _own(said).get("message")
    found = {name: value for name, value in more.items() if name not in _TAKEN} if isinstance(more, Mapping) else {}
    silent = (
        isinstance(more, Mapping) and more.get("content") == "" and said.role == "assistant" and said.what != "text"
    )
    return {**found, "content": ""} if silent else found


def _says(text: Any, arguments: Any) -> bool:  # noqa: ANN401 - JSON
    """Whether a text is another writing of the same arguments."""
    return isinstance(text, str) and _arguments(text).get("value") == arguments


def _source_id(own: Mapping[str, Any], said: Said) -> Any:  # noqa: ANN401 - a text or None
    """Returns the id that the source gave a call: that of the log, or the same without its number."""
    given = own.get("call_id")
    return given if isinstance(given, str) and str(said.call_id).startswith(f"{given}~") else said.call_id


# -- and back ----------------------------------------------------------------------------------------------------------


def from_openai_messages(messages: Iterable[Mapping[str, Any]], *, state: str = "unknown") -> EventLog:
    """Returns the log of messages: each text, reasoning, call and result as an event of its own.

    What one message of the agent holds shares a group. A call id that comes again gets `~2` and so on, and its result
    with it; what the format has and an event does not stays in the attribute `openai`, so that `openai_messages` gives
    the same again.

    Args:
        messages: Messages of chat completions, in order.
        state: How the run ended, one of the states of a log.

    Raises:
        ValueError: One is no such message; it names which, from 0.
    """
    given = list(messages)
    reader = _Reader(_ids_in(given))
    for number, message in enumerate(given):
        reader.take(number, message)
    if state != "running":
        reader.log.end(state)
    return reader.log


def _ids_in(messages: Iterable[Any]) -> set[str]:
    """Returns the ids that messages give calls, so that none is given to another."""
    found = set()
    for message in filter(lambda one: isinstance(one, Mapping), messages):
        calls = message.get("tool_calls")
        found |= {str(one.get("id")) for one in calls if isinstance(one, Mapping)} if isinstance(calls, list) else set()
        found.add(str(message.get("tool_call_id")))
    return found


class _Reader:
    def __init__(self, given: set[str]) -> None:
        self.log = EventLog()
        self._given = given
        self._turn = 0
        self._times: dict[str, int] = {}
        self._open: dict[str, deque[str]] = {}

    def take(self, number: int, message: Mapping[str, Any]) -> None:
        given: Any = message
        role = given.get("role") if isinstance(given, Mapping) else None
        if role not in ROLES:
            raise LogProblem(f"message {number} has the role {str(role)[:40]!r}; there are {', '.join(sorted(ROLES))}")
        if role == "user" and len(self.log):
            self._turn += 1
        base: dict[str, Any] = {"turn": self._turn}
        more = {name: value for name, value in message.items() if name not in _TAKEN}
        own = {"attributes": {_OWN: {"message": more}}} if more else {}
        content = _content(message.get("content"))
        if role == "assistant":
            self._assistant(number, message, base, more)
        elif role == "tool" and message.get("tool_call_id") is not None:
            given = str(message["tool_call_id"])
            waiting = self._open.get(given)
            paired = {"call_id": waiting.popleft()} if waiting else {"call_id": given, "unpaired": True}
            self.log.append({"kind": "tool_result", **base, **paired, "content": content, **own})
        else:
            self.log.append({"kind": "text", **base, "role": role, "content": content, **own})

    def _assistant(self, number: int, message: Mapping[str, Any], base: dict[str, Any], more: dict[str, Any]) -> None:
        calls = message.get("tool_calls") or []
        if not isinstance(calls, list):
            raise LogProblem(f"message {number} has tool_calls that are no list: {str(calls)[:40]!r}")
        said, thought = message.get("content"), message.get("reasoning_content")
        events: list[dict[str, Any]] = []
        if isinstance(thought, str):
            events.append({"kind": "reasoning", "content": _content(thought)})
        if said not in (None, "") or not (calls or events):
            events.append({"kind": "text", "role": "assistant", "content": _content(said)})
        elif said == "":
            more = {**more, "content": ""}
        for place, call in enumerate(calls):
            events.append(self._call(number, place, call))
        group = {"group": f"message:{number}"}
        if more:
            attributes = events[0].setdefault("attributes", {_OWN: {}})
            attributes[_OWN]["message"] = more
        for event in events:
            self.log.append({**base, **group, **event})

    def _call(self, number: int, place: int, call: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise LogProblem(f"message {number}: call {place} names no function; a call has function.name")
        given = function.get("arguments", "")
        own: dict[str, Any] = {}
        call_id = source = str(call.get("id") or f"call:{number}.{place}")
        if source in self._times:
            while call_id == source or call_id in self._given:
                self._times[source] += 1
                call_id = f"{source}~{self._times[source]}"
            own["call_id"] = source
        self._times.setdefault(source, 1)
        self._open.setdefault(source, deque()).append(call_id)
        arguments = _arguments(given)
        again = json.dumps(arguments.get("value"), ensure_ascii=False, sort_keys=True)  # a log keeps no order of names
        if isinstance(given, str) and again != given:
            own["arguments"] = given
        kept = {"attributes": {_OWN: own}} if own else {}
        return {"kind": "tool_call", "call_id": call_id, "name": function["name"], "arguments": arguments, **kept}


def _content(value: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    if value is None:
        return {"status": "null"}
    return {"status": "empty"} if value == "" else {"status": "value", "value": value}


def _arguments(given: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    if not isinstance(given, str):
        return _content(given)
    if not given:
        return {"status": "empty"}
    try:
        return {"status": "value", "value": json.loads(given, parse_constant=_no_constant)}
    except (ValueError, RecursionError):
        return {"status": "unparsable", "value": given}


def _no_constant(name: str) -> None:
    raise ValueError(name)
