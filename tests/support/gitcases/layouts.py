"""Hostile cases: where a repository keeps its refs, its Git folder and its worktrees, and what only some Gits know."""

from __future__ import annotations

import os

from tests.support.gitcases.builder import ELSEWHERE, Builder, Meanwhile, case
from tests.support.gitcases.repositories import sub, two


@case(why="reftable, in a linked worktree: its HEAD has a stack of tables of its own", needs="reftable", sub="wt")
def reftable_linked_worktree(b: Builder) -> None:
    b.base("--ref-format=reftable")
    b.g("worktree", "add", "-q", "-b", "wt", os.path.join(b.d, "wt"))


@case(
    seal="git_locked",
    why="reftable: the lock on all refs at once, left by a crash of somebody's git",
    needs="reftable",
)
def reftable_lock_left(b: Builder) -> None:
    b.base("--ref-format=reftable")
    b.w(".git/reftable/tables.list.lock", b"")


@case(
    freeze="operation_in_progress",
    why="reftable: cherry-pick stopped and resolved, of which only a ref tells",
    needs="reftable",
)
def reftable_pick_stopped(b: Builder) -> None:
    b.base("--ref-format=reftable")
    b.g("checkout", "-qb", "side")
    b.w("prompt.md", "side\n")
    b.commit("side")
    b.g("checkout", "-q", "main")
    b.w("prompt.md", "main\n")
    b.commit("main")
    b.g("cherry-pick", "side", ok=False)
    b.w("prompt.md", "main\n")
    b.g("add", "prompt.md")


def _with_refs_elsewhere(b: Builder, kind: str) -> None:
    os.makedirs(os.path.join(b.r, ".git", ELSEWHERE))
    b.g("init", "-q", "-b", "main", env={"GIT_REFERENCE_BACKEND": f"{kind}://{ELSEWHERE}"})
    b.files()
    b.commit()


@case(why="extensions.refStorage: the refs are files of another folder, HEAD too", needs="refs_elsewhere")
def refs_elsewhere(b: Builder) -> None:
    _with_refs_elsewhere(b, "files")


@case(
    why="extensions.refStorage: the refs are reftables of another folder, of a linked worktree",
    needs="refs_elsewhere",
    sub="wt",
)
def reftable_elsewhere(b: Builder) -> None:
    _with_refs_elsewhere(b, "reftable")
    b.g("worktree", "add", "-q", "-b", "wt", os.path.join(b.d, "wt"))


@case(why="hooks that are settings (Git 2.54), which core.hooksPath does not name: none runs")
def hooks_in_settings(b: Builder) -> None:
    b.base()
    for event in ("reference-transaction", "post-index-change", "pre-commit", "post-commit", "post-checkout"):
        name = f"hook.a=b {event}"
        b.g("config", f"{name}.event", event)
        b.g("config", f"{name}.command", f"touch '{b.d}/HOOK-{event}'; exit 1")


@case(freeze="repository_too_new", why="an extension that this Git does not know: it reads nothing there")
def unknown_extension(b: Builder) -> None:
    b.base()
    b.g("config", "core.repositoryFormatVersion", "1")
    b.g("config", "extensions.somethingNew", "true")


@case(why="a branch whose name is not UTF-8")
def odd_branch(b: Builder) -> None:
    b.base()
    b.g("checkout", "-q", "-b", os.fsdecode(b"caf\xe9'$(id)"))


@case(why="the branch is a symbolic ref to another")
def symbolic_branch(b: Builder) -> None:
    b.base()
    b.g("branch", "-m", "main", "trunk")
    b.g("symbolic-ref", "refs/heads/main", "refs/heads/trunk")
    b.g("symbolic-ref", "HEAD", "refs/heads/main")


@case(why="sparse index: folders stand for all that is in them")
def sparse_index(b: Builder) -> None:
    b.base()
    b.w("big/one.txt")
    b.w("big/two/three.txt")
    b.commit()
    b.g("sparse-checkout", "set", "--cone", "--sparse-index", "data")


@case(why="feature.manyFiles and index.skipHash: an index without its checksum")
def many_files(b: Builder) -> None:
    b.base()
    b.g("config", "feature.manyFiles", "true")
    b.g("config", "index.skipHash", "true")
    b.w("z.txt")
    b.commit()


@case(why="core.fsmonitor=true: the daemon that git would start is not started")
def fsmonitor_daemon(b: Builder) -> None:
    b.base()
    b.g("config", "core.fsmonitor", "true")


@case(why="a linked worktree of a bare repository", sub="wt")
def worktree_of_bare(b: Builder) -> None:
    b.base()
    bare = os.path.join(b.d, "bare.git")
    b.g("clone", "-q", "--bare", b.r, bare, cwd=b.d)
    b.g("worktree", "add", "-q", "-b", "wt", os.path.join(b.d, "wt"), cwd=bare)


@case(why="a linked worktree inside the project: another branch's files, which stay as they are")
def worktree_inside(b: Builder) -> None:
    b.base()
    b.g("worktree", "add", "-q", "-b", "wt", os.path.join(b.r, ".worktrees", "wt"))


@case(why="the Git folder lies elsewhere (--separate-git-dir)")
def separate_git_dir(b: Builder) -> None:
    os.makedirs(b.r)
    b.g("init", "-q", "-b", "main", "--separate-git-dir", os.path.join(b.d, "folder.git"))
    b.files()
    b.commit()


@case(why="the Git folder is a link")
def git_dir_link(b: Builder) -> None:
    b.base()
    os.rename(os.path.join(b.r, ".git"), os.path.join(b.d, "real.git"))
    os.symlink("../real.git", os.path.join(b.r, ".git"))


@case(why="the project is a submodule, whose Git folder the outer repository absorbed", sub="outer/lib")
def project_is_submodule(b: Builder) -> None:
    inner, outer = os.path.join(b.d, "inner"), os.path.join(b.d, "outer")
    for folder in (inner, outer):
        os.makedirs(folder)
        b.g("init", "-q", "-b", "main", cwd=folder)
    b.files(inner)
    b.g("add", "-A", cwd=inner)
    b.g("commit", "-qm", "inner", cwd=inner)
    b.g("-c", "protocol.file.allow=always", "submodule", "add", "-q", inner, "lib", cwd=outer)
    b.g("commit", "-qm", "outer", cwd=outer)


@case(
    freeze="dirty", why="a submodule with edits and new files of the user's: they stay, and are no part of a candidate"
)
def submodule_dirty(b: Builder) -> None:
    sub(b)
    b.w("lib/lib.py", "edited\n")
    b.w("lib/new.py")


@case(freeze="corrupt_repository", why="alternates whose objects are gone", sub="alt")
def alternates_gone(b: Builder) -> None:
    b.base()
    b.g("clone", "-q", "-s", b.r, os.path.join(b.d, "alt"), cwd=b.d)
    os.rename(b.r, b.r + "-gone")


@case(seal="corrupt_repository", why="the object of a tracked file is lost: no tree with it can be made")
def lost_object(b: Builder) -> None:
    b.base()
    lost = b.g("rev-parse", "HEAD:run.sh")
    os.unlink(os.path.join(b.r, ".git", "objects", lost[:2], lost[2:]))


@case(why="grafts: what a commit's parents really are counts")
def grafts(b: Builder) -> None:
    b.base()
    b.w("a.txt")
    b.commit()
    b.w(".git/info/grafts", b.g("rev-parse", "HEAD") + "\n")


@case(why="includeIf on the branch: its filter holds")
def include_if(b: Builder) -> None:
    b.base()
    b.w("../included", '[filter "up"]\n\tclean = tr A-Z a-z\n\tsmudge = tr a-z A-Z\n\trequired = true\n')
    b.g("config", "includeIf.onbranch:main.path", os.path.join(b.d, "included"))
    b.w(".gitattributes", "*.up filter=up\n")
    b.w("data/t.up", "HELLO\n")
    b.commit()


@case(
    freeze="filter_missing",
    why="a filter that fails and is not required: git would take the unfiltered bytes for the content",
)
def filter_fails(b: Builder) -> None:
    b.base()
    b.w(".gitattributes", "*.t filter=t\n")
    b.w("a.t", "x\n")
    b.commit()
    b.g("config", "filter.t.clean", "false")


@case(freeze="operation_in_progress", why="am stopped")
def am_stopped(b: Builder) -> None:
    two(b)
    b.w("../one.patch", b.g("format-patch", "-1", "--stdout", "side") + "\n")
    b.g("am", "-q", os.path.join(b.d, "one.patch"), ok=False)


@case(
    seal="special_file",
    why="the candidate put a pipe where a file was",
    mid=Meanwhile(after="freeze", shell="rm data/cfg.json && mkfifo data/cfg.json"),
)
def candidate_is_pipe(b: Builder) -> None:
    b.base()


@case(
    seal="leaves_worktree",
    why="the candidate adds a link that leads out of the worktree",
    mid=Meanwhile(after="freeze", shell="ln -s /etc/hostname data/out"),
)
def candidate_links_out(b: Builder) -> None:
    b.base()


@case(why="core.symlinks=false: tracked links lie as files with the target's name in them")
def symlinks_as_files(b: Builder) -> None:
    b.base()
    os.symlink("prompt.md", os.path.join(b.r, "link"))
    b.commit()
    b.g("config", "core.symlinks", "false")
    os.unlink(os.path.join(b.r, "link"))
    b.g("checkout", "--", "link")


@case(why="settings that change what Git prints and hides: none changes what is seen")
def settings_that_hide(b: Builder) -> None:
    b.base()
    settings = {
        "status.showUntrackedFiles": "no",
        "diff.ignoreSubmodules": "all",
        "diff.renames": "copies",
        "diff.relative": "true",
        "diff.noprefix": "true",
        "diff.orderFile": os.devnull,
        "color.ui": "always",
        "column.ui": "always",
        "core.abbrev": "4",
        "core.quotePath": "false",
        "core.checkStat": "minimal",
        "core.trustctime": "false",
        "core.preferSymlinkRefs": "true",
        "core.logAllRefUpdates": "false",
        "core.sharedRepository": "group",
        "core.bigFileThreshold": "1k",
        "i18n.commitEncoding": "ISO-8859-1",
        "init.defaultRefFormat": "reftable",
        "log.showSignature": "true",
        "user.useConfigOnly": "true",
    }
    for name, value in settings.items():
        b.g("config", name, value)
