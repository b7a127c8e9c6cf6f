"""Finds calls of tools that the agent did not have."""

from __future__ import annotations

from collections.abc import Iterator

from operations.trajectories.detectors.episode import Episode, events_of
from operations.trajectories.detectors.finding import Detector, Seen, Unknown, quoted


def _look(episode: Episode) -> Iterator[Seen | Unknown]:
    if episode.tools is None:
        yield Unknown("nothing says which tools the agent had")
        return
    if not episode.calls:
        yield Unknown("the log has no call")
    needs = "tools" if episode.tools_given else None
    for call in episode.calls:
        if call.name is not None and call.name not in episode.tools:
            yield Seen(events_of([call]), 1.0, f"there is no tool {quoted(call.name)}", needs=needs)
    if nameless := sum(call.name is None for call in episode.calls):
        yield Unknown(f"the tools of {nameless} calls are not in the log")


DETECTOR = Detector("unknown_tool", 1, "A call of a tool that is none of those that the agent had.", _look)
