"""Finds episodes that used more calls or tokens than the stated budget."""

from __future__ import annotations

from collections.abc import Iterator

from operations.trajectories.detectors.episode import Episode, Event
from operations.trajectories.detectors.finding import Detector, Seen, Unknown
from operations.trajectories.detectors.words import number_of


def _look(episode: Episode) -> Iterator[Seen | Unknown]:
    budget = episode.budget
    if budget.calls is None and budget.tokens is None:
        yield Unknown("no budget is stated")
    if budget.calls is not None and len(episode.calls) > budget.calls:
        over = tuple(call.seq for call in episode.calls[budget.calls :])
        said = f"{len(episode.calls)} calls, of {budget.calls} that were allowed"
        yield Seen(over, 1.0, said, limit=f"calls={budget.calls}")
    if budget.tokens is not None:
        yield from _tokens(episode, budget.tokens)


def _tokens(episode: Episode, allowed: int) -> Iterator[Seen | Unknown]:
    used = list(_used(episode))
    if not used:
        yield Unknown("the log does not say how many tokens were used")
        return
    total, over = 0.0, []
    for seq, count in used:
        total += count
        if total > allowed:
            over.append(seq)
    if over:
        said = f"{total:.0f} tokens, of {allowed} that were allowed"
        yield Seen(tuple(over), 1.0, said, limit=f"tokens={allowed}")


def _used(episode: Episode) -> Iterator[tuple[int, float]]:
    """Yields the tokens of each turn; where no turn states any, of each answer of a model."""
    turns = [(e["seq"], n) for e in episode.events if e["kind"] == "turn_complete" and (n := count_of(e)) is not None]
    if turns:
        yield from turns
        return
    for event in episode.events:
        if event["kind"] != "turn_complete" and event.get("model") and (count := count_of(event)) is not None:
            yield event["seq"], count


def count_of(event: Event) -> float | None:
    """Returns how many tokens an event says were used: its total, else what went in and what came out."""
    usage = event.get("usage") or (event.get("attributes") or {}).get("usage")
    if not isinstance(usage, dict):
        return None
    stated = {name: number for name, given in usage.items() if (number := number_of(given)) is not None}
    total = next((stated[name] for name in ("total_tokens", "total") if name in stated), None)
    parts = [stated[name] for name in ("input_tokens", "output_tokens", "input", "output") if name in stated]
    return total if total is not None or not parts else sum(parts)


DETECTOR = Detector(
    "budget_blowup",
    1,
    "More calls, or more tokens over all turns, than the budget that was stated. The events are those beyond it.",
    _look,
)
