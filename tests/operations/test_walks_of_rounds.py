"""Rounds under random calls, legal and not: the store stays consistent, budgets hold, every refusal leads on.

Each walk starts at a stage of the loop. Half of its steps are what `get_status` or the last refusal names next, the
others any operation of the loop with ids that exist somewhere in the project, so that most of them are refused.
"""

import os
import random
from collections import Counter
from contextlib import suppress

import pytest

from operations.registry import all_operations
from operations.tuning import budget
from operations.verification import verify
from storage.errors import AtkError
from storage.schema.assessments import Assessment
from storage.schema.batches import Batch
from storage.schema.candidates import Candidate, Decision
from storage.schema.rounds import CLOSED, Revision, Round
from tests.operations.catalog.stages import AUTHORIZED, EXACT, SPEC, issue
from tests.support.projects import FIX, PROMPT

STARTS = ("assessed", "diagnosed", "frozen", "drafted", "sealed", "judged", "compared", "kept", "validated")
TEXTS = (FIX, FIX, PROMPT, "invoice -> other\n", FIX + "crash -> other\n")
"""What a walker edits the prompt to: mostly a repair, sometimes nothing or harm."""
WORD = {**AUTHORIZED, "action": "retain_without_final_pass"}
TRIAL = {**AUTHORIZED, "action": "trial_commit"}
AN_ISSUE = issue("again", "refund-1", "refund-2")
LEAD, FOREIGN_COMMIT, STRAY = 0.6, 0.03, 0.06
"""Chances of a step that was named as next, of a commit of somebody else's, of a stray file."""


class Walk:
    """One target under random calls."""

    def __init__(self, target, draw):
        self.target, self.draw = target, draw
        self.met = Counter()
        self.named = []
        self.decisions = len(self.all(Decision))
        self.over = sum(r.status in CLOSED for r in self.all(Round))

    def all(self, kind):
        return self.target.state.all(kind)

    def any_id(self, kind):
        return self.draw.choice([x.id for x in self.all(kind)] or [f"{kind.kind}-1-none"])

    # ---- the steps ---------------------------------------------------------------------------------------------

    def step(self):
        chance = self.draw.random()
        if chance < FOREIGN_COMMIT:
            self.target.git("commit", "-q", "--allow-empty", "-m", "Somebody else's")
        elif chance < STRAY:
            self.target.write("stray.txt", "mine\n")
        if self.draw.random() < LEAD:
            calls = self.named or self.target.call("get_status").next
            call = calls[0 if self.draw.random() < 0.8 else self.draw.randrange(len(calls))]
            self.try_call(call.tool, self.supplied(call), led=True)
        else:
            self.try_call(*self.random_call())

    def try_call(self, tool, arguments, *, led=False):
        before = self.target.state
        held = {kind: dict(found) for kind, found in before.objects.items()}
        error = self.refusal(tool, arguments)
        self.met[error.code if error else "done"] += 1
        if error is None:
            self.named = []
            if tool == "prepare_candidate":
                self.target.write("prompt.txt", self.draw.choice(TEXTS))
            return
        self.check(tool, arguments, error, held)
        again = led and self.named and (error.code, error.facts) == self.last
        assert not again, f"{tool} was named as the way out of {error.code} and meets it again: {error}"
        self.named, self.last = list(error.next), (error.code, error.facts)
        self.mend()

    def refusal(self, tool, arguments):
        try:
            self.target.call(tool, **arguments)
        except AtkError as error:
            return error
        return None

    def check(self, tool, arguments, error, held):
        """A refusal changes nothing and names a call that its operation takes."""
        now = {kind: dict(found) for kind, found in self.target.state.objects.items()}
        assert now == held, f"{tool} was refused with {error.code} and changed the store"
        assert error.code not in {"incident", "invalid_arguments"}, f"{tool}({arguments}): {error}"
        assert error.next, f"{error.code} leads nowhere"
        for call in error.next:
            all_operations()[call.tool].request.model_validate({"project_path": "x", **self.supplied(call)})

    def mend(self):
        """What refusals ask of the person: files that are in the way are put back, unless a draft is being edited."""
        with suppress(FileNotFoundError):
            os.remove(self.target.path("stray.txt"))
        pending = [c.status for c in self.all(Candidate) if c.status in ("draft", "sealed")]
        paused = any(r.status == "paused" for r in self.all(Round))
        if not pending or paused:
            self.target.git("checkout", "-q", "HEAD", "--", "prompt.txt")
        elif pending == ["draft"]:
            self.target.write("prompt.txt", FIX + "# edited again\n")
        for name in ("agent.sh",):
            self.target.git("checkout", "-q", "HEAD", "--", name)

    # ---- what a caller adds ------------------------------------------------------------------------------------

    def supplied(self, call):
        given = dict(call.arguments)
        needs = all_operations()[call.tool].request.model_fields
        needed = {name for name, f in needs.items() if f.is_required()} - {"project_path"}
        known = self.known(call.tool)
        for name in {*call.supply, *needed} - given.keys():
            given |= known.get(name, {})
        if call.tool == "freeze_round" and self.draw.random() < 0.7:
            given |= {"preview": False, "plan": self.plan()}
        if call.tool == "run_evaluation":
            given["wait_seconds"] = 200
        if given.get("action") == "complete_with_override":
            given |= {"override_authorization": WORD, "validation_missing_reason": "too dear"}
        return given

    def known(self, tool):
        judged = self.judged()
        return {
            "round_id": {"round_id": self.any_id(Round)},
            "candidate_id": {"candidate_id": self.any_id(Candidate)},
            "batch_id": {"batch_id": self.any_id(Batch)},
            "record_id": {"record_id": self.any_id(Batch)},
            "reason": {"reason": "because"},
            "rows": judged,
            "issues": {"issues": [AN_ISSUE]},
            "plan": {"plan": self.plan()},
            "primary_issue_id": {"primary_issue_id": self.issue()},
            "revision_commit": {"revision_commit": self.target.head},
            "case_ids": {"revision_commit": self.target.head},
            "validation_missing_reason": {"validation_missing_reason": "too dear"},
            "action": {"action": "abandon" if tool == "finish_round" else "reject"},
            "arguments": self.configuration(),
            "target_commit": {"target_commit": self.target.round.baseline_commit},
            "left_assessment_id": {"left_assessment_id": self.any_id(Assessment)},
            "right_assessment_id": {"right_assessment_id": self.any_id(Assessment)},
            "mode": {"mode": "incremental"},
            "source": {"source": "cases.csv"},
            "supersede_reason": {**judged, "supersede_reason": "again"},
        }

    def configuration(self):
        return {
            "command": ["sh", "agent.sh", "{input_file}"],
            "external_effects": [],
            "allowed_paths": ["prompt.txt"],
            "revise": True,
        }

    def judged(self):
        if "spec_id" in self.target.ids:
            return {"spec_id": self.target.spec_id, "judger_id": self.target.judger_id}
        return {"evaluation_spec": SPEC, "judger": EXACT}

    def plan(self):
        known = {"dataset_id": self.target.dataset_id, **self.judged()}
        return {"repeatability": "deterministic", "budget": {"candidates": 2, "executions": 60}, **known}

    def issue(self):
        planned = [i for r in self.all(Round) if r.plan and r.status not in CLOSED for i in r.plan.issue_ids]
        return self.draw.choice(planned or ["issue-1-none"])

    def random_call(self):
        draw = self.draw
        round_id = self.any_id(Round)
        named = {"round_id": round_id, "candidate_id": self.any_id(Candidate)}
        why = {"reason": "because"}
        left, right = self.any_id(Assessment), self.any_id(Assessment)
        ending = draw.choice(("complete", "complete_with_override", "close_without_adoption", "abandon"))
        word = {"override_authorization": WORD, "validation_missing_reason": "x"} if "override" in ending else {}
        decision = draw.choice(("keep", "keep", "reject", "defer"))
        trial = {"override": True, "override_authorization": TRIAL} if draw.random() < 0.3 else {}
        missing = {"validation_missing_reason": "x"} if decision != "keep" and draw.random() < 0.7 else {}
        run = {
            "round_id": round_id,
            "revision_id": self.any_id(Revision),
            "phase": draw.choice(("incremental", "final")),
            "wait_seconds": 200,
        }
        both = {"left_assessment_id": left, "right_assessment_id": right}
        calls = (
            ("run_evaluation", run),
            ("store_assessment", {"batch_id": self.any_id(Batch), **self.judged()}),
            ("store_diagnosis", {"round_id": round_id, "issues": [AN_ISSUE]}),
            ("freeze_round", {"round_id": round_id, "plan": self.plan()}),
            ("prepare_candidate", {"round_id": round_id, "primary_issue_id": self.issue()}),
            ("seal_candidate", named),
            ("cancel_draft", {**named, **why}),
            ("compare_and_gate", {"round_id": round_id, "mode": draw.choice(("incremental", "final")), **both}),
            ("decide_candidate", {**named, **why, "action": decision, **trial, **missing}),
            ("rollback_to", {"round_id": round_id, **why, "target_commit": self.target.round.baseline_commit}),
            ("transition_round", {"round_id": round_id, **why, "action": draw.choice(("pause", "resume"))}),
            ("transition_round", {"round_id": round_id, **why, "action": "start_finalizing"}),
            ("finish_round", {"round_id": round_id, **why, "action": ending, **word}),
            ("create_round", draw.choice(({}, {"previous_round_id": round_id, "reuse_revision": True}))),
        )
        return draw.choice(calls)

    # ---- what has to hold afterwards ---------------------------------------------------------------------------

    def sound(self):
        report = verify(self.target.project)
        assert report.findings == []
        assert report.open_work == []
        for value in self.all(Round):
            if value.plan is not None:
                account = budget.account(value, value.plan, self.all(Batch))
                assert account.used <= account.limit
        assert sum(r.status in ("ready", "optimizing", "finalizing") for r in self.all(Round)) <= 1

    @property
    def decided(self):
        return len(self.all(Decision)) > self.decisions

    @property
    def finished(self):
        return sum(r.status in CLOSED for r in self.all(Round)) > self.over


def walked(stages, folder, *, walks, steps, seed):
    """Walks, and returns what was met and the shares of walks that reached a Decision and a finish."""
    met, decided, finished = Counter(), 0, 0
    for number in range(walks):
        draw = random.Random(f"{seed}-{number}")
        target = stages.copy(STARTS[number % len(STARTS)], str(folder / str(number)))
        target.ids.setdefault("round_id", "round-1-none")
        if target.ids["round_id"] == "round-1-none":
            target.ids["round_id"] = target.call("create_round").round_id
        walk = Walk(target, draw)
        try:
            for _ in range(steps):
                walk.step()
            walk.sound()
        except AssertionError as error:
            raise AssertionError(f"walk {seed}-{number} from {STARTS[number % len(STARTS)]}: {error}") from error
        met += walk.met
        decided += walk.decided
        finished += walk.finished
    print(f"{walks} walks of {steps} steps: {decided} with a Decision, {finished} finished; {dict(met.most_common())}")  # noqa: T201 - shares
    return met, decided / walks, finished / walks


def test_rounds_stay_consistent_under_random_calls(stages, tmp_path):
    met, decided, finished = walked(stages, tmp_path, walks=9, steps=9, seed=20)
    assert decided >= 0.3
    assert finished >= 0.1
    assert len(met) > 10, "most calls were to be refused, and not all alike"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(int(os.environ.get("ATK_WALK_SEEDS", "1"))))
def test_rounds_stay_consistent_under_many_random_calls(stages, tmp_path, seed):
    """More walks by ATK_WALK_SEEDS: each takes some minutes."""
    _, decided, finished = walked(stages, tmp_path, walks=9, steps=30, seed=seed)
    assert decided >= 0.3
    assert finished >= 0.1
