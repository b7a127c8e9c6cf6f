"""Metrics of what an episode took: steps, turns, thought, tokens, money, time, and the reward that it came to."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from operations.trajectories.log import canonical
from operations.trajectories.metrics.metric import Episode, Measurement, Metric, known
from operations.trajectories.roles import is_written

_OWN = "ATK's own definition."


def _steps_to_answer(episode: Episode) -> Measurement:
    steps, answered, writing = 0, 0, False
    group: str | None = None
    for event in episode.log:
        if is_written(event):
            goes_on = writing or (group is not None and event.get("group") == group)
            steps += not goes_on
            writing, group = True, event.get("group")
            if event["kind"] == "text" and event["content"]["status"] == "value":
                answered = steps
            elif event["kind"] == "tool_call":
                answered = 0  # what is said before a call is no answer yet
        elif event["kind"] in ("tool_result", "text", "turn_complete"):
            writing = False
    return Measurement(answered) if answered else Measurement(None, "no text of the agent follows the last call")


def _turns(episode: Episode) -> Measurement:
    found = {event["turn"] for event in episode.log if event.get("turn") is not None}
    return Measurement(len(found)) if found else Measurement(None, "the log has no turns")


def _length(content: Mapping[str, Any]) -> int:
    value = content.get("value", "")
    return len(value) if isinstance(value, str) else len(canonical(value))


def _reasoning_share(episode: Episode) -> Measurement:
    thought = said = 0
    reasons = False
    for event in episode.log:
        if not is_written(event):
            continue
        content = event["arguments"] if event["kind"] == "tool_call" else event["content"]
        if event["kind"] == "reasoning":
            reasons = True
            if event.get("opaque") or not known(content):
                return Measurement(None, f"the reasoning of event {event['seq']} cannot be read")
            thought += _length(content)
        else:
            said += _length(content)
    if not reasons:
        return Measurement(None, "no reasoning is in the log, which need not mean that there was none")
    total = thought + said
    return Measurement(thought / total, of=total) if total else Measurement(None, "what the agent wrote is empty")


def _duration_seconds(episode: Episode) -> Measurement:
    if "duration_seconds" in episode.stated:
        return _figure(episode.stated["duration_seconds"])
    times = [event[name] for event in episode.log for name in ("at", "ended_at") if event.get(name)]
    moments = sorted(map(datetime.fromisoformat, set(times)))
    if len(moments) < 2:  # noqa: PLR2004 - a beginning and an end
        return Measurement(None, "fewer than two times are known")
    return Measurement((moments[-1] - moments[0]).total_seconds())


def _stated(names: Iterable[str]) -> Callable[[Episode], Measurement]:
    """Returns a metric of figures that a source states, of the episode or else of each of its turns."""
    wanted = tuple(names)

    def measure(episode: Episode) -> Measurement:
        for name in wanted:
            if name in episode.stated:
                return _figure(episode.stated[name])
        usages = [event.get("usage") or {} for event in episode.log if event["kind"] == "turn_complete"]
        for name in wanted:
            if usages and all(name in usage for usage in usages):
                return _figure(sum(usage[name] for usage in usages))
        return Measurement(None, "the source does not state it for the whole episode")

    return measure


def _figure(stated: float) -> Measurement:
    """Returns a figure of the source's; the sum of some is more than a number of 64 bits holds."""
    try:
        value = float(stated)
    except OverflowError:
        value = math.inf
    return Measurement(value) if math.isfinite(value) else Measurement(None, "what is stated is no finite number")


def _episode_reward(episode: Episode) -> Measurement:
    found = [e["value"] for e in episode.log if e["kind"] == "reward" and e["scope"] == "episode"]
    if len(found) != 1:
        return Measurement(None, f"the log has {len(found)} rewards for the episode, not one")
    return Measurement(None, "the reward has no value") if found[0] is None else _figure(found[0])


INPUT_TOKENS = ("input_tokens", "prompt_tokens", "input", "gen_ai.usage.input_tokens")
OUTPUT_TOKENS = ("output_tokens", "completion_tokens", "output", "gen_ai.usage.output_tokens")
COSTS = ("total_cost_usd", "total_cost", "cost")
_TURNS = "figures that the source states of the episode, or of every turn"
_NOT_STATED = "The source states it neither of the episode nor of every turn. Nothing is estimated."

EFFORT = (
    Metric(
        name="steps_to_answer",
        unit="steps",
        direction="lower",
        inputs=("order of events",),
        formula="How often the agent wrote until its answer, that one counted: a step is what it writes without being "
        "given anything in between, and a group is one. The answer is its last text, if no call follows.",
        unknown="No text of the agent follows its last call.",
        source=_OWN,
        measure=_steps_to_answer,
    ),
    Metric(
        name="turns",
        unit="turns",
        direction="neither",
        inputs=("turns",),
        formula="Number of distinct turns.",
        unknown="The source does not tell turns apart.",
        source="A count.",
        measure=_turns,
    ),
    Metric(
        name="reasoning_share",
        unit="share of characters, 0 to 1",
        direction="neither",
        inputs=("reasoning", "texts of the agent", "arguments of calls"),
        formula="Characters of reasoning, over characters of reasoning, texts and arguments (as compact JSON) that the "
        "agent wrote.",
        unknown="No reasoning is in the log, or some of it cannot be read: encrypted, or not exported.",
        source=_OWN,
        measure=_reasoning_share,
    ),
    Metric(
        name="input_tokens",
        unit="tokens",
        direction="lower",
        inputs=(_TURNS,),
        formula=f"The first of these that is stated: {', '.join(INPUT_TOKENS)}. Of turns the sum.",
        unknown=_NOT_STATED,
        source="The source's own figure.",
        measure=_stated(INPUT_TOKENS),
    ),
    Metric(
        name="output_tokens",
        unit="tokens",
        direction="lower",
        inputs=(_TURNS,),
        formula=f"The first of these that is stated: {', '.join(OUTPUT_TOKENS)}. Of turns the sum.",
        unknown=_NOT_STATED,
        source="The source's own figure.",
        measure=_stated(OUTPUT_TOKENS),
    ),
    Metric(
        name="cost",
        unit="as the source states it; US dollars where it says usd",
        direction="lower",
        inputs=(_TURNS,),
        formula=f"The first of these that is stated: {', '.join(COSTS)}. Of turns the sum.",
        unknown=_NOT_STATED,
        source="The source's own figure.",
        measure=_stated(COSTS),
    ),
    Metric(
        name="duration_seconds",
        unit="seconds",
        direction="lower",
        inputs=("a duration that the source states", "times of events"),
        formula="The duration_seconds that the source states, else the time from the earliest to the latest moment "
        "that any event has. Clocks of different machines are not corrected.",
        unknown="None is stated, and fewer than two times are known.",
        source=_OWN,
        measure=_duration_seconds,
    ),
    Metric(
        name="episode_reward",
        unit="as the run recorded it",
        direction="higher",
        inputs=("rewards",),
        formula="The value of the one reward whose scope is the episode.",
        unknown="There is no such reward, several, or it has no value.",
        source="The run's own figure.",
        measure=_episode_reward,
    ),
)
