"""The gate's stated error rates and power, by seeded simulation (benchmarks/gate_errors.py prints the whole table)."""

import random

import pytest

from benchmarks import gate_through_tools
from benchmarks.gate_errors import Bench, Terms, drawn_mix, standard_mix

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


@pytest.mark.parametrize("seed", [1, 2])
def test_rates_hold_on_mixes_that_a_seed_draws(seed):
    bench = Bench(DRAWS, random.Random(seed))
    found = bench.rates(drawn_mix(seed, 20, bench.rng), "unchanged", Terms(repeats=5))
    assert found["pass"] / DRAWS <= 0.05
    assert found["regression"] / DRAWS <= 0.05 + SLACK


@pytest.mark.parametrize("screening", [0, 2])
def test_eight_changes_without_effect_seldom_end_in_a_false_keep(screening):
    bench = Bench(DRAWS // 6, random.Random(20))
    assert bench.false_keeps(standard_mix(20), Terms(repeats=5, screening=screening), candidates=8) <= 0.05


@pytest.mark.parametrize(("cases", "repeats", "targets", "least"), [(20, 5, 4, 0.70), (12, 10, 3, 0.75)])
def test_a_true_fix_passes_its_look_and_the_final_validation(cases, repeats, targets, least):
    done = Bench(DRAWS // 2, random.Random(20)).completes(standard_mix(cases, targets), Terms(repeats=repeats))
    assert done >= least


@pytest.mark.slow
def test_stored_comparisons_come_to_what_the_rules_come_to_and_keep_the_rates():
    found = gate_through_tools.draws(100, random.Random(20))
    assert found["unchanged"]["pass"] <= 5 + 4
    assert found["fix"]["pass"] >= 80 - 8


@pytest.mark.slow
def test_time_grows_linearly_with_cases_and_the_answer_stays_small():
    assert gate_through_tools.scale((100, 300, 1000)) < 1.25
