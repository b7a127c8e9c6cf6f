"""What plans can detect, in the direction one expects."""

import pytest

from operations.statistics import distributions, power


def test_more_repeats_detect_smaller_effects():
    errors = [power.error_of_rates([(k // 2, k)] * 4, [(k // 2, k)] * 4) for k in (2, 4, 8)]
    assert errors == sorted(errors, reverse=True)
    assert power.detectable_effect(0.1, 0.05) == pytest.approx(0.248648, abs=1e-6)
    assert power.detectable_effect(0.1, 0.05, df=4) > power.detectable_effect(0.1, 0.05)


def test_an_observed_rate_of_one_is_not_certain():
    assert power.error_of_rates([(5, 5)] * 10, [(5, 5)] * 10) > 0


@pytest.mark.parametrize(("cases", "repeats"), [(1, 4), (2, 3), (6, 1)])
def test_fewest_repeats_and_cases_that_reach_the_first_look(cases, repeats):
    assert power.repeats_for_p(cases, 0.025) == repeats
    assert power.cases_for_p(repeats, 0.025) == cases


def test_no_case_reaches_nothing():
    assert power.repeats_for_p(0, 0.05) is None


@pytest.mark.parametrize("probability", [0.001, 0.2, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("df", [1, 4, 15, 300])
def test_student_quantile_inverts_its_tail(probability, df):
    assert distributions.t_tail(distributions.t_quantile(probability, df), df) == pytest.approx(1 - probability)


def test_student_quantiles_of_the_tables():
    assert distributions.t_quantile(0.975, 9) == pytest.approx(2.262157, abs=1e-6)
    assert distributions.t_quantile(0.95, 15) == pytest.approx(1.753050, abs=1e-6)
