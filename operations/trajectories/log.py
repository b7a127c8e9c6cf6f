"""The EventLog in use: appended to event by event, written as hash-chained lines, and read back only if they are whole.

Its events are plain JSON objects in the form of `storage.schema.events`, which is what a project stores; this module
needs no more than the standard library, so that a rollout engine or a notebook can use it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from operations.trajectories.form import problem_of, problem_of_tools
from operations.trajectories.roles import is_written
from storage.schema.event_order import EventOrder

FORMAT = 1
"""The version of the form; the same as that of `storage.schema.events`."""

STATES = frozenset({"running", "completed", "failed", "cancelled", "interrupted", "unknown"})

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
_OPENING = hashlib.sha256(b"atk event log 1").hexdigest()


class LogProblem(ValueError):
    """What was given is no event, no log or not the log that was written."""


class EventLog:
    """What one agent did in one trace or attempt, in order.

    An event has a `kind`, one of the eight, and the fields of that kind. `seq` is given here; so is `id` where it is
    missing. Whether the log is `full` is found out from its events, never declared.
    """

    def __init__(self, tools: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        """Begins an empty log of a run that goes on.

        Args:
            tools: The tools that the agent is given, all of them: name → `description`, `parameters` (a JSON Schema of
                the arguments), `server`, `version`, as far as they are known. None where nothing is known.

        Raises:
            LogProblem: `tools` is something else.
        """
        if problem := problem_of_tools(tools):
            raise LogProblem(problem)
        self.state = "running"
        self.end_reason: str | None = None
        self.tools: dict[str, dict[str, Any]] | None = None if tools is None else json.loads(canonical(tools))
        self._events: list[dict[str, Any]] = []
        self._order = EventOrder()

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self._events)

    @property
    def tier(self) -> str:
        """`full` where all that the policy wrote, and that is something, has tokens with log-probabilities."""
        return "full" if any(map(is_written, self._events)) and not self.without_tokens() else "light"

    def without_tokens(self) -> list[int]:
        """Returns the `seq` of each event that the policy wrote and that has no tokens with log-probabilities."""
        return [e["seq"] for e in self._events if is_written(e) and (e.get("tokens") or {}).get("logprobs") is None]

    def append(self, event: Mapping[str, Any]) -> int:
        """Adds an event, which is copied, and returns its `seq`.

        Raises:
            LogProblem: The run has ended, this is no event, or it does not fit to those before: its name is taken, it
                is the result of no open call, its parent does not stand before it. Nothing was added.
        """
        if self.state != "running":
            raise LogProblem(f"the run has ended ({self.state}); nothing can follow")
        self._add(event, parents_first=True)
        return len(self._events) - 1

    def end(self, state: str, reason: str | None = None) -> None:
        """Says how the run ended; after that the log takes no more.

        Raises:
            LogProblem: It has ended already, or this is no end.
        """
        if self.state != "running":
            raise LogProblem(f"the run has ended already ({self.state})")
        if state == "running":
            raise LogProblem("running is no end of a run")
        ending(state, reason, len(self))
        self.state, self.end_reason = state, reason

    def why_light(self) -> str | None:
        """Returns what a full log would have and this one has not, or None where it is full."""
        if lacking := self.without_tokens():
            return f"events {_some(lacking)} have no tokens with log-probabilities"
        return None if self.tier == "full" else "it holds none"

    def digest(self) -> str:
        """Returns the hash of the last of its lines, which stands for all of them: SHA-256, hex."""
        last = _OPENING.encode()
        for line in self.lines():
            last = line
        return last[: len(_OPENING)].decode()

    def open_calls(self) -> list[str]:
        """Returns the ids of the calls that have no result yet, in order."""
        return self._order.open_calls()

    def masked_tokens(self) -> list[tuple[int, bool, float]]:
        """Returns token id, whether the loss counts it, and log-probability of each token that the policy wrote.

        The mask has TRL's polarity: True where the loss counts. A span without a mask counts whole.

        Raises:
            ValueError: The log is light; it says which events lack tokens.
        """
        if why := self.why_light():
            raise LogProblem(f"the log is light: {why}; only a rollout engine that reports both can give them")
        spans = [event["tokens"] for event in self._events if is_written(event)]
        return [
            (token, counts, logprob)
            for span in spans
            for token, counts, logprob in zip(
                span["token_ids"], span.get("mask") or [True] * len(span["token_ids"]), span["logprobs"], strict=True
            )
        ]

    def lines(self) -> Iterator[bytes]:
        """Yields the log as lines: a heading, the events, and how it ended.

        A line is the SHA-256 (hex) of the hash before it and its own body, a space, the body (canonical JSON), a line
        feed.
        """
        chain = Chain()
        yield chain.line(heading(self.tools))
        for event in self._events:
            yield chain.line({"event": event})
        yield chain.line(ending(self.state, self.end_reason, len(self._events)))

    @classmethod
    def from_lines(cls, lines: Iterable[bytes]) -> EventLog:
        """Reads what `lines` wrote.

        Raises:
            LogProblem: A line was changed, moved, added or lost; it names the line, from 1.
        """
        bodies, ended = verified(lines), False
        heading = next(bodies, None) or {}
        if not _is_format(heading.get("format")) or heading.keys() - {"format", "tools"}:
            raise LogProblem(f"line 1 should be the heading of format {FORMAT}, and is {str(heading)[:80]}")
        log = cls(heading.get("tools"))
        for number, body in enumerate(bodies, 2):
            if ended:
                raise LogProblem(f"line {number} stands after the end of the log")
            if set(body) == {"event"}:
                log._add(body["event"])
            elif set(body) == {"end"}:
                ended = True
                log._close(body["end"], number)
            else:
                raise LogProblem(f"line {number} is neither an event nor the end")
        if not ended:
            raise LogProblem("the log has no end: lines were lost")
        return log

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> EventLog:
        """Takes over a log in the form in which a Record holds it, as JSON.

        Raises:
            LogProblem: It is no log of this format, or claims to be full and is not.
        """
        if not isinstance(stored, Mapping):
            raise LogProblem(f"a log is an object, and this is {str(stored)[:40]!r}")
        if not _is_format(stored.get("format", FORMAT)):
            raise LogProblem(f"the log has format {repr(stored.get('format'))[:40]}; this reads {FORMAT}")
        events = stored.get("events", ())
        if not isinstance(events, list | tuple):
            raise LogProblem(f"events is a list, and this is {str(events)[:40]!r}")
        log = cls(stored.get("tools"))
        for event in events:
            log._add(event)
        if stored.get("tier") == "full" and (lacking := log.without_tokens()):
            raise LogProblem(f"the log says full, but events {_some(lacking)} have no tokens with log-probabilities")
        log._close({"state": stored.get("state", "unknown"), "reason": stored.get("end_reason")}, None)
        return log

    def as_stored(self) -> dict[str, Any]:
        """Returns the log in the form of `storage.schema.events.EventLog`."""
        ended = {"state": self.state, "end_reason": self.end_reason}
        tools = {} if self.tools is None else {"tools": json.loads(canonical(self.tools))}
        return {"format": FORMAT, "tier": self.tier, **ended, **tools, "events": json.loads(canonical(self._events))}

    def _close(self, end: Mapping[str, Any], number: int | None) -> None:
        if not isinstance(end, Mapping):
            raise LogProblem(f"line {number} says of the end no object, but {str(end)[:40]!r}")
        if number is not None and (isinstance(end.get("events"), bool) or end.get("events") != len(self)):
            raise LogProblem(f"line {number} counts {end.get('events')} events; there are {len(self)}")
        ended = ending(str(end.get("state")), end.get("reason"), len(self))["end"]
        try:
            self._order.finish()
        except ValueError as problem:
            raise LogProblem(str(problem)) from None
        self.state, self.end_reason = ended["state"], ended["reason"]

    def _add(self, event: Mapping[str, Any], *, parents_first: bool = False) -> None:
        self._events.append(taken(event, self._order, parents_first=parents_first))


class Chain:
    """The hashes that tie the lines of a log together."""

    def __init__(self) -> None:
        self._digest = _OPENING

    def line(self, body: Mapping[str, Any]) -> bytes:
        """Returns the next line.

        Raises:
            LogProblem: The body cannot be said in JSON.
        """
        text = canonical(body).encode()
        self._digest = _next(self._digest, text)
        return self._digest.encode() + b" " + text + b"\n"


def heading(tools: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the body of a log's first line."""
    return {"format": FORMAT} if tools is None else {"format": FORMAT, "tools": tools}


def ending(state: str, reason: str | None, events: int) -> dict[str, Any]:
    """Returns the body of a log's last line.

    Raises:
        LogProblem: `state` is none of a run, or `reason` is no text.
    """
    if state not in STATES:
        raise LogProblem(f"{str(state)[:40]!r} is no state of a run; there are {', '.join(sorted(STATES))}")
    if not isinstance(reason, str | None):
        raise LogProblem(f"the reason of an end is a text, and this is {str(reason)[:40]!r}")
    return {"end": {"state": state, "reason": reason, "events": events}}


def taken(event: Mapping[str, Any], order: EventOrder, *, parents_first: bool) -> dict[str, Any]:
    """Returns a copy of an event with its place and name, once it is found to fit.

    Raises:
        LogProblem: It is no event, or does not fit to those before it.
    """
    if not isinstance(event, Mapping):
        raise LogProblem(f"event {order.count} is no object: {str(event)[:40]!r}")
    place, own = order.count, event.get("id")
    given = {**event, "seq": event.get("seq", place), "id": own or order.free_id(event.get("kind"), f"e{place}")}
    if problem := problem_of(given):
        raise LogProblem(f"event {place}{problem}" if problem[0] in ",:" else f"event {place} {problem}")
    copied: dict[str, Any] = json.loads(canonical(given))
    try:
        order.take(copied, parents_first=parents_first)
    except ValueError as misfit:
        raise LogProblem(str(misfit)) from None
    return copied


def content(value: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """Returns a value as events hold content: with what is known of it. None is null, which is said to be nothing.

    What is not known has the status `not_exported`, which only whoever writes the event can tell.
    """
    if value is None:
        return {"status": "null"}
    return {"status": "empty"} if value == "" else {"status": "value", "value": value}


def verified(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yields the bodies of chained lines, one at a time, each once its hash is found right.

    Raises:
        LogProblem: A line is not the one that was written after the line before it.
    """
    chain = _OPENING
    for number, line in enumerate(lines, 1):
        said, _, text = line.removesuffix(b"\n").partition(b" ")
        chain = _next(chain, text)
        if said != chain.encode():
            raise LogProblem(f"line {number} is not what was written there: its hash does not fit the line before it")
        try:
            body = json.loads(text)
        except (ValueError, RecursionError) as problem:
            raise LogProblem(f"line {number} is no JSON that can be read: {problem}") from None
        if not isinstance(body, dict):
            raise LogProblem(f"line {number} is no object")
        yield body


def canonical(value: object) -> str:
    """Returns JSON with sorted keys, in ASCII, without spaces.

    Raises:
        LogProblem: It cannot be said in JSON.
    """
    try:
        return _CANONICAL(value)
    except (TypeError, ValueError, RecursionError) as problem:
        raise LogProblem(f"an event is JSON, and this is not: {problem}") from None


def _is_format(said: Any) -> bool:  # noqa: ANN401 - what was given
    return type(said) is int and said == FORMAT


def _next(chain: str, text: bytes) -> str:
    return hashlib.sha256(chain.encode() + b"\n" + text).hexdigest()


def _some(places: list[int]) -> str:
    shown = ", ".join(map(str, places[:5]))
    return shown if len(places) <= 5 else f"{shown} and {len(places) - 5} more"  # noqa: PLR2004
