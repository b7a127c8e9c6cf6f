"""The gate's stated error rates and power, by seeded simulation (benchmarks/gate_errors.py prints the whole table)."""

import random

import pytest

from benchmarks.gate_errors import Bench, Terms, standard_mix

DRAWS = 300
SLACK = 0.03
"""Two standard errors of a share of 5 % in so many draws, rounded up."""


def shares(scenario, repeats):
    bench = Bench(DRAWS, random.Random(20))
    found = bench.rates(standard_mix(20), scenario, Terms(repeats=repeats))
    return {name: count / DRAWS for name, count in found.items()}


@pytest.mark.parametrize("repeats", [3, 5])
def test_an_unchanged_agent_seldom_passes_and_is_seldom_called_worse(repeats):
    found = shares("unchanged", repeats)
    assert found.get("pass", 0) <= 0.05
    assert found.get("regression", 0) <= 0.05 + SLACK


@pytest.mark.parametrize(("repeats", "least"), [(5, 0.80), (3, 0.60 - SLACK)])
def test_a_true_fix_passes(repeats, least):
    assert shares("fix", repeats)["pass"] >= least


def test_a_fix_that_breaks_two_protected_cases_seldom_passes():
    assert shares("fix and break two", 5).get("pass", 0) <= 0.10


def test_targets_that_were_picked_because_they_failed_seldom_pass_by_chance():
    found = Bench(DRAWS, random.Random(20)).picked_by_failure(standard_mix(20), Terms(repeats=5))
    assert found["pass"] / DRAWS <= 0.05
