"""Makes trees and commits without index, hook or signature, and holds them by refs of ATK's own."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from storage.checkpoints.changes import Change
from storage.checkpoints.locks import additions, remove_own_locks, stack_lock
from storage.errors import AtkError, NextCall
from storage.git import CorruptRepository, Git, locked
from storage.worktree.disk import new_folder
from storage.worktree.facts import PRIVATE
from storage.worktree.paths import decode_path

REF = re.compile(r"refs/atk/[A-Za-z0-9][A-Za-z0-9_-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*[A-Za-z0-9_-]|/[A-Za-z0-9])+")
"""The refs that ATK makes: below refs/atk/, of plain words."""


@dataclass(kw_only=True, eq=False)
class RefTaken(AtkError):
    """A ref of ATK's already holds another commit."""

    message: ClassVar[str] = (
        "{ref} holds {found} and not {expected}. ATK's refs are its own: nothing was changed. Read the operation that "
        "made it, and delete the ref with `git update-ref -d` only when that candidate is no longer wanted."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (NextCall("inspect_or_recover_operation"), NextCall("get_status"))

    ref: str
    found: str
    expected: str


def index_lines(changes: Sequence[Change]) -> bytes:
    """Returns the changes for `update-index --index-info`, deletions first, so that a file can become a folder."""
    ordered = sorted(changes, key=lambda x: (x.after is not None, x.path))
    lines = []
    for change in ordered:
        entry = change.after
        old = change.before
        empty = "0" * len(entry.oid if entry else old.oid if old else "")
        mode, oid = (entry.mode, entry.oid) if entry else ("0", empty)
        if entry or old:
            lines.append(f"{mode} {oid}\t".encode() + decode_path(change.path) + b"\0")
    return b"".join(lines)


def build_tree(git: Git, parent: str, changes: Sequence[Change], scratch: str) -> str:
    """Returns the tree of `parent` with the changes' `after` put in. Only objects are written."""
    index = os.path.join(new_folder(scratch, "tree"), "index")
    git.run("read-tree", parent, index=index, settings=PRIVATE)
    if lines := index_lines(changes):
        git.run("update-index", "-z", "--index-info", stdin=lines, index=index, cwd=git.top, settings=PRIVATE)
    return git.line("write-tree", index=index, settings=PRIVATE)


def commit_tree(git: Git, tree: str, parents: Sequence[str], message: str, when: int) -> str:
    """Returns a commit of `tree`, the same for the same arguments; no ref names it yet.

    `when` is in seconds since 1970, written as UTC. Author and committer are the user's, or `ATK <atk@localhost>` where
    Git knows none. No hook runs and nothing is signed.
    """
    env = {"GIT_AUTHOR_DATE": f"@{when} +0000", "GIT_COMMITTER_DATE": f"@{when} +0000"}
    for role in ("AUTHOR", "COMMITTER"):
        if git.run("var", f"GIT_{role}_IDENT", ok=(0, 128)).status:
            env |= {f"GIT_{role}_NAME": "ATK", f"GIT_{role}_EMAIL": "atk@localhost"}
    names = [y for x in parents for y in ("-p", x)]
    settings = {"commit.gpgSign": "false"}
    return git.line("commit-tree", *names, "-F", "-", tree, stdin=message.encode(), env=env, settings=settings)


def require_refs_unlocked(git: Git) -> None:
    """Refuses when a lock stands on all refs at once, as reftables have it: any ref then waits for its owner.

    Raises:
        GitLocked: It names the lock.
    """
    if os.path.lexists(lock := stack_lock(git.refs.shared)):
        raise locked(lock, "older than this operation")


def hold(git: Git, ref: str, commit: str, *, intent_time_ns: int | None = None) -> None:
    """Makes the ref of ATK's own hold a commit, with a reflog; it is well when it does already.

    With `intent_time_ns` a lock on all refs that is younger, as a killed attempt leaves it, is removed.

    Raises:
        RefTaken: The ref holds another commit.
        GitLocked: Another process has the ref locked.
    """
    _check_ref(ref)
    found = git.ref(ref)
    if found == commit:
        git.sync()
        return
    if found is not None:
        raise RefTaken(ref=ref, found=found, expected=commit)
    if git.missing([commit]):
        raise CorruptRepository(reason=f"commit {commit} does not exist")
    _unlock(git, ref, commit, intent_time_ns)
    git.sync()
    git.run("update-ref", "--create-reflog", "-m", "atk hold", ref, commit, "0" * len(commit))
    git.sync()


def release(git: Git, ref: str, commit: str, *, intent_time_ns: int | None = None) -> None:
    """Makes the ref of ATK's own, which holds `commit`, exist no more; it is well when it does not.

    With `intent_time_ns` a lock on all refs that is younger, as a killed attempt leaves it, is removed: an empty one on
    the packed refs, or one that is to take this ref away.

    Raises:
        RefTaken: The ref holds another commit.
        GitLocked: Another process has the ref or the packed refs locked.
    """
    _check_ref(ref)
    found = git.ref(ref)
    if found is not None and found != commit:
        raise RefTaken(ref=ref, found=found, expected=commit)
    _unlock(git, ref, commit, intent_time_ns)
    if found is not None:
        if intent_time_ns is not None:
            remove_own_locks([os.path.join(git.refs.shared, "packed-refs.lock")], [b""], since_ns=intent_time_ns)
        git.run("update-ref", "-d", ref, commit)
    git.sync()


def _check_ref(ref: str) -> None:
    if not REF.fullmatch(ref) or ".." in ref or ref.endswith(".lock"):
        raise ValueError(f"{ref!r} is not a ref of ATK's")


def _unlock(git: Git, ref: str, commit: str, intent_time_ns: int | None) -> None:
    """Removes what a killed update of this ref left: nobody but ATK locks the refs below refs/atk/ one by one."""
    remove_own_locks([os.path.join(git.refs.shared, ref + ".lock")], [commit.encode() + b"\n"], since_ns=0)
    if intent_time_ns is not None:
        lock = stack_lock(git.refs.shared)
        remove_own_locks([lock], additions(lock, bytes.fromhex(commit), ref.encode()), since_ns=intent_time_ns)
