"""Hostile cases: tricks with the index, operations under way, and kinds of repositories."""

from __future__ import annotations

import os

from tests.support.gitcases.builder import Builder, Meanwhile, case


@case(
    freeze="hidden_change",
    why="assume-unchanged hides a real edit from status",
)
def assume_unchanged(b: Builder) -> None:
    b.base()
    b.g("update-index", "--assume-unchanged", "prompt.md")
    b.w("prompt.md", "hidden edit\n")


@case(freeze="hidden_change", why="skip-worktree hides a local edit (a common trick for local config)")
def skip_worktree(b: Builder) -> None:
    b.base()
    b.g("update-index", "--skip-worktree", "data/cfg.json")
    b.w("data/cfg.json", '{"k": "local"}\n')


@case(
    why="racy entry: same size, same mtime, other bytes",
    freeze="dirty",
)
def racy_entry(b: Builder) -> None:
    b.base()
    p = os.path.join(b.r, "prompt.md")
    ix = os.path.join(b.r, ".git/index")
    st = os.stat(ix)
    os.utime(p, ns=(st.st_mtime_ns, st.st_mtime_ns))
    b.g("update-index", "--refresh")
    b.g("update-index", "--force-write-index", ok=False)
    with open(p, "r+b") as file:
        old = file.read()
        file.seek(0)
        file.write(old.upper())
    os.utime(p, ns=(st.st_mtime_ns, st.st_mtime_ns))
    os.utime(ix, ns=(st.st_mtime_ns, st.st_mtime_ns))


@case(why="split index: a copy must still find sharedindex.*")
def split_index(b: Builder) -> None:
    b.base()
    b.g("update-index", "--split-index")
    b.w("z.txt")
    b.commit()


@case(why="index version 4 with untracked cache")
def index_v4(b: Builder) -> None:
    b.base()
    b.g("update-index", "--index-version", "4")
    b.g("update-index", "--untracked-cache", ok=False)


@case(
    why="sparse checkout (cone): absent files are not deletions",
)
def sparse_checkout(b: Builder) -> None:
    b.base()
    b.w("big/one.txt")
    b.w("big/two/three.txt")
    b.commit()
    b.g("sparse-checkout", "set", "--cone", "data")


@case(keep="git_locked", why="refs/heads/main.lock left by a crash")
def ref_lock_left(b: Builder) -> None:
    b.base()
    b.w(".git/refs/heads/main.lock", b"")


@case(keep="git_locked", why="HEAD.lock left by a crash")
def head_lock_left(b: Builder) -> None:
    b.base()
    b.w(".git/HEAD.lock", b"")


def two(b: Builder) -> None:
    b.base()
    b.g("checkout", "-qb", "side")
    b.w("prompt.md", "side\n")
    b.commit("side")
    b.g("checkout", "-q", "main")
    b.w("prompt.md", "main\n")
    b.commit("main")


@case(
    freeze="operation_in_progress",
    why="merge with conflicts (unmerged entries)",
)
def merge_conflict(b: Builder) -> None:
    two(b)
    b.g("merge", "side", ok=False)


@case(
    freeze="operation_in_progress",
    why="merge resolved but not committed: status looks nearly clean",
)
def merge_uncommitted(b: Builder) -> None:
    two(b)
    b.g("merge", "-s", "ours", "--no-commit", "side", ok=False)


@case(freeze="operation_in_progress", why="rebase stopped")
def rebase_stopped(b: Builder) -> None:
    two(b)
    b.g("rebase", "side", ok=False)


@case(freeze="operation_in_progress", why="cherry-pick stopped")
def cherry_pick_stopped(b: Builder) -> None:
    two(b)
    b.g("cherry-pick", "side", ok=False)


@case(freeze="operation_in_progress", why="bisect running (HEAD will move under us)")
def bisect_running(b: Builder) -> None:
    two(b)
    b.g("bisect", "start")
    b.g("bisect", "bad", "HEAD")
    b.g("bisect", "good", "HEAD~1", ok=False)


@case(
    freeze="no_commit_yet",
    why="unborn branch: there is no parent to restore",
)
def unborn(b: Builder) -> None:
    b.base(commit=False)


@case(freeze="bare_repository", why="bare repository has no worktree")
def bare(b: Builder) -> None:
    os.makedirs(b.r)
    b.g("init", "-q", "--bare", "-b", "main")


@case(freeze="not_a_repository", why="no repository; must not climb to a parent's")
def not_a_repo(b: Builder) -> None:
    os.makedirs(b.r)
    b.files()


@case(freeze="not_a_repository", why=".git file points to nothing")
def broken_gitfile(b: Builder) -> None:
    os.makedirs(b.r)
    b.files()
    b.w(".git", "gitdir: ../gone/.git\n")


@case(
    why="detached HEAD: allowed; the candidate is held by refs/atk so nothing becomes unreachable",
)
def detached(b: Builder) -> None:
    b.base()
    b.w("more.txt")
    b.commit()
    b.g("checkout", "-q", "--detach", "HEAD")


@case(
    why="linked worktree: .git is a file, index and HEAD are per worktree, refs shared",
    sub="wt",
)
def linked_worktree(b: Builder) -> None:
    b.base()
    b.g("worktree", "add", "-q", "-b", "wt", os.path.join(b.d, "wt"))


@case(why="shallow clone", sub="shallow")
def shallow(b: Builder) -> None:
    b.base()
    b.w("m.txt")
    b.commit()
    b.g("clone", "-q", "--depth", "1", "file://" + b.r, os.path.join(b.d, "shallow"), cwd=b.d)


@case(
    why="partial clone whose remote is gone: needs no missing object to seal; must never go to the network",
    sub="partial",
)
def partial_clone(b: Builder) -> None:
    b.base()
    b.g("config", "uploadpack.allowFilter", "true")
    b.w("big.txt", "v1\n" * 50)
    b.commit()
    b.w("big.txt", "v2\n" * 50)
    b.commit()
    b.g("clone", "-q", "--filter=blob:none", "file://" + b.r, os.path.join(b.d, "partial"), cwd=b.d)
    os.rename(b.r, b.r + "-gone")


@case(why="SHA-256 repository: ids have 64 digits")
def sha256_repo(b: Builder) -> None:
    b.base("--object-format=sha256")


@case(
    why="reftable: no files under refs/",
    needs="reftable",
)
def reftable_repo(b: Builder) -> None:
    b.base("--ref-format=reftable")


@case(
    why="project is a sub-folder of a monorepo; siblings are out of scope",
    sub="repo/pkg",
)
def monorepo_subdir(b: Builder) -> None:
    b.base()
    b.files(os.path.join(b.r, "pkg"))
    b.w("other/theirs.txt")
    b.commit()


@case(
    freeze="ok",
    why="sibling outside the project folder is dirty: not ours, but it is reported",
    sub="repo/pkg",
)
def monorepo_dirty_sibling(b: Builder) -> None:
    b.base()
    b.files(os.path.join(b.r, "pkg"))
    b.w("other/theirs.txt")
    b.commit()
    b.w("other/theirs.txt", "user edit\n")


@case(why="clean submodule: gitlink unchanged, nothing inside is touched")
def submodule_clean(b: Builder) -> None:
    sub(b)


def sub(b: Builder) -> None:
    library = os.path.join(b.d, "lib")
    os.makedirs(library)
    b.g("init", "-q", "-b", "main", cwd=library)
    b.w("lib.py", root=library)
    b.g("add", "-A", cwd=library)
    b.g("commit", "-qm", "lib", cwd=library)
    b.base()
    b.g("-c", "protocol.file.allow=always", "submodule", "add", "-q", library, "lib")
    b.commit("sub")


@case(
    seal="other_repository",
    why="candidate edits a file inside a submodule: that is another repository",
    mid=Meanwhile(after="freeze", shell="printf 'z\\n' >> lib/lib.py"),
)
def submodule_edit_in_candidate(b: Builder) -> None:
    sub(b)


@case(
    why="core.worktree points elsewhere than the folder",
    freeze="worktree_elsewhere",
)
def core_worktree_elsewhere(b: Builder) -> None:
    b.base()
    os.makedirs(os.path.join(b.d, "else"))
    b.g("config", "core.worktree", os.path.join(b.d, "else"))


@case(freeze="corrupt_repository", why="HEAD's tree object is an empty file (power cut without loose-object fsync)")
def zero_length_object(b: Builder) -> None:
    b.base()
    t = b.g("rev-parse", "HEAD^{tree}")
    p = os.path.join(b.r, ".git/objects", t[:2], t[2:])
    os.chmod(p, 0o644)
    open(p, "wb").close()


@case(why="refs only in packed-refs, objects only in a pack with alternates", sub="alt")
def packed_alternates(b: Builder) -> None:
    b.base()
    b.g("gc", "-q")
    b.g("clone", "-q", "-s", b.r, os.path.join(b.d, "alt"), cwd=b.d)
    b.g("pack-refs", "--all", cwd=os.path.join(b.d, "alt"))


@case(
    why="environment polluted: GIT_DIR, GIT_INDEX_FILE, GIT_WORK_TREE set by a calling hook",
    mid=Meanwhile(after="env", shell="GIT_DIR=/nonexistent GIT_INDEX_FILE=/nonexistent/i GIT_WORK_TREE=/"),
)
def env_pollution(b: Builder) -> None:
    b.base()


@case(
    why="20 MB binary changes: must stream, not read into memory",
    mid=Meanwhile(after="freeze", shell="head -c 20000000 /dev/zero > big.bin"),
)
def big_file(b: Builder) -> None:
    b.base()
    b.w("big.bin", b"\1" * 1000000)
    b.commit()


@case(why="candidate changes nothing", seal="empty", mid=Meanwhile(after="freeze", shell="NOEDIT"))
def empty_candidate(b: Builder) -> None:
    b.base()
