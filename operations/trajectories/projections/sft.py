"""Projects a log to rows for supervised fine-tuning: of messages, and of tokens where the log is full.

Each event is one segment with one weight: reasoning and text of the agent 1, its calls 2, everything that was told to
it 0. Only whole segments count: a call without its result, an answer that is the report of an error and a last turn
that was cut off do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from operations.trajectories.log import EventLog, LogProblem
from operations.trajectories.projections.conversation import UNTRAINED, Conversation, Said, conversation
from operations.trajectories.projections.losses import Losses, LossReport
from operations.trajectories.roles import is_aside

WEIGHTS: Mapping[str, float] = {"text": 1.0, "reasoning": 1.0, "call": 2.0, "result": 0.0}
"""What a segment that the agent wrote counts in the loss. A call is worth more, since one wrong sign breaks it."""

IGNORED = -100
"""The label of a token that the loss leaves out, as PyTorch's cross entropy has it."""

_MESSAGE = {
    "text": {"role", "content", "prompt"},
    "reasoning": {"content", "opaque"},
    "tool_call": {"call_id", "name", "arguments"},
    "tool_result": {"call_id", "name", "content", "unpaired"},
    "observation": {"output"},
    "reward": {"name", "scope", "value", "turn", "parent"},
    "memory_op": {"operation", "key", "content"},
    "turn_complete": {"finish_reason", "usage"},
}
"""The fields that a row of messages carries, or that a note of their own speaks of."""

_SPOKEN = frozenset({"text", "reasoning", "tool_call", "tool_result"})
_TOKENS = {kind: {"tokens"} for kind in _MESSAGE} | {"reward": _MESSAGE["reward"]}


def sft_messages(log: EventLog, *, reasoning: bool = True) -> tuple[dict[str, Any] | None, LossReport]:
    """Returns a row of messages, and what it does not carry; None and why where there can be no row.

    The row has `messages` as chat templates take them (`tool_calls` with arguments as an object, one call a message;
    reasoning as `reasoning_content`), `segment_weights`, and `completion_mask` in TRL's polarity, where 1 counts in
    the loss; these two have one item a message. `tools` are what the log says the agent was given. `metadata` has the
    event of each message (`seqs`), where turns begin (`turns`), `rewards` and `memory` with the number of messages
    before each, and how the run ended.

    Args:
        log: The log of one run.
        reasoning: Whether reasoning is part of the row; some templates have no place for it.
    """
    losses = Losses("sft_messages")
    made = conversation(log, losses)
    for event in log:
        losses.rest(event, _MESSAGE[event["kind"]])
    if not reasoning:
        for said in made.said:
            if said.what == "reasoning":
                losses.note(said.event, "content", "reasoning was not asked for")
        made = without(made, "reasoning")
    refused = next(iter(made.problems), None) or _no_object(made) or _untrained(made)
    if refused is not None:
        return None, losses.report(refused)
    weights = [weight_of(said) for said in made.said]
    row = {
        "messages": [_message(said) for said in made.said],
        "segment_weights": weights,
        "completion_mask": [int(weight > 0) for weight in weights],
        "metadata": _metadata(log, made),
    }
    return {**row, **({"tools": tools} if (tools := tools_of(log)) else {})}, losses.report()


def sft_tokens(log: EventLog) -> tuple[dict[str, Any], LossReport]:
    """Returns a row of tokens as they were sampled, and what it does not carry.

    The row has `input_ids`, `labels` (the token where the loss counts it, else -100), `completion_mask` (1 counts),
    `weights` (of the segment where it counts, else 0) and `logprobs` (natural logarithms; None for what was told to
    the agent), with one item a token, and `metadata`.

    Raises:
        ValueError: The log is light, or something that was told to the agent has no tokens; it says which events.
    """
    log.masked_tokens()
    losses = Losses("sft_tokens")
    made = conversation(log, losses)
    for event in log:
        losses.rest(event, _TOKENS[event["kind"]])
    counted: dict[int, float] = {}
    for said in made.said:
        weight = weight_of(said)
        if said.what == "call" and not isinstance(said.arguments, Mapping):
            losses.note(said.event, "tokens", "the arguments of the call are no JSON object; nobody is trained on it")
            weight = 0.0
        counted[said.seq] = max(weight, counted.get(said.seq, 0.0))
    told = {said.seq for said in made.said if said.event["kind"] == "observation"}
    spans = [event for event in log if event["seq"] in told or (event["kind"] in _SPOKEN and not is_aside(event))]
    if lacking := sorted({e["seq"] for e in spans if not e.get("tokens")} | _prompted(made)):
        raise LogProblem(
            f"events {', '.join(map(str, lacking[:5]))} have no tokens, or a prompt that has none, so what was told "
            "to the agent is not known in tokens; a rollout engine has to report those too"
        )
    row: dict[str, Any] = {name: [] for name in ("input_ids", "labels", "completion_mask", "weights", "logprobs")}
    for event in spans:
        _take_span(row, event, counted.get(int(event["seq"]), 0.0))
    return {**row, "metadata": _metadata(log, made)}, losses.report()


def weight_of(said: Said) -> float:
    """Returns what a segment counts in the loss; 0 where the agent did not write it, or it is not whole."""
    return WEIGHTS[said.what] if said.by_agent and said.left is None else 0.0


def without(made: Conversation, what: str) -> Conversation:
    """Returns a conversation without one kind of segment."""
    before = [0]
    for said in made.said:
        before.append(before[-1] + (said.what != what))
    return Conversation(
        [said for said in made.said if said.what != what],
        [before[n] for n in made.turns],
        [(before[n], event) for n, event in made.placed],
        made.problems,
    )


def tools_of(log: EventLog) -> list[dict[str, Any]]:
    """Returns the tools that the log says the agent was given, as chat templates take them."""
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                **{key: tool[key] for key in ("description", "parameters") if tool.get(key) is not None},
            },
        }
        for name, tool in (log.tools or {}).items()
    ]


def _message(said: Said) -> dict[str, Any]:
    match said.what:
        case "reasoning":
            return {"role": "assistant", "content": "", "reasoning_content": said.text}
        case "call":
            function = {"name": said.name, "arguments": said.arguments}
            return {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": said.call_id, "type": "function", "function": function}],
            }
        case "result":
            named = {"name": said.name} if said.name else {}
            return {"role": "tool", "tool_call_id": said.call_id, **named, "content": said.text}
        case _:
            return {"role": said.role, "content": said.text}


def _metadata(log: EventLog, made: Conversation) -> dict[str, Any]:
    rewards, memory, ends = [], [], []
    for before, event in made.placed:
        match event["kind"]:
            case "reward":
                about = {name: event[name] for name in ("turn", "parent") if event.get(name) is not None}
                told = {name: event[name] for name in ("name", "scope", "value")}
                rewards.append({"messages_before": before, "seq": event["seq"], **told, **about})
            case "memory_op":
                told = {"operation": event["operation"], "key": event.get("key"), "content": event["content"]}
                memory.append({"messages_before": before, "seq": event["seq"], **told})
            case _:
                told = {"finish_reason": event.get("finish_reason"), "usage": event.get("usage") or {}}
                ends.append({"messages_before": before, "seq": event["seq"], **told})
    return {
        "seqs": [said.seq for said in made.said],
        "turns": made.turns,
        "turn_ends": ends,
        "rewards": rewards,
        "memory": memory,
        "state": log.state,
        "end_reason": log.end_reason,
    }


def _no_object(made: Conversation) -> str | None:
    """Why the arguments of a call cannot be told as an object, or None where all can."""
    for said in made.said:
        if said.what == "call" and not isinstance(said.arguments, Mapping):
            return f"event {said.seq}: the arguments of the call are no JSON object, and nothing may stand for them"
    return None


def _untrained(made: Conversation) -> str | None:
    return None if any(map(weight_of, made.said)) else UNTRAINED


def _prompted(made: Conversation) -> set[int]:
    """Returns the events of which the prompt was taken as something told: it has no tokens of its own."""
    return {
        said.seq
        for said in made.said
        if said.history and said.event["kind"] == "text" and said.event["role"] == "assistant"
    }


def _take_span(row: dict[str, Any], event: Mapping[str, Any], weight: float) -> None:
    span = event["tokens"]
    ids = span["token_ids"]
    mask = span.get("mask") or [True] * len(ids)
    counts = [weight > 0 and bool(said) for said in mask]
    row["input_ids"] += ids
    row["labels"] += [token if one else IGNORED for token, one in zip(ids, counts, strict=True)]
    row["completion_mask"] += map(int, counts)
    row["weights"] += [weight if one else 0.0 for one in counts]
    row["logprobs"] += span.get("logprobs") or [None] * len(ids)
