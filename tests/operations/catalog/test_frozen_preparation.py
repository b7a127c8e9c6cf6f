"""What prepares the runtime is frozen with the plan, and applied before every batch of every Revision."""

import os

import pytest

from storage.errors import AtkError
from tests.support.side_log import Logged

PREPARE = 'echo "$ATK_TREE $PWD" >> "{notes}/prepared"'
PROBE = 'echo "$ATK_TREE"'


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def preparing(target, probe=PROBE):
    argv = ["sh", "-c", PREPARE.replace("{notes}", target.notes)]
    return {"mode": "command", "argv": argv, "probe": ["sh", "-c", probe], "ready_seconds": 0.5}


def prepared(target):
    """The trees and folders that were prepared, in order."""
    with open(os.path.join(target.notes, "prepared"), encoding="utf-8") as file:
        return [line.split() for line in file]


def sealed(target):
    made = target.call("prepare_candidate", round_id=target.round_id, primary_issue_id=target.round.issue_ids[0])
    target.write("prompt.txt", "another\n")
    return target.call("seal_candidate", round_id=target.round_id, candidate_id=made.candidate_id)


def refusal(target, **plan):
    with pytest.raises(AtkError) as refused:
        target.open_round(**plan)
    return refused.value


def test_the_plans_preparation_follows_every_switch_in_place(tmp_path):
    target = Logged(tmp_path)
    baseline = target.open_round(replay_preparation=preparing(target))
    candidate = sealed(target)
    target.round_run(revision_id=candidate.revision_id)
    again = target.round_run(revision_id=baseline)

    assert (again.status, again.warnings) == ("sealed", [])
    b0 = target.git("rev-parse", "HEAD^{tree}")
    own = target.git("rev-parse", f"{candidate.sealed_commit}^{{tree}}")
    assert prepared(target) == [[own, target.root], [b0, target.root], [own, target.root]]


def test_the_plans_preparation_runs_in_the_folder_of_an_isolated_run_and_nothing_follows_back(tmp_path):
    target = Logged(tmp_path)
    baseline = target.open_round(replay="isolated", replay_preparation=preparing(target))
    candidate = sealed(target)

    ends = [target.round_run(revision_id=r).status for r in (baseline, candidate.revision_id)]

    assert ends == ["sealed", "sealed"]
    trees = [target.git("rev-parse", f"{commit}^{{tree}}") for commit in ("HEAD", candidate.sealed_commit)]
    assert [tree for tree, _ in prepared(target)] == trees
    assert all(folder.startswith(str(tmp_path / "cache")) for _, folder in prepared(target))


def test_the_projects_preparation_is_frozen_where_the_plan_says_nothing(tmp_path):
    notes = str(tmp_path / "notes")
    argv = ["sh", "-c", PREPARE.replace("{notes}", notes)]
    target = Logged(tmp_path, replay_preparation={"argv": argv})
    target.open_round()

    frozen = target.round.plan.replay_preparation

    assert (frozen.source, frozen.mode, list(frozen.argv)) == ("project", "command", argv)


def test_a_plan_may_say_stateless_although_the_project_prepares(tmp_path):
    target = Logged(tmp_path, replay_preparation={"argv": ["false"]})
    baseline = target.open_round(replay_preparation={"mode": "stateless", "reason": "read at every start"})

    assert target.round_run(revision_id=baseline).status == "sealed"


def test_a_runtime_that_a_frozen_probe_calls_stale_is_not_measured(tmp_path):
    target = Logged(tmp_path)
    baseline = target.open_round(replay_preparation=preparing(target, probe="echo 0123456789"))

    run = target.round_run(revision_id=baseline)

    assert (run.status, run.end_reason, target.ran) == ("contaminated", "not_prepared", {})
    assert "another content is running" in run.notes[0]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"mode": "command"}, "replay_preparation"),
        ({"mode": "stateless", "argv": ["make"]}, "replay_preparation"),
        ({"restart": ["make"]}, "replay_preparation.restart"),
        ({"argv": ["make"], "timeout_seconds": 0}, "replay_preparation.timeout_seconds"),
    ],
)
def test_a_preparation_that_cannot_be_used_is_refused_before_it_is_frozen(given, field, tmp_path):
    refused = refusal(Logged(tmp_path), replay_preparation=given)

    assert (refused.code, refused.facts["field"]) == ("plan_invalid", field)


def test_two_runs_whose_preparation_shares_a_runtime_do_not_overlap(tmp_path):
    target = Logged(tmp_path)
    baseline = target.open_round(replay="isolated", replay_preparation=preparing(target))
    target.note("hold-c0")
    begun = target.round_run(revision_id=baseline, wait_seconds=0)

    with pytest.raises(AtkError) as refused:
        target.round_run(revision_id=baseline)

    assert (refused.value.code, refused.value.facts["resource"]) == ("resource_busy", "runtime")
    target.forget("hold-c0")
    assert target.call("wait_for_batch", batch_id=begun.batch_id, wait_seconds=100).status == "sealed"


@pytest.mark.parametrize("name", ["HEAD", "main", "v1", "refs/heads/main", "annotated"])
def test_head_may_be_named_and_the_answer_says_its_commit(name, tmp_path):
    target = Logged(tmp_path, cases=1)
    target.git("tag", "v1")
    target.git("tag", "-a", "annotated", "-m", "a tag object")

    run = target.head_run(revision_commit=name)

    assert (run.status, run.commit) == ("sealed", target.head)


@pytest.mark.parametrize("name", ["old", "HEAD~1", "no-such", ":/with", "--all", "deadbeef0", "3"])
def test_a_name_of_something_else_is_refused_with_the_commit_that_can_run(name, tmp_path):
    target = Logged(tmp_path, cases=1)
    target.git("branch", "old", "HEAD~1")

    with pytest.raises(AtkError) as refused:
        target.head_run(revision_commit=name)

    assert (refused.value.code, refused.value.facts["possible"]) == ("revision_mismatch", [target.head])
    assert ("that is commit" in refused.value.facts["problem"]) == (name == "old")
