"""The gate's results, their order, and the laws that hold for every pair of tables."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operations.tuning.gate import GateQuestion, decide, result_alone
from operations.tuning.questions import Efficiency
from storage.schema.validations import SUMMARY_BYTES

P, F, U, N = "pass", "fail", "unknown", "not_applicable"


def runs(passes, repeats=5):
    return (P,) * passes + (F,) * (repeats - passes)


def asked(left, right, *, targets=("t0", "t1"), repeats=5, rule="statistical", more=None, **settings):
    """Asks about one dimension, `d`; `more` holds the tables of other required dimensions."""
    tables = {"d": (left, right), **(more or {})}
    cases = tuple(dict.fromkeys((*left, *right)))
    defaults = {"mode": "incremental", "protected_case_ids": tuple(c for c in cases if c not in targets)}
    return GateQuestion(
        rule=rule,
        primary_dimension="d",
        required_dimensions=tuple(tables),
        left={name: sides[0] for name, sides in tables.items()},
        right={name: sides[1] for name, sides in tables.items()},
        case_ids=cases,
        repeats=repeats,
        target_case_ids=targets,
        **(defaults | settings),
    )


STEADY = {f"p{i}": runs(5) for i in range(20)}
NOISY = {f"p{i}": runs(4 + i % 2) for i in range(20)}
BROKEN = {"t0": runs(0), "t1": runs(1)}
REPAIRED = {"t0": runs(5), "t1": runs(4)}
FIX = asked(BROKEN | NOISY, REPAIRED | NOISY)


def figure(result, question, dimension="d"):
    return next(q for q in result.statistics.questions if (q.question, q.dimension) == (question, dimension))


def test_a_true_fix_passes():
    result = decide(FIX)
    assert result.result == "pass"
    assert figure(result, "improvement").answer == "yes"
    assert figure(result, "non_inferiority").lower > -0.15
    assert result.statistics.alpha_of_this_look == pytest.approx(0.025)
    assert result.statistics.alpha_left == pytest.approx(0.025)


def test_nothing_changed_is_no_effect():
    result = decide(asked(BROKEN | NOISY, BROKEN | NOISY))
    assert result.result == "no_effect"
    assert "2 target Cases did not improve" in result.reasons[0]


@pytest.mark.parametrize("targets", [("t0",), tuple(f"c{i}" for i in range(10))])
def test_every_case_falling_from_three_to_one_of_three_is_a_regression(targets):
    left = {f"c{i}": runs(3, 3) for i in range(10)} | {"t0": runs(3, 3)}
    right = {c: runs(1, 3) for c in left}
    result = decide(asked(left, right, repeats=3, targets=targets, margin=1.0))
    assert result.result == "regression"


def test_every_case_falling_is_a_regression_when_all_are_targets():
    left = {f"c{i}": runs(3, 3) for i in range(10)}
    right = dict.fromkeys(left, runs(1, 3))
    assert decide(asked(left, right, repeats=3, targets=tuple(left))).result == "regression"


@pytest.mark.parametrize(("cases", "bound"), [(10, 0.258866), (20, 0.139108), (5, 0.450720)])
def test_identical_cases_are_bounded_and_not_certain(cases, bound):
    steady = {f"p{i}": runs(5) for i in range(cases)}
    result = decide(asked(BROKEN | steady, REPAIRED | steady))
    found = figure(result, "non_inferiority")
    assert (found.lower, found.upper) == (pytest.approx(-bound, abs=1e-6), pytest.approx(bound, abs=1e-6))
    assert result.result == ("pass" if bound < 0.15 else "insufficient")


def test_five_clean_guards_do_not_exclude_five_points_and_fifty_nine_would():
    guards = {f"g{i}": runs(1, 1) for i in range(5)}
    targets = tuple(f"t{i}" for i in range(6))
    left, right = dict.fromkeys(targets, runs(0, 1)), dict.fromkeys(targets, runs(1, 1))
    result = decide(asked(left | guards, right | guards, targets=targets, repeats=1, margin=0.05))
    assert result.result == "insufficient"
    assert "59 such units would" in result.reasons[0]


def test_one_case_of_one_repeat_cannot_show_an_improvement():
    result = decide(asked({"t0": runs(0, 1)}, {"t0": runs(1, 1)}, targets=("t0",), repeats=1, mode="final"))
    assert result.result == "insufficient"
    assert figure(result, "improvement").least_attainable_p == 0.5
    assert "least attainable p is 0.5" in result.reasons[0]


def test_one_case_that_flips_in_every_repeat_is_fixed_and_says_nothing_in_general():
    others = {f"c{i}": runs(5) for i in range(2, 11)}
    result = decide(asked({"c1": runs(0)} | others, {"c1": runs(5)} | others, targets=("c1",), margin=0.3))
    assert result.result == "pass"
    assert result.statistics.primary_delta == pytest.approx(0.1)
    assert figure(result, "improvement").p == pytest.approx(1 / 252)
    claim = figure(result, "general_claim")
    assert (claim.answer, claim.p) == ("undecided", 0.5)


def test_zero_cases_never_pass():
    for rule in ("counts", "statistical"):
        result = decide(asked({}, {}, targets=(), rule=rule))
        assert (result.result, result.statistics.primary_delta) == ("insufficient", None)


def test_only_what_does_not_apply_is_zero_cases():
    everything = dict.fromkeys(("t0", "t1", "p0"), (N,) * 5)
    for rule in ("counts", "statistical"):
        assert decide(asked(everything, everything, rule=rule)).result == "insufficient"


def test_no_target_is_no_improvement_to_speak_of():
    result = decide(asked(NOISY, NOISY, targets=()))
    assert result.result == "insufficient"
    assert "No target Case" in result.reasons[0]


def test_fell_to_nothing_is_insufficient_and_never_a_pass():
    lucky = {f"p{i}": runs(5) for i in range(2, 6)}
    result = decide(asked(BROKEN | NOISY, REPAIRED | NOISY | lucky | {"p1": runs(0)}, margin=0.5))
    assert result.result == "insufficient"
    assert "p1" in result.reasons[0]


class TestConcentratedHarm:
    """Two Cases that break among many are lost in the mean, and withhold a pass all the same."""

    many = {f"p{i}": runs(4 + i % 2) for i in range(60)}
    broken = {"p1": runs(1), "p3": runs(1)}

    def test_cases_that_fell_steeply_withhold_a_pass_and_are_named(self):
        result = decide(asked(BROKEN | self.many, REPAIRED | self.many | self.broken))
        assert result.result == "insufficient"
        assert figure(result, "harm").answer == "no"
        assert figure(result, "non_inferiority").answer == "yes"
        assert figure(result, "concentrated_harm").answer == "yes"
        assert "p1, p3" in " ".join(result.reasons)

    def test_a_plan_of_the_first_version_is_decided_as_it_was_frozen(self):
        result = decide(asked(BROKEN | self.many, REPAIRED | self.many | self.broken, rule_version=1))
        assert result.result == "pass"
        assert "concentrated_harm" not in {q.question for q in result.statistics.questions}

    def test_one_fall_that_chance_deals_does_not(self):
        left = BROKEN | self.many | {"p1": runs(4)}
        assert decide(asked(left, REPAIRED | self.many | {"p1": runs(1)})).result == "pass"

    def test_each_required_dimension_is_asked(self):
        safe = {c: runs(4 + i % 2) for i, c in enumerate(BROKEN | self.many)} | {"p1": runs(5)}
        unsafe = safe | {"p1": runs(1)}
        result = decide(asked(BROKEN | self.many, REPAIRED | self.many, more={"safe": (safe, unsafe)}))
        assert result.result == "insufficient"
        assert figure(result, "concentrated_harm", "safe").answer == "yes"
        assert figure(result, "concentrated_harm").answer == "no"


def test_harm_in_another_required_dimension_counts_on_the_targets_too():
    safe = {c: runs(5) for c in BROKEN | NOISY}
    unsafe = safe | {"t0": runs(1), "t1": runs(1)}
    result = decide(asked(BROKEN | NOISY, REPAIRED | NOISY, more={"safe": (safe, unsafe)}))
    assert result.result == "regression"
    assert "safe" in result.reasons[0]


def test_a_repaired_target_does_not_hide_harm_elsewhere():
    worse = {c: runs(3) for c in NOISY}
    assert decide(asked(BROKEN | NOISY, REPAIRED | worse)).result == "regression"


def test_a_later_look_needs_more():
    narrow = asked({"t0": runs(0), **NOISY}, {"t0": runs(4), **NOISY}, targets=("t0",))
    assert decide(narrow).result == "pass"
    assert decide(replace(narrow, look=2)).result == "no_effect"
    assert decide(replace(narrow, look=2, mode="final")).result == "pass"


def test_a_target_that_no_longer_can_reach_its_level_is_insufficient():
    late = asked({"t0": runs(0), **NOISY}, {"t0": runs(5), **NOISY}, targets=("t0",), look=4)
    assert decide(late).result == "insufficient"


def test_source_groups_are_the_units():
    groups = {c: f"g{i % 4}" for i, c in enumerate(NOISY)}
    result = decide(replace(FIX, source_groups=groups))
    found = figure(result, "non_inferiority")
    assert (result.result, found.unit, found.groups) == ("insufficient", "source_group", 4)
    assert "4 independent units" in result.reasons[0]


def test_unknown_outcomes_block_a_pass_and_leave_what_is_certain():
    gap = {"p0": (U,) * 5}
    assert decide(asked(BROKEN | NOISY, REPAIRED | NOISY | gap)).result == "insufficient"
    assert decide(asked(BROKEN | NOISY, BROKEN | NOISY | gap)).result == "no_effect"
    assert decide(asked(BROKEN | NOISY, REPAIRED | dict.fromkeys(NOISY, runs(2)) | gap)).result == "regression"
    half = {"t0": (P, P, P, U, U), "t1": (F, F, U, U, U)}
    result = decide(asked(BROKEN | NOISY, half | NOISY))
    found = figure(result, "improvement")
    assert (result.result, found.answer) == ("insufficient", "undecided")
    assert found.worst < found.difference < found.best
    assert found.coverage == pytest.approx(0.75)


class TestOrder:
    """Each result hides those that come after it."""

    harmful = asked(BROKEN | NOISY, BROKEN | dict.fromkeys(NOISY, runs(1)))

    def test_invalid_first(self):
        result = decide(replace(self.harmful, invalid=("other agent",), insufficient=("unsealed",)))
        assert (result.result, result.reasons) == ("invalid", ("other agent",))

    def test_then_what_the_caller_cannot_rely_on(self):
        result = decide(replace(self.harmful, insufficient=("unsealed",)))
        assert (result.result, result.reasons) == ("insufficient", ("unsealed",))

    def test_then_regression(self):
        assert decide(self.harmful).result == "regression"
        assert decide(replace(FIX, regressions=("cost above its limit",))).result == "regression"

    def test_then_no_effect_before_a_margin_that_is_not_excluded(self):
        assert decide(asked(BROKEN | STEADY, BROKEN | STEADY, margin=0.01)).result == "no_effect"

    def test_then_the_margin(self):
        assert decide(asked(BROKEN | STEADY, REPAIRED | STEADY, margin=0.01)).result == "insufficient"


@pytest.mark.parametrize(
    "change",
    [
        {"left": {"d": BROKEN | NOISY | {"stranger": runs(5)}}},
        {"right": {"d": REPAIRED | NOISY | {"p0": runs(6, 6)}}},
        {"target_case_ids": ("t0", "elsewhere")},
        {"protected_case_ids": ("elsewhere",)},
    ],
)
def test_what_was_not_planned_is_invalid(change):
    assert decide(replace(FIX, **change)).result == "invalid"


def test_minimum_effects_are_asked_of_the_targets():
    assert decide(replace(FIX, min_fixed_cases=3)).result == "no_effect"
    assert decide(replace(FIX, min_primary_delta=0.9)).result == "no_effect"


class TestCounts:
    """Point comparison."""

    left = {"t0": runs(0, 1), "p0": runs(1, 1), "p1": runs(0, 1)}

    def ask(self, right, **settings):
        question = asked(self.left, self.left | right, targets=("t0",), repeats=1, rule="counts", **settings)
        return decide(question)

    def test_one_repaired_target_and_nothing_lost_passes(self):
        result = self.ask({"t0": runs(1, 1)})
        assert result.result == "pass"
        assert result.reasons == ("1 Case passes more often (t0), and none passes less often.",)
        assert result.statistics.alpha_left == pytest.approx(0.05)

    def test_one_lost_pass_is_a_regression(self):
        assert self.ask({"t0": runs(1, 1), "p0": runs(0, 1)}).result == "regression"

    def test_one_lost_pass_in_another_dimension_is_a_regression(self):
        good = {c: runs(1, 1) for c in self.left}
        more = {"safe": (good, good | {"t0": runs(0, 1)})}
        assert self.ask({"t0": runs(1, 1)}, more=more).result == "regression"

    def test_a_repaired_case_that_is_no_target_is_no_effect(self):
        assert self.ask({"p1": runs(1, 1)}).result == "no_effect"

    def test_too_few_or_too_little_is_no_effect(self):
        assert self.ask({"t0": runs(1, 1)}, min_fixed_cases=2).result == "no_effect"
        assert self.ask({"t0": runs(1, 1)}, min_primary_delta=0.4).result == "no_effect"

    def test_unknown_comes_before_regression(self):
        assert self.ask({"t0": (U,), "p0": runs(0, 1)}).result == "insufficient"

    def test_what_applies_on_neither_side_does_not_block(self):
        some = {c: runs(1, 1) for c in self.left}
        more = {"optional": (some | {"p1": (N,)}, some | {"p1": (N,)})}
        result = self.ask({"t0": runs(1, 1)}, more=more)
        assert result.result == "pass"
        assert any("left out of optional" in x for x in result.limitations)

    def test_a_required_dimension_that_applies_to_nothing_is_said_to_be_left_open(self):
        nothing = dict.fromkeys(self.left, (N,))
        result = self.ask({"t0": runs(1, 1)}, more={"optional": (nothing, nothing)})
        assert result.result == "pass"
        assert "optional applies to no Case on either side, so the result says nothing of it." in result.limitations

    def test_what_applies_on_one_side_blocks(self):
        some = {c: runs(1, 1) for c in self.left}
        more = {"optional": (some | {"p1": (N,)}, some)}
        assert self.ask({"t0": runs(1, 1)}, more=more).result == "insufficient"

    @pytest.mark.parametrize(("least", "result"), [(1.0, "pass"), (3.0, "no_effect")])
    def test_efficiency_compares_totals(self, least, result):
        cost = Efficiency("cost", dict.fromkeys(self.left, 2.0), dict.fromkeys(self.left, 1.0), least)
        assert self.ask({}, efficiency=cost).result == result


@pytest.mark.parametrize(("saving", "result"), [(0.5, "pass"), (1.0, "no_effect")])
def test_efficiency_by_statistics_wants_a_bound_and_no_harm(saving, result):
    tables = BROKEN | NOISY
    left = {c: 2.0 + i % 3 / 10 for i, c in enumerate(tables)}
    right = {c: v * saving * (1 + i % 2 / 50) for i, (c, v) in enumerate(left.items())}
    question = asked(tables, tables, efficiency=Efficiency("cost", left, right))
    assert decide(question).result == result
    del right["t0"]
    assert decide(question).result == "insufficient"


CASES = ("t0", "t1", "p0", "p1", "p2", "p3", "p4")
SLOTS = st.lists(st.sampled_from((P, F, U, N)), min_size=2, max_size=2).map(tuple)
TABLES = st.fixed_dictionaries(dict.fromkeys(CASES, SLOTS))


@pytest.mark.parametrize("look", [1, 10, 40])
def test_two_units_that_spend_far_apart_leave_a_late_look_open(look):
    """Of two source groups, one spends the same and one eight times as much: at such an alpha no bound is a float."""
    left = dict.fromkeys(CASES, 1.0)
    right = {c: 8.0 if c.startswith("t") else 1.0 for c in CASES}
    same = dict.fromkeys(CASES, (P,) * 5)
    question = asked(same, same, efficiency=Efficiency("cost", left, right), look=look)
    result = decide(replace(question, source_groups={c: c[0] for c in CASES}))
    found = figure(result, "efficiency", "cost")
    assert (result.result, found.answer, found.n, found.groups) == ("insufficient", "undecided", 7, 2)


@settings(max_examples=60, deadline=None)
@given(TABLES, TABLES, st.sampled_from(("counts", "statistical")), st.sampled_from(("incremental", "final")))
def test_a_required_unknown_never_passes(left, right, rule, mode):
    result = decide(asked(left, right, rule=rule, mode=mode, repeats=2, margin=0.99))
    if result.statistics.outcome_counts[0].unknown:
        assert result.result != "pass"
    assert result.reasons


@settings(max_examples=40, deadline=None)
@given(TABLES, TABLES, TABLES, TABLES, st.booleans())
def test_an_unknown_in_any_required_dimension_never_passes(left, right, safe_left, safe_right, saves):
    cost = Efficiency("cost", dict.fromkeys(CASES, 2.0), {c: 1.0 + i / 99 for i, c in enumerate(CASES)})
    more = {"safe": (safe_left, safe_right)}
    result = decide(asked(left, right, repeats=2, margin=0.99, more=more, efficiency=cost if saves else None))
    if any(c.unknown for c in result.statistics.outcome_counts):
        assert result.result != "pass"


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(("counts", "statistical")),
    st.sampled_from(("incremental", "final")),
    st.sampled_from((1, 2)),
    st.sets(st.sampled_from(CASES)),
    st.booleans(),
)
def test_zero_compared_cases_never_pass_however_they_are_asked(rule, mode, version, cases, saves):
    """No Case at all, or Cases to which nothing applied on either side."""
    nothing = dict.fromkeys(cases, (N, N))
    cost = Efficiency("cost", dict.fromkeys(cases, 2.0), dict.fromkeys(cases, 1.0)) if saves else None
    how = {"rule": rule, "mode": mode, "rule_version": version, "efficiency": cost, "margin": 0.99}
    result = decide(asked(nothing, nothing, targets=tuple(sorted(cases))[:2], repeats=2, **how))
    assert result.result == "insufficient"
    assert result.statistics.primary_delta is None


@settings(max_examples=60, deadline=None)
@given(TABLES, TABLES)
def test_a_result_without_its_figures_is_the_same(left, right):
    question = asked(left, right, repeats=2, margin=0.4)
    assert result_alone(question) == (decide(question).result, False)


@settings(max_examples=60, deadline=None)
@given(TABLES, TABLES)
def test_a_later_version_of_the_rules_never_passes_what_the_first_did_not(left, right):
    question = asked(left, right, repeats=2, margin=0.9)
    if decide(question).result == "pass":
        assert decide(replace(question, rule_version=1)).result == "pass"


@settings(max_examples=60, deadline=None)
@given(TABLES, TABLES)
def test_swapping_sides_negates_every_difference(left, right):
    there, back = (decide(asked(*sides, repeats=2)).statistics for sides in ((left, right), (right, left)))
    for a, b in zip(there.questions, back.questions, strict=True):
        assert a.difference == (None if b.difference is None else pytest.approx(-b.difference))
        assert a.worst == (None if b.best is None else pytest.approx(-b.best))


@settings(max_examples=40, deadline=None)
@given(TABLES, TABLES, st.permutations(CASES))
def test_the_order_of_cases_changes_nothing(left, right, order):
    shuffled = [{c: side[c] for c in order} for side in (left, right)]
    assert decide(asked(left, right, repeats=2)).result == decide(asked(*shuffled, repeats=2)).result


def big(cases):
    left = {f"case-{i:04d}-with-a-rather-long-name": runs(4 + i % 2) for i in range(cases)}
    right = {c: runs(4 + (i + 1) % 2) for i, c in enumerate(left)}
    targets = tuple(left)[: cases // 10]
    left, right = left | dict.fromkeys(targets, runs(0)), right | dict.fromkeys(targets, runs(5))
    return asked(left, right, targets=targets, more={"safe": (right, left), "format": (left, left)})


def test_a_summary_of_a_thousand_cases_is_small_and_says_what_it_left_out():
    result = decide(big(1000))
    summary = json.dumps(result.summary, separators=(",", ":"))
    assert len(summary.encode()) < SUMMARY_BYTES
    assert result.summary["result"] == result.result
    full = next(c for c in result.statistics.cases if c.dimension == "d")
    assert len(full.fixed) > 500
    assert json.loads(result.model_dump_json()) == json.loads(json.dumps(result.model_dump(mode="json")))


def test_a_summary_stays_small_for_the_longest_names():
    cases = {f"{i}{chr(0x6848) * 500}": runs(0) for i in range(40)}
    more = {f"{i}{chr(0x7EF4) * 200}": (cases, cases) for i in range(12)}
    right = dict.fromkeys(cases, (U,) * 5)
    result = decide(asked(cases, right, targets=tuple(cases)[:3], more=more, invalid=("x" * 5000,) * 20))
    assert len(json.dumps(result.summary).encode()) < SUMMARY_BYTES


def test_work_grows_linearly_with_cases():
    """Counts the Python calls, which no machine's speed changes."""

    def calls(cases):
        question, count = big(cases), 0

        def seen(_frame, event, _argument):
            nonlocal count
            count += event == "call"

        sys.setprofile(seen)
        try:
            decide(question)
        finally:
            sys.setprofile(None)
        return count

    small, large = calls(100), calls(1000)
    assert large < 13 * small


_DECIDED = """
import json, sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {names!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
from operations.tuning.gate import GateQuestion, decide
cases = tuple(f"c{{i}}" for i in range(20))
left = {{c: ("pass",) * 4 + ("fail",) if i > 3 else ("fail",) * 5 for i, c in enumerate(cases)}}
right = left | dict.fromkeys(cases[:4], ("pass",) * 5)
question = GateQuestion(
    rule="statistical", mode="incremental", primary_dimension="d", required_dimensions=("d",), left={{"d": left}},
    right={{"d": right}}, case_ids=cases, repeats=5, target_case_ids=cases[:4], protected_case_ids=cases[4:],
)
found = decide(question)
assert not {{"numpy", "scipy", "statsmodels"}} & set(sys.modules)
print(json.dumps(found.summary))
"""


def test_verdict_is_the_same_with_and_without_optional_packages(tmp_path):
    """Those that stand in for them cannot be imported, so that a use of one would fail."""
    packages = ("numpy", "scipy", "statsmodels", "pandas")
    for name in packages:
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('the gate asked for this')\n")

    def printed(*missing, path=()):
        code = f"import sys; sys.path[:0] = {path!r}\n" + _DECIDED.format(names=missing)
        return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout

    assert printed(*packages) == printed(path=[str(tmp_path)])
