"""Names what went wrong in git, each fact as its own error with what to do about it."""

from __future__ import annotations

import errno
import os
import re
import signal
import time
from dataclasses import dataclass
from typing import ClassVar

from storage.errors import AtkError, NextCall
from storage.refusing import full


@dataclass(kw_only=True, eq=False)
class NotARepository(AtkError):
    """Git finds no usable repository at the project."""

    message: ClassVar[str] = (
        "{path} is not inside a usable Git worktree ({reason}). Candidates need one: run `git init`, commit "
        "the files, or name another folder."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (NextCall("initialize_project"), NextCall("get_status"))

    path: str
    reason: str


@dataclass(kw_only=True, eq=False)
class GitMissing(AtkError):
    """There is no git program."""

    message: ClassVar[str] = "The program {program} cannot be started. Install Git 2.36 or newer and put it on PATH."
    program: str


@dataclass(kw_only=True, eq=False)
class UnsafeOwner(AtkError):
    """Git refuses a repository that belongs to another user."""

    message: ClassVar[str] = (
        "Git refuses {path} because another user owns it. If you trust it, run `git config --global --add "
        "safe.directory {path}` yourself; ATK never does."
    )

    path: str


@dataclass(kw_only=True, eq=False)
class RepositoryTooNew(AtkError):
    """The repository uses what this Git does not know."""

    message: ClassVar[str] = (
        "This Git cannot read the repository at {path}: {reason}. It was made for a newer Git. Put that one first on "
        "the server's PATH (`atk doctor` says which is found now) and start the server again."
    )

    path: str
    reason: str


@dataclass(kw_only=True, eq=False)
class CorruptRepository(AtkError):
    """An object or ref that Git needs cannot be read."""

    message: ClassVar[str] = (
        "Git cannot read the repository: {reason}. Nothing was changed. Run `git fsck`, repair or fetch the "
        "object, then try again."
    )

    reason: str


@dataclass(kw_only=True, eq=False)
class GitLocked(AtkError):
    """A lock file of Git's is in the way and cannot be shown to be ours."""

    message: ClassVar[str] = (
        "{path} exists ({size} bytes, {age_seconds} s old, {holder}). Wait for the other Git command; remove "
        "the file only when none is running."
    )

    path: str
    size: int
    age_seconds: int
    holder: str


@dataclass(kw_only=True, eq=False)
class HeadMoved(AtkError):
    """HEAD or its branch is not where it was when the work began."""

    message: ClassVar[str] = (
        "HEAD was {expected} and is now {found}. Nothing was changed. Go back to that branch and commit, or "
        "cancel the candidate and begin a new Round."
    )

    expected: str
    found: str


@dataclass(kw_only=True, eq=False)
class FilterMissing(AtkError):
    """A filter driver cannot run, so Git cannot tell what a file holds."""

    message: ClassVar[str] = (
        "A Git filter cannot run: {reason}. Install its program (for Git LFS: `git lfs install`) or remove "
        "the filter attribute, then try again."
    )

    reason: str


@dataclass(kw_only=True, eq=False)
class GitTimedOut(AtkError):
    """A git command took longer than its limit and was ended."""

    message: ClassVar[str] = (
        "`git {command}` took longer than {seconds} s and was ended. Look for a hanging filter program or a "
        "stalled disk, then try again."
    )

    command: str
    seconds: int


@dataclass(kw_only=True, eq=False)
class GitSyncFailed(AtkError):
    """The disk did not confirm what was written."""

    message: ClassVar[str] = (
        "The disk under {path} did not confirm a flush ({reason}). What was written may be lost in a power "
        "cut; check the disk before going on."
    )

    path: str
    reason: str


@dataclass(kw_only=True, eq=False)
class GitFailed(AtkError):
    """A git command failed for a reason that ATK does not know."""

    message: ClassVar[str] = (
        "`git {command}` failed with status {status}: {reason}. Nothing further was changed; the sentence is Git's own."
    )

    command: str
    status: int
    reason: str


def locked(path: str, holder: str = "its owner is not known") -> GitLocked:
    """Returns the refusal for the lock file at `path`, as it is now."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return GitLocked(path=path, size=0, age_seconds=0, holder="it has gone meanwhile: try again")
    return GitLocked(
        path=path, size=found.st_size, age_seconds=max(0, int(time.time() - found.st_mtime)), holder=holder
    )


SIGNS: tuple[tuple[str, type[AtkError]], ...] = (
    ("unknown repository extension", RepositoryTooNew),
    ("Expected git repo version", RepositoryTooNew),
    ("invalid value for 'extensions.", RepositoryTooNew),
    ("unknown ref storage format", RepositoryTooNew),
    ("not a git repository", NotARepository),
    ("valid repository", NotARepository),
    ("must be run in a work tree", NotARepository),
    ("cannot change to", NotARepository),
    ("external filter", FilterMissing),
    ("clean filter", FilterMissing),
    ("smudge filter", FilterMissing),
    ("corrupt", CorruptRepository),
    ("unable to read", CorruptRepository),
    ("bad object", CorruptRepository),
    ("invalid object", CorruptRepository),
    ("is empty", CorruptRepository),
    ("No such ref", CorruptRepository),
)
"""Words of Git's by which a failure is known; the first that is found counts."""


def failure(root: str, command: str, status: int, said: str) -> AtkError:
    """Returns the error that stands for what a failed git command said."""
    if status < 0:
        by = signal.Signals(-status).name
        return GitFailed(command=command, status=status, reason=f"{by} ended it{f' ({said[-300:]})' if said else ''}")
    reason = said[-300:] or "no message"
    told = any(sign in said for sign in (os.strerror(errno.ENOSPC), "Out of diskspace"))
    if told or ("couldn't write" in said and full([root])):  # of a lock it does not say why
        reason += " (free some space on that disk and call again)"
    pruned = "with nonexistent object" in said or (command == "commit-tree" and "is not a valid object" in said)
    if pruned:  # what nothing names as yet is what such a command takes away
        reason += " (`git gc --prune=now` or `git prune` took away what was just written; call again when it has ended)"
    lock = re.search(rf"Unable to create '(.+?\.lock)': {os.strerror(errno.EEXIST)}", said, re.DOTALL)
    moved = re.search(r"is at ([0-9a-f]+) but expected ([0-9a-f]+)", said)
    known = next((error for sign, error in SIGNS if sign in said), None)
    if lock:
        return locked(os.path.join(root, lock[1]))
    if moved:
        return HeadMoved(expected=moved[2], found=moved[1])
    if "dubious ownership" in said:
        return UnsafeOwner(path=root)
    if known is NotARepository:
        return NotARepository(path=root, reason=reason)
    if known is RepositoryTooNew:
        return RepositoryTooNew(path=root, reason=" ".join(reason.split()))
    return known(reason=reason) if known else GitFailed(command=command, status=status, reason=reason)  # type: ignore[call-arg]
