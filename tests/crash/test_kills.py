"""Killed at any call, an operation was made or was not, and nothing is lost."""

from __future__ import annotations

import pytest

from tests.crash.conftest import SEED, share
from tests.support.crashloop.scenarios import SCENARIOS

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("name", share())]


def most(name, whole, git, runs):
    """How many calls are tried: an operation that runs Git or the agent takes seconds each time."""
    scenario = SCENARIOS[name]
    return runs if scenario.runs else git if scenario.git else whole


def test_a_kill_leaves_before_or_after(loop, all_is_well, name):
    assert all_is_well(loop(name).faults("kill")) == len(loop(name).points)


def test_a_kill_of_a_git_child_or_of_a_part_of_a_run_is_a_refusal_or_an_interrupted_run(loop, all_is_well, name):
    places = loop(name).chosen("killone", SEED, most(name, whole=3, git=3, runs=2))
    assert all_is_well(loop(name).faults("killone", places)) == len(places)


def test_a_kill_and_a_kill_of_the_recovery_leave_before_or_after(loop, all_is_well, name):
    places = loop(name).chosen("nested", SEED, 2)
    assert all_is_well(loop(name).faults("nested", places, most=2)) >= len(places)


def test_what_the_user_wrote_between_a_kill_and_the_recovery_stays(loop, all_is_well, name):
    places = loop(name).chosen("edited", SEED, 4)
    assert all_is_well(loop(name).faults("edited", places)) == len(places)
