"""Asks git what the worktree holds, always through a private index, so that the user's own is only read."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import ClassVar

from storage.errors import AtkError, NextCall
from storage.git import CorruptRepository, Git, HeadMoved
from storage.schema.base import Commit, Value
from storage.worktree.disk import folders_below, look
from storage.worktree.paths import STORE, decode_path, encode_path, is_store

PRIVATE = {"core.splitIndex": "false", "core.untrackedCache": "false"}
"""Settings for private indexes: a split index would put a file into the user's Git folder."""

UNDER_WAY = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "BISECT_LOG": "bisect",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase or am",
    "sequencer": "cherry-pick or revert of several commits",
}
"""What lies in a worktree's Git folder while an operation of the user's waits to be finished."""


@dataclass(kw_only=True, eq=False)
class NoCommitYet(AtkError):
    """The branch is unborn, so there is nothing to go back to."""

    message: ClassVar[str] = (
        "{branch} has no commit yet, so there is no state to return to. Commit the project's files."
    )

    branch: str


@dataclass(kw_only=True, eq=False)
class OperationInProgress(AtkError):
    """The user is in the middle of a Git operation."""

    message: ClassVar[str] = (
        "A {operation} is under way in this repository. Finish or abort it with Git (`git status` tells how), then "
        "call again; ATK touches nothing meanwhile."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (NextCall("get_status"),)

    operation: str


class Head(Value):
    """Where HEAD stands: a branch's full ref (None when detached), its commit and that commit's tree.

    A branch whose name is not UTF-8 is written down as `encode_path` writes paths; no ref has a backslash of its own.
    """

    branch: str | None
    commit: Commit
    tree: Commit

    @property
    def ref(self) -> bytes | None:
        """The branch's full ref as Git has it."""
        return decode_path(self.branch) if self.branch else None


def read_head(git: Git) -> Head:
    """Returns where HEAD stands now.

    Raises:
        NoCommitYet: The branch is unborn.
        CorruptRepository: HEAD does not name a readable commit.
    """
    name = git.line("symbolic-ref", "-q", "HEAD", ok=(0, 1))
    branch = encode_path(os.fsencode(name)) or None
    commit = git.ref("HEAD^{commit}")
    if commit is None:
        if branch is None or git.ref(name) or os.path.exists(os.path.join(git.refs.shared, name)):
            raise CorruptRepository(reason=f"{branch or 'HEAD'} does not name a readable commit")
        raise NoCommitYet(branch=branch)
    tree = git.ref(commit + "^{tree}")
    if tree is None:
        raise CorruptRepository(reason=f"the tree of commit {commit} cannot be read")
    return Head(branch=branch, commit=commit, tree=tree)


def same_head(git: Git, head: Head) -> None:
    """Checks that HEAD still is on the same branch at the same commit.

    Raises:
        HeadMoved: It is not.
    """
    now = read_head(git)
    if (now.branch, now.commit) != (head.branch, head.commit):
        raise HeadMoved(expected=_named(head), found=_named(now))


def _named(head: Head) -> str:
    return f"{head.branch or 'detached'} at {head.commit[:12]}"


def check_idle(git: Git) -> None:
    """Checks that no merge, rebase, pick or bisect of the user's is under way.

    Raises:
        OperationInProgress: One is.
    """
    for name, operation in UNDER_WAY.items():
        if os.path.lexists(os.path.join(git.git_dir, name)):
            raise OperationInProgress(operation=operation)
    if git.refs != (False, git.common_dir, git.git_dir):
        # Only there are these two kept among the refs and not as files of the Git folder.
        for name in ("CHERRY_PICK_HEAD", "REVERT_HEAD"):
            if git.ref(name):
                raise OperationInProgress(operation=UNDER_WAY[name])
    if git.records("ls-files", "-u", "-z", cwd=git.top):
        raise OperationInProgress(operation="merge with unresolved files")


def joined(paths: Iterable[bytes]) -> bytes:
    """Returns paths as git reads them from standard input."""
    return b"".join(x + b"\0" for x in paths)


def fresh_index(git: Git, commit: str, folder: str) -> str:
    """Returns a new private index of `commit` in `folder`, refreshed from the disk.

    It begins without stat data, so every file was compared by content: racy entries and hidden bits cannot lie.
    """
    index = os.path.join(folder, "fresh-index")
    if os.path.exists(index):
        os.unlink(index)
    git.run("read-tree", commit, index=index, settings=PRIVATE)
    git.run("update-index", "-q", "--really-refresh", index=index, ok=(0, 1), cwd=git.top, settings=PRIVATE)
    return index


def changed(git: Git, index: str) -> set[bytes]:
    """Returns the repository paths under the project whose content on disk is not what the private index says."""
    options = ("-z", "--name-only", "--ignore-submodules=none", "--no-ext-diff")
    return set(git.records("diff-files", *options, "--", ".", index=index)) - absent_by_choice(git)


def absent_by_choice(git: Git) -> set[bytes]:
    """Returns the paths that a sparse checkout leaves out, and that are absent indeed."""
    return {p for tag, p in tags(git) if tag in {b"S", b"s"} and look(git.top, p).kind == "absent"}


def tags(git: Git) -> list[tuple[bytes, bytes]]:
    """Returns the tag and repository path of each entry under the project in the user's index."""
    return [(x[:1], x[2:]) for x in git.records("ls-files", "-v", "-z", "--full-name")]


def untracked(git: Git, index: str) -> set[bytes]:
    """Returns the repository paths under the project that are neither in the index nor ignored.

    A nested repository stands as its folder, ending in a slash.
    """
    found = git.records("ls-files", "-o", "-z", "--full-name", "--exclude-standard", index=index)
    return {x for x in found if not is_store(x, git.prefix)}


def own_folders(git: Git, index: str) -> set[bytes]:
    """Returns the folders under the project with nothing tracked below them, empty ones too, but not the ignored."""
    found = git.records("ls-files", "-o", "-z", "--full-name", "--directory", "--exclude-standard", index=index)
    tops = [x.rstrip(b"/") for x in found if x.endswith(b"/") and not is_store(x, git.prefix)]
    return {folder for x in tops for folder in folders_below(git.top, x)}


def staged(git: Git, commit: str, *, everywhere: bool = False) -> set[bytes]:
    """Returns the repository paths whose index entry differs from `commit`, intent-to-add ones among them."""
    where, cwd = ((), git.top) if everywhere else (("--", "."), git.root)
    options = ("-z", "--name-only", "--no-renames", "--no-ext-diff")
    cached = git.records("diff-index", "--cached", *options, commit, *where, cwd=cwd)
    intended = git.records("diff-files", *options, "--diff-filter=A", *where, cwd=cwd)
    return {*cached, *intended}


def attributed(git: Git, paths: Collection[bytes], index: str | None = None) -> dict[bytes, str]:
    """Returns the filter driver of each path that has one, by the attributes on disk or by those in a private index."""
    if not paths:
        return {}
    cached = ("--cached",) if index else ()
    said = git.run("check-attr", "-z", *cached, "--stdin", "filter", stdin=joined(paths), cwd=git.top, index=index).out
    fields = said.split(b"\0")
    triples = zip(fields[0::3], fields[1::3], fields[2::3], strict=False)
    return {path: os.fsdecode(value) for path, _, value in triples if value not in {b"unspecified", b"unset"}}


def submodules(git: Git, index: str) -> set[bytes]:
    """Returns the repository paths of the submodules in an index."""
    found = git.records("ls-files", "-s", "-z", "--full-name", index=index)
    return {x.split(b"\t", 1)[1] for x in found if x.startswith(b"160000")}


def store_raw(git: Git, paths: Collection[bytes]) -> dict[bytes, str]:
    """Stores the exact bytes of files of the worktree as blobs, past all filters, and returns their ids."""
    # hash-object reads paths by line, of either kind of line end, and unquotes those that begin with a quote; these few
    # go one by one.
    plain = sorted(x for x in paths if b"\n" not in x and not x.endswith(b"\r") and not x.startswith(b'"'))
    stored: dict[bytes, str] = {}
    if plain:
        said = git.run(
            "hash-object", "-w", "--no-filters", "--stdin-paths", stdin=b"".join(x + b"\n" for x in plain), cwd=git.top
        )
        stored = dict(zip(plain, said.out.decode().split(), strict=True))
    for path in sorted(set(paths) - set(plain)):
        with open(os.path.join(os.fsencode(git.top), path), "rb") as file:
            stored[path] = git.write(file)
    return stored


def is_linked_store(git: Git) -> bool:
    """Whether the project's store is a link, which nothing may be written through."""
    return os.path.islink(os.path.join(git.root, os.fsdecode(STORE)))
