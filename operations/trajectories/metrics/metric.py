"""What a metric is, and what it is taken of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from operations.trajectories.detectors.schemas import Schema, Schemas
from operations.trajectories.log import EventLog, canonical

Direction = Literal["higher", "lower", "neither"]
"""Which way is better. `neither` describes: it can be too much and too little."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A metric of one episode: its value, or why there is none."""

    value: float | None
    unknown: str | None = None
    """Why there is no value: a sentence without its full stop."""
    of: int | None = None
    """For a share: how many things it is a share of."""


@dataclass(frozen=True)
class Episode:
    """What metrics are taken of: a log, and what is known beside it."""

    log: EventLog
    tools: Mapping[str, Schema | None] | None = None
    """Every tool that the agent had → what its arguments have to be, or None; None where the tools are not known."""
    reference: Sequence[str] | None = None
    """The tools of a way that is known to be good, in order."""
    stated: Mapping[str, float] = field(default_factory=dict)
    """Figures that the source states of the whole episode, by its own names."""

    @cached_property
    def schemas(self) -> Schemas:
        """The schemas of the tools."""
        return Schemas(self.tools)

    @cached_property
    def calls(self) -> list[Call]:
        """The calls in order, each with its result."""
        found = {e["call_id"]: Call(e) for e in self.log if e["kind"] == "tool_call"}
        for event in self.log:
            if event["kind"] == "tool_result" and not event.get("unpaired"):
                found[event["call_id"]].result = event
        return list(found.values())


@dataclass(slots=True, eq=False)
class Call:
    """A call and its result."""

    event: Mapping[str, Any]
    result: Mapping[str, Any] | None = None

    @property
    def name(self) -> str | None:
        """The tool."""
        found: str | None = self.event["name"]
        return found

    @property
    def failed(self) -> bool | None:
        """Whether it came to an error; None where there is no result, or nothing is known of it."""
        if self.result is None:
            return None
        if self.result.get("error"):
            return True
        return None if self.result["content"]["status"] == "not_exported" else False


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A figure of an episode, and everything that a reader has to know of it."""

    name: str
    unit: str
    direction: Direction
    inputs: tuple[str, ...]
    """What it needs, in words."""
    formula: str
    unknown: str
    """When there is no value: a missing input is unknown, never 0 and never 1."""
    source: str
    """Where the formula comes from."""
    measure: Callable[[Episode], Measurement]


def share(part: Iterable[bool], nothing: str) -> Measurement:
    """Returns how many of some things are so, or unknown where there are none.

    Args:
        part: For each thing whether it is so.
        nothing: Why the metric is unknown where there is no such thing.
    """
    told = list(part)
    return Measurement(sum(told) / len(told), of=len(told)) if told else Measurement(None, nothing)


def known(content: Mapping[str, Any]) -> bool:
    """Whether the source says what is there; an empty text is said, a null and what was not exported are not."""
    return content["status"] in ("value", "empty", "unparsable")


def key_of(content: Mapping[str, Any]) -> str:
    """Returns what two equal contents share."""
    return canonical(content.get("value", ""))
