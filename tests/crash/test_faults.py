"""Torn, cut short or refused by the disk at any call, an operation was made or was not, and says so."""

from __future__ import annotations

import pytest

from tests.crash.conftest import SEED, share
from tests.crash.test_kills import most

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("name", share())]


@pytest.mark.parametrize("mode", ["torn", "short"])
def test_a_write_that_stores_half_leaves_before_or_after(loop, all_is_well, name, mode):
    places = loop(name).chosen(mode, SEED, most(name, whole=3, git=2, runs=1))
    assert all_is_well(loop(name).faults(mode, places)) == len(places)


@pytest.mark.parametrize("mode", ["ENOSPC", "ENOSPC+", "EIO", "EROFS+"])
def test_a_disk_error_is_refused_in_words_and_leaves_before_or_after(loop, all_is_well, name, mode):
    places = loop(name).chosen(mode, SEED, most(name, whole=4, git=2, runs=1))
    assert all_is_well(loop(name).faults(mode, places)) == len(places)
