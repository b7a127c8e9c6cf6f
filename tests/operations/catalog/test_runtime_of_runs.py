"""Before every batch the runtime is prepared and identified; what is stale, or becomes it, is no evidence."""

import os

import pytest

from storage.schema.batches import Batch
from tests.support.projects import Target
from tests.support.side_log import Logged

PREPARE = 'echo "$ATK_TREE" >> "{notes}/prepared"'
PROBE = 'if [ -e "{notes}/stale" ]; then echo 0123456789; else echo "$ATK_TREE"; fi'


def prepared(tmp_path, **settings):
    notes = os.path.join(str(tmp_path), "notes")
    preparation = {
        "mode": "command",
        "argv": ["sh", "-c", PREPARE.replace("{notes}", notes)],
        "probe": ["sh", "-c", PROBE.replace("{notes}", notes)],
        "ready_seconds": 0.5,
    }
    return Logged(tmp_path, replay_preparation=preparation, **settings)


def trees(target):
    with open(os.path.join(target.notes, "prepared"), encoding="utf-8") as file:
        return file.read().split()


def test_every_batch_is_prepared_for_its_revision_and_the_runtime_follows_the_worktree_back(tmp_path):
    target = prepared(tmp_path)
    baseline = target.open_round(budget={"executions": 40})
    made = target.call("prepare_candidate", round_id=target.round_id, primary_issue_id=target.round.issue_ids[0])
    target.write("prompt.txt", "another\n")
    sealed = target.call("seal_candidate", round_id=target.round_id, candidate_id=made.candidate_id)
    target.round_run(revision_id=sealed.revision_id)
    base = target.round_run(revision_id=baseline)

    assert (base.status, base.warnings) == ("sealed", [])
    b0 = target.git("rev-parse", "HEAD^{tree}")
    own = target.git("rev-parse", f"{sealed.sealed_commit}^{{tree}}")
    assert trees(target) == [own, b0, own]
    assert target.read("prompt.txt") == "another\n"


def test_a_runtime_that_answers_for_another_content_is_not_measured(tmp_path):
    target = prepared(tmp_path)
    target.note("stale")
    old = target.head_run()

    assert (old.status, old.end_reason, old.counts["done"]) == ("contaminated", "not_prepared", 0)
    assert "store_assessment" not in [step.tool for step in old.next]  # there is nothing to judge
    assert "another content is running" in old.notes[0]
    assert not target.ran
    target.forget("stale")
    assert target.follow(continue_batch_id=old.batch_id).status == "sealed"


def test_a_runtime_that_became_stale_during_the_run_contaminates_it_and_its_evidence_stays(tmp_path):
    target = prepared(tmp_path)
    target.write("agent.sh", f'touch "{target.notes}/stale"\n{target.read("agent.sh")}')
    target.git("commit", "-q", "-a", "-m", "an agent that spoils its runtime")

    run = target.head_run()

    assert (run.status, len(target.records(run.batch_id))) == ("contaminated", 4)
    assert "another content is running" in run.notes[0]


@pytest.mark.parametrize(("script", "status"), [("drifts", "partial"), ("flaky", "sealed")])
def test_a_version_that_changes_makes_the_batch_partial_and_one_lost_answer_does_not(tmp_path, script, status):
    count = f'n=$(cat "{tmp_path}/n" 2>/dev/null || echo 0); n=$((n+1)); echo $n > "{tmp_path}/n"'
    tail = {"drifts": "echo v$n", "flaky": "[ $n = 2 ] && exit 1; echo v1"}[script]
    model = {"component_id": "model", "role": "model", "change_role": "fixed"}
    target = Logged(tmp_path, components=[{**model, "version_command": ["sh", "-c", f"{count}; {tail}"]}])

    run = target.head_run()

    assert run.status == status
    assert len(target.records(run.batch_id)) == 4
    [seen] = target.state.get(Batch, run.batch_id).components
    assert (seen["component_id"], seen["version"]) == ("model", "v1")
    drift = "The version of model changed while the batch ran: v1 before, v2 after."
    assert run.notes == ([] if script == "flaky" else [drift])


def test_a_stop_during_the_preparation_ends_it_and_no_agent_starts(tmp_path):
    waiting = f'touch "{tmp_path}/begun"; while :; do sleep 0.05; done'
    target = Logged(tmp_path, replay_preparation={"mode": "command", "argv": ["sh", "-c", waiting]})
    begun = target.head_run(wait_seconds=0)
    stopped = target.call("stop_batch", batch_id=begun.batch_id, wait_seconds=100)

    assert stopped.status == "interrupted"
    assert target.batch(begun.batch_id).end_reason == "stopped"
    assert not target.ran


def test_a_run_by_the_python_adapter_goes_from_end_to_end(tmp_path):
    target = Target(tmp_path, initialize=False)
    target.write("answering.py", "def answer(given):\n    return 'billing'\n")
    target.git("add", ".")
    target.git("commit", "-q", "-m", "a function")
    target.initialize(adapter="python", adapter_options={"call": "answering:answer"}, command=[], components=[])
    target.store_cases()
    run = target.call("run_evaluation", revision_commit=target.head, wait_seconds=100)
    assert (run.status, run.counts["completed"]) == ("sealed", 6)
