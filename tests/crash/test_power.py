"""When the power goes, what was acknowledged is on the disk, and what was not is whole or absent."""

from __future__ import annotations

import os

import pytest

from tests.support.crashloop.loop import MODELS

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ["store_dataset", "store_attachments", "keep", "probe"])
def test_no_power_cut_loses_what_was_acknowledged(loop, all_is_well, name, model):
    assert all_is_well(loop(name).power(model, seed=1, most=75)) == 75


def test_the_replay_finds_a_store_that_does_not_flush(loop, monkeypatch):
    """What the other tests rely on: with no flush at all, acknowledged work is lost in some state."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    rows = list(loop("store_dataset").power("strict", seed=1, most=40))
    assert any("acknowledged is lost" in row.wrong for row in rows)
