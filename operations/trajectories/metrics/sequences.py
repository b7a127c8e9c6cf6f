"""Metrics of the order in which tools were called, against a way that is known to be good."""

from __future__ import annotations

from collections.abc import Sequence

from operations.trajectories.metrics.metric import Episode, Measurement, Metric

CELLS = 1_000_000
"""Calls times calls of the reference that are compared: half a second."""


def distance(left: Sequence[str], right: Sequence[str]) -> int:
    """Returns the edit distance of two sequences: the fewest insertions, deletions and replacements of one item.

    Levenshtein, Binary codes capable of correcting deletions, insertions, and reversals, 1966. Time is in proportion to
    the product of the lengths, memory to the shorter one.
    """
    if len(left) < len(right):
        left, right = right, left
    row = list(range(len(right) + 1))
    for place, one in enumerate(left, 1):
        before, row[0] = row[0], place
        for other_place, other in enumerate(right, 1):
            before, row[other_place] = (
                row[other_place],
                min(row[other_place] + 1, row[other_place - 1] + 1, before + (one != other)),
            )
    return row[-1]


def _compared(episode: Episode) -> tuple[list[str], Sequence[str]] | Measurement:
    if episode.reference is None:
        return Measurement(None, "no reference was given")
    names = [call.name for call in episode.calls]
    said = [name for name in names if name is not None]
    if len(said) < len(names):
        return Measurement(None, "a call does not name its tool")
    if len(said) * len(episode.reference) > CELLS:
        return Measurement(
            None, f"{len(said)} calls and a reference of {len(episode.reference)} are too many to compare"
        )
    return said, episode.reference


def _tool_sequence_distance(episode: Episode) -> Measurement:
    found = _compared(episode)
    return found if isinstance(found, Measurement) else Measurement(distance(*found))


def _tool_sequence_similarity(episode: Episode) -> Measurement:
    found = _compared(episode)
    if isinstance(found, Measurement):
        return found
    longest = max(map(len, found))
    if not longest:
        return Measurement(None, "neither the agent nor the reference calls a tool")
    return Measurement(1 - distance(*found) / longest, of=longest)


_INPUTS = ("names of tool calls", "a reference")
_UNKNOWN = "No reference was given, a call does not name its tool, or there are too many calls to compare."
_LEVENSHTEIN = "Levenshtein, Binary codes capable of correcting deletions, insertions, and reversals, 1966."

SEQUENCES = (
    Metric(
        name="tool_sequence_distance",
        unit="edits",
        direction="lower",
        inputs=_INPUTS,
        formula="The fewest insertions, deletions and replacements of a tool that turn the called tools, in order, "
        "into those of the reference.",
        unknown=_UNKNOWN,
        source=_LEVENSHTEIN,
        measure=_tool_sequence_distance,
    ),
    Metric(
        name="tool_sequence_similarity",
        unit="share, 0 to 1",
        direction="higher",
        inputs=_INPUTS,
        formula="One minus tool_sequence_distance over the length of the longer sequence.",
        unknown=f"{_UNKNOWN[:-1]}; or neither calls a tool.",
        source=_LEVENSHTEIN,
        measure=_tool_sequence_similarity,
    ),
)
