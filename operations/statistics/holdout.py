"""How to answer repeated questions about a holdout without wearing it out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


def ladder(losses: Sequence[float], step: float) -> tuple[float, ...]:
    """Returns what is released: a loss, rounded to `step`, only when it beats the best by more than that.

    Blum and Hardt 2015 (arXiv 1502.04585), with a fixed step.
    """
    best, released = math.inf, []
    for loss in losses:
        if loss < best - step:
            best = round(loss / step) * step
        released.append(best)
    return tuple(released)


@dataclass(frozen=True)
class Noise:
    """The three draws that one answer uses: on the threshold, on the comparison and on the answer."""

    threshold: float
    comparison: float
    answer: float


def thresholdout(train: float, holdout: float, threshold: float, noise: Noise) -> tuple[float, bool]:
    """Returns the answer and whether it spent budget (Dwork et al. 2015, Science 349:636)."""
    if abs(train - holdout) > threshold + noise.threshold + noise.comparison:
        return holdout + noise.answer, True
    return train, False
