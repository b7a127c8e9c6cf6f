"""Finds failed calls that the agent passed over, ending as if they had worked."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from operations.trajectories.detectors.crash import crashed
from operations.trajectories.detectors.episode import Call, Episode, is_answer, said_in
from operations.trajectories.detectors.finding import Detector, Seen, Unknown, no_calls, quoted
from operations.trajectories.detectors.outcomes import failure, values_of, words_of
from operations.trajectories.detectors.speech import asks, promises, tells_of_trouble
from operations.trajectories.detectors.words import leaves, text_of, tokens, unpacked

LATER = 20
"""Later calls of the tool that are looked at for another try."""

ECHO = 2
"""Words of the error that a text has to repeat to speak of it, of those that the user had not said."""

LONG = 4
"""Letters from which a word of an error counts."""

PHRASE = 8
"""Words up to which what the user said is kept by phrases; what is longer is looked for in all of it."""

CONFIDENCE = {"typed": 0.85, "worded": 0.7}
"""By whether the log types the error or the result only words it."""


def _look(episode: Episode) -> Iterator[Seen | Unknown]:
    if reason := no_calls(episode):
        yield Unknown(reason)
        return
    if episode.state in ("running", "cancelled", "interrupted"):
        yield Unknown(f"the run is {episode.state}, and what the agent would have done next is not known")
        return
    text = episode.answer_text
    if text is None or asks(text) or promises(text) or crashed(episode):
        return  # it did not end as if all had worked
    failed = [(number, how) for number, call in enumerate(episode.calls) if (how := failure(call))]
    if failed:
        yield from _passed_over(episode, failed, text)


def _passed_over(episode: Episode, failed: Sequence[tuple[int, str]], text: str) -> Iterator[Seen]:
    later = _Later(episode)
    troubled = [e["seq"] for e in episode.events if is_answer(e) and tells_of_trouble(said_in(e))]
    last_trouble = max(troubled, default=-1)
    beside = not episode.answer  # the answer is kept beside the log, which is after all of it
    answer = set(tokens(text))
    for number, how in failed:
        call = episode.calls[number]
        spoken = last_trouble > call.last or (beside and tells_of_trouble(text))
        made_good = later.tried_again(number) or later.done_otherwise(number, answer)
        if not (spoken or made_good or later.echoes(call, answer)):
            seqs = tuple(sorted({*call.seqs, *episode.answer_seqs}))
            said = f"{quoted(call.name)} failed, was neither tried again nor done another way, and no text speaks of it"
            yield Seen(seqs, CONFIDENCE[how], said)


class _Later:
    """What followed each call."""

    def __init__(self, episode: Episode) -> None:
        self._calls = episode.calls
        self._of_tool: dict[str | None, list[int]] = defaultdict(list)
        self._place: list[int] = []
        self._worked: dict[str, list[int]] = defaultdict(list)
        """Word → the calls with it that worked."""
        for number, call in enumerate(self._calls):
            self._place.append(len(self._of_tool[call.name]))
            self._of_tool[call.name].append(number)
            if call.outcome is not None and failure(call) is None:
                for word in words_of(call):
                    self._worked[word].append(number)
        told = [tokens(text) for text in episode.told(roles=("user",))]
        self._user_words = {word for text in told for word in text}
        self._told = told
        self._user_text = " | ".join(["", *(" ".join(text) for text in told), ""])
        self._phrases: dict[int, set[str]] = {}
        """Number of words → what the user said in so many; read when it is asked for first."""
        self._lists = _Lists(episode)

    def tried_again(self, number: int) -> bool:
        """Whether a later call of the same tool was for the same thing."""
        call = self._calls[number]
        place = self._place[number]
        following = self._of_tool[call.name][place + 1 : place + 1 + LATER]
        return any(not self._other_item(call, self._calls[one]) for one in following)

    def done_otherwise(self, number: int, answer: set[str]) -> bool:
        """Whether a later call of another tool worked and did the same, or told what the answer says."""
        call = self._calls[number]
        found: set[int] = set()
        for word in words_of(call):
            made = self._worked.get(word, ())
            at = bisect_right(made, number)
            found |= set(made[at : at + LATER])
        later = (self._calls[one] for one in sorted(found)[:LATER])
        return any(other.name != call.name and self._stands_for(other, call, answer) for other in later)

    def _stands_for(self, later: Call, failed: Call, answer: set[str]) -> bool:
        asked, done = values_of(failed), values_of(later)
        if asked == done or (len(asked) > 1 and asked <= done):
            return True
        told = {word for value in later.said for word in tokens(text_of(value)) if len(word) >= LONG or word.isdigit()}
        return bool((told & answer) - self._user_words - words_of(failed))

    def echoes(self, call: Call, words: set[str]) -> bool:
        """Whether the answer repeats what the error says."""
        message = text_of([(call.error or {}).get("message"), *call.said])
        own = {word for word in tokens(message) if len(word) >= LONG} - self._user_words - words_of(call)
        return len(own & words) >= min(ECHO, max(1, len(own)))

    def _other_item(self, failed: Call, later: Call) -> bool:
        """Whether a later call was for another of several things: in some field, the user or one list named both."""
        one, two = failed.arguments, later.arguments
        if not isinstance(one, dict) or not isinstance(two, dict):
            return False
        changed = [(one[name], two[name]) for name in one.keys() & two.keys() if one[name] != two[name]]
        return any((self._named(a) and self._named(b)) or self._lists.hold(a, b) for a, b in changed)

    def _named(self, value: Any) -> bool:  # noqa: ANN401 - any JSON
        """Whether the user said it: a phrase of theirs, word for word."""
        words = tokens(text_of([value]))
        phrase, size = " ".join(words), len(words)
        if not 0 < size <= PHRASE:
            return size > 0 and f" {phrase} " in self._user_text
        if size not in self._phrases:
            starts = ((text, at) for text in self._told for at in range(len(text) - size + 1))
            self._phrases[size] = {" ".join(text[at : at + size]) for text, at in starts}
        return phrase in self._phrases[size]


class _Lists:
    """Which values stood together in a list that a result gave."""

    def __init__(self, episode: Episode) -> None:
        self._in: dict[str, set[int]] = defaultdict(set)
        number = 0
        for _, value in episode.observed():
            value = unpacked(value)  # noqa: PLW2901 - the same, read
            for held in _lists(value, 0):
                number += 1
                for leaf in {text_of([leaf]).casefold() for leaf in leaves(held) if leaf is not None}:
                    self._in[leaf].add(number)

    def hold(self, one: Any, two: Any) -> bool:  # noqa: ANN401 - any JSON
        """Whether both stood in one list."""
        return not self._in[text_of([one]).casefold()].isdisjoint(self._in[text_of([two]).casefold()])


def _lists(value: Any, depth: int) -> Iterator[list[Any]]:  # noqa: ANN401 - any JSON
    if isinstance(value, list) and len(value) > 1:
        yield value
    elif isinstance(value, dict | list) and depth < LATER:
        for item in value.values() if isinstance(value, dict) else value:
            yield from _lists(item, depth + 1)


DETECTOR = Detector(
    "ignored_error",
    1,
    "A call failed; no later call of the tool was for the same thing, no later call of another tool did the same or "
    "told what the answer says, no later text tells of trouble or repeats the error; and the run ended with an answer "
    "that is no question. A later call is for another thing where the user, or one list of a result, names both. A "
    "call of another tool did the same if it had the same values, or all of several.",
    _look,
)
