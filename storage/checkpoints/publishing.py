"""Moves the user's branch to an accepted candidate and lets the index follow, by Git's own protocol."""

from __future__ import annotations

import glob
import os
import shutil
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from storage.checkpoints.changes import Change, Entry
from storage.checkpoints.locks import additions, remove_own_locks, stack_lock
from storage.checkpoints.objects import index_lines
from storage.checkpoints.states import UnknownContent, classify
from storage.errors import AtkError, NextCall
from storage.files import open_plain, sync_file
from storage.git import CorruptRepository, Git, GitLocked, locked
from storage.worktree.disk import new_folder
from storage.worktree.facts import Head, check_idle, read_head, same_head, staged
from storage.worktree.paths import decode_path, encode_path

NEXT = "next"
"""The purpose of the scratch folders with the next index; what an earlier try made stays there to be compared."""


_DEPTH = 5
"""Symbolic refs after another that Git follows."""

_LONGEST = 1 << 13
"""Bytes that are read of a symbolic ref: a path is shorter."""


@dataclass(kw_only=True, eq=False)
class Staged(AtkError):
    """The user has staged files of the candidate's."""

    message: ClassVar[str] = (
        "Staged in your index, and part of the candidate: {paths}. Keeping it would mix both. Unstage that with "
        "`git restore --staged`, then decide again; other staged files stay staged."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (NextCall("decide_candidate"), NextCall("get_status"))

    paths: tuple[str, ...]


@dataclass(kw_only=True, eq=False)
class BranchShared(AtkError):
    """The branch is checked out in another worktree too."""

    message: ClassVar[str] = (
        "{branch} is checked out in another linked worktree too, whose files would not follow. Check out another "
        "branch there (`git worktree list` shows where), then decide again."
    )

    branch: str


def publish(  # noqa: PLR0913, PLR0917 - one effect, and all that its recovery must know
    git: Git,
    head: Head,
    commit: str,
    changes: Sequence[Change],
    intent_time_ns: int,
    scratch: str,
    *,
    message: str = "atk keep",
) -> None:
    """Moves HEAD's branch from `head` to `commit` and puts the changes into the user's index. Call again after a crash.

    What the user staged outside the changes stays staged, and no file is touched. `intent_time_ns` is when the
    operation was recorded, in ns since 1970: a lock that is older is not ours. `message` goes to the reflog.

    Raises:
        HeadMoved: HEAD is neither at `head` nor at `commit` on the same branch.
        OperationInProgress: A merge, rebase, pick or bisect is under way.
        UnknownContent: The worktree does not hold the `after` of all changes.
        Staged: A path of the changes is staged.
        BranchShared: The branch is checked out in another worktree.
        GitLocked: A lock of Git's is not ours.
    """
    if read_head(git).commit == commit != head.commit:
        same_head(git, head.model_copy(update={"commit": commit}))
        _remove_locks(git, head, commit, changes, intent_time_ns, scratch)
        _follow(git, changes, scratch)
        return
    same_head(git, head)
    check_idle(git)
    _check_worktree(git, changes, scratch)
    _check_index(git, head, changes)
    _check_branch(git, head)
    if git.missing([commit]):
        raise CorruptRepository(reason=f"commit {commit} does not exist")
    _remove_locks(git, head, commit, changes, intent_time_ns, scratch)
    lock = _lock_index(git)
    try:
        # Nothing that takes index.lock can come between any more: not add, not commit, not switch.
        same_head(git, head)
        _check_index(git, head, changes)
        _fill(lock, _next_index(git, changes, scratch))
        git.sync()
        flags = () if head.branch else ("--no-deref",)
        git.run("update-ref", "-m", message, *flags, "HEAD", commit, head.commit)
    except BaseException:
        os.unlink(lock)
        raise
    _check_left_locks(git, head)
    git.sync()
    _rename_index(git, lock)


def clear_locks(  # noqa: PLR0913, PLR0917 - as `publish`
    git: Git, head: Head, commit: str, changes: Sequence[Change], intent_time_ns: int, scratch: str
) -> None:
    """Removes the locks that a killed child of a `publish` left, which is given up; where one is a stranger's, none."""
    with suppress(GitLocked):
        _remove_locks(git, head, commit, changes, intent_time_ns, scratch)


def require_unlocked(git: Git, head: Head) -> None:
    """Refuses when a lock stands on what `publish` would change.

    Raises:
        GitLocked: It names the lock.
    """
    for lock in (*_ref_locks(git, head), _index_path(git) + ".lock"):
        if os.path.lexists(lock):
            raise locked(lock, "older than this operation")


def _index_path(git: Git) -> str:
    return os.path.join(git.git_dir, "index")


def _ref_locks(git: Git, head: Head) -> list[str]:
    locks = [os.path.join(git.refs.own, "HEAD.lock"), *_stack_locks(git)]
    refs = [*_led_over(git, head), *([head.ref] if head.ref else [])]
    return [*locks, *(os.path.join(git.refs.shared, os.fsdecode(x) + ".lock") for x in refs)]


def _led_over(git: Git, head: Head) -> list[bytes]:
    """Returns the symbolic refs between HEAD and its branch, each of which Git locks when it moves the branch."""
    found: list[bytes] = []
    name = _symbolic(os.path.join(git.refs.own, "HEAD"))
    while name is not None and name != head.ref and len(found) < _DEPTH:
        found.append(name)
        name = _symbolic(os.path.join(git.refs.shared, os.fsdecode(name)))
    return found if name is not None and name == head.ref else []


def _symbolic(path: str) -> bytes | None:
    """Returns the ref that a symbolic ref in a file leads to, or None where there is none."""
    if os.path.islink(path) or not os.path.isfile(path):
        return None
    with open_plain(path) as file:
        said = file.read(_LONGEST)
    name = said.removeprefix(b"ref:").strip()
    return name if said.startswith(b"ref:") and name.startswith(b"refs/") and b".." not in name else None


def _stack_locks(git: Git) -> list[str]:
    """Returns the locks on reftables: a linked worktree has some of its own, for its HEAD."""
    return sorted({stack_lock(x) for x in git.refs[1:]}) if git.refs.tables else []


def _check_worktree(git: Git, changes: Sequence[Change], scratch: str) -> None:
    states = classify(git, changes, scratch)
    if states.before or states.other:
        raise UnknownContent(paths=tuple(sorted((*states.before, *states.other))))


def _check_index(git: Git, head: Head, changes: Sequence[Change]) -> None:
    pending = staged(git, head.commit, everywhere=True)
    if mine := sorted(pending & {decode_path(x.path) for x in changes}):
        raise Staged(paths=tuple(encode_path(x) for x in mine))


def _check_branch(git: Git, head: Head) -> None:
    if head.ref is None:
        return
    listed = git.records("worktree", "list", "--porcelain", "-z")
    if listed.count(b"branch " + head.ref) > 1:
        raise BranchShared(branch=head.branch or "")


def _remove_locks(  # noqa: PLR0913, PLR0917 - what the locks may hold depends on all of it
    git: Git, head: Head, commit: str, changes: Sequence[Change], since_ns: int, scratch: str
) -> None:
    """Removes the locks that a killed attempt left, or refuses when one is not ours."""
    names = [*_ref_locks(git, head), _index_path(git) + ".lock"]
    if not any(os.path.lexists(x) for x in names):
        return
    ours = [commit.encode() + b"\n", *([b"ref: " + head.ref + b"\n"] if head.ref else [])]
    following = _next_index(git, changes, scratch)
    index_lock = _index_path(git) + ".lock"
    if os.path.isfile(index_lock) and _same_entries(git, index_lock, following, scratch):
        with open(index_lock, "rb") as file:
            ours.append(file.read())
    ours += [x for lock in _stack_locks(git) for x in additions(lock, bytes.fromhex(commit))]
    for index in glob.glob(os.path.join(glob.escape(scratch), NEXT + "-*", "index")):
        with open(index, "rb") as file:
            ours.append(file.read())
    remove_own_locks(names, ours, since_ns=since_ns)


def _same_entries(git: Git, lock: str, following: str, scratch: str) -> bool:
    """Whether a whole index.lock holds what the next index will: times of files in it may be others."""
    copy = os.path.join(new_folder(scratch, "lock"), "index")
    shutil.copyfile(lock, copy)
    try:
        found = git.records("ls-files", "-s", "-z", index=copy, cwd=git.top)
    except AtkError:
        return False
    return found == git.records("ls-files", "-s", "-z", index=following, cwd=git.top)


def _next_index(git: Git, changes: Sequence[Change], scratch: str) -> str:
    """Returns a copy of the user's index with the changes put in; every other entry and bit is as it was."""
    index = os.path.join(new_folder(scratch, NEXT), "index")
    if os.path.exists(_index_path(git)):
        # With its time kept: entries as young as the index are compared by content.
        shutil.copy2(_index_path(git), index)
    if lines := index_lines(changes):
        git.run("update-index", "-z", "--index-info", stdin=lines, index=index, cwd=git.top)
        git.run("update-index", "-q", "--refresh", index=index, ok=(0, 1), cwd=git.top)
    return index


def _lock_index(git: Git) -> str:
    """Takes index.lock, empty as yet, as git does, and returns its path."""
    real = _index_path(git)
    mode = stat.S_IMODE(os.stat(real).st_mode) if os.path.exists(real) else 0o644
    try:
        handle = os.open(real + ".lock", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except FileExistsError:
        raise locked(real + ".lock") from None
    os.fchmod(handle, mode)
    os.close(handle)
    return real + ".lock"


def _fill(lock: str, following: str) -> None:
    with open(lock, "r+b") as target, open(following, "rb") as source:
        shutil.copyfileobj(source, target)
        target.flush()
        sync_file(target.fileno())


def _check_left_locks(git: Git, head: Head) -> None:
    """Refuses to go on when git left a lock although it reported success, as it does when its unlink fails."""
    for lock in _ref_locks(git, head):
        if os.path.lexists(lock):
            raise locked(lock, "left by an update that succeeded")


def _rename_index(git: Git, lock: str) -> None:
    os.rename(lock, _index_path(git))
    git.sync()


def _not_yet(git: Git, changes: Sequence[Change]) -> list[Change]:
    """Returns the changes whose entry in the user's index still is the one from before."""
    entries: dict[bytes, Entry] = {}
    for line in git.records("ls-files", "-s", "-z", cwd=git.top):
        meta, path = line.split(b"\t", 1)
        mode, oid, stage = meta.decode().split()
        if stage == "0":
            entries[path] = Entry(mode=mode, oid=oid)
    return [x for x in changes if _plain(x.before) == entries.get(decode_path(x.path)) != _plain(x.after)]


def _plain(entry: Entry | None) -> Entry | None:
    return entry and Entry(mode=entry.mode, oid=entry.oid)


def _follow(git: Git, changes: Sequence[Change], scratch: str) -> None:
    """Lets the index follow a branch that has moved already, where it has not."""
    if not _not_yet(git, changes):
        git.sync()
        return
    lock = _lock_index(git)
    try:
        _fill(lock, _next_index(git, _not_yet(git, changes), scratch))
        git.sync()
    except BaseException:
        os.unlink(lock)
        raise
    _rename_index(git, lock)
