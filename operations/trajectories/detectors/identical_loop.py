"""Finds one call made again and again with the same arguments and the same outcome."""

from __future__ import annotations

from collections.abc import Iterator

from operations.trajectories.detectors.episode import Call, Episode, events_of
from operations.trajectories.detectors.finding import Detector, Seen, Unknown, no_calls, quoted

REPEATS = 3
"""The same call, that often in a row. Twice is a second look, which agents and people take."""

TRIES = 6
"""A call that fails by timeout or infrastructure may be tried that often: one attempt and five retries, which is what
common retry policies allow. More is a loop like any other."""


def _look(episode: Episode) -> Iterator[Seen | Unknown]:
    if reason := no_calls(episode):
        yield Unknown(reason)
    for streak in episode.streaks:
        run: list[Call] = []
        for call in streak:
            if run and not _again(run[-1], call):
                if not waited(run[-1], call):
                    yield from _found(run)
                run = []
            run.append(call)
        yield from _found(run)


def _again(before: Call, call: Call) -> bool:
    """Whether a call repeats the one before with the outcome of that one in sight."""
    same = (before.key, before.outcome) == (call.key, call.outcome) and not sees_else(before, call)
    return same and call.outcome is not None and before.last < call.seq


def sees_else(before: Call, call: Call) -> bool:
    """Whether something else was observed after a call than after one before."""
    return None not in (before.view, call.view) and before.view != call.view


def waited(before: Call, call: Call) -> bool:
    """Whether a call is that before, made until it brought something else: then the agent waited for that."""
    changed = call.outcome not in (None, before.outcome) or sees_else(before, call)
    return call.key == before.key and changed and not call.error


def _found(run: list[Call]) -> Iterator[Seen]:
    allowed = TRIES if run[0].transient else REPEATS - 1
    if len(run) > allowed:
        said = f"{quoted(run[0].name)} was called {len(run)} times in a row with the same arguments and outcome"
        yield Seen(events_of(run), 1.0, said)


DETECTOR = Detector(
    "identical_loop",
    2,
    f"One call with the same arguments at least {REPEATS} times in a row, each time with the same outcome and "
    "after the outcome before was there. Another call, another outcome, another observation or a message of the user "
    "ends the row; where it is ended by the same call with another outcome that is no error, or with another "
    "observation, the agent waited for that. "
    f"What fails by timeout or infrastructure may be tried {TRIES} times.",
    _look,
)
