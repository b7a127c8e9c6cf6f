"""A lock of Git that stood before an operation is never taken for its own, whatever its time says."""

import os
import threading
from types import SimpleNamespace

import pytest

from storage import checkpoints, effects
from storage.git import Git, GitLocked
from storage.worktree import read_head
from tests.support.gitcases.builder import Builder

FUTURE = 4_000_000_000
"""Seconds since 1970 in the year 2096."""


@pytest.fixture
def case(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    builder = Builder(str(tmp_path)).base()
    with Git(builder.r) as git:
        yield SimpleNamespace(made=builder, git=git, step=effects.publish(read_head(git), "0" * 40, ()))


@pytest.mark.parametrize("time", [0, FUTURE])
@pytest.mark.parametrize("name", ["index.lock", "HEAD.lock", "refs/heads/main.lock"])
def test_a_lock_that_stands_refuses_the_announcement_whatever_its_time(case, name, time):
    path = case.made.w(f".git/{name}", b"")
    os.utime(path, (time, time))
    with pytest.raises(GitLocked, match="older than this operation"):
        effects.require_unlocked(case.git, [case.step])
    assert os.path.exists(path)


def test_where_no_lock_stands_nothing_is_refused(case):
    effects.require_unlocked(case.git, [case.step])
    assert not effects.strangers_locks(case.git)


def test_a_lock_on_the_packed_refs_hinders_nothing_and_stays_a_strangers(case):
    case.made.w(".git/packed-refs.lock", b"")
    effects.require_unlocked(case.git, [case.step])
    assert effects.strangers_locks(case.git)


def test_a_strangers_lock_is_in_the_way_of_taking_back_and_is_not_removed(case):
    commit = case.made.g("rev-parse", "HEAD")
    ref = "refs/atk/candidates/c1"
    case.made.g("update-ref", ref, commit)
    path = case.made.w(".git/packed-refs.lock", b"")
    os.utime(path, (FUTURE, FUTURE))
    with pytest.raises(GitLocked):
        effects.take_back(case.git, [effects.hold(ref, commit)], since_ns=effects.NONE_OURS, scratch="")
    assert os.path.exists(path)
    effects.take_back(case.git, [effects.hold(ref, commit)], since_ns=effects.ALL_OURS, scratch="")
    assert not os.path.exists(path)
    assert case.git.ref(ref) is None


def test_pipe_in_the_place_of_a_lock_is_named_and_waited_for_by_nobody(case):
    """An agent that writes into `.git` may leave one; who opened it to read would wait for a writer for ever."""
    ref = "refs/atk/candidates/c1"
    path = os.path.join(case.made.r, ".git", f"{ref}.lock")
    os.makedirs(os.path.dirname(path))
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: open(path, "wb").close())
    writer.start()  # lets go whoever does wait
    with pytest.raises(GitLocked, match="no regular file"):
        checkpoints.hold(case.git, ref, case.made.g("rev-parse", "HEAD"))
    os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    writer.join()
    assert os.path.exists(path)
