"""Failure detectors: rules over one log that say what went wrong, where, and under which version of the rule.

They are pure and need the standard library only. What they find is a reading of the log; what it means for the task is
for somebody who understands it.
"""

from __future__ import annotations

from operations.trajectories.detectors import (
    alternating_loop,
    budget_blowup,
    crash,
    identical_loop,
    ignored_error,
    malformed_call,
    near_duplicate_loop,
    no_progress,
    premature_end,
    unknown_tool,
    unsupported_answer,
)
from operations.trajectories.detectors.episode import Budget, Episode
from operations.trajectories.detectors.finding import Detector, Finding, Result

__all__ = ["DETECTORS", "Budget", "Detector", "Episode", "Finding", "Result", "detect"]

DETECTORS: tuple[Detector, ...] = tuple(
    module.DETECTOR
    for module in (
        identical_loop,
        alternating_loop,
        near_duplicate_loop,
        no_progress,
        malformed_call,
        unknown_tool,
        ignored_error,
        crash,
        premature_end,
        unsupported_answer,
        budget_blowup,
    )
)
"""All of them, in the order in which they are reported."""


def detect(episode: Episode) -> tuple[Result, ...]:
    """Returns what each detector says of an episode: findings, clean, or not applicable and why."""
    return tuple(detector(episode) for detector in DETECTORS)
