"""One log as the rules read it: calls paired with their results, who said what, and the inputs beside the log."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from operations.trajectories.detectors.toolbox import tools_in
from operations.trajectories.detectors.words import bag, text_of, unpacked
from operations.trajectories.log import EventLog, LogProblem, canonical

Event = Mapping[str, Any]

_SAID = ("value", "empty", "null", "unparsable", "collided")
"""Statuses of a content that says something, if only that it is empty."""

_AFTERWARDS = frozenset(("turn_complete", "reward", "reasoning", "memory_op"))
"""Kinds that can follow an answer and take nothing from it."""

_TRANSIENT_KINDS = frozenset(("timeout", "infrastructure"))
_TRANSIENT_CODES = frozenset(
    ("408", "425", "429", "500", "502", "503", "504", "rate_limit", "rate_limited", "overloaded")
)
"""Errors that say nothing about the call: the same call can work the next time."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What an episode may use; None where no limit was stated."""

    calls: int | None = None
    tokens: int | None = None


@dataclass(slots=True)
class Call:
    """A call with what came of it."""

    seq: int
    name: str | None
    status: str
    """The status of its arguments."""
    given: Any
    """Its arguments as they stand in the log."""
    error: Mapping[str, Any] | None = None
    results: list[Event] = field(default_factory=list)
    key: bytes = b""
    """Equal for calls of one tool with the same arguments."""
    near: bytes | None = None
    """Equal for calls of one tool whose arguments differ in case, spacing, punctuation or the order of words only."""
    outcome: bytes | None = None
    """Equal for equal outcomes; None where nothing is known of it."""

    @property
    def arguments(self) -> Any:  # noqa: ANN401 - any JSON
        """The arguments; a text that is the JSON of an object, as some providers send them, is read."""
        return {} if self.status in ("null", "empty") else unpacked(self.given)

    @property
    def said(self) -> list[Any]:
        """What its results say."""
        return [result["content"].get("value") for result in self.results]

    @property
    def seqs(self) -> tuple[int, ...]:
        """The call and its results."""
        return (self.seq, *(result["seq"] for result in self.results))

    @property
    def last(self) -> int:
        """The last event of it."""
        return max(self.seqs)

    @property
    def transient(self) -> bool:
        """Whether it failed in a way that says nothing about the call."""
        error = self.error or {}
        return error.get("kind") in _TRANSIENT_KINDS or str(error.get("code")).casefold() in _TRANSIENT_CODES


class Episode:
    """What the rules look at.

    Args:
        log: What the agent did.
        tools: Tool → JSON Schema of its arguments, or None where only the name is known. Default: what the log itself
            records of them, and not known where it records nothing.
        budget: What the episode may use.
        asked: Texts that the agent was given and the log does not hold, such as the input of its Case.
        answered: What the agent answered where that is kept beside the log, such as its output.
    """

    def __init__(
        self,
        log: EventLog,
        *,
        tools: Mapping[str, Mapping[str, Any] | None] | None = None,
        budget: Budget | None = None,
        asked: Sequence[str] = (),
        answered: str | None = None,
    ) -> None:
        self.events: tuple[Event, ...] = tuple(log)
        self.state, self.end_reason = log.state, log.end_reason
        self.tools_given = tools is not None
        self.tools = _tools_of(log, self.events) if tools is None else tools
        self.budget = budget or Budget()
        self.asked = tuple(asked)
        self.answered = answered if answered and answered.strip() else None

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """The calls, in order."""
        return tuple(_paired(self.events))

    @cached_property
    def streaks(self) -> tuple[tuple[Call, ...], ...]:
        """The calls between one message of the user and the next: a person who asks again is no loop."""
        breaks = [e["seq"] for e in self.events if is_user(e)]
        found: list[list[Call]] = [[]]
        at = 0
        for call in self.calls:
            while at < len(breaks) and breaks[at] < call.seq:
                at += 1
                found.append([])
            found[-1].append(call)
        return tuple(tuple(streak) for streak in found if streak)

    @cached_property
    def answer(self) -> tuple[Event, ...]:
        """The last texts of the agent, where it did nothing after them."""
        last: list[Event] = []
        for event in reversed(self.events):
            if is_answer(event):
                last.append(event)
            elif event["kind"] in _AFTERWARDS or is_mark(event):
                continue
            elif last or event["kind"] != "observation" or event.get("error"):
                break  # what was seen after the last text is the recorder's; before it, it is what the agent went by
        return tuple(reversed(last))

    @cached_property
    def answer_text(self) -> str | None:
        """What the agent answered in the end: in the log, else beside it. None where there is nothing."""
        said = "\n".join(text_of(event["content"].get("value")) for event in self.answer).strip()
        return said or self.answered

    @property
    def answer_seqs(self) -> tuple[int, ...]:
        """The events of the answer; where it is kept beside the log, the last event."""
        return tuple(event["seq"] for event in self.answer) or (len(self.events) - 1,)

    def observed(self) -> Iterator[tuple[int, Any]]:
        """Yields what the agent was told by others than the user: results, errors, observations, memory."""
        for event in self.events:
            kind, error = event["kind"], event.get("error")
            if error and error.get("message"):
                yield event["seq"], error["message"]
            if kind in ("tool_result", "memory_op"):
                yield event["seq"], event["content"].get("value")
            elif kind == "observation":
                yield event["seq"], event["output"].get("value")
            elif kind == "text" and event["role"] == "tool":
                yield event["seq"], event["content"].get("value")

    def told(self, roles: Collection[str] = ("user", "system", "developer", "unknown")) -> Iterator[str]:
        """Yields what the user and the instructions said."""
        yield from self.asked
        for event in self.events:
            if event["kind"] == "text" and event["role"] in roles:
                yield text_of(event["content"].get("value"))


def _tools_of(log: EventLog, events: Sequence[Event]) -> Mapping[str, Mapping[str, Any] | None] | None:
    """Returns what the log says of the tools: at its head, else in its events."""
    if log.tools is None:
        return tools_in(events)
    schemas = {name: tool.get("parameters") for name, tool in log.tools.items()}
    return {name: schema if isinstance(schema, dict) else None for name, schema in schemas.items()}


def is_user(event: Event) -> bool:
    """Whether a person spoke; context that a client puts in between is none."""
    if event["kind"] != "text" or event["role"] != "user":
        return False
    return not (event.get("attributes") or {}).get("context")


def is_answer(event: Event) -> bool:
    """Whether it is something that the agent said to the user, and not a part of it to another part."""
    if event["kind"] != "text" or event["role"] != "assistant" or event.get("error"):
        return False
    inner = "sidechain" in (event.get("attributes") or {})
    return not inner and bool(text_of(event["content"].get("value")).strip())


def is_mark(event: Event) -> bool:
    """Whether an event tells the user nothing: an observation of nothing, or a text of the agent that is no answer."""
    if event.get("error"):
        return False
    if event["kind"] == "text":
        return bool(event["role"] == "assistant")
    said = {event[name]["status"] for name in ("input", "output") if event["kind"] == "observation"}
    return bool(said) and said <= {"empty", "null", "not_exported"}


def _paired(events: Sequence[Event]) -> Iterator[Call]:
    """Yields the calls; of several with one id, the first has the first result, and the last all that are left."""
    calls: list[Call] = []
    by_id: dict[str, list[Call]] = defaultdict(list)
    results: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        if event["kind"] == "tool_call":
            content = event["arguments"]
            call = Call(event["seq"], event["name"], content["status"], content.get("value"), event.get("error"))
            calls.append(call)
            by_id[event["call_id"]].append(call)
        elif event["kind"] == "tool_result":
            results[event["call_id"]].append(event)
    for call_id, found in results.items():
        made = by_id.get(call_id, ())
        for place, result in enumerate(found if made else ()):
            made[min(place, len(made) - 1)].results.append(result)
    for call in calls:
        _finish(call)
        yield call


def _finish(call: Call) -> None:
    """Takes the error of a call from its results and makes what calls are compared by."""
    call.error = next((r["error"] for r in call.results if r.get("error")), call.error)
    known = call.status in _SAID
    arguments = call.arguments
    # A call whose arguments are not known is equal to no other.
    call.key = _digest([call.name, arguments] if known else ["unknown", call.seq], call.seq)
    if known and isinstance(arguments, dict) and arguments:
        call.near = _digest([call.name, bag(arguments)], call.seq)
    said = [r["content"].get("value") for r in call.results if r["content"]["status"] in _SAID]
    if said or call.error:
        error = call.error or {}
        call.outcome = _digest([said, error.get("kind"), error.get("code"), error.get("message")], call.seq)


def _digest(value: Any, place: int) -> bytes:  # noqa: ANN401 - any JSON
    """Returns what equal values share; what is nested deeper than Python can follow is equal to nothing else."""
    try:
        text = canonical(value)
    except LogProblem:
        text = f"nested too deeply at {place}"
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
