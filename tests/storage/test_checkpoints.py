"""The target moves between known states, whatever was interrupted, and nothing of anybody else's is lost."""

from __future__ import annotations

import os
import time

import pytest

from storage.checkpoints import (
    BranchShared,
    Change,
    LeavesWorktree,
    NameCollision,
    OtherRepository,
    RefTaken,
    SpecialFile,
    Staged,
    UnknownContent,
    build_tree,
    changes_between,
    classify,
    commit_tree,
    draft_changes,
    hold,
    inverse,
    publish,
    publishing,
    release,
    restoring,
    rewrite,
    user_files,
)
from storage.errors import AtkError
from storage.git import CorruptRepository, Git, GitLocked, HeadMoved
from storage.worktree import OperationInProgress, read_head, surroundings
from tests.support.gitcases.builder import Builder
from tests.support.gitcases.driver import changed, content

REF = "refs/atk/candidates/c1"


class Work:
    """A repository, a candidate that can be edited in it, and the calls of one operation after another."""

    def __init__(self, folder):
        self.made = Builder(folder).base()
        self.git = Git(self.made.r)
        self.scratch = os.path.join(self.made.r, ".atk", "tmp")
        os.makedirs(self.scratch)

    def freeze(self):
        self.head = read_head(self.git)
        self.before = surroundings(self.git, [])
        self.base = self.now()

    def now(self):
        return content(self.made.d)

    def draft(self):
        return draft_changes(self.git, self.head.commit, self.before, self.scratch)

    def seal(self):
        self.changes = self.draft()
        tree = build_tree(self.git, self.head.commit, self.changes, self.scratch)
        self.commit = commit_tree(self.git, tree, [self.head.commit], "c1\n", 1_700_000_000)
        hold(self.git, REF, self.commit)
        self.edited = self.now()
        self.began = time.time_ns()
        return self.changes

    def reject(self):
        rewrite(self.git, inverse(self.changes), self.scratch, self.before.folders, head=self.head)

    def keep(self):
        publish(self.git, self.head, self.commit, self.changes, self.began, self.scratch)

    def status(self):
        return self.made.g("-c", "core.fsmonitor=false", "status", "--porcelain", "-uno")

    def path(self, name):
        return os.path.join(self.made.r, name)


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    opened = Work(str(tmp_path))
    yield opened
    opened.git.close()


@pytest.fixture
def sealed(work):
    """A candidate that edits, adds, deletes, renames and replaces a file by a folder, beside the user's own files."""
    work.made.w("notes.txt", "mine\n")
    work.made.w("empty/keep/.x", "x\n")
    os.unlink(work.path("empty/keep/.x"))
    work.freeze()
    work.made.w("prompt.md", "better\n")
    work.made.w("skills/deep/new.md", "new\n")
    work.made.w("image.bin", bytes(range(256)) * 300)
    os.rename(work.path("data/old.txt"), work.path("moved.txt"))
    os.unlink(work.path("data/cfg.json"))
    work.made.w("data/cfg.json/inner", "inner\n")
    os.chmod(work.path("agent.py"), 0o755)
    os.symlink("agent.py", work.path("link"))
    work.seal()
    return work


def test_a_draft_says_what_git_would_record_with_renames_as_deletion_and_addition(sealed):
    sides = {x.path: (x.before and x.before.mode, x.after and x.after.mode) for x in sealed.changes}

    assert sides == {
        "agent.py": ("100644", "100755"),
        "data/cfg.json": ("100644", None),
        "data/cfg.json/inner": (None, "100644"),
        "data/old.txt": ("100644", None),
        "image.bin": (None, "100644"),
        "link": (None, "120000"),
        "moved.txt": (None, "100644"),
        "prompt.md": ("100644", "100644"),
        "skills/deep/new.md": (None, "100644"),
    }
    assert changes_between(sealed.git, sealed.head.commit, sealed.commit, {}) == sealed.changes


TAKES_AWAY = """\
#!/bin/sh
case "$*" in *"update-index -z --add"*) rm -f data/cfg.json;; esac
exec git "$@"
"""


def test_a_file_that_goes_while_a_draft_is_looked_at_is_one_that_is_gone(work, tmp_path):
    work.freeze()
    work.made.w("data/cfg.json", "edited\n")
    program = tmp_path / "git"
    program.write_text(TAKES_AWAY)
    program.chmod(0o755)
    with Git(work.made.r, str(program)) as git:
        changes = draft_changes(git, work.head.commit, work.before, work.scratch)
    assert [(x.path, x.before and x.before.mode, x.after) for x in changes] == [("data/cfg.json", "100644", None)]


def test_reject_brings_back_every_byte_and_keep_folders(sealed):
    sealed.reject()

    assert changed(sealed.base, sealed.now()) == []
    assert os.path.isdir(sealed.path("empty/keep"))


def test_reject_and_its_inverse_lead_to_and_fro(sealed):
    sealed.reject()
    rewrite(sealed.git, sealed.changes, sealed.scratch, sealed.before.folders)

    assert changed(sealed.edited, sealed.now()) == []


def test_keep_moves_branch_and_index_and_no_file(sealed):
    sealed.keep()

    assert sealed.made.g("rev-parse", "main") == sealed.commit
    assert sealed.status() == ""
    assert [x for x in changed(sealed.edited, sealed.now()) if b".git/" not in x] == []


def test_a_second_keep_changes_nothing(sealed):
    sealed.keep()
    after = sealed.now()
    sealed.keep()
    assert changed(after, sealed.now()) == []


@pytest.mark.parametrize("at", range(9))
def test_a_reject_that_died_between_two_files_is_finished_by_the_next(sealed, monkeypatch, at):
    real, done = restoring._take, []

    def dying(git, step):
        if len(done) == at:
            raise KeyboardInterrupt
        done.append(step)
        real(git, step)

    with monkeypatch.context() as patch:
        patch.setattr(restoring, "_take", dying)
        with pytest.raises(KeyboardInterrupt):
            sealed.reject()

    sealed.reject()

    assert changed(sealed.base, sealed.now()) == []


def test_folders_that_a_killed_reject_left_empty_go_with_the_next(sealed, monkeypatch):
    def dying(_git, _path, _keep):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(restoring, "_remove_empty", dying)
        with pytest.raises(KeyboardInterrupt):
            sealed.reject()
    assert os.path.isdir(sealed.path("skills/deep"))

    sealed.reject()

    assert changed(sealed.base, sealed.now()) == []


def test_locks_on_private_indexes_of_a_killed_try_are_in_nobodys_way(sealed):
    sealed.reject()
    rewrite(sealed.git, sealed.changes, sealed.scratch, sealed.before.folders)
    sealed.keep()
    for folder, _, _ in os.walk(sealed.scratch):
        for name in ("index.lock", "next-index.lock", "state-index.lock", "tree-index.lock", "fresh-index.lock"):
            with open(os.path.join(folder, name), "wb"):
                pass

    sealed.keep()
    rewrite(sealed.git, inverse(sealed.changes), sealed.scratch, sealed.before.folders)
    build_tree(sealed.git, sealed.head.commit, sealed.changes, sealed.scratch)


def test_a_keep_that_died_before_the_index_was_published_is_finished_by_the_next(sealed, monkeypatch):
    def dying(_git, _lock):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(publishing, "_rename_index", dying)
        with pytest.raises(KeyboardInterrupt):
            sealed.keep()
    assert sealed.made.g("rev-parse", "main") == sealed.commit
    assert os.path.exists(sealed.path(".git/index.lock"))

    sealed.keep()

    assert sealed.status() == ""
    assert not os.path.exists(sealed.path(".git/index.lock"))


def test_recovery_of_keep_leaves_what_the_user_staged_meanwhile(sealed, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(publishing, "_rename_index", lambda _git, lock: os.unlink(lock))
        sealed.keep()
    sealed.made.w("prompt.md", "the user's\n")
    sealed.made.g("add", "prompt.md")

    sealed.keep()

    assert sealed.status() == "M  prompt.md"


def test_a_keep_that_fails_to_move_the_branch_gives_the_index_lock_back(sealed, monkeypatch):
    before = sealed.now()
    real = Git.run

    def failing(self, *arguments, **options):
        if arguments[0] == "update-ref":
            raise HeadMoved(expected="a", found="b")
        return real(self, *arguments, **options)

    monkeypatch.setattr(Git, "run", failing)
    with pytest.raises(HeadMoved):
        sealed.keep()

    assert changed(before, sealed.now()) == []


@pytest.mark.parametrize("name", ["index.lock", "HEAD.lock", "refs/heads/main.lock"])
def test_an_empty_lock_of_our_own_killed_try_is_removed(sealed, name):
    sealed.made.w(".git/" + name, b"")

    sealed.keep()

    assert sealed.status() == ""


@pytest.fixture
def symbolic(work):
    """A sealed candidate on `main`, which is a symbolic ref to `between`, as that is to `trunk`."""
    for name, target in (("between", "trunk"), ("main", "between")):
        work.made.g("update-ref", "refs/heads/trunk", "HEAD")
        work.made.g("symbolic-ref", f"refs/heads/{name}", f"refs/heads/{target}")
    work.freeze()
    work.made.w("prompt.md", "better\n")
    work.seal()
    return work


@pytest.mark.parametrize("name", ["HEAD", "refs/heads/main", "refs/heads/between", "refs/heads/trunk"])
def test_a_lock_of_our_own_on_any_ref_that_a_symbolic_branch_leads_over_is_removed(symbolic, name):
    symbolic.made.w(f".git/{name}.lock", b"")

    symbolic.keep()

    assert symbolic.git.ref("refs/heads/trunk") == symbolic.commit
    assert symbolic.made.g("symbolic-ref", "--no-recurse", "HEAD") == "refs/heads/main"
    assert not os.path.exists(symbolic.path(f".git/{name}.lock"))


def test_a_foreign_lock_on_a_ref_that_a_symbolic_branch_leads_over_stops_keep_before_anything_moved(symbolic):
    lock = symbolic.made.w(".git/refs/heads/between.lock", b"another's")
    before = symbolic.now()

    with pytest.raises(GitLocked, match="content that is not ours") as raised:
        symbolic.keep()

    assert (raised.value.path, changed(before, symbolic.now())) == (lock, [])


def test_a_half_written_lock_of_our_own_is_removed(sealed):
    index = publishing._next_index(sealed.git, sealed.changes, sealed.scratch)
    with open(index, "rb") as file:
        sealed.made.w(".git/index.lock", file.read()[:100])
    sealed.made.w(".git/refs/heads/main.lock", sealed.commit[:7])

    sealed.keep()

    assert sealed.status() == ""


@pytest.mark.parametrize(
    ("data", "age", "told"),
    [(b"DIRC-foreign", 0, "content that is not ours"), (b"", 3600, "older than this operation")],
)
def test_a_foreign_lock_stops_keep_before_anything_moved(sealed, data, age, told):
    lock = sealed.made.w(".git/index.lock", data)
    os.utime(lock, (time.time() - age, time.time() - age))
    before = sealed.now()

    with pytest.raises(GitLocked, match=told) as raised:
        sealed.keep()

    assert raised.value.size == len(data)
    assert raised.value.age_seconds >= age
    assert changed(before, sealed.now()) == []


def test_a_lock_that_a_living_process_has_open_is_not_ours(sealed):
    with open(sealed.path(".git/index.lock"), "wb"), pytest.raises(GitLocked, match=f"process {os.getpid()}"):
        sealed.keep()


def test_a_lock_that_git_left_although_it_succeeded_is_found(sealed, monkeypatch):
    real = Git.run

    def leaving(self, *arguments, **options):
        done = real(self, *arguments, **options)
        if arguments[0] == "update-ref":
            sealed.made.w(".git/HEAD.lock", b"")
        return done

    with monkeypatch.context() as patch:
        patch.setattr(Git, "run", leaving)
        with pytest.raises(GitLocked, match="left by an update"):
            sealed.keep()

    sealed.keep()

    assert sealed.status() == ""
    assert not os.path.exists(sealed.path(".git/HEAD.lock"))


def test_other_staged_files_stay_staged(sealed):
    sealed.made.w("other.txt")
    sealed.made.g("add", "other.txt")
    sealed.keep()
    assert sealed.status() == "A  other.txt"


def test_a_staged_path_of_the_candidate_stops_keep(sealed):
    sealed.made.g("add", "prompt.md")
    before = sealed.now()
    with pytest.raises(Staged) as raised:
        sealed.keep()
    assert raised.value.paths == ("prompt.md",)
    assert changed(before, sealed.now()) == []


def test_a_branch_that_is_checked_out_twice_is_not_moved(sealed):
    sealed.made.g("worktree", "add", "-q", "--force", os.path.join(sealed.made.d, "twin"), "main")
    with pytest.raises(BranchShared, match="refs/heads/main"):
        sealed.keep()


def test_an_edit_after_sealing_stops_both_ways_and_stays(sealed):
    sealed.made.w("prompt.md", "the user's\n")
    before = sealed.now()
    for call in (sealed.reject, sealed.keep):
        with pytest.raises(UnknownContent) as raised:
            call()
        assert raised.value.paths == ("prompt.md",)
    assert changed(before, sealed.now()) == []


def test_a_users_file_inside_a_folder_that_must_become_a_file_stops_reject(sealed):
    sealed.made.w("data/cfg.json/mine", "mine\n")
    before = sealed.now()
    with pytest.raises(UnknownContent) as raised:
        sealed.reject()
    assert raised.value.paths == ("data/cfg.json/mine",)
    assert changed(before, sealed.now()) == []


def test_a_nested_repository_where_a_file_must_come_stops_reject(sealed):
    sealed.made.g("init", "-q", sealed.path("data/cfg.json/inner-repository"))
    before = sealed.now()
    with pytest.raises(UnknownContent):
        sealed.reject()
    assert changed(before, sealed.now()) == []


def test_an_edit_in_the_last_moment_is_not_overwritten(sealed, monkeypatch):
    real = restoring._take

    def racing(git, step):
        if step.path == b"prompt.md":
            sealed.made.w("prompt.md", "the user's, just now\n")
        real(git, step)

    with monkeypatch.context() as patch:
        patch.setattr(restoring, "_take", racing)
        with pytest.raises(UnknownContent):
            sealed.reject()

    with open(sealed.path("prompt.md")) as file:
        assert file.read() == "the user's, just now\n"


def test_a_merge_under_way_stops_reject_and_keep(sealed):
    sealed.made.w(".git/MERGE_HEAD", sealed.head.commit + "\n")
    for call in (sealed.reject, sealed.keep, sealed.draft):
        with pytest.raises(OperationInProgress, match="merge"):
            call()


def test_a_missing_object_stops_reject_before_anything_is_touched(sealed):
    lost = next(x.before.oid for x in sealed.changes if x.path == "prompt.md")
    os.unlink(sealed.path(f".git/objects/{lost[:2]}/{lost[2:]}"))
    before = sealed.now()
    with pytest.raises(CorruptRepository, match=lost):
        sealed.reject()
    assert changed(before, sealed.now()) == []


def test_files_that_the_user_froze_dirty_are_no_change_and_stay(work):
    work.made.w("run.sh", "user's edit\n")
    work.made.w("notes.txt", "mine\n")
    work.freeze()
    work.made.w("prompt.md", "better\n")
    work.seal()

    assert [x.path for x in work.changes] == ["prompt.md"]
    work.reject()
    assert changed(work.base, work.now()) == []


def test_a_change_to_files_that_the_user_froze_is_reported(work):
    for name in ("run.sh", "data/old.txt", "notes.txt", "gone.txt"):
        work.made.w(name, "user's edit\n")
    work.freeze()
    work.made.w("run.sh", "candidate\n")
    work.made.w("notes.txt", "candidate\n")
    work.made.w("data/old.txt", "old\n")
    os.unlink(work.path("gone.txt"))

    changes = work.draft()

    assert user_files(changes, work.before) == ("data/old.txt", "gone.txt", "notes.txt", "run.sh")


def test_exact_bytes_come_back_under_autocrlf(work):
    work.made.g("config", "core.autocrlf", "true")
    work.made.w("windows.txt", b"a\r\nb\r\n")
    work.made.w("mixed.txt", b"a\r\nb\nc\r\n")
    work.made.commit()
    work.freeze()
    work.made.w("windows.txt", b"a\r\nbetter\r\n")
    work.made.w("prompt.md", b"You are\r\n")
    os.unlink(work.path("mixed.txt"))
    changes = work.seal()

    raw = {x.path: x.after and x.after.raw for x in changes}
    assert work.git.read(raw["windows.txt"]) == b"a\r\nbetter\r\n"
    assert changes_between(work.git, work.head.commit, work.commit, work.before.raw)[0].before == changes[0].before
    work.reject()
    assert changed(work.base, work.now()) == []
    rewrite(work.git, changes, work.scratch)
    assert changed(work.edited, work.now()) == []


def test_private_permissions_of_a_file_survive(work):
    os.chmod(work.path("prompt.md"), 0o600)
    work.freeze()
    work.made.w("prompt.md", "better\n")
    work.seal()
    work.reject()
    assert changed(work.base, work.now()) == []


def test_nothing_changed_is_no_change(work):
    work.freeze()
    os.utime(work.path("prompt.md"))
    assert work.draft() == ()


def test_content_is_told_apart_by_state(sealed):
    states = classify(sealed.git, sealed.changes, sealed.scratch)
    assert (states.before, states.other) == ((), ())
    assert states.after == tuple(x.path for x in sealed.changes)


@pytest.mark.parametrize(
    ("do", "error"),
    [
        (lambda w: w.made.g("init", "-q", w.path("nested")) and w.made.w("nested/x"), OtherRepository),
        (lambda w: (os.unlink(w.path("prompt.md")), os.mkfifo(w.path("prompt.md"))), SpecialFile),
        (lambda w: os.symlink("/etc/hostname", w.path("link")), LeavesWorktree),
        (lambda w: (os.rename(w.path("data"), w.path("other")), os.symlink("other", w.path("data"))), LeavesWorktree),
        (
            lambda w: (w.made.g("config", "core.ignorecase", "true"), w.made.w("README"), w.made.w("readme")),
            NameCollision,
        ),
        (lambda w: w.made.g("commit", "-qm", "x", "--allow-empty"), HeadMoved),
    ],
)
def test_what_cannot_be_restored_is_refused_in_a_draft(work, do, error):
    work.freeze()
    do(work)
    before = work.now()
    with pytest.raises(error) as raised:
        work.draft()
    assert isinstance(raised.value, AtkError)
    assert changed(before, work.now()) == []


def test_a_commit_is_the_same_for_the_same_arguments_and_has_an_author_without_identity(sealed):
    tree = build_tree(sealed.git, sealed.head.commit, sealed.changes, sealed.scratch)
    again = commit_tree(sealed.git, tree, [sealed.head.commit], "c1\n", 1_700_000_000)

    assert again == sealed.commit
    assert sealed.made.g("log", "-1", "--format=%an %at %s", again).endswith(" 1700000000 c1")


def test_the_users_identity_signs_commits(work):
    work.made.g("config", "user.name", "Ann")
    work.made.g("config", "user.email", "ann@example.org")
    head = read_head(work.git)
    commit = commit_tree(work.git, head.tree, [head.commit], "ü\n", 1_700_000_000)
    assert work.made.g("log", "-1", "--format=%an %ce %s", commit) == "Ann ann@example.org ü"


def test_a_ref_is_held_and_released_again_and_again(sealed):
    hold(sealed.git, REF, sealed.commit)
    assert "atk hold" in sealed.made.g("reflog", "show", REF)
    with pytest.raises(RefTaken):
        hold(sealed.git, REF, sealed.head.commit)
    with pytest.raises(RefTaken):
        release(sealed.git, REF, sealed.head.commit)
    sealed.made.w(f".git/{REF}.lock", sealed.commit[:5])
    release(sealed.git, REF, sealed.commit)
    release(sealed.git, REF, sealed.commit)
    assert sealed.git.ref(REF) is None


@pytest.mark.parametrize(
    "ref", ["refs/heads/main", "refs/atk/../heads/x", "refs/atk/x", "refs/atk/a/b.lock", "refs/atk/a/-x;"]
)
def test_only_refs_of_atks_own_are_made(sealed, ref):
    with pytest.raises(ValueError, match="not a ref"):
        hold(sealed.git, ref, sealed.commit)


def test_a_link_that_became_a_folder_goes_back_to_a_link(work):
    os.symlink("data", work.path("alias"))
    work.made.commit()
    work.freeze()
    os.unlink(work.path("alias"))
    work.made.w("alias/x", "x\n")
    work.seal()
    work.reject()
    work.reject()
    assert changed(work.base, work.now()) == []


def test_changes_are_plain_values(sealed):
    again = [Change.model_validate_json(x.model_dump_json()) for x in sealed.changes]
    assert tuple(again) == sealed.changes
