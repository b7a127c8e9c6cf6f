"""A Revision in a folder of its own is byte for byte what it is in place, and nothing of the user is touched by it."""

import hashlib
import os
import shutil
import stat
import subprocess

import pytest

from storage.checkpoints import (
    Isolated,
    IsolatedContentDiffers,
    apart_differs,
    choose_place,
    put_apart,
    raw_bytes,
    remove_place,
    sweep_places,
    user_copies,
)
from storage.checkpoints.exact import entries
from storage.checkpoints.places import MARKER, NoPlaceOutside, make_place
from storage.git import Git
from storage.worktree import encode_path, read_head, surroundings
from tests.support.gitcases.builder import NEEDS, Builder, available
from tests.support.gitcases.driver import CASES

KINDS = (
    "attributes_eol",
    "autocrlf_true",
    "detached",
    "empty_dirs",
    "exec_bits",
    "filter_roundtrip",
    "fsmonitor_hook",
    "hooks",
    "hooks_path",
    "ident_keyword",
    "include_if",
    "index_v4",
    "linked_worktree",
    "monorepo_subdir",
    "odd_names",
    "packed_alternates",
    "partial_clone",
    "project_is_submodule",
    "refs_elsewhere",
    "reftable_elsewhere",
    "reftable_linked_worktree",
    "reftable_repo",
    "separate_git_dir",
    "sha256_repo",
    "submodule_clean",
    "shallow",
    "split_index",
    "symlinks",
    "utf16_encoding",
)


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def snapshot(top):
    """Everything below a folder: kinds, modes, links and bytes."""
    found = {}
    for folder, names, files in os.walk(os.fsencode(top)):
        for name in (*names, *files):
            path = os.path.join(folder, name)
            about = os.lstat(path)
            content = None
            if stat.S_ISLNK(about.st_mode):
                content = os.readlink(path)
            elif stat.S_ISREG(about.st_mode):
                with open(path, "rb") as file:
                    content = hashlib.sha256(file.read()).hexdigest()
            found[path] = (about.st_mode, content)
    return found


def project_files(root):
    """What Git tracks below the project, as it lies there: path → kind and executable bit, and bytes."""
    quiet = ["-c", "core.fsmonitor=false"]
    listed = subprocess.run(["git", "-C", root, *quiet, "ls-files", "-z"], capture_output=True, check=True).stdout
    found = {}
    for name in filter(None, listed.split(b"\0")):
        path = os.path.join(os.fsencode(root), name)
        about = os.lstat(path)
        if stat.S_ISLNK(about.st_mode):
            found[name] = os.readlink(path)
        elif not stat.S_ISDIR(about.st_mode):  # a submodule's folder stays empty apart
            with open(path, "rb") as file:
                found[name] = (bool(about.st_mode & 0o100), file.read())
    return found


def apart(root, scratch, *, inputs=(), store=None):
    """Puts HEAD apart as a run does."""
    store = store or os.path.join(root, ".atk")
    os.makedirs(store, exist_ok=True)
    os.makedirs(scratch, exist_ok=True)
    git = Git(root)
    around = surroundings(git, inputs)
    head = read_head(git)
    tracked = {encode_path(path) for path, _ in entries(git, head.commit)}
    isolated = Isolated(
        folder=choose_place(git, "project-1-test", "batch-1-test"),
        commit=head.commit,
        copies=user_copies(around, tracked, ()),
        inputs=tuple(inputs),
        prefix=encode_path(git.prefix),
    )
    put_apart(git, isolated, raw_bytes(git, head.commit, around, ()), around, store=store, scratch=scratch)
    git.close()
    return isolated


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_repository_is_the_same_apart_and_left_as_it_was(name, tmp_path, monkeypatch):
    case = CASES[name]
    if not available(case.needs):
        pytest.skip(f"this machine cannot make one: it needs {NEEDS[case.needs]}")
    monkeypatch.setenv("HOME", str(tmp_path / "case"))
    root = case.build(str(tmp_path / "case"))
    os.mkdir(os.path.join(root, ".atk"))
    Git(root).run("update-index", "-q", "--refresh", ok=(0, 1))
    surroundings(Git(root))  # stores what exact bytes there are
    before = snapshot(tmp_path / "case")

    isolated = apart(root, str(tmp_path / "scratch"))

    assert project_files(isolated.project) == project_files(root)
    assert snapshot(tmp_path / "case") == before
    assert remove_place(isolated.folder, os.path.join(root, ".atk"))
    assert snapshot(tmp_path / "case") == before


@pytest.fixture
def repo(tmp_path):
    builder = Builder(str(tmp_path / "case"))
    builder.base()
    builder.w(".gitignore", "data/private/\n")
    builder.commit()
    builder.w("data/private/key.txt", "mine\n", 0o600)
    builder.w("loose.txt", "not declared\n")
    builder.w("prompt.md", "being edited\n")
    return builder


def test_declared_files_of_the_users_are_copied_and_others_are_absent(repo, tmp_path):
    isolated = apart(repo.r, str(tmp_path / "scratch"), inputs=("data",))

    assert set(isolated.copies) == {"data/private/key.txt"}
    with open(os.path.join(isolated.project, "data/private/key.txt"), encoding="utf-8") as file:
        assert file.read() == "mine\n"
    with open(os.path.join(isolated.project, "prompt.md"), encoding="utf-8") as file:
        assert file.read() == "You are helpful.\nAnswer briefly.\n"
    assert not os.path.exists(os.path.join(isolated.project, "loose.txt"))
    assert stat.S_IMODE(os.stat(isolated.folder).st_mode) == 0o700


def test_a_declared_file_that_is_being_edited_is_there_as_it_was_frozen(repo, tmp_path):
    isolated = apart(repo.r, str(tmp_path / "scratch"), inputs=("prompt.md",))

    with open(os.path.join(isolated.project, "prompt.md"), encoding="utf-8") as file:
        assert file.read() == "being edited\n"


def test_a_declared_file_that_changed_since_it_was_frozen_is_refused(repo, tmp_path):
    git, scratch = Git(repo.r), str(tmp_path / "scratch")
    os.makedirs(scratch)
    os.mkdir(os.path.join(repo.r, ".atk"))
    around = surroundings(git, ("data",))
    folder = choose_place(git, "project-1-test", "batch-1-test")
    copies = {"data/private/key.txt": around.inputs["data/private/key.txt"]}
    isolated = Isolated(folder=folder, commit=read_head(git).commit, copies=copies, inputs=("data",))
    repo.w("data/private/key.txt", "edited\n")

    with pytest.raises(IsolatedContentDiffers) as refused:
        put_apart(git, isolated, {}, around, store=os.path.join(repo.r, ".atk"), scratch=scratch)

    assert refused.value.paths == ["data/private/key.txt"]


def test_whatever_an_agent_changes_in_the_folder_is_named(repo, tmp_path):
    scratch = str(tmp_path / "scratch")
    isolated = apart(repo.r, scratch, inputs=("data",))
    at = isolated.project
    assert apart_differs(Git(repo.r), isolated, scratch) == []

    os.chmod(os.path.join(at, "run.sh"), 0o644)
    os.unlink(os.path.join(at, "agent.py"))
    for name in ("data/private/key.txt", "data/private/new.txt", "litter.txt"):
        with open(os.path.join(at, name), "w", encoding="utf-8") as file:
            file.write("the agent's\n")

    changed = ["agent.py", "data/private/key.txt", "data/private/new.txt", "litter.txt", "run.sh"]
    assert apart_differs(Git(repo.r), isolated, scratch) == changed


def test_what_an_agent_does_with_git_stays_in_the_folder(repo, tmp_path):
    scratch = str(tmp_path / "scratch")
    isolated = apart(repo.r, scratch)
    before = snapshot(repo.r)

    def git(*arguments):
        done = subprocess.run(
            ["git", *arguments], cwd=isolated.project, env=repo.env(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert git("status", "--porcelain") == ""
    assert git("log", "--format=%s").splitlines() == ["more", "base"]
    assert git("rev-parse", "main") == isolated.commit
    with open(os.path.join(isolated.project, "agent.py"), "a", encoding="utf-8") as file:
        file.write("# changed\n")
    git("stash")
    git("stash", "pop")
    git("commit", "-qam", "the agent's")
    git("tag", "v1")
    git("branch", "-f", "main")
    git("gc", "-q")

    assert snapshot(repo.r) == before
    assert apart_differs(Git(repo.r), isolated, scratch) == ["agent.py"]


def test_a_folder_of_another_store_or_without_a_mark_is_never_removed(repo, tmp_path):
    mine, other = str(tmp_path / "a/.atk"), str(tmp_path / "b/.atk")
    os.makedirs(mine)
    os.makedirs(other)
    git = Git(repo.r)
    folders = [choose_place(git, "project-1-test", f"batch-{n}-test") for n in range(3)]
    make_place(folders[0], mine)
    make_place(folders[1], other)
    make_place(folders[2], mine)
    strange = os.path.join(os.path.dirname(folders[0]), "of-somebody")
    os.mkdir(strange)
    with open(os.path.join(strange, "kept.txt"), "w", encoding="utf-8") as file:
        file.write("kept\n")

    sweep_places(mine, "project-1-test", keep={folders[2]})

    assert [os.path.exists(folder) for folder in (*folders, strange)] == [False, True, True, True]
    assert not remove_place(folders[1], mine)
    assert not remove_place(strange, mine)
    assert os.path.exists(os.path.join(folders[1], MARKER))
    shutil.move(str(tmp_path / "b"), str(tmp_path / "moved"))
    assert remove_place(folders[1], str(tmp_path / "moved/.atk"))


@pytest.mark.parametrize("left", [None, ".atk-run.json.new", "atk-run.json", "worktree"])
def test_what_a_killed_start_left_before_its_mark_was_whole_is_removed(left, repo, tmp_path):
    store = str(tmp_path / "a/.atk")
    os.makedirs(store)
    folder = choose_place(Git(repo.r), "project-1-test", "batch-1-test")
    os.makedirs(folder)
    if left == "worktree":
        os.mkdir(os.path.join(folder, left))
    elif left:
        with open(os.path.join(folder, left), "wb") as file:
            file.write(b"\0\0\0")

    assert remove_place(folder, store)
    assert not os.path.exists(folder)


def test_no_place_is_taken_inside_the_users_worktree_or_where_others_can_read(repo, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", os.path.join(repo.r, "cache"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "open"))
    shared = tmp_path / "open" / f"atk-{os.getuid()}" / "runs"
    shared.mkdir(parents=True)
    shared.chmod(0o755)

    with pytest.raises(NoPlaceOutside) as refused:
        choose_place(Git(repo.r), "project-1-test", "batch-1-test")

    assert refused.value.tried == [os.path.join(repo.r, "cache/atk/runs"), str(shared)]
