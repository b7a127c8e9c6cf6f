"""Git runs with nothing of the user's running, and says what went wrong in words of its own."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest

from storage.git import (
    CorruptRepository,
    Git,
    GitFailed,
    GitLocked,
    GitMissing,
    HeadMoved,
    NotARepository,
    RepositoryTooNew,
    UnsafeOwner,
)
from storage.git.failures import FilterMissing, failure
from tests.support.gitcases.builder import Builder


@pytest.fixture
def git(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    Builder(str(tmp_path)).base()
    with Git(str(tmp_path / "repo")) as opened:
        yield opened


def test_importing_the_module_starts_nothing_and_loads_no_gitpython():
    code = "import sys, storage.git, storage.worktree, storage.checkpoints; sys.exit('git' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_variables_of_a_calling_hook_do_not_reach_git(git, monkeypatch):
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "user.name")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "Mallory")

    assert git.git_dir == os.path.join(git.root, ".git")
    assert git.run("config", "--get", "user.name", ok=(0, 1)).out == b""


def test_bytes_go_in_and_come_out_as_they_are(git):
    data = bytes(range(256)) * 5000 + b"\r\n\n"
    oid = git.line("hash-object", "-w", "--no-filters", "--stdin", stdin=data)

    assert git.read(oid) == data
    assert git.read(oid) == data


def test_a_file_given_as_input_is_streamed(git, tmp_path):
    (tmp_path / "big").write_bytes(b"x" * 3_000_000)
    with open(tmp_path / "big", "rb") as file:
        oid = git.write(file)
    assert sum(map(len, git.stream(oid))) == 3_000_000


def test_the_reader_survives_a_missing_object(git):
    with pytest.raises(CorruptRepository):
        git.read("0" * 40)
    assert git.read(git.line("rev-parse", "HEAD:prompt.md")).startswith(b"You are")


def test_missing_objects_are_named(git):
    there = git.line("rev-parse", "HEAD")
    assert git.missing([there, "1" * 40]) == {"1" * 40}
    assert git.missing([]) == set()


def test_a_command_that_hangs_is_ended_with_its_children(git, monkeypatch, tmp_path):
    from storage.git import GitTimedOut, command

    monkeypatch.setattr(command, "TIME_LIMIT", 0.3)
    git.run("config", "alias.hang", f"!echo $$ > '{tmp_path}/pid'; exec sleep 60")

    with pytest.raises(GitTimedOut, match="hang"):
        git.run("hang")

    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_folder_that_is_gone_is_never_another_folder(tmp_path):
    with pytest.raises(NotARepository):
        Git(str(tmp_path / "gone")).line("rev-parse", "HEAD")


def test_a_missing_program_is_named(tmp_path):
    with pytest.raises(GitMissing, match="no-such-git"):
        Git(str(tmp_path), program="no-such-git").line("version")


def test_sync_flushes_and_reports_an_error(git, tmp_path):
    from storage.git import sync_disk

    git.sync()
    with pytest.raises(OSError, match="No such file"):
        sync_disk(str(tmp_path / "gone"))


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("fatal: Unable to create '/r/.git/index.lock': File exists.", GitLocked),
        ("fatal: detected dubious ownership in repository at '/r'", UnsafeOwner),
        ("error: cannot lock ref 'HEAD': is at abc1 but expected def2", HeadMoved),
        ("fatal: not a git repository (or any of the parent directories): .git", NotARepository),
        ("error: external filter 'up' failed 127", FilterMissing),
        ("fatal: unknown repository extension found:\n\trefstorage", RepositoryTooNew),
        ("fatal: Expected git repo version <= 1, found 2", RepositoryTooNew),
        ("fatal: loose object 1234 is corrupt", CorruptRepository),
        ("something new", GitFailed),
    ],
)
def test_failures_become_errors_that_say_what_to_do(said, error):
    made = failure("/r", "update-ref", 128, said)

    assert type(made) is error
    assert str(made).endswith(".")
    assert made.next


def test_a_stream_without_a_file_is_refused(git):
    with pytest.raises(io.UnsupportedOperation):
        git.write(io.BytesIO(b"x"))


def test_no_hook_that_is_a_setting_runs(git, tmp_path):
    """`core.hooksPath` does not name them."""
    made = Builder(str(tmp_path))
    for event in ("reference-transaction", "post-index-change"):
        made.g("config", f"hook.a=b {event}.event", event)
        made.g("config", f"hook.a=b {event}.command", f"touch '{tmp_path}/HOOK-{event}'")
    made.g("update-ref", "refs/heads/other", "HEAD")
    if not os.path.exists(tmp_path / "HOOK-reference-transaction"):
        pytest.skip("this Git knows no hooks in its settings; it needs 2.54 or newer")
    os.unlink(tmp_path / "HOOK-reference-transaction")

    made.w("new.txt")
    git.run("update-ref", "refs/atk/candidates/c1", git.line("rev-parse", "HEAD"))
    git.run("update-index", "--add", "new.txt")

    assert [x for x in os.listdir(tmp_path) if x.startswith("HOOK-")] == []
