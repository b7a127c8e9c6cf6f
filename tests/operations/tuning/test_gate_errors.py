"""The gate's stated error rates and power, by seeded simulation (benchmarks/gate_errors.py prints the whole table)."""

import random
from functools import cache

import pytest

from benchmarks import gate_errors, gate_rounds, gate_through_tools
from benchmarks.gate_model import Terms, completes, drawn_mix, keeps_one, standard_mix

DRAWS = 200
SLACK = 0.03
"""Two standard errors of a share of 5 % in so many draws, rounded up."""


@cache
def shares(scenario, repeats, *, mix=None, draws=DRAWS, picked=False, **terms):
    """Returns the share of each result, by gate_errors."""
    row = gate_errors.Row(mix or standard_mix(20), scenario, Terms(repeats=repeats, **terms), picked)
    return {name: count / draws for name, count in gate_errors.measured(row, draws, 20).items()}


@pytest.mark.parametrize("repeats", [3, 5])
def test_an_unchanged_agent_seldom_passes_and_is_seldom_called_worse(repeats):
    found = shares("unchanged", repeats)
    assert found.get("pass", 0) <= 0.05
    assert found.get("regression", 0) <= 0.05 + SLACK


@pytest.mark.parametrize(("repeats", "least"), [(5, 0.80), (3, 0.60)])
def test_a_true_fix_passes(repeats, least):
    assert shares("fix", repeats)["pass"] >= least - SLACK


@pytest.mark.parametrize(
    ("cases", "repeats", "margin"), [(20, 5, 0.15), (20, 5, 0.2), (20, 3, 0.15), (40, 5, 0.15), (60, 5, 0.2)]
)
def test_a_fix_that_breaks_two_protected_cases_seldom_passes(cases, repeats, margin):
    found = shares("fix and break two", repeats, mix=standard_mix(cases), margin=margin, draws=DRAWS // 2)
    assert found.get("pass", 0) <= 0.10


@pytest.mark.parametrize("repeats", [3, 5])
def test_a_fix_that_costs_the_others_just_the_margin_seldom_passes(repeats):
    assert shares("fix and lose the margin", repeats).get("pass", 0) <= 0.05


def test_a_regression_is_called_one():
    assert shares("regression", 5)["regression"] >= 0.95


def test_targets_that_were_picked_because_they_failed_seldom_pass_by_chance():
    found = shares("unchanged", 5, picked=True)
    assert found.get("pass", 0) <= 0.05
    assert found.get("regression", 0) <= 0.05 + SLACK


@pytest.mark.parametrize("kind", ["drawn", "noisy"])
@pytest.mark.parametrize("seed", [1, 2])
def test_limits_hold_on_mixes_that_a_seed_draws(kind, seed):
    mix = drawn_mix(kind, 1, 20, seed)
    found = shares("unchanged", 5, mix=mix)
    assert found.get("pass", 0) <= 0.05
    assert found.get("regression", 0) <= 0.05 + SLACK
    assert shares("fix and break two", 5, mix=mix).get("pass", 0) <= 0.10


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_true_fix_passes_on_mixes_drawn_in_the_proportions_of_the_reference(seed):
    assert shares("fix", 5, mix=drawn_mix("drawn", 1, 20, seed))["pass"] >= 0.80 - SLACK


def test_no_test_excludes_the_margin_as_often_on_a_noisy_mix_and_more_repeats_do():
    mix = drawn_mix("noisy", 1, 20, 1)
    few, many = (mix.best_possible(Terms(repeats=k)) for k in (5, 10))
    assert few < standard_mix(20).best_possible(Terms(repeats=5)) < many


def test_a_row_says_the_same_whichever_others_are_drawn():
    row = gate_errors.Row(standard_mix(20), "fix", Terms(repeats=5))
    assert gate_errors.measured(row, 20, 7) == gate_errors.measured(row, 20, 7)
    assert row.drawn_from == gate_errors.Row(standard_mix(20), "fix", Terms(repeats=5, margin=0.2, look=3)).drawn_from


def test_the_predecessors_rule_calls_an_unchanged_agent_worse_and_finds_no_fix():
    found = {s: shares(s, 3, rule="counts", draws=150) for s in ("unchanged", "fix")}
    assert found["unchanged"]["regression"] >= 0.95
    assert found["fix"].get("pass", 0) <= 0.10


def test_the_table_has_every_size_at_every_margin_and_every_look():
    parts = gate_errors.size_rows(), gate_errors.look_rows(), gate_errors.other_rows(), gate_errors.drawn_rows(2, 1)
    rows = [row for part in parts for row in part]
    sizes = {(len(r.mix.rates), r.terms.repeats, r.terms.margin) for r in rows}
    assert {(c, k, m) for c, k, _ in gate_errors.SIZES for m in gate_errors.MARGINS} <= sizes
    assert {r.terms.look for r in rows} == {1, 2, 3, 4, 5}
    assert {r.mix.name for r in rows} == {"standard", "drawn 1", "drawn 2", "noisy 1", "noisy 2"}


@pytest.mark.parametrize("screening", [0, 2])
def test_eight_changes_without_effect_seldom_end_in_a_false_keep(screening):
    rng, terms = random.Random(20), Terms(repeats=5, screening=screening)
    assert sum(keeps_one(standard_mix(20), terms, 8, rng) for _ in range(DRAWS // 6)) <= 0.05 * DRAWS / 6


@pytest.mark.parametrize(("cases", "repeats", "targets", "least"), [(20, 5, 4, 0.70), (12, 10, 3, 0.75)])
def test_a_true_fix_passes_its_look_and_the_final_validation(cases, repeats, targets, least):
    rng, draws = random.Random(20), DRAWS // 2
    done = sum(completes(standard_mix(cases, targets), Terms(repeats=repeats), rng) for _ in range(draws))
    assert done / draws >= least - 2 * SLACK


@pytest.mark.slow
def test_stored_comparisons_come_to_what_the_rules_come_to_and_keep_the_rates():
    found = gate_through_tools.draws(100, random.Random(20), ("unchanged", "fix"))
    assert found["unchanged"]["pass"] <= 5 + 4
    assert found["fix"]["pass"] >= 80 - 12


@pytest.mark.slow
def test_whole_rounds_through_the_operations_come_to_what_the_rules_come_to(tmp_path):
    bed = gate_through_tools.Bed(tmp_path, standard_mix(12, 3), 10, ["correct"], gate_rounds.CANDIDATES)
    rng, mix, terms = random.Random(20), standard_mix(12, 3), Terms(repeats=10)
    assert sum(gate_rounds.completes(bed, mix, terms, rng) for _ in range(4)) >= 2
    assert not gate_rounds.keeps_one(bed, mix, terms, rng)


@pytest.mark.slow
def test_time_grows_linearly_with_cases_and_the_answer_stays_small():
    assert gate_through_tools.scale((100, 300, 1000)) < 1.5  # what grows with the square has 2
