"""A disk that fails while the Records of a run are sealed, and then works again, is told of."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow


def test_what_stood_in_the_way_of_sealing_is_said_when_the_next_call_could(loop, all_is_well):
    sealing = [n for n, point in enumerate(loop("run_evaluation").points, 1) if point.path.endswith("/records.jsonl")]
    assert len(sealing) > 2
    assert all_is_well(loop("run_evaluation").faults("EIO", sealing)) == len(sealing)
