"""Many callers at once on one project: what they ask, seeded, and whether the journal is a serial order of it."""

from __future__ import annotations

import os
import random
import re
import threading
from collections import Counter
from contextlib import contextmanager

from operations.registry import all_operations
from storage.files import Folder
from storage.project import ATK, Project
from tests.support.projects import PROMPT, Target

SPEC = {"dimensions": ["correct"], "dimension_rules": {"correct": "the output is the expected queue"}}
READS = {"get_status", "read_record", "wait_for_batch"}
ROUND_STEPS = {
    None: {"analysis_only"},
    "analysis_only": {"ready", "closed_without_adoption", "abandoned"},
    "ready": {"optimizing", "closed_without_adoption", "abandoned"},
    "optimizing": {"closed_without_adoption", "abandoned"},
}
CANDIDATE_STEPS = {None: {"draft"}, "draft": {"sealed", "cancelled"}, "sealed": {"rejected", "deferred", "cancelled"}}
ACTIVE = {"ready", "optimizing", "finalizing"}


def documented(name):
    """The codes of the refusals that an operation documents, and the one of a lock that was held for too long."""
    found = {re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower() for kind in all_operations()[name].raises}
    return found | {"project_busy", "resource_busy"}


class World:
    """One project, what its callers were told, and who may touch its files."""

    def __init__(self, folder):
        self.target = Target(os.path.join(str(folder), "target"))
        self.dataset_id = self.target.store_cases()
        done = self.target.call(
            "run_evaluation", dataset_id=self.dataset_id, revision_commit=self.target.head, wait_seconds=200
        )
        how = {"evaluation_spec": SPEC, "judger": {"method": "exact"}}
        judged = self.target.call("store_assessment", batch_id=done.batch_id, **how)
        self.judged_by = {"spec_id": judged.spec_id, "judger_id": judged.judger_id}
        self.batch_id = done.batch_id
        self.begun = self.target.state.position.number
        self.head = self.target.head
        self.acknowledged = []
        self.refused = Counter()
        self.asked = Counter()
        self.seen = self.begun
        self.guard = threading.Lock()
        self._calls = 0
        self._idle = threading.Condition()

    @contextmanager
    def calling(self):
        """While ATK may move files, the user does not edit them: that is the user's own discipline, not ATK's."""
        with self._idle:
            self._calls += 1
        try:
            yield
        finally:
            with self._idle:
                self._calls -= 1
                self._idle.notify_all()

    @contextmanager
    def editing(self):
        """Waits until no call that may move files is under way, and keeps new ones out."""
        with self._idle:
            self._idle.wait_for(lambda: self._calls == 0)
            yield


class ServerKilled(Exception):
    """The server of a caller is gone; nobody knows whether its last call was made good."""


class Caller(threading.Thread):
    """Asks one server, or the library, for `steps` things that mostly fit the state that it reads from there."""

    def __init__(self, world, ask, seed, steps):
        super().__init__()
        self.world, self.ask, self.steps = world, ask, steps
        self.random = random.Random(seed)
        self.name = f"caller-{seed}"
        self.trouble = None
        self.killed = False
        self.number = 0

    def run(self):
        try:
            for _ in range(self.steps):
                self.step()
        except ServerKilled:
            self.killed = True
        except Exception as error:  # noqa: BLE001 - raised again by who started the thread
            self.trouble = error

    def step(self):
        status = self.tell("get_status")
        choices = self.possible(status)
        if self.random.random() < 0.15:  # what does not fit has to be refused, and change nothing
            choices = dict.fromkeys(("seal", "cancel", "reject", "freeze", "prepare", "create", "finish"), 1)
        action = self.random.choices(list(choices), list(choices.values()))[0]
        getattr(self, action)(status)

    def possible(self, status):
        found = {"cases": 3, "read": 2, "judge": 4, "diagnose": 4, "evaluate": 1}
        value = status.get("round") or {}
        if value.get("status") not in ("analysis_only", *ACTIVE):
            return {**found, "create": 12}
        if value["status"] == "analysis_only":
            return {**found, "freeze": 10 if value.get("issue_ids") else 0, "finish": 1}
        pending = value.get("pending_candidate")
        if pending is None:
            left = value["budget"]["candidates_left"]
            return {**found, "prepare": 10 if left else 0, "finish": 1 if left else 10}
        if pending["status"] == "draft":
            return {**found, "seal": 8, "cancel": 5}
        return {**found, "reject": 8, "side": 2, "finish": 1}

    # ---- what is asked -------------------------------------------------------------------------------------

    def cases(self, _):
        self.tell("store_dataset", source="cases.csv", request_id=f"{self.name}-{self.count()}")

    def read(self, status):
        known = [i for ids in status["newest"].values() for i in ids]
        self.tell("read_record", record_id=self.random.choice(known))

    def judge(self, _):
        self.tell(
            "store_assessment", batch_id=self.world.batch_id, supersede_reason="once more", **self.world.judged_by
        )

    def diagnose(self, status):
        name = self.random.choice(["refunds", "crashes"])
        issue = {"id": name, "symptom": "s", "hypothesis": f"h {self.count()}", "case_ids": ["refund-1"]}
        self.tell("store_diagnosis", round_id=self.round_of(status), issues=[issue])

    def create(self, _):
        self.tell("create_round")

    def freeze(self, status):
        plan = {"repeatability": "deterministic", "dataset_id": self.world.dataset_id, **self.world.judged_by}
        plan["budget"] = {"candidates": 3, "executions": 100}
        self.tell("freeze_round", round_id=self.round_of(status), plan=plan)

    def prepare(self, status):
        issues = (status.get("round") or {}).get("issue_ids") or ["issue-1-none"]
        with self.world.editing():
            self.edit(None)
        self.tell("prepare_candidate", round_id=self.round_of(status), primary_issue_id=issues[0])

    def seal(self, status):
        with self.world.editing():
            self.edit(self.pending_of(self.tell("get_status")))
        self.tell("seal_candidate", round_id=self.round_of(status), candidate_id=self.candidate_of(status))

    def cancel(self, status):
        given = {"round_id": self.round_of(status), "candidate_id": self.candidate_of(status)}
        self.tell("cancel_draft", reason="another idea", **given)

    def reject(self, status):
        given = {"round_id": self.round_of(status), "candidate_id": self.candidate_of(status)}
        action = self.random.choice(["reject", "defer"])
        self.tell("decide_candidate", action=action, reason="r", validation_missing_reason="a test", **given)

    def finish(self, status):
        self.tell("finish_round", round_id=self.round_of(status), action="close_without_adoption", reason="enough")

    def evaluate(self, _):
        asked = {"dataset_id": self.world.dataset_id, "case_ids": ["crash-1"], "wait_seconds": 200}
        self.tell("run_evaluation", revision_commit=self.world.head, **asked)

    def side(self, status):
        asked = {"round_id": self.round_of(status), "case_ids": ["refund-1"], "wait_seconds": 200}
        self.tell("run_evaluation", revision_id=status["round"]["baseline_revision_id"], **asked)

    # ---- how it is asked -----------------------------------------------------------------------------------

    def edit(self, pending):
        """Edits the prompt of a draft; without one, puts back what an edit for a cancelled one left."""
        if pending and pending["status"] == "draft":
            self.world.target.write("prompt.txt", f"{PROMPT}refund -> billing {self.name} {self.count()}\n")
        elif pending is None and self.pending_of(self.tell("get_status")) is None:
            self.world.target.git("checkout", "-q", "--", "prompt.txt")

    def tell(self, name, **arguments):
        """Makes a call and puts on record what was answered. Returns the answer, or nothing where it was refused."""
        world = self.world
        with world.guard:
            world.asked[name] += 1
            seen = world.seen
        if name in READS:
            fine, answer = self.ask(name, arguments)
        else:
            with world.calling():
                fine, answer = self.ask(name, arguments)
        with world.guard:
            if not fine:
                assert answer["code"] in documented(name), (name, answer)
                assert answer["message"]
                world.refused[answer["code"]] += 1
            elif name not in READS:
                world.acknowledged.append((name, answer))
                world.seen = max(world.seen, answer["journal_record"])
        if fine and name == "get_status":
            assert answer["position"] >= seen, "a server did not see what another had acknowledged before"
            assert answer["writable"]
        return answer if fine else {}

    def count(self):
        self.number += 1
        return self.number

    @staticmethod
    def round_of(status):
        return (status.get("round") or {}).get("round_id", "round-1-none")

    @staticmethod
    def pending_of(status):
        return (status.get("round") or {}).get("pending_candidate")

    def candidate_of(self, status):
        return (self.pending_of(status) or {}).get("candidate_id", "candidate-1-none")


def run(world, asks, seed, steps):
    """Lets one caller for each of `asks` make `steps` steps, all at once. Returns how many were cut off."""
    callers = [Caller(world, ask, seed * 100 + n, steps) for n, ask in enumerate(asks)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    for caller in callers:
        if caller.trouble is not None:
            raise caller.trouble
    return sum(caller.killed for caller in callers)


def assert_serial(world, unheard=0):
    """Reads the journal as somebody who was not there, and holds it against what the callers were told.

    `unheard` callers were cut off, each of whom may have made one call good without hearing of it.
    """
    project = Project(world.target.root, Folder(world.target.path(ATK)))
    records = list(project.journal_records())
    assert [r["n"] for r in records] == list(range(records[0]["n"], records[0]["n"] + len(records)))
    calls = committed(records, world.begun)
    told = [answer["journal_record"] for _, answer in world.acknowledged]
    lost = [(name, answer) for name, answer in world.acknowledged if answer["journal_record"] not in calls]
    assert not lost, f"acknowledged and not in the journal: {lost}"
    extra = {n: record["op"] for n, record in calls.items() if n not in told}
    assert len(extra) <= unheard, f"in the journal and never acknowledged: {extra}"
    assert len(set(told)) == len(told), f"acknowledged twice: {sorted(told)}"
    for name, answer in world.acknowledged:
        record = calls[answer["journal_record"]]
        assert record["op"] == name
        mine = {k: v for k, v in answer.items() if k.endswith("_id") and k != "candidate_id"}
        assert {k: record["response"].get(k) for k in mine} == mine
    assert_legal(records)
    state = project.state()
    assert not state.intents
    assert not state.runs
    for holder, kind in (("datasets", "dataset"), ("assessments", "assessment"), ("evidence", "batch")):
        assert sorted(os.listdir(world.target.path(f"{ATK}/{holder}"))) == sorted(state.objects[kind])
    assert world.target.head == world.head
    assert world.target.call("inspect_or_recover_operation").warnings == []


def committed(records, begun):
    """Number → what a call did, for each record after `begun` that made a call good. An intent is good once done."""
    said = {r["n"]: r for r in records}
    good = {r["n"]: r for r in records if r["kind"] in ("operation", "run_started")}
    good |= {r["n"]: said[r["intent"]] for r in records if r["kind"] == "done"}
    return {n: good[n] for n in sorted(good) if n > begun}


def assert_legal(records):
    """Each record is legal in the state that those before it made: statuses, one active Round, one undecided change."""
    rounds, candidates, others = {}, {}, set()
    for record in committed(records, 0).values():
        for kind, made in record.get("objects", {}).items():
            for key, value in made.items():
                if kind == "round":
                    step(ROUND_STEPS, rounds.get(key), value)
                    rounds[key] = value
                elif kind == "candidate":
                    step(CANDIDATE_STEPS, candidates.get(key), value)
                    candidates[key] = value
                elif kind in ("dataset", "assessment", "decision", "revision"):
                    assert key not in others, f"{key} was made twice"
                    others.add(key)
        assert sum(r["status"] in ACTIVE for r in rounds.values()) <= 1
        for value in rounds.values():
            mine = [c["id"] for c in candidates.values() if c["round_id"] == value["id"]]
            undecided = [c for c in mine if candidates[c]["status"] in ("draft", "sealed")]
            assert undecided == [value["pending_candidate_id"]] * len(undecided)
            assert len(undecided) == (value["pending_candidate_id"] is not None)
            assert len(mine) <= (value["plan"]["budget"]["candidates"] if value["plan"] else 0)


def step(table, before, after):
    was = before["status"] if before else None
    assert was == after["status"] or after["status"] in table.get(was, ()), (was, after["status"], after["id"])
