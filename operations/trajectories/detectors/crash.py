"""Finds runs that ended by an error of the agent, its model or what it runs on."""

from __future__ import annotations

import re
from collections.abc import Iterator

from operations.trajectories.detectors.episode import Episode, Event, is_answer, is_mark
from operations.trajectories.detectors.finding import Detector, Seen, Unknown, quoted

KINDS = frozenset(("agent", "model", "infrastructure", "unknown"))
"""Kinds of errors that end a run by themselves. An error of a tool is an outcome; one of the kind timeout may be the
agent's or the runner's doing, and counts where the log says that the run failed."""

LIMITS = ("max_turns", "max_steps", "max_iterations", "budget", "limit")
"""What stands in the reason of an end that was a limit's doing and no error."""

_OF_RATE = re.compile(r"rate[\s_-]*limit")
"""A limit of what the run used, and an error like any other."""

STATED, INFERRED = 1.0, 0.8
"""Where the log has the error and says that the run failed; and where it says only one of them."""


def _look(episode: Episode) -> Iterator[Seen | Unknown]:
    if not episode.events:
        yield Unknown("the log has no event")
    elif episode.state == "running":
        yield Unknown("the run has not ended in this log")
    elif (error := ending_error(episode)) is not None:
        kind, message = error["error"]["kind"], error["error"].get("message")
        sure = STATED if episode.state in ("failed", "interrupted") else INFERRED
        said = f"the run ended by an error of the kind {kind}"
        yield Seen((error["seq"],), sure, f"{said}: {quoted(message)}" if message else said)
    elif is_failed(episode):
        reason = f": {quoted(episode.end_reason)}" if episode.end_reason else ""
        yield Seen((len(episode.events) - 1,), INFERRED, f"the log says that the run failed{reason}")
    elif episode.state == "unknown" and not episode.answer:
        yield Unknown("the log does not say how the run ended")


def crashed(episode: Episode) -> bool:
    """Whether the run ended by an error of the agent, its model or what it runs on."""
    return ending_error(episode) is not None or is_failed(episode)


def is_failed(episode: Episode) -> bool:
    """Whether the log says that the run failed, and not by a limit."""
    reason = _OF_RATE.sub("", (episode.end_reason or "").casefold())
    return episode.state == "failed" and not any(word in reason for word in LIMITS)


def ending_error(episode: Episode) -> Event | None:
    """Returns the error that belongs to no call and after which the agent did nothing more, or None."""
    if episode.state in ("running", "cancelled"):
        return None
    for event in reversed(episode.events):
        kind = event["kind"]
        error = event.get("error")
        went_on = kind == "observation" and not error and not is_mark(event)
        if went_on or is_answer(event) or kind in ("tool_call", "tool_result", "reasoning"):
            return None
        if error and (error.get("kind") in KINDS or (error.get("kind") == "timeout" and episode.state == "failed")):
            return event
    return None


DETECTOR = Detector(
    "crash",
    2,
    "The last thing that happened is an error of the agent, its model or what it runs on, which belongs to no "
    "call; or the log says that the run failed, and not by a limit of turns or budget. A limit of rate is an error. "
    "A run that a person cancelled is none.",
    _look,
)
