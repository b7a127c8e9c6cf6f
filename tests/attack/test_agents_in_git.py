"""An agent that writes into .git during a run hides nothing by it, and gets nothing of its own run by ATK."""

import os

import pytest

from operations.verification import verify
from storage.git.failures import GitFailed
from storage.schema.batches import Batch
from tests.support.projects import Target

HIDING = """\
mkdir -p .git/info
printf '* filter=lie\\n' > .git/info/attributes
cp prompt.txt .git/honest
git config filter.lie.clean 'cat .git/honest'
echo 'refund -> billing' >> prompt.txt
"""
"""Lets Git take an edited prompt for the one that was committed."""

WRITES = {
    "a filter that lies about an edit": (HIDING, "contaminated", ".git/info/attributes"),
    "a setting": ("git config core.fileMode false\nchmod +x prompt.txt\n", "contaminated", ".git/config"),
    "attributes of another tree": (
        'git config attr.tree "$(git mktree </dev/null)"\n',
        "contaminated",
        ".git/config",
    ),
    "an exclusion": (
        "mkdir -p .git/info\necho extra.txt >> .git/info/exclude\necho x > extra.txt\n",
        "contaminated",
        ".git/info/exclude",
    ),
    "a commit": ("git commit -q --allow-empty -m agent\n", "sealed", "HEAD was at"),
    "a branch that HEAD follows": ("git checkout -q -b agents\n", "sealed", "HEAD was at"),
    "a setting that decides nothing": ("git config remote.x.url http://127.0.0.1/x\n", "sealed", None),
}


def ran(tmp_path, script):
    target = Target(tmp_path / "target", initialize=False)
    target.write("agent.sh", script + "echo done\n")
    target.git("rm", "-q", "agent.py")
    target.git("add", ".")
    target.git("commit", "-q", "-m", "An agent")
    target.initialize(command=["sh", "agent.sh"], components=[], protected_paths=[])
    target.write_cases([("c1", "x", "y")])
    target.store_cases()
    return target


@pytest.mark.parametrize(
    ("script", "status", "told"),
    [
        pytest.param(*case, id=name, marks=() if case[0] is HIDING else pytest.mark.slow)
        for name, case in WRITES.items()
    ],
)
def test_what_decides_about_git_and_was_written_to_is_told(tmp_path, script, status, told):
    target = ran(tmp_path, script)
    answer = target.call("run_evaluation", revision_commit=target.head, wait_seconds=200)
    batch = target.state.get(Batch, answer.batch_id)
    assert batch.status == status, batch.notes
    assert told is None or any(told in note for note in batch.notes), batch.notes
    assert verify(target.project).findings == []


def test_hooks_and_programs_that_an_agent_leaves_are_not_run_by_atk(tmp_path):
    marked = '#!/bin/sh\\ntouch "$(git rev-parse --show-toplevel)/pwned"\\n'
    names = ("pre-commit", "post-index-change", "reference-transaction", "post-checkout")
    hooks = "".join(f"printf '{marked}' > .git/hooks/{name}; chmod +x .git/hooks/{name}\n" for name in names)
    script = f"mkdir -p .git/hooks\n{hooks}git config core.fsmonitor .git/hooks/pre-commit\n"
    for name in names:  # as settings, which Git knows from 2.54 on
        script += f"git config hook.mine-{name}.event {name}\ngit config hook.mine-{name}.command 'touch pwned'\n"
    target = ran(tmp_path, script)
    target.call("run_evaluation", revision_commit=target.head, wait_seconds=200)
    target.call("create_round")
    target.call("run_evaluation", revision_commit=target.head, wait_seconds=200)
    assert not os.path.exists(target.path("pwned"))
    assert os.path.exists(target.path(".git/hooks/pre-commit"))


def test_a_lock_that_an_agent_leaves_is_refused_by_name_where_it_is_in_the_way(tmp_path):
    target = ran(tmp_path, ": > .git/index.lock\n")
    answer = target.call("run_evaluation", revision_commit=target.head, wait_seconds=200)
    assert target.state.get(Batch, answer.batch_id).status == "sealed"
    target.call("create_round")
    assert os.path.exists(target.path(".git/index.lock"))


def test_a_repository_that_an_agent_broke_is_told_and_the_run_is_sealed_once_it_is_whole(tmp_path):
    target = ran(tmp_path, "cp .git/config .git/kept; echo '[broken' >> .git/config\n")
    with pytest.raises(GitFailed, match="bad config line"):
        target.call("run_evaluation", revision_commit=target.head, wait_seconds=200)
    warnings = target.call("get_status").warnings
    assert any("run_evaluation" in warning and "bad config line" in warning for warning in warnings)
    os.replace(target.path(".git/kept"), target.path(".git/config"))
    target.call("store_knowledge", knowledge={"body": "a lesson", "applicability": "here"})
    (batch,) = target.state.all(Batch)
    assert (batch.status, batch.counts) == ("sealed", {"completed": 1})
    assert not any("bad config line" in warning for warning in target.call("get_status").warnings)
