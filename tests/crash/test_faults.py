"""Killed, torn, cut short or refused by the disk at any call, an operation was made or was not, and nothing is lost."""

from __future__ import annotations

import pytest

from tests.support.crashloop.scenarios import SCENARIOS

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("name", SCENARIOS)]


def test_a_kill_at_any_call_leaves_before_or_after(loop, all_is_well, name):
    assert all_is_well(loop(name).faults("kill")) > 15


@pytest.mark.parametrize("mode", ["torn", "short"])
def test_a_write_that_stores_half_leaves_before_or_after(loop, all_is_well, name, mode):
    assert all_is_well(loop(name).faults(mode)) > 2


@pytest.mark.parametrize("mode", ["ENOSPC", "EIO"])
def test_a_disk_error_is_refused_in_words_and_leaves_before_or_after(loop, all_is_well, name, mode):
    """Every third call; `scripts/crash-matrix` has them all."""
    first = {"ENOSPC": 1, "EIO": 2}[mode]
    assert all_is_well(loop(name).faults(mode, loop(name).places(mode)[first::3])) > 5
