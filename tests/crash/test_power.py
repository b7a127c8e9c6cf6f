"""When the power goes, what was acknowledged is on the disk, and what was not is whole or absent."""

from __future__ import annotations

import os

import pytest

from tests.crash.conftest import SEED, share
from tests.support.crashloop.loop import MODELS

pytestmark = pytest.mark.slow

STATES = int(os.environ.get("ATK_CRASH_STATES", "75"))
"""Power states of each operation and model."""


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", share())
def test_no_power_cut_loses_what_was_acknowledged(loop, all_is_well, name, model):
    assert all_is_well(loop(name).power(model, seed=SEED, most=STATES)) > 0
