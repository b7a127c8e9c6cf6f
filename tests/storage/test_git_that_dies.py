"""Git ends in the middle, by a signal or a full disk: what is said is why it ended, and not that content is bad."""

import errno
import os
import signal

import pytest

from storage.checkpoints import commit_tree, hold
from storage.git import Git, GitFailed, GitLocked, GitMissing
from tests.support.projects import Target

DYING = """\
#!/bin/sh
case "$*" in *"{command}"*) {does};; esac
exec git "$@"
"""


@pytest.fixture
def target(tmp_path):
    return Target(tmp_path / "target", initialize=False)


@pytest.fixture
def dying(tmp_path, target):
    """Returns a git that does something else where it comes to one command."""

    def made(command, does):
        program = tmp_path / "dying-git"
        program.write_text(DYING.format(command=command, does=does))
        program.chmod(0o755)
        return Git(target.root, str(program))

    return made


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGXFSZ"])
def test_a_command_that_a_signal_ends_is_said_to_be_ended_by_it(dying, name):
    number = getattr(signal, name)
    with dying("rev-parse", f"kill -{int(number)} $$") as git, pytest.raises(GitFailed) as refused:
        git.line("rev-parse", "HEAD")
    assert (refused.value.command, refused.value.status) == ("rev-parse", -number)
    assert refused.value.reason == f"{name} ended it"


@pytest.mark.parametrize("does", ["kill -9 $$", "read -r id; kill -9 $$", "read -r id; echo $id blob 9; kill -9 $$"])
def test_a_reader_of_objects_that_is_killed_leaves_no_doubt_of_the_repository(target, dying, does):
    blob = target.git("rev-parse", "HEAD:prompt.txt")
    with dying("cat-file --batch", does) as git, pytest.raises(GitFailed) as refused:
        git.read(blob)
    assert (refused.value.command, refused.value.status, refused.value.reason) == ("cat-file", -9, "SIGKILL ended it")


def test_the_next_read_starts_another_reader(target, dying, tmp_path):
    blob = target.git("rev-parse", "HEAD:prompt.txt")
    once = f"[ -e {tmp_path}/died ] || {{ touch {tmp_path}/died; kill -9 $$; }}"
    with dying("cat-file --batch", once) as git:
        with pytest.raises(GitFailed):
            git.read(blob)
        assert git.read(blob).decode() == target.read("prompt.txt")


def test_a_git_whose_interpreter_is_gone_cannot_be_started(target, tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)  # else `env` is what starts, and says it
    program = tmp_path / "git"
    program.write_text("#!/nonexistent/sh\n")
    program.chmod(0o755)
    with Git(target.root, str(program)) as git, pytest.raises(GitMissing) as refused:
        git.line("rev-parse", "HEAD")
    assert refused.value.program == str(program)


def test_a_disk_that_is_full_for_git_is_named_with_what_to_do(dying):
    full = f"fatal: cannot write: {os.strerror(errno.ENOSPC)}"
    with dying("hash-object", f"echo '{full}' >&2; exit 128") as git, pytest.raises(GitFailed) as refused:
        git.run("hash-object", "-w", "--stdin", stdin=b"x")
    assert refused.value.reason == f"{full} (free some space on that disk and call again)"


@pytest.mark.parametrize("command", ["update-ref", "commit-tree"])
def test_what_a_prune_took_away_while_it_was_written_is_told_with_what_to_do(target, dying, command):
    blob = target.git("rev-parse", "HEAD:prompt.txt")
    with dying(command, f"git -C {target.root} prune --expire=now") as git:
        tree = git.line("mktree", stdin=f"100644 blob {blob}\tnew.txt\n".encode())
        with pytest.raises(GitFailed) as refused:
            hold(git, "refs/atk/candidates/c1", commit_tree(git, tree, [], "c1\n", 1_700_000_000))
        assert (refused.value.command, git.ref("refs/atk/candidates/c1")) == (command, None)
    assert refused.value.reason.endswith("took away what was just written; call again when it has ended)")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_lock_that_git_could_not_make_is_not_said_to_be_there(dying, code):
    said = f"fatal: Unable to create '/x/index.lock': {os.strerror(code)}"
    with dying("read-tree", f'echo "{said}" >&2; exit 128') as git, pytest.raises(GitFailed) as refused:
        git.run("read-tree", "HEAD")
    assert refused.value.reason.startswith(said)


def test_a_lock_that_was_there_is_named(dying):
    said = f"fatal: Unable to create '/x/index.lock': {os.strerror(errno.EEXIST)}."
    with dying("read-tree", f'echo "{said}" >&2; exit 128') as git, pytest.raises(GitLocked) as refused:
        git.run("read-tree", "HEAD")
    assert refused.value.path == "/x/index.lock"
