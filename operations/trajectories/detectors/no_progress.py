"""Finds many different calls in a row that bring nothing which was not seen before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from operations.trajectories.detectors.episode import Call, Episode, events_of
from operations.trajectories.detectors.finding import Detector, Seen, Unknown, no_calls
from operations.trajectories.detectors.outcomes import brings_nothing, error_key, is_substantial, pieces, values_of
from operations.trajectories.detectors.words import leaves, text_of, tokens, unpacked

CALLS = 5
"""Different calls in a row. Fewer is a search that has only begun."""

ROUND, ROUNDS = 3, 3
"""Different calls, and how often each is made, on average, after it has brought what it brings: going in a circle. Of
one or two calls, the rules for loops speak."""

PHRASE = 3
"""Words up to which an argument is looked for in what was said before; longer ones are the agent's own wording."""

CONFIDENCE = 0.8
"""What is new to the agent is judged by its words; the rule does not know what they mean."""


def _look(episode: Episode) -> Iterator[Seen | Unknown]:
    if reason := no_calls(episode):
        yield Unknown(reason)
    seen: set[str] = set()
    errors: set[tuple[str, ...]] = set()
    named = _Named(episode)
    for streak in episode.streaks:
        run: list[Call] = []
        first: Call | None = None
        """The call that brought an error for the first time: it is of the row if the next brings that again."""
        for call in streak:
            said = pieces(call)
            news = _news(call, said, seen, errors)
            if news:
                yield from _found(run, named, call)
                run, first = [], call if call.error else None
            else:
                if not run and first is not None and error_key(first) == error_key(call):
                    run.append(first)
                run.append(call)
            seen |= said
            if call.error:
                errors.add(error_key(call))
        yield from _found(run, named)


def _news(call: Call, said: frozenset[str], seen: set[str], errors: set[tuple[str, ...]]) -> bool:
    """Whether a call brought something, or nobody knows what it brought."""
    if call.error:
        return error_key(call) not in errors and not call.transient
    if call.outcome is None:
        return True
    if brings_nothing(call):
        return False
    return not (said <= seen and is_substantial(call))


def _found(run: Sequence[Call], named: _Named, news: Call | None = None) -> Iterator[Seen]:
    # Calls that differ in form only count as one: of them, the rules for loops speak.
    different = {call.near or call.key for call in run}
    # A circle that ends since one of its calls brings something else was waiting for that.
    waited = news is not None and news.key in {call.key for call in run}
    circle = len(different) >= ROUND and len(run) >= ROUNDS * len(different) and not waited
    if circle or (len(different) >= CALLS and not _is_asked_for(run, named)):
        said = (
            f"{len(run)} calls in a row, {len(different)} of them different, brought nothing that was not seen before"
        )
        yield Seen(events_of(run), CONFIDENCE, said)


class _Named:
    """What the user named, and what results had named up to an event; read once, as far as it is asked for."""

    def __init__(self, episode: Episode) -> None:
        self._phrases: set[str] = set()
        self._episode = episode
        self._observed: Iterator[tuple[int, Any]] | None = None
        self._next: tuple[int, Any] | None = None

    def before(self, seq: int) -> set[str]:
        """Returns the phrases that were there before an event; it is asked for in the order of events."""
        if self._observed is None:
            self._observed = self._episode.observed()
            self._next = next(self._observed, None)
            for text in self._episode.told(roles=("user",)):
                self._phrases |= _phrases(text)
        while self._next is not None and self._next[0] < seq:
            for leaf in leaves(unpacked(self._next[1])):
                self._phrases |= _phrases(text_of([leaf]))
            self._next = next(self._observed, None)
        return self._phrases


def _is_asked_for(run: Sequence[Call], named: _Named) -> bool:
    """Whether the calls go through things that the user or a result named: then "nothing" is each time an answer.

    One call in so many as make a row may be another.
    """
    phrases = named.before(run[0].seq)
    common = frozenset.intersection(*map(values_of, run))
    strange = [call for call in run if not (values_of(call) - common) or not (values_of(call) - common) <= phrases]
    return len(strange) * CALLS <= len(run)


def _phrases(text: str) -> set[str]:
    words = tokens(text)
    return {" ".join(words[at : at + n]) for n in range(1, PHRASE + 1) for at in range(len(words) - n + 1)}


DETECTOR = Detector(
    "no_progress",
    2,
    f"At least {CALLS} different calls in a row that bring nothing which was not seen before, as a result or an "
    "observation: nothing at all, "
    "an error that was met already, or what an earlier result said in full. Calls that go through things "
    "which the user or a result named are exempt, since there a negative answer is an answer; so are short "
    f"outcomes that are not negative, such as `ok`. Or at least {ROUND} such calls, made {ROUNDS} times each on "
    "average after they had brought what they bring, unless one of them then brings something else.",
    _look,
)
