"""Worked numbers of the statistics that the gate uses, to six digits."""

import math
from fractions import Fraction

import pytest

from operations.statistics import (
    agreement,
    bounds,
    distributions,
    exact,
    holdout,
    intervals,
    multiplicity,
    paired,
    power,
)
from operations.statistics.exact import Stratum
from operations.tuning import ledger

PARENT = [[1, 1, 0], [0, 0, 0], [1, 1, 1], [0, 1, 0], [0, 0, 0], [1, 0, 1], [0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 0, 0]]
CANDIDATE = [
    [1, 1, 1],
    [1, 0, 1],
    [1, 1, 1],
    [1, 1, 0],
    [0, 0, 0],
    [1, 1, 1],
    [1, 1, 0],
    [1, 1, 1],
    [0, 1, 0],
    [0, 1, 0],
]
DIFFERENCES = [Fraction(sum(c) - sum(p), 3) for p, c in zip(PARENT, CANDIDATE, strict=True)]
GROUPS = list("aabbccddee")
ONE_FLIPS = [Fraction(1)] + [Fraction(0)] * 9
S8 = [Fraction(x, 3) for x in (0, 0, -1, 0, 1, 0, 0, 0, -1, 0, 0, 1)]
S6_LEFT = [[0, 0, 0, 1], [1, 1, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 1], [0, 0, 1, 0]]
S6_RIGHT = [[1, 1, 1, 1], [1, 1, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1]]


def six(value):
    return pytest.approx(value, abs=5.1e-7)


def test_paired_t_by_case():
    e = paired.paired_mean(DIFFERENCES)
    assert [sum(map(sum, side)) / 30 for side in (PARENT, CANDIDATE)] == [six(0.433333), six(0.666667)]
    assert e.mean == six(0.233333)
    assert e.deviation == six(0.224983)
    assert e.standard_error == six(0.071146)
    assert (e.df, e.t) == (9, six(3.279649))
    assert e.p_above() == six(0.004767)
    assert 2 * e.p_above() == six(0.009535)
    assert e.interval() == (six(0.072390), six(0.394276))
    assert e.lower() == six(0.102915)


def test_runs_taken_for_units_or_left_unpaired_have_another_error():
    """What the Case as the unit is told apart from."""
    runs = [c - p for ps, cs in zip(PARENT, CANDIDATE, strict=True) for p, c in zip(ps, cs, strict=True)]
    e = paired.paired_mean(runs)
    assert (e.n, e.standard_error, e.p_above()) == (30, six(0.103761), six(0.016147))
    left, right = (sum(map(sum, side)) / 30 for side in (PARENT, CANDIDATE))
    unpaired = math.sqrt(left * (1 - left) / 30 + right * (1 - right) / 30)
    # squared deviations over n - 1
    unpaired *= math.sqrt(30 / 29)
    assert (unpaired, (right - left) / unpaired) == (six(0.127005), six(1.837198))
    assert distributions.normal_tail((right - left) / unpaired) == six(0.033090)


def test_cases_that_differ_by_no_more_than_their_repeats_have_no_variance_between_them():
    v = power.variance_components(PARENT, CANDIDATE)
    assert (v.left_within, v.right_within) == (six(0.166667), six(0.166667))
    assert (v.differences, v.between) == (six(0.050617), 0)
    assert [v.standard_error(10, k) for k in (1, 2, 3, 5, 10)] == [
        six(0.182574),
        six(0.129099),
        six(0.105409),
        six(0.081650),
        six(0.057735),
    ]


def test_clustering_runs_by_case_gives_the_case_error():
    runs = [c - p for ps, cs in zip(PARENT, CANDIDATE, strict=True) for p, c in zip(ps, cs, strict=True)]
    e = paired.paired_mean(runs, [i // 3 for i in range(30)])
    assert e.standard_error == six(0.071146)
    assert e.standard_error * math.sqrt(9 / 10) == six(0.067495)


def test_clustering_by_source_group():
    e = paired.paired_mean(DIFFERENCES, GROUPS)
    assert e.standard_error == six(0.066667)
    assert e.standard_error * math.sqrt(4 / 5) == six(0.059628)
    assert (e.units, e.df, e.t) == (5, 4, six(3.5))
    assert e.p_above() == six(0.012448)
    assert e.lower() == six(0.091210)


def test_sign_flip_is_exact():
    assert exact.sign_flip(DIFFERENCES) == (six(16 / 1024), "exact", 6)
    assert exact.sign_flip([Fraction(x, 4) for x in (3, 1, 0, 0, -2, 3)]).p == six(0.1875)


def test_sign_test():
    assert exact.sign_test(6, 0) == (six(0.015625), six(0.031250))


@pytest.mark.parametrize(
    ("m", "p"), [(3, 0.125), (4, 0.0625), (5, 0.03125), (6, 0.015625), (8, 0.003906), (10, 0.000977)]
)
def test_least_sign_flip_p_is_two_to_the_minus_m(m, p):
    assert exact.sign_flip([Fraction(1)] * m).p == six(p)
    assert exact.least_attainable_p([(1, 1)]) == 0.5


def test_mcnemar():
    assert exact.mcnemar(2, 9) == (six(0.032715), six(0.065430), six(0.019287))
    assert exact.mcnemar(0, 5)[0] == six(0.03125)


def test_one_case_that_flips_in_every_repeat_is_one_case():
    e = paired.paired_mean(ONE_FLIPS)
    assert (e.mean, e.standard_error, e.t) == (six(0.1), six(0.1), six(1.0))
    assert e.p_above() == six(0.171718)
    assert exact.sign_flip(ONE_FLIPS).p == 0.5
    assert exact.sign_test(1, 0)[0] == 0.5
    assert exact.conditional_test([Stratum(0, 5, 5, 5)]).p == six(1 / 252)


def test_variance_components_and_repeats():
    v = power.variance_components(S6_LEFT, S6_RIGHT)
    assert (v.left_within, v.right_within) == (six(0.180556), six(0))
    assert (v.differences, v.between) == (six(0.235417), six(0.190278))
    assert [v.standard_error(6, k) for k in (1, 2, 4, 8)] == [
        six(0.248607),
        six(0.216239),
        six(0.198081),
        six(0.188347),
    ]
    assert v.floor(6) == six(0.178081)
    assert v.standard_error(12, 4) == six(0.140064)


@pytest.mark.parametrize(("effect", "cases"), [(0.20, (53, 22, 16)), (0.10, (211, 87, 62)), (0.05, (841, 347, 248))])
def test_cases_needed_for_an_effect(effect, cases):
    needed = [power.cases_needed(effect, between=0.04, within=0.30, repeats=k) for k in (1, 3, 5)]
    assert tuple(needed) == cases


def test_quantile_sum_of_the_sample_size_formula():
    assert (distributions.normal_quantile(0.95) + distributions.normal_quantile(0.8)) ** 2 == six(6.182557)


def test_non_inferiority_bound():
    e = paired.paired_mean(S8)
    assert (e.mean, e.standard_error, e.lower()) == (0, six(0.058026), six(-0.104208))
    assert (0.10 + e.mean) / e.standard_error == six(1.723369)
    assert e.p_above(-0.10) == six(0.056388)
    assert [e.lower() > -margin for margin in (0.05, 0.10, 0.15)] == [False, False, True]


@pytest.mark.parametrize(
    ("n", "bound"), [(5, 0.450720), (10, 0.258866), (20, 0.139108), (30, 0.095034), (59, 0.049508), (60, 0.048703)]
)
def test_no_event_bounds_the_rate_and_no_variance_is_bounded_alike(n, bound):
    assert distributions.zero_event_bound(n) == six(bound)
    e = paired.paired_mean([Fraction(0)] * n)
    assert (e.lower(), e.upper()) == (six(-bound), six(bound))
    assert distributions.units_for_zero_events(0.05) == 59


def test_identical_thirds_have_no_variance_by_rounding():
    e = paired.paired_mean([Fraction(-2, 3)] * 10)
    assert e.standard_error == 0
    assert -1 < e.lower() < e.mean < e.upper() < 0


def test_intervals_of_a_proportion():
    assert distributions.wilson(1, 20) == (six(0.008881), six(0.236131))
    assert distributions.clopper_pearson(1, 20) == (six(0.001265), six(0.248733))
    assert distributions.clopper_pearson(0, 20)[0] == 0
    assert distributions.clopper_pearson(20, 20)[1] == 1


def test_paired_log_ratio_of_cost():
    left = [0.020, 0.031, 0.012, 0.044, 0.025, 0.018, 0.039, 0.027]
    right = [0.022, 0.030, 0.015, 0.049, 0.024, 0.021, 0.046, 0.026]
    r = paired.paired_log_ratio(left, right)
    assert (r.ratio, r.standard_error_log) == (six(1.082470), six(0.036694))
    assert (r.lower, r.upper) == (six(0.992505), six(1.180589))
    assert r.upper_one_sided == six(1.160401)
    assert r.lower_one_sided < 1.15 < r.upper_one_sided


def test_ledger_of_looks_and_dividing_by_eight():
    assert [ledger.alpha_of_look(0.05, i) for i in range(1, 9)] == [
        six(0.025),
        six(0.008333),
        six(0.004167),
        six(0.0025),
        six(0.001667),
        six(0.001190),
        six(0.000893),
        six(0.000694),
    ]
    assert ledger.alpha_spent(0.05, 8) == six(0.044444)
    assert six(0.006250) == 0.05 / 8


@pytest.mark.parametrize(("units", "bounded"), [(4, False), (5, True), (8, True)])
def test_ratio_that_all_units_share_is_bounded_by_the_sign_test(units, bounded):
    r = paired.paired_log_ratio([2.0] * units, [1.0] * units)
    assert (r.ratio, r.p_below) == (six(0.5), 0.5**units)
    assert r.upper_one_sided == (r.ratio if bounded else None)
    assert paired.paired_log_ratio([2.0] * units, [1.0] * units, 0.05, ["g"] * units).upper_one_sided is None


def test_bounds_under_missing_outcomes():
    b = bounds.manski_bounds(20, left_passes=12, left_missing=1, right_passes=14, right_missing=3)
    assert (b.seen, b.worst, b.best) == (six(0.191950), six(0.05), six(0.25))


def test_score_interval_of_paired_proportions():
    assert intervals.tango(2, 9, 40) == (six(0.014426), six(0.339023))
    assert intervals.tango(2, 9, 40, 0.90) == (six(0.043239), six(0.311389))
    lower, upper = intervals.tango(0, 0, 10)
    assert -0.5 < lower < 0 < upper < 0.5


def test_wald_interval_of_paired_proportions():
    e = paired.paired_mean([1] * 9 + [-1] * 2 + [0] * 29)
    error = e.standard_error * math.sqrt(39 / 40)
    half = distributions.normal_quantile(0.975) * error
    assert (e.mean, error) == (six(0.175), six(0.078162))
    assert (e.mean - half, e.mean + half) == (six(0.021804), six(0.328196))


def test_exact_case_bootstrap():
    assert intervals.case_bootstrap(DIFFERENCES) == (six(0.1), six(0.366667))
    assert intervals.case_bootstrap(DIFFERENCES, 0.90) == (six(0.133333), six(0.333333))


def test_corrections_over_dimensions():
    p = (0.003, 0.020, 0.041, 0.300)
    assert multiplicity.holm(p) == (six(0.012), six(0.060), six(0.082), six(0.300))
    assert multiplicity.benjamini_hochberg(p) == (six(0.012), six(0.040), six(0.054667), six(0.300))
    assert multiplicity.holm(p[::-1]) == multiplicity.holm(p)[::-1]


@pytest.mark.parametrize(
    ("fixes", "regressions", "e"),
    [(5, 0, 10.5), (6, 0, 18.142857), (7, 0, 31.875), (9, 2, 6.086364), (12, 2, 23.917216), (8, 8, 0.299538)],
)
def test_e_values_of_discordant_pairs(fixes, regressions, e):
    assert multiplicity.discordant_e_value(fixes, regressions) == six(e)


def test_e_value_of_means_and_naive_looks():
    assert multiplicity.betting_e_value([float(d) for d in DIFFERENCES], 0.25) == six(1.740834)
    assert multiplicity.any_false_rejection(0.05, 1) == six(0.05)
    assert multiplicity.any_false_rejection(0.05, 5) == six(0.226219)
    assert multiplicity.any_false_rejection(0.05, 8) == six(0.336580)
    assert multiplicity.any_false_rejection(0.05, 20) == six(0.641514)


@pytest.mark.parametrize(("m", "optimism"), [(1, 0), (2, 0.564190), (4, 1.029375), (8, 1.423600), (16, 1.765991)])
def test_winners_curse(m, optimism):
    assert multiplicity.best_of_optimism(m) == six(optimism)


def test_repeats_and_judges():
    assert [agreement.pass_at(k, passes=3, runs=5) for k in (1, 2)] == [six(0.6), six(0.9)]
    assert [agreement.pass_all(k, passes=3, runs=5) for k in (2, 3)] == [six(0.3), six(0.1)]
    assert multiplicity.any_false_rejection(0.6, 3) == six(0.936)
    assert agreement.kappa(((22, 3), (5, 20))) == six(0.68)
    assert agreement.corrected_rate(0.70, sensitivity=0.88, specificity=0.80) == six(0.735294)
    found = agreement.prediction_powered(agreement.Verdicts(0.70, 400, 0.21), agreement.Verdicts(-0.06, 50, 0.12))
    assert (found.rate, found.standard_error) == (six(0.64), six(0.054083))
    assert found.interval() == (six(0.533999), six(0.746001))
    nothing_judged = agreement.Verdicts(0.0, 1, 0.0)
    alone = agreement.prediction_powered(nothing_judged, agreement.Verdicts(0.60, 50, 0.60 * 0.40))
    assert (alone.rate, alone.standard_error) == (0.60, six(0.069282))


def test_holdout_reuse():
    assert holdout.ladder([0.40, 0.395, 0.391, 0.384, 0.39, 0.30], 0.01) == pytest.approx(
        [0.40, 0.40, 0.40, 0.38, 0.38, 0.30]
    )
    noise = holdout.Noise(0.005, 0.01, 0.003)
    assert holdout.thresholdout(0.70, 0.68, 0.04, noise) == (0.70, False)
    assert holdout.thresholdout(0.82, 0.70, 0.04, noise) == (six(0.703), True)


@pytest.mark.parametrize(
    ("correlation", "deviation"), [(0, 0.707107), (0.3, 0.591608), (0.5, 0.5), (0.7, 0.387298), (0.9, 0.223607)]
)
def test_pairing_gains_by_correlation(correlation, deviation):
    assert power.paired_deviation(0.5, 0.5, correlation) == six(deviation)
