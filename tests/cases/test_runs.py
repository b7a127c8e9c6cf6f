"""Runs that go wrong in the wild: each case's expected facts, and what must not happen."""

import json
import os
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest

from storage import contents
from storage.errors import AtkError
from storage.schema.batches import Batch
from tests.support.projects import Target

CASES = Path(__file__).parent / "run"
ANSWER = {"method": "exact", "settings": {"json_field": "answer"}}
SPEC = {"dimensions": ["correct"], "dimension_rules": {"correct": "the answer is the expected one"}}


class Played:
    """A target made of one case's files, and its run as the case's plan says."""

    def __init__(self, tmp_path, case, cases, *command):
        self.target = Target(tmp_path / "target", initialize=False)
        self.plan = json.loads((CASES / case / "plan.json").read_text())
        for name in os.listdir(CASES / case):
            if name.startswith("agent"):
                shutil.copy(CASES / case / name, self.target.path(name))
        self.target.git("add", ".")
        self.target.git("commit", "-q", "-m", case)
        self.target.write_cases(cases)
        codes = self.plan.get("infrastructure_exit_codes", [])
        self.target.initialize(
            command=list(command), components=[], infrastructure_exit_codes=codes, protected_paths=list(command[1:2])
        )
        self.target.store_cases()
        self.judged_by = {"evaluation_spec": SPEC, "judger": ANSWER}

    def run(self, **arguments):
        planned = {name: self.plan[name] for name in ("timeout_seconds", "concurrency", "repeats")}
        given = arguments or {"revision_commit": self.target.head, **planned}
        return self.target.call("run_evaluation", wait_seconds=100, **given)

    def records(self, batch_id):
        return contents.records(self.target.project, self.target.state, batch_id)

    def verdicts(self, batch_id):
        made = self.target.call("store_assessment", batch_id=batch_id, **self.judged_by)
        self.judged_by = {"spec_id": made.spec_id, "judger_id": made.judger_id}
        rows = self.target.call("read_record", record_id=made.assessment_id, field="rows").value
        return {row["record_id"]: row["verdict"] for row in rows}


def from_jsonl(case):
    rows = map(json.loads, (CASES / case / "cases.jsonl").read_text().splitlines())
    return [(row["id"], row["input"], row["expected"]) for row in rows]


def left_sleeping(root):
    """Processes that the agents of `root` started and that live; a zombie does not."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                dead = file.read().rpartition(")")[2].split()[0] in "ZX"
            if not dead and os.readlink(f"/proc/{pid}/cwd") == root:
                found.append(pid)
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    ("agent", "status", "said"),
    [("agent_hang.sh", "timeout", "partial"), ("agent_leave_child.sh", "completed", '"ok"')],
)
def test_32_what_a_grandchild_holds_open_delays_nothing_and_its_output_is_kept(tmp_path, agent, status, said):
    played = Played(tmp_path, "32_timeout_grandchild_holds_pipe", [("c1", "text", "ok")], "sh", agent)
    run = played.run()
    [record] = played.records(run.batch_id)
    assert (record.execution.status, run.status) == (status, "sealed")
    assert said in record.output
    assert record.execution.duration_seconds < 50  # the grandchild sleeps for 60
    assert left_sleeping(played.target.root) == []
    verdict = played.verdicts(run.batch_id)[record.id]
    assert verdict == ("unknown" if status == "timeout" else "pass")


def test_34_an_outage_is_no_failure_of_the_agent_and_may_be_retried(tmp_path):
    case = "34_infra_exit_code_not_a_failure"
    played = Played(tmp_path, case, from_jsonl(case), sys.executable, "agent.py", "{case_id}")
    run = played.run()
    records = played.records(run.batch_id)
    assert run.status == "partial"
    assert {r.case_id: r.execution.status for r in records} == {
        "c1": "completed",
        "c2": "completed",
        "c3": "infra_error",
    }
    counts = Counter(played.verdicts(run.batch_id).values())
    assert counts == {"pass": 1, "fail": 1, "unknown": 1}
    bounds = [counts["pass"] / 3, (counts["pass"] + counts["unknown"]) / 3]
    assert [round(b, 6) for b in bounds] == [0.333333, 0.666667]
    by_case = {r.case_id: r.id for r in records}
    with pytest.raises(AtkError) as refused:
        played.run(retry_batch_id=run.batch_id, retry_execution_ids=[by_case["c2"]])
    assert refused.value.code == "not_retryable"
    again = played.run(retry_batch_id=run.batch_id, retry_execution_ids=[by_case["c3"]])
    assert played.records(again.batch_id)[-1].execution.retry_of == f"{again.batch_id}.3"


def test_36_a_retry_is_for_infrastructure_and_nobody_picks_the_best(tmp_path):
    cases = [("flaky", "text", "good"), ("infra", "text", "good")]
    state = str(tmp_path / "state")
    played = Played(tmp_path, "36_retry_is_not_best_of", cases, sys.executable, "agent.py", "{case_id}", state)
    run = played.run()
    flaky, infra = played.records(run.batch_id)
    with pytest.raises(AtkError):
        played.run(retry_batch_id=run.batch_id, retry_execution_ids=[flaky.id])
    again = played.run(retry_batch_id=run.batch_id, retry_execution_ids=[infra.id])

    records = played.records(again.batch_id)
    retried = {r.execution.retry_of for r in records}
    verdicts = played.verdicts(again.batch_id)
    measured = {r.case_id: verdicts[r.id] for r in records if r.id not in retried}
    assert again.status == "sealed"
    assert len(records) == 3
    assert measured == {"flaky": "fail", "infra": "pass"}
    assert played.target.state.get(Batch, again.batch_id).counts == {"completed": 2, "infra_error": 1}
    assert {name: Path(state, name).read_text() for name in ("flaky", "infra")} == {"flaky": "1", "infra": "2"}
    alone = played.run()
    assert alone.batch_id != again.batch_id


def test_39_records_are_joined_by_identity_and_stand_in_the_order_of_the_plan(tmp_path):
    case = "39_completion_order_is_not_case_order"
    played = Played(tmp_path, case, from_jsonl(case), sys.executable, "agent.py", "{case_id}")
    orders = []
    for _ in range(2):
        records = played.records(played.run().batch_id)
        assert {r.case_id: json.loads(r.output)["answer"] for r in records} == {"c1": "C1", "c2": "C2", "c3": "C3"}
        orders.append([r.case_id for r in records])
    assert orders == [["c1", "c2", "c3"]] * 2
