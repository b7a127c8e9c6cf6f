"""Metrics count only when somebody independent measured every attempt, and limits hold only when their bound does."""

import pytest

from operations.tuning.metrics import MOST, Measured, exceeded, missing, open_limit, spent, weighed
from storage.schema.evidence import EvidenceRecord
from storage.schema.rounds import MetricLimit
from tests.operations.catalog.evidence import ENDED

CASES = tuple(f"c{i}" for i in range(8))
PARENT = dict(zip(CASES, (0.020, 0.031, 0.012, 0.044, 0.025, 0.018, 0.039, 0.027), strict=True))
CANDIDATE = dict(zip(CASES, (0.022, 0.030, 0.015, 0.049, 0.024, 0.021, 0.046, 0.026), strict=True))


def record(case_id, repeat, cost=1.0, source="proxy", retry_of=None):
    return EvidenceRecord(
        id=f"batch-1-a.{repeat}",
        n=repeat,
        case_id=case_id,
        case_fingerprint="f",
        repeat=repeat,
        output="x",
        output_status="value",
        metrics={} if cost is None else {"cost": cost},
        metric_sources={"cost": source},
        execution=ENDED.model_copy(update={"retry_of": retry_of}),
    )


def of(records, repeats=2):
    return spent(records, "cost", "proxy", ["a"], repeats)


def test_costs_of_retries_are_summed():
    assert of([record("a", 1, 2.0), record("a", 1, 3.0, retry_of="batch-1-a.1"), record("a", 2, 4.0)]) == {"a": 9.0}


@pytest.mark.parametrize(
    "wrong",
    [{"cost": None}, {"cost": -1.0}, {"cost": 1e308}, {"source": "agent_sidecar"}],
    ids=["missing", "negative", "no-measurement", "self-reported"],
)
def test_one_figure_that_cannot_be_trusted_leaves_its_case_out(wrong):
    assert of([record("a", 1), record("a", 2, **wrong)]) == {}


def test_slot_without_an_attempt_leaves_its_case_out_and_strangers_do_not_count():
    assert of([record("a", 1)]) == {}
    assert of([record("a", 1), record("a", 2), record("b", 1), record("a", 3)]) == {"a": 2.0}


def asked(limit, left=PARENT, right=CANDIDATE, rule="statistical", groups=None):
    measured = Measured(metric="cost", source="proxy", left=left, right=right, limit=limit)
    return weighed(measured, CASES, rule, groups or {})


@pytest.mark.parametrize(("most", "held"), [(1.0, "no"), (1.15, "undecided"), (1.17, "yes")])
def test_ratio_holds_when_its_bound_does_and_is_exceeded_when_the_other_one_is(most, held):
    found = asked(MetricLimit(ratio=most))
    assert (found.ratio, found.upper) == (pytest.approx(1.082470, abs=5e-7), pytest.approx(1.160401, abs=5e-7))
    assert found.held == held


@pytest.mark.parametrize(("most", "held"), [(1.15, "yes"), (1.05, "no")])
def test_counts_compare_totals_as_they_are(most, held):
    assert asked(MetricLimit(ratio=most), rule="counts").held == held


@pytest.mark.parametrize(("most", "held"), [(0.233, "yes"), (0.232, "no")])
def test_total_is_compared_as_it_was_measured(most, held):
    found = asked(MetricLimit(total=most))
    assert found.held == held
    assert (found.left_total, found.right_total) == (pytest.approx(0.216), pytest.approx(0.233))


def test_nothing_holds_where_a_figure_is_missing():
    found = asked(MetricLimit(total=9.0, ratio=9.0), right={c: v for c, v in CANDIDATE.items() if c != "c3"})
    assert (found.held, found.right_total, found.coverage) == ("undecided", None, 7 / 8)
    assert "of 1 Case is not known" in open_limit(found)
    assert open_limit(found) == missing(found)
    assert "all Cases" in missing(asked(None, left={}))


def test_identical_costs_are_held_by_so_many_cases_and_not_by_few():
    same = dict.fromkeys(CASES, 1.0)
    assert asked(MetricLimit(ratio=1.1), same, same).held == "yes"
    assert asked(MetricLimit(ratio=1.1), same, same, groups=dict.fromkeys(CASES, "g")).held == "undecided"


def test_rounding_is_no_variance():
    found = asked(MetricLimit(ratio=1.0), PARENT, {c: v * 0.9 for c, v in PARENT.items()})
    assert (found.lower, found.upper) == (found.ratio, found.ratio)
    assert found.ratio == pytest.approx(0.9)


def test_what_costs_nothing_on_one_side_has_no_ratio_and_on_both_has_not_changed():
    free = PARENT | {"c0": 0.0}
    assert asked(MetricLimit(ratio=2.0), free, CANDIDATE).held == "undecided"
    assert asked(MetricLimit(ratio=2.0), free, CANDIDATE | {"c0": 0.0}).held == "yes"


def test_sentence_names_both_sides_and_the_limit():
    said = exceeded(asked(MetricLimit(total=0.1, ratio=1.0)))
    assert "0.216 on the left and 0.233 on the right" in said
    assert "at most a total of 0.1 and 1 times the left" in said
    assert exceeded(asked(None)).endswith("no limit.")


def test_largest_figures_that_count_do_not_overflow():
    side = dict.fromkeys(CASES, MOST * 20)
    for rule in ("statistical", "counts"):
        limit = MetricLimit(total=MOST, ratio=2.0)
        measured = Measured(metric="cost", source="proxy", left=side, right=side, limit=limit)
        assert weighed(measured, CASES, rule, {}).held == "no"
