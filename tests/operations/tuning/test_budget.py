"""The final validation can always be paid for, and no sequence of runs spends more than the budget."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operations.tuning.budget import BudgetExhausted, account, cost, require_candidate, require_executions, side, spent
from storage.schema.batches import Batch
from storage.schema.candidates import Candidate
from storage.schema.rounds import Budget, Plan, Round

DIGEST = "0" * 64
COMMIT = "0" * 40


def a_plan(cases=4, final=2, incremental=1, executions=40, candidates=2):
    case_ids = tuple(f"c{n}" for n in range(cases))
    return Plan.model_construct(
        case_ids=case_ids,
        protection_case_ids=case_ids,
        final_repeats=final,
        incremental_repeats=incremental,
        budget=Budget(executions=executions, candidates=candidates),
    )


def a_round(current="revision-b0"):
    return Round.model_construct(id="round-1-r", baseline_revision_id="revision-b0", current_revision_id=current)


def a_batch(n, slots, status="sealed", phase="incremental", *, revision="revision-b0", done=None, round_id="round-1-r"):
    counts = {"completed": slots if done is None else done} if status != "running" else {}
    return Batch.model_construct(
        id=f"batch-{n}", slots=slots, status=status, phase=phase, revision_id=revision, counts=counts,
        unknown_record_ids=(), round_id=round_id,
    )  # fmt: skip


@dataclass
class Played:
    """A Round as a sequence of steps leaves it; a step that the budget refuses is not taken."""

    plan: Plan
    current: str = "revision-b0"
    batches: list = field(default_factory=list)
    lost: set = field(default_factory=set)
    accepted: int = 0

    @property
    def value(self):
        return a_round(self.current)

    def run(self, slots, phase, revision, status, done):
        try:
            require_executions(self.value, self.plan, self.batches, slots, final=phase == "final", step="a run")
        except BudgetExhausted:
            return False
        self.batches.append(a_batch(len(self.batches), slots, status, phase, revision=revision, done=min(done, slots)))
        return True

    def step(self, kind, share, done):
        """Takes one step that the state machine of a Round allows."""
        finals = {b.revision_id for b in self.batches if b.phase == "final" and b.status == "sealed"}
        finalizing = any(b.phase == "final" for b in self.batches)
        if kind == "incremental" and not finalizing:
            self.run(1 + share % len(self.plan.case_ids), "incremental", self.current, "sealed", 10**6)
        elif kind == "stopped" and not finalizing:
            self.run(1 + share % len(self.plan.case_ids), "incremental", self.current, "interrupted", done)
        elif kind == "keep" and not finalizing and self.accepted < self.plan.budget.candidates:
            self.accepted += 1
            self.current = f"revision-{self.accepted}"
        elif kind in ("final", "lost") and self.accepted:
            revision = ("revision-b0", self.current)[share % 2]
            if kind == "lost" and revision not in finals and revision not in self.lost:
                self.lost.add(revision)
                assert self.run(side(self.plan), "final", revision, "interrupted", done)
            elif kind == "final" and revision not in finals:
                assert self.run(side(self.plan), "final", revision, "sealed", 10**6), "the reserve was not there"


plans = st.builds(
    lambda cases, final, incremental, candidates, slack: a_plan(
        cases, final, incremental, 2 * cases * final + 2 * cases * incremental + slack, candidates
    ),
    st.integers(1, 6), st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.integers(0, 30),
)  # fmt: skip
kinds = st.sampled_from(["incremental", "stopped", "keep", "final", "lost"])
steps = st.lists(st.tuples(kinds, st.integers(0, 40), st.integers(0, 30)), max_size=40)


@settings(deadline=None)
@given(plans, steps)
def test_final_validation_can_be_paid_after_any_sequence_of_legal_steps(plan, sequence):
    played = Played(plan)
    for kind, share, done in sequence:
        played.step(kind, share, done)
        now = account(played.value, plan, played.batches)
        assert now.reserve <= now.limit - now.used
        assert now.used <= now.limit


@settings(deadline=None)
@given(plans, st.lists(st.integers(1, 12), max_size=60))
def test_incremental_runs_never_touch_the_reserve(plan, runs):
    played = Played(plan)
    for slots in runs:
        played.run(slots, "incremental", "revision-b0", "sealed", 10**6)

    assert sum(b.slots for b in played.batches) <= plan.budget.executions - 2 * side(plan)


def test_rollback_sets_a_reserve_aside_anew():
    plan = a_plan(cases=4, final=2, executions=40)
    used = [
        a_batch(1, 8, phase="final"),
        a_batch(2, 8, phase="final", revision="revision-2"),
        a_batch(3, 8),
    ]
    before = account(a_round("revision-2"), plan, used)

    after = account(a_round("revision-1"), plan, used)

    assert (before.reserve, before.free) == (0, 16)
    assert (after.reserve, after.free) == (8, 8)


def test_reserve_that_cannot_be_paid_any_more_leaves_nothing_free():
    plan = a_plan(cases=4, final=2, executions=24)
    used = [a_batch(1, 8), a_batch(2, 8, phase="final"), a_batch(3, 8, phase="final", revision="revision-2")]

    now = account(a_round("revision-1"), plan, used)

    assert (now.reserve, now.free) == (8, 0)
    with pytest.raises(BudgetExhausted) as refused:
        require_executions(a_round("revision-1"), plan, used, 8, final=True, step="a final run")
    assert (refused.value.left, refused.value.needed, refused.value.reserve) == (0, 8, 8)


def test_running_batch_is_charged_whole_and_a_stopped_one_what_began():
    running = a_batch(1, 8, "running")
    stopped = a_batch(2, 8, "interrupted", done=3).model_copy(update={"unknown_record_ids": ("a", "b")})

    assert (spent(running), spent(stopped)) == (8, 5)


def test_first_lost_final_side_of_a_revision_is_not_charged_and_the_second_is():
    plan = a_plan(cases=4, final=2, executions=40)
    lost = [a_batch(n, 8, "contaminated", "final") for n in (1, 2)]

    assert account(a_round("revision-1"), plan, lost[:1]).used == 0
    assert account(a_round("revision-1"), plan, lost).used == 8


def test_batches_of_other_rounds_cost_nothing():
    assert account(a_round(), a_plan(), [a_batch(1, 8, round_id="round-2-r"), a_batch(2, 8, round_id=None)]).used == 0


@pytest.mark.parametrize("status", ["draft", "cancelled", "rejected", "accepted", "withdrawn"])
def test_every_draft_stays_spent(status):
    drafted = [Candidate.model_construct(round_id="round-1-r", status=status) for _ in range(2)]
    strange = Candidate.model_construct(round_id="round-2-r", status=status)

    require_candidate(a_round(), a_plan(candidates=3), [*drafted, strange])
    with pytest.raises(BudgetExhausted) as refused:
        require_candidate(a_round(), a_plan(candidates=2), drafted)
    assert (refused.value.unit, refused.value.used, refused.value.left) == ("candidates", 2, 0)


def a_successor(n, of, slots, carried, *, status="sealed", phase="final", done=None):
    made = a_batch(n, slots, status, phase, done=slots if done is None else done)
    return made.model_copy(update={"supersedes_batch_id": of.id, "carried": carried})


def test_continued_batch_is_charged_for_what_it_starts_and_not_for_what_it_carries():
    old = a_batch(1, 8, "interrupted", done=5).model_copy(update={"unknown_record_ids": ("a",)})
    running = a_successor(2, old, 8, 5, status="running", phase="incremental")
    ended = a_successor(2, old, 8, 5, phase="incremental")

    assert (spent(old), spent(running), spent(ended)) == (6, 3, 3)
    assert account(a_round(), a_plan(), [old, ended]).used == 8


def test_first_cut_of_an_incremental_side_costs_nothing_more_once_it_is_continued():
    nothing_began = a_batch(1, 8, "interrupted", done=0)
    cut = a_successor(2, nothing_began, 8, 0, status="interrupted", phase="incremental", done=5)
    cut = cut.model_copy(update={"unknown_record_ids": ("a", "b")})
    whole = a_successor(3, cut, 10, 7, phase="incremental")  # the two of unknown end are carried, and made again

    assert account(a_round(), a_plan(), [nothing_began, cut]).used == 7
    assert account(a_round(), a_plan(), [nothing_began, cut, whole]).used == 8


def test_incremental_side_that_is_cut_off_twice_pays_for_its_second_cut():
    first = a_batch(1, 8, "interrupted", done=4).model_copy(update={"unknown_record_ids": ("a",)})
    second = a_successor(2, first, 8, 4, status="interrupted", phase="incremental", done=6)
    second = second.model_copy(update={"unknown_record_ids": ("b",)})
    third = a_successor(3, second, 8, 6, phase="incremental")

    assert account(a_round(), a_plan(), [first, second, third]).used == 8 + 1


def test_incremental_side_that_is_cut_off_and_run_anew_is_charged_twice():
    cut = a_batch(1, 8, "interrupted", done=6)

    assert account(a_round(), a_plan(), [cut, a_batch(2, 8)]).used == 6 + 8


def test_first_lost_final_side_costs_one_side_however_it_is_finished():
    plan = a_plan(cases=4, final=2, executions=16)
    lost = a_batch(1, 8, "interrupted", "final", done=5).model_copy(update={"unknown_record_ids": ("a",)})
    again = a_successor(2, lost, 10, 5)  # two attempts that were cancelled are linked to new ones, and three are due
    whole = a_successor(2, lost, 8, 0)

    assert account(a_round("revision-1"), plan, [lost]).used == 0
    for successor in (again, whole):
        now = account(a_round("revision-1"), plan, [lost, successor])
        assert (now.used, now.reserve) == (8, 8)
        assert cost(a_round("revision-1"), plan, [lost], successor) == 8


def test_final_side_that_is_lost_twice_pays_for_its_second_loss():
    plan = a_plan(cases=4, final=2, executions=40)
    first = a_batch(1, 8, "interrupted", "final", done=4)
    second = a_successor(2, first, 8, 4, status="interrupted", done=6).model_copy(update={"unknown_record_ids": ("a",)})
    third = a_successor(3, second, 8, 6)

    assert account(a_round("revision-1"), plan, [first, second, third]).used == 8 + 1
