"""A server that has answered hundreds of calls holds no more than it has to."""

import sys

import anyio
import pytest

from benchmarks import soak

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="memory and open files are read from /proc"),
]

WINDOWS, CALLS = 4, 100
"""The first window is what a server takes to get warm."""

STATE_KIB = 64
"""Memory that an object of the store may take in the state of it; measured are 12."""
SLACK_KIB = 12 * 1024
"""What the allocator may keep: a leak of a hundredth of a MiB a call would be three times as much at ten thousand."""


def test_hundreds_of_mixed_calls_leave_nothing_behind(tmp_path):
    target = soak.prepared(str(tmp_path / "target"))
    first, *_, last = windows = anyio.run(soak.soak, target, WINDOWS * CALLS, CALLS, lambda _: None)[1:]
    assert [window.refusals for window in windows] == [[]] * (WINDOWS - 1)
    assert last.files <= first.files
    assert last.threads <= first.threads
    assert [window.processes for window in windows] == [0] * (WINDOWS - 1)
    assert last.objects > first.objects
    assert last.memory - first.memory <= SLACK_KIB + STATE_KIB * (last.objects - first.objects)
    assert last.replayed / last.objects <= 2 * first.replayed / first.objects
