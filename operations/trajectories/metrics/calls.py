"""Metrics of calls: whether they are what tools take, repeat each other, fail, and what came of failures."""

from __future__ import annotations

from collections.abc import Iterator

from operations.trajectories.detectors.schemas import STEPS, TooMuchToCheck
from operations.trajectories.detectors.words import unpacked
from operations.trajectories.metrics.metric import Call, Episode, Measurement, Metric, key_of, known, share

_CALLS = "tool calls"
_NO_CALLS = "no tool was called"
_OWN = "ATK's own definition."


def _valid(call: Call, episode: Episode) -> bool | None:
    """Whether a call's arguments are what its tool takes; None where that cannot be told."""
    arguments = call.event["arguments"]
    if arguments["status"] == "unparsable":
        return False
    if call.name is None or call.name not in episode.schemas or not known(arguments):
        return None
    given = unpacked(arguments.get("value")) if arguments["status"] == "value" else {}
    try:
        return episode.schemas.problem(call.name, given) is None
    except TooMuchToCheck:
        return None


def _valid_argument_rate(episode: Episode) -> Measurement:
    if not episode.calls:
        return Measurement(None, _NO_CALLS)
    told = (_valid(call, episode) for call in episode.calls)
    return share((one for one in told if one is not None), "of no call both arguments and schema are known")


def _unknown_tool_rate(episode: Episode) -> Measurement:
    tools = episode.tools
    if tools is None:
        return Measurement(None, "the tools that the agent had are not known")
    return share((call.name not in tools for call in episode.calls if call.name is not None), _NO_CALLS)


def _duplicate_call_rate(episode: Episode) -> Measurement:
    def repeats() -> Iterator[bool]:
        seen: set[tuple[str | None, str]] = set()
        for call in episode.calls:
            if known(call.event["arguments"]):
                key = call.name, key_of(call.event["arguments"])
                yield key in seen
                seen.add(key)

    return share(repeats(), "no call with known arguments was made" if episode.calls else _NO_CALLS)


def _repeated_output_rate(episode: Episode) -> Measurement:
    def repeats() -> Iterator[bool]:
        seen: set[str] = set()
        for call in episode.calls:
            if call.result is not None and not call.failed and call.result["content"]["status"] == "value":
                key = key_of(call.result["content"])
                yield key in seen
                seen.add(key)

    return share(repeats(), "no result has content")


def _failed_call_rate(episode: Episode) -> Measurement:
    return share((call.failed for call in episode.calls if call.failed is not None), "no call has a result")


def _unanswered_call_rate(episode: Episode) -> Measurement:
    if episode.log.state == "running":
        return Measurement(None, "the run goes on")
    return share((call.result is None for call in episode.calls), _NO_CALLS)


def _error_recovery_rate(episode: Episode) -> Measurement:
    last_good = {call.name: call.event["seq"] for call in episode.calls if call.failed is False}
    failures = [(call.name, call.result["seq"]) for call in episode.calls if call.result and call.failed]
    return share((last_good.get(name, -1) > seq for name, seq in failures), "no call failed")


def _tool_calls(episode: Episode) -> Measurement:
    if not len(episode.log):
        return Measurement(None, "the log is empty")
    return Measurement(len(episode.calls))


CALLS = (
    Metric(
        name="valid_argument_rate",
        unit="share, 0 to 1",
        direction="higher",
        inputs=("arguments of tool calls", "schemas of the tools"),
        formula="Calls whose arguments are what the schema of their tool asks for, over calls of which that is known. "
        "Arguments that were no JSON count as wrong, the text of an object is that object, and an empty text is one "
        "without fields. A rule of a schema that is not understood counts as met.",
        unknown="No tool was called, or of no call both arguments and schema are known. A schema counts as not known "
        f"from the first call on that it holds to more than {STEPS:,} of its parts, since it may name itself.",
        source="Tool-argument correctness, as agent benchmarks have it; the rule for what is unknown is ATK's.",
        measure=_valid_argument_rate,
    ),
    Metric(
        name="unknown_tool_rate",
        unit="share, 0 to 1",
        direction="lower",
        inputs=(_CALLS, "names of the tools"),
        formula="Calls of a tool that the agent did not have, over calls that name a tool.",
        unknown="No tool was called, or the tools are not known.",
        source=_OWN,
        measure=_unknown_tool_rate,
    ),
    Metric(
        name="duplicate_call_rate",
        unit="share, 0 to 1",
        direction="lower",
        inputs=("names and arguments of tool calls",),
        formula="Calls that repeat the tool and all arguments of an earlier call, over calls with known arguments. The "
        "order of fields does not matter.",
        unknown="No call with known arguments was made.",
        source="Exact repeats over calls, as agent benchmarks have it.",
        measure=_duplicate_call_rate,
    ),
    Metric(
        name="repeated_output_rate",
        unit="share, 0 to 1",
        direction="lower",
        inputs=("content of results",),
        formula="Results whose content is that of an earlier result, over results that have content and no error.",
        unknown="No such result.",
        source="One minus distinct outputs over outputs, as agent benchmarks have it.",
        measure=_repeated_output_rate,
    ),
    Metric(
        name="failed_call_rate",
        unit="share, 0 to 1",
        direction="lower",
        inputs=("errors of results",),
        formula="Results with an error, over results that have an error or content. An error is what the source "
        "calls one; texts are not searched for words.",
        unknown="No call has such a result.",
        source=_OWN,
        measure=_failed_call_rate,
    ),
    Metric(
        name="error_recovery_rate",
        unit="share, 0 to 1",
        direction="higher",
        inputs=("errors of results",),
        formula="Failed calls after whose error the same tool was called and came to a result without an error, over "
        "failed calls.",
        unknown="No call failed: then there was nothing to recover from.",
        source="Recoveries over errors, as agent benchmarks have it; by typed errors instead of words in texts.",
        measure=_error_recovery_rate,
    ),
    Metric(
        name="unanswered_call_rate",
        unit="share, 0 to 1",
        direction="lower",
        inputs=(_CALLS, "their results", "state of the run"),
        formula="Calls without a result, over calls.",
        unknown="No tool was called, or the run goes on.",
        source=_OWN,
        measure=_unanswered_call_rate,
    ),
    Metric(
        name="tool_calls",
        unit="calls",
        direction="neither",
        inputs=(_CALLS,),
        formula="Number of calls.",
        unknown="The log is empty.",
        source="A count.",
        measure=_tool_calls,
    ),
)
