"""Finds two calls made in turn, again and again, with the same outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from operations.trajectories.detectors.episode import Call, Episode, events_of
from operations.trajectories.detectors.finding import Detector, Seen, Unknown, no_calls, quoted
from operations.trajectories.detectors.identical_loop import sees_else, waited

TURNS = 3
"""Each of the two calls, that often. Twice each is a step back, which finds a way out as often as not."""


def _look(episode: Episode) -> Iterator[Seen | Unknown]:
    if reason := no_calls(episode):
        yield Unknown(reason)
    for streak in episode.streaks:
        start = 0
        for at in range(1, len(streak)):
            if not _goes_on(streak, start, at):
                if at == 1 or not waited(streak[at - 2], streak[at]):
                    yield from _found(streak[start:at])
                # The last call can be the first of another pair.
                start = at - 1 if _goes_on(streak, at - 1, at) else at
        yield from _found(streak[start:])


def _goes_on(streak: Sequence[Call], start: int, at: int) -> bool:
    call, before = streak[at], streak[at - 1]
    if call.outcome is None or before.outcome is None or before.last > call.seq:
        return False
    if at - start == 1:
        near = call.near is not None and call.near == before.near
        return call.key != before.key and not near
    two = streak[at - 2]
    return (two.key, two.outcome) == (call.key, call.outcome) and not sees_else(two, call)


def _found(run: Sequence[Call]) -> Iterator[Seen]:
    if len(run) >= 2 * TURNS:
        said = (
            f"{quoted(run[0].name)} and {quoted(run[1].name)} were called in turn, {len(run)} calls with two outcomes"
        )
        yield Seen(events_of(run), 1.0, said)


DETECTOR = Detector(
    "alternating_loop",
    2,
    f"Two different calls in turn, at least {TURNS} times each, each time with the same arguments, outcomes and "
    "observations, unless one of them then brings another outcome that is no error, or another observation. Calls that "
    "differ in form only are left to the rule for near duplicates.",
    _look,
)
