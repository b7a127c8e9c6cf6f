"""What missing outcomes could have been: the worst and the best difference they allow."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MissingBounds:
    """The difference of right and left pass rates as seen, and its bounds over every way the missing could have been.

    `seen` leaves the missing out and is None when a side has nothing else.
    """

    seen: float | None
    worst: float
    best: float


def manski_bounds(
    n: int, *, left_passes: int, left_missing: int, right_passes: int, right_missing: int
) -> MissingBounds:
    """Returns the bounds of Manski 1990 for `n` planned outcomes on each side.

    Worst: what is missing on the right failed and on the left passed; best is the reverse.
    """
    left_seen, right_seen = n - left_missing, n - right_missing
    seen = right_passes / right_seen - left_passes / left_seen if left_seen and right_seen else None
    return MissingBounds(
        seen=seen,
        worst=(right_passes - left_passes - left_missing) / n,
        best=(right_passes + right_missing - left_passes) / n,
    )
