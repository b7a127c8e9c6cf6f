"""One log as the rules read it: calls paired with their results, who said what, and the inputs beside the log."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from operations.trajectories.detectors.schemas import Schemas
from operations.trajectories.detectors.toolbox import tools_of
from operations.trajectories.detectors.words import bag, text_of, unpacked
from operations.trajectories.log import EventLog, LogProblem, canonical
from operations.trajectories.roles import is_aside, is_told

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
    observed: list[Any] = field(default_factory=list)
    """What the agent was told besides, after this call and before the next: of a screen, say."""
    key: bytes = b""
    """Equal for calls of one tool with the same arguments."""
    near: bytes | None = None
    """Equal for calls of one tool whose arguments differ in case, spacing, punctuation or the order of words only."""
    outcome: bytes | None = None
    """Equal for equal outcomes; None where nothing is known of it."""
    view: bytes | None = None
    """Equal where the same was observed; None where nothing was."""

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
        self.tools = tools_of(log) if tools is None else tools
        self.budget = budget or Budget()
        self.asked = tuple(asked)
        self.answered = answered if answered and answered.strip() else None

    @cached_property
    def schemas(self) -> Schemas:
        """The schemas of the tools."""
        return Schemas(self.tools)

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
        said = "\n".join(said_in(event) for event in self.answer).strip()
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
                yield said_in(event)


def events_of(calls: Iterable[Call]) -> tuple[int, ...]:
    """Returns the events of some calls and their results, ascending."""
    return tuple(sorted(seq for call in calls for seq in call.seqs))


def said_in(event: Event) -> str:
    """Returns what a text says."""
    return text_of(event["content"].get("value"))


def is_user(event: Event) -> bool:
    """Whether a person spoke; context that a client puts in between is none."""
    if event["kind"] != "text" or event["role"] != "user":
        return False
    return not (event.get("attributes") or {}).get("context")


def is_answer(event: Event) -> bool:
    """Whether it is something that the agent said to the user, and not a part of it to another part."""
    if event["kind"] != "text" or event["role"] != "assistant" or event.get("error"):
        return False
    return not is_aside(event) and bool(said_in(event).strip())


def is_mark(event: Event) -> bool:
    """Whether an event tells the user nothing: an observation of nothing, or a text of the agent that is no answer."""
    if event.get("error"):
        return False
    if event["kind"] == "text":
        return bool(event["role"] == "assistant")
    said = {event[name]["status"] for name in ("input", "output") if event["kind"] == "observation"}
    return bool(said) and said <= {"empty", "null", "not_exported"}


def _paired(events: Sequence[Event]) -> Iterator[Call]:
    """Yields the calls, each with all results of its id and what was observed before the next."""
    calls: dict[str, Call] = {}
    results: list[Event] = []
    last: Call | None = None
    for event in events:
        if event["kind"] == "tool_call":
            content = event["arguments"]
            last = Call(event["seq"], event["name"], content["status"], content.get("value"), event.get("error"))
            calls[event["call_id"]] = last
        elif event["kind"] == "tool_result":
            results.append(event)
        elif last is not None and is_told(event):
            last.observed.append(event["output"].get("value"))
    for result in results:  # a source may tell one before its call
        if (call := calls.get(result["call_id"])) is not None:
            call.results.append(result)
    for call in calls.values():
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
    if call.observed:
        call.view = _digest(call.observed, call.seq)


def _digest(value: Any, place: int) -> bytes:  # noqa: ANN401 - any JSON
    """Returns what equal values share; what is nested deeper than Python can follow is equal to nothing else."""
    try:
        text = canonical(value)
    except LogProblem:
        text = f"nested too deeply at {place}"
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
