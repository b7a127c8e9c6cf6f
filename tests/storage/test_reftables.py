"""Refs that are reftables have one lock for all: what a killed git of ours left is known, and a stranger's stays."""

from __future__ import annotations

import os
import time

import pytest

from storage import effects
from storage.checkpoints import hold, publish, release
from storage.git import Git, GitLocked
from storage.worktree import read_head
from tests.support.gitcases.builder import NEEDS, Builder, available

REF = "refs/atk/candidates/c1"

pytestmark = pytest.mark.skipif(not available("reftable"), reason=f"it needs {NEEDS['reftable']}")


class Case:
    """A repository with a commit that no ref names, and git at one of its worktrees."""

    def __init__(self, folder, sub="repo"):
        self.made = Builder(folder).base("--ref-format=reftable")
        self.made.g("worktree", "add", "-q", "-b", "wt", os.path.join(folder, "wt"))
        self.git = Git(os.path.join(folder, sub))
        self.head = read_head(self.git)
        self.commit = self.made.g("commit-tree", "-p", "HEAD", "-m", "next", "HEAD^{tree}")
        self.stacks = sorted({os.path.join(x, "reftable") for x in (self.git.common_dir, self.git.git_dir)})

    def killed(self, *update_ref, keep=None):
        """Leaves what a git leaves that is killed before its lists take effect, `keep` bytes of each written."""
        before = {stack: self.read(stack) for stack in self.stacks}
        self.git.run("update-ref", *update_ref)
        for stack, listed in before.items():
            now = self.read(stack)
            if now != listed:
                self.write(stack, "tables.list", listed)
                self.write(stack, "tables.list.lock", now[: len(now) if keep is None else keep])
        return self.locks()

    def locks(self):
        return [x for stack in self.stacks if os.path.exists(x := os.path.join(stack, "tables.list.lock"))]

    def read(self, stack):
        with open(os.path.join(stack, "tables.list"), "rb") as file:
            return file.read()

    def write(self, stack, name, data):
        with open(os.path.join(stack, name), "wb") as file:
            file.write(data)


@pytest.fixture
def case(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    made = Case(str(tmp_path))
    yield made
    made.git.close()


@pytest.mark.parametrize("keep", [None, 0, 10, 50])
def test_a_lock_that_a_killed_hold_left_is_removed_and_the_ref_made(case, keep):
    assert case.killed("--create-reflog", REF, case.commit, keep=keep)
    hold(case.git, REF, case.commit, intent_time_ns=effects.ALL_OURS)
    assert (case.git.ref(REF), case.locks()) == (case.commit, [])


def test_a_lock_that_a_killed_release_left_is_removed_and_so_is_the_ref(case):
    hold(case.git, REF, case.commit)
    assert case.killed("-d", REF)
    assert case.git.ref(REF) == case.commit
    release(case.git, REF, case.commit, intent_time_ns=effects.ALL_OURS)
    assert (case.git.ref(REF), case.locks()) == (None, [])


@pytest.mark.parametrize("sub", ["repo", "wt"])
def test_locks_that_a_killed_publish_left_are_removed_and_the_branch_moved(tmp_path, monkeypatch, sub):
    """A linked worktree has two stacks: the branch is in one, and of HEAD only a log in the other."""
    monkeypatch.setenv("HOME", str(tmp_path))
    case = Case(str(tmp_path), sub)
    assert len(case.killed("-m", "atk keep", "HEAD", case.commit)) == len(case.stacks)
    publish(case.git, case.head, case.commit, (), effects.ALL_OURS, str(tmp_path))
    assert (read_head(case.git).commit, read_head(case.git).branch) == (case.commit, case.head.branch)
    assert case.locks() == []
    case.git.close()


def test_a_table_that_a_power_cut_took_is_in_nobodys_way(case):
    (lock,) = case.killed(REF, case.commit)
    with open(lock, "rb") as file:
        table = file.read().splitlines()[-1]
    os.unlink(os.path.join(os.path.dirname(os.fsencode(lock)), table))
    hold(case.git, REF, case.commit, intent_time_ns=effects.ALL_OURS)
    assert (case.git.ref(REF), case.locks()) == (case.commit, [])


def test_a_strangers_lock_stays_though_it_is_as_young(case):
    other = case.made.g("commit-tree", "-p", "HEAD", "-m", "theirs", "HEAD^{tree}")
    (lock,) = case.killed("refs/heads/theirs", other)
    with pytest.raises(GitLocked, match="content that is not ours") as refusal:
        hold(case.git, REF, case.commit, intent_time_ns=effects.ALL_OURS)
    assert (refusal.value.path, case.locks()) == (lock, [lock])


def test_a_lock_from_before_the_announcement_stays_and_refuses_it(case):
    lock = case.made.w(".git/reftable/tables.list.lock", b"")
    with pytest.raises(GitLocked, match="older than this operation"):
        effects.require_unlocked(case.git, [effects.hold(REF, case.commit)])
    with pytest.raises(GitLocked, match="older than this operation"):
        hold(case.git, REF, case.commit, intent_time_ns=time.time_ns() + 10**10)
    with pytest.raises(GitLocked) as refusal:  # git itself says only that it cannot lock
        hold(case.git, REF, case.commit)
    assert (refusal.value.path, case.locks()) == (lock, [lock])


def test_a_pipe_in_the_place_of_the_lock_is_named_and_waited_for_by_nobody(case):
    lock = os.path.join(case.stacks[0], "tables.list.lock")
    os.mkfifo(lock)
    with pytest.raises(GitLocked, match="no regular file"):
        hold(case.git, REF, case.commit, intent_time_ns=effects.ALL_OURS)
    assert os.path.lexists(lock)


def test_no_update_of_ours_locks_the_tables_themselves(case):
    """A child that is killed while it makes several tables one would leave a lock on each of them."""
    before = len(case.read(case.stacks[0]).splitlines())
    for number in range(8):
        hold(case.git, f"refs/atk/candidates/c{number}", case.commit)
    assert len(case.read(case.stacks[0]).splitlines()) == before + 8
