"""Finds runs that ended before the agent had answered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from operations.trajectories.detectors.crash import crashed
from operations.trajectories.detectors.episode import Call, Episode, is_answer, is_user, said_in
from operations.trajectories.detectors.finding import Detector, Seen, Unknown, quoted
from operations.trajectories.detectors.speech import CUT, asks, breaks_off, promises
from operations.trajectories.detectors.words import text_of

ANSWERS = frozenset(
    ("answer", "final_answer", "response", "final_response", "reply", "result", "summary", "conclusion")
)
"""Fields of a last call that hold an answer: some agents answer by a tool that ends the run."""

OPEN, SILENT, WORDED = 0.95, 0.85, 0.8
"""With a call left open; without an answer; and by the wording of the last text."""


def _look(episode: Episode) -> Iterator[Seen | Unknown]:
    if not episode.events:
        yield Unknown("the log has no event")
    elif episode.state == "running":
        yield Unknown("the run has not ended in this log")
    elif episode.state == "cancelled":
        yield Unknown("a person cancelled the run")
    elif episode.state == "unknown" and episode.answer_text is None:
        yield Unknown("the log says neither what the agent answered nor how the run ended")
    elif not crashed(episode):
        yield from _ended(episode)


def _ended(episode: Episode) -> Iterator[Seen]:
    end = len(episode.events) - 1
    text = episode.answer_text
    if not episode.answer and (waiting := _open_calls(episode)):
        yield Seen(waiting, OPEN, f"the run ended while {len(waiting)} of its calls had no result")
    elif text is None:
        if not _answered_otherwise(episode):
            yield Seen((end,), SILENT, "the run ended without an answer")
    elif promises(text):
        yield Seen(episode.answer_seqs, WORDED, f"the last text promises what would come next: {quoted(text[-40:])}")
    elif breaks_off(text) or (_is_cut(episode) and not asks(text)):
        yield Seen(episode.answer_seqs, WORDED, f"the last text breaks off: {quoted(text[-40:])}")


def _open_calls(episode: Episode) -> tuple[int, ...]:
    """Returns the calls without a result after which the agent said nothing more."""
    last_said = max((e["seq"] for e in episode.events if is_answer(e) and not promises(said_in(e))), default=-1)
    return tuple(c.seq for c in episode.calls if not c.results and not c.error and c.seq > last_said)


def _answered_otherwise(episode: Episode) -> bool:
    """Whether the agent answered by its last call, or said its answer before calls that only put things in order."""
    calls = episode.calls
    if not calls:
        return False
    if _holds_answer(calls[-1]):
        return True
    asked = max((e["seq"] for e in episode.events if is_user(e)), default=-1)
    said = [e["seq"] for e in episode.events if e["seq"] > asked and is_answer(e) and not promises(said_in(e))]
    return bool(said) and all(_is_housekeeping(call) for call in calls if call.seq > said[-1])


def _holds_answer(call: Call) -> bool:
    arguments = call.arguments
    held: Any = isinstance(arguments, dict) and any(
        text_of(arguments.get(name)).strip() for name in ANSWERS & set(arguments)
    )
    return bool(held) and not call.error


def _is_housekeeping(call: Call) -> bool:
    """Whether a call's result is no more than a word that it was done."""
    return call.outcome is not None and not call.error and all(len(text_of(v).split()) <= 2 for v in call.said)  # noqa: PLR2004


def _is_cut(episode: Episode) -> bool:
    ends = [e for e in episode.events[episode.answer_seqs[0] :] if e["kind"] in ("turn_complete", "text")]
    reasons = [e.get("finish_reason") or (e.get("attributes") or {}).get("finish_reason") for e in ends]
    return any(str(reason).casefold() in CUT for reason in reasons if reason)


DETECTOR = Detector(
    "premature_end",
    1,
    "The run ended with an open call, with no answer, or with a last sentence that promises what would come "
    "next or breaks off. An answer may be a field of the last call, or stand before calls that only put "
    "things in order. Runs that crashed are left to that rule; offers, conditions and questions are answers.",
    _look,
)
