"""Finds one question put again and again in other spellings, without anything new coming of it."""

from __future__ import annotations

from collections.abc import Iterator

from operations.trajectories.detectors.episode import Call, Episode, events_of
from operations.trajectories.detectors.finding import Detector, Seen, Unknown, no_calls, quoted
from operations.trajectories.detectors.outcomes import brings_nothing, error_key, pieces

REPEATS = 4
"""Calls of one row. One more than for identical calls: another spelling is sometimes what helps."""

SPELLINGS = 2
"""Of the arguments, in one row; with one it is the rule for identical loops that speaks."""

CONFIDENCE = 0.9
"""Below that of exact repeats: punctuation can mean something that the rule does not know."""


def _look(episode: Episode) -> Iterator[Seen | Unknown]:
    if reason := no_calls(episode):
        yield Unknown(reason)
    for streak in episode.streaks:
        run: list[Call] = []
        seen: set[str] = set()
        for call in streak:
            said = pieces(call)
            if run and not _again(run[-1], call, said, seen):
                yield from _found(run)
                run = []
            if not run:
                seen = set()
            run.append(call)
            seen |= said
        yield from _found(run)


def _again(before: Call, call: Call, said: frozenset[str], seen: set[str]) -> bool:
    if call.near is None or call.near != before.near or call.outcome is None or before.last > call.seq:
        return False
    if call.error or before.error:
        return bool(call.error and before.error) and error_key(call) == error_key(before) and not call.transient
    return said <= seen or brings_nothing(call)


def _found(run: list[Call]) -> Iterator[Seen]:
    if len(run) >= REPEATS and len({call.key for call in run}) >= SPELLINGS:
        said = f"{quoted(run[0].name)} was called {len(run)} times with the same words in other forms, without news"
        yield Seen(events_of(run), CONFIDENCE, said)


DETECTOR = Detector(
    "near_duplicate_loop",
    2,
    f"At least {REPEATS} calls of one tool in a row whose arguments differ in case, spacing, punctuation or "
    "the order of words only, of which each after the first brings nothing that the row had not brought, as a result "
    "or an observation. Signs inside numbers and dates, and the signs that tell C from C++, count as words.",
    _look,
)
