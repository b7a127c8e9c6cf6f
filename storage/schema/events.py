"""The EventLog: what an agent did, in order, in one form for every source.

An event is one of eight kinds. What a source did not say is None or has the status `not_exported`; nothing in here is
computed from a guess. The order of events is that of `seq`; times are evidence, not order, since clocks disagree.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field, model_validator

from storage.schema.base import Value
from storage.schema.event_order import ROUNDING, EventOrder
from storage.schema.evidence import Count, FieldStatus, Number

EVENTLOG_FORMAT = 1
"""The version of the form below. A log of a newer one is refused by whoever reads it."""

Tier = Literal["light", "full"]
"""`light`: content. `full`: also the tokens and log-probabilities of everything that the policy wrote."""

RewardScope = Literal["step", "turn", "episode"]
RunState = Literal["running", "completed", "failed", "cancelled", "interrupted", "unknown"]
ErrorKind = Literal["tool", "model", "agent", "timeout", "cancelled", "infrastructure", "unknown"]
Role = Literal["system", "developer", "user", "assistant", "tool", "unknown"]


Logprob = Annotated[float, Field(allow_inf_nan=False, le=ROUNDING)]


class Locator(Value):
    """Where something was read: a file and a row of it."""

    file: str
    """Relative to what was imported."""
    row: Annotated[int, Field(ge=1)]
    """The row of data, from 1; a CSV's header and blank lines are not counted."""
    line: Count | None = None
    """The line at which the row begins, from 1, where the format has lines."""
    pointer: str | None = None
    """Where in the row or the document it lies, as a JSON pointer, such as `/observations/3`."""


class Content(Value):
    """A piece of content and what is known of it. Only with the status `value` or `unparsable` is there something."""

    status: FieldStatus
    value: Any = None
    """Any JSON value; with `unparsable` the text as it was found, masked."""


class EventError(Value):
    """What went wrong, as the source typed and worded it."""

    kind: ErrorKind
    message: str | None = None
    code: str | None = None


class ModelIdentity(Value):
    """Which model answered, as far as the source says."""

    name: str | None = None
    provider: str | None = None
    version: str | None = None
    parameters: Any = None
    """Sampling parameters as exported: any JSON value."""


class ToolIdentity(Value):
    """What is known of a tool that the agent was given, beside its name."""

    description: str | None = None
    parameters: Any = None
    """What its arguments have to be, as a JSON Schema; None where it is not known."""
    server: str | None = None
    """Who offers it, such as an MCP server."""
    version: str | None = None


class TokenSpan(Value):
    """The tokens of one event, from a rollout engine. `mask` has TRL's polarity: True where the loss counts."""

    token_ids: tuple[Count, ...]
    logprobs: tuple[Logprob, ...] | None = None
    """Natural logarithms, at most 0; as the engine that drew the tokens gave them."""
    mask: tuple[bool, ...] | None = None

    @model_validator(mode="after")
    def _one_for_each_token(self) -> TokenSpan:
        for name in ("logprobs", "mask"):
            found = getattr(self, name)
            if found is not None and len(found) != len(self.token_ids):
                raise ValueError(f"{name} has {len(found)} items for {len(self.token_ids)} tokens")
        return self


class _Event(Value):
    """What every event has."""

    seq: Count
    """The place in the log, from 0, without gaps."""
    id: str
    """The source's own id, else `e<seq>`; unique with `kind` in a log."""
    turn: Count | None = None
    group: str | None = None
    """Events of one group happened side by side or as one step, such as the calls of one message."""
    parent: str | None = None
    """The id of the event or call in which this one happened."""
    parent_outside: bool = False
    """The parent is not in the log: the source names it and does not hold it."""
    at: AwareDatetime | None = None
    """When it began, in UTC."""
    at_text: str | None = None
    """The same as the source wrote it."""
    ended_at: AwareDatetime | None = None
    ended_text: str | None = None
    duration_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """From `at` to `ended_at`; None where one is missing or the clocks say that it ended before it began."""
    error: EventError | None = None
    model: ModelIdentity | None = None
    attributes: dict[str, Any] = {}
    """Everything else that the source says of it, under canonical names where there are such."""
    marks: dict[str, str] = {}
    """Field → `unparsable`, `collided` or `lossy`, for the fields that did not come through as they were."""
    tokens: TokenSpan | None = None
    locator: Locator | None = None
    """Where an importer read it."""


class Text(_Event):
    """Something that a participant said."""

    kind: Literal["text"] = "text"
    role: Role
    name: str | None = None
    content: Content
    prompt: Content | None = None
    """What the model was given, where the source keeps it beside the answer."""


class Reasoning(_Event):
    """What a model wrote for itself; opaque where the provider encrypts it."""

    kind: Literal["reasoning"] = "reasoning"
    content: Content
    opaque: bool = False


class ToolCall(_Event):
    """A call of a tool, before its result."""

    kind: Literal["tool_call"] = "tool_call"
    call_id: str
    name: str | None
    arguments: Content


class ToolResult(_Event):
    """What a call gave back. It belongs to the call of the same `call_id`, which stands before it."""

    kind: Literal["tool_result"] = "tool_result"
    call_id: str
    name: str | None = None
    content: Content
    unpaired: bool = False
    """It answers no call: the log does not hold one, or holds its result already."""


class Observation(_Event):
    """Something that was seen or done around the agent: a span, a retrieval, a message of its environment."""

    kind: Literal["observation"] = "observation"
    type: str | None = None
    name: str | None = None
    input: Content
    output: Content


class TurnComplete(_Event):
    """The agent handed over."""

    kind: Literal["turn_complete"] = "turn_complete"
    usage: dict[str, Number] = {}
    finish_reason: str | None = None


class Reward(_Event):
    """A reward that the run itself recorded, for a step (`parent` says which), a turn (`turn`) or the whole episode."""

    kind: Literal["reward"] = "reward"
    name: str
    scope: RewardScope
    value: Number | None
    """None where it is not known, which is not zero."""


class MemoryOp(_Event):
    """A change or a reading of the agent's memory."""

    kind: Literal["memory_op"] = "memory_op"
    operation: Literal["read", "write", "update", "delete", "search", "unknown"]
    key: str | None = None
    content: Content


Event = Annotated[
    Text | Reasoning | ToolCall | ToolResult | Observation | TurnComplete | Reward | MemoryOp,
    Field(discriminator="kind"),
]


class EventLog(Value):
    """What one agent did in one trace or attempt."""

    format: Literal[1] = 1
    tier: Tier = "light"
    state: RunState = "unknown"
    """How the run ended. `unknown` where the source does not say, which most exports do not."""
    end_reason: str | None = None
    tools: dict[str, ToolIdentity] | None = None
    """The tools that the agent was given, by name, all of them; None where the source does not say."""
    events: tuple[Event, ...] = ()

    @model_validator(mode="after")
    def _is_what_it_says(self) -> EventLog:
        """Refuses an order, names, calls and parents that do not fit, and a tier that the events do not bear out."""
        order = EventOrder()
        for event in self.events:
            order.take(vars(event))
        order.finish()
        if self.tier == "full" and (lacking := without_tokens(self)):
            raise ValueError(f"the log is not full: event {lacking[0]} has no tokens with log-probabilities")
        return self


def without_tokens(log: EventLog) -> list[int]:
    """Returns the `seq` of each event that the policy wrote and that has no tokens with log-probabilities."""
    written = [e for e in log.events if e.kind in ("reasoning", "tool_call") or (e.kind == "text" and _own(e))]
    return [e.seq for e in written if e.tokens is None or e.tokens.logprobs is None]


def _own(event: Text) -> bool:
    return event.role == "assistant"
