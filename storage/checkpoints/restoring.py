"""Brings files of the worktree from one known content to another, so that no byte can be lost on the way."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from storage.checkpoints.changes import Change, Entry, LeavesWorktree
from storage.checkpoints.objects import index_lines
from storage.checkpoints.states import UnknownContent, classify, parents
from storage.errors import AtkError, NextCall
from storage.files import sync_file
from storage.git import CorruptRepository, Git
from storage.worktree.disk import blob_id, look, new_folder
from storage.worktree.facts import (
    PRIVATE,
    Head,
    attributed,
    check_idle,
    joined,
    same_head,
    store_raw,
)
from storage.worktree.paths import decode_path, encode_path

Signature = tuple[int, int, int, int]
"""Inode, size, time of change in ns and mode: what tells that a file is the one that was looked at."""


@dataclass(kw_only=True, eq=False)
class StoreApart(AtkError):
    """The store and a file of the target's lie on two file systems, or under two mounts of one."""

    message: ClassVar[str] = (
        "{path} and the store at {store} lie on two file systems, or under two mounts of one. ATK puts files in place "
        "by renaming, which works within one only. That file was not changed. Take the mount of .atk/ away, keep its "
        "files in a folder of the project's own file system, and call again."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (NextCall("inspect_or_recover_operation"), NextCall("get_status"))

    path: str
    store: str


@dataclass(frozen=True)
class _Step:
    """One path to bring to its new content: where that lies ready, and where what is there now keeps a second name."""

    path: bytes
    after: Entry | None
    seen: Signature | None
    ready: bytes
    hold: bytes


def rewrite(
    git: Git,
    changes: Sequence[Change],
    scratch: str,
    keep_folders: Collection[str] = (),
    *,
    head: Head | None = None,
) -> None:
    """Brings each path from its `before` to its `after`; one that is there already stays. Call again after a crash.

    Exact bytes are written: the entry's `raw`, else its blob, and only a filter driver is run. Everything is made ready
    and flushed first, in `scratch`, which lies on the worktree's file system; what is replaced keeps a second name
    there. Folders that become empty go, but not those in `keep_folders` (`Surroundings.folders`). The user's index
    stays as it is.

    Raises:
        HeadMoved: `head` was given and HEAD is elsewhere.
        OperationInProgress: A merge, rebase, pick or bisect is under way.
        UnknownContent: A path is in neither state, or something unknown is in its way.
        StoreApart: `scratch` lies elsewhere than the worktree.
        CorruptRepository: The object with a new content is missing.
    """
    if head is not None:
        same_head(git, head)
    check_idle(git)
    todo = _todo(git, changes, scratch)
    _check_targets(git, todo.values())
    _check_room(git, todo)
    _preserve(git, todo)
    steps = _prepare(git, todo, scratch) if todo else []
    for step in sorted(steps, key=_order):
        try:
            _take(git, step)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            raise StoreApart(path=encode_path(step.path), store=os.path.join(git.root, ".atk")) from error
    # Over all removals, not only those of this call: a killed one may have left their folders.
    for change in changes:
        if change.after is None:
            _remove_empty(git, decode_path(change.path), {decode_path(x) for x in keep_folders})
    _flush_folders(git, [decode_path(x.path) for x in changes])
    left = classify(git, changes, scratch)
    if left.before or left.other:
        raise UnknownContent(paths=(*left.before, *left.other))


def _order(step: _Step) -> tuple[bool, bool, bytes]:
    """Removals first, so that a file can become a folder; then attributes, which say what the rest means."""
    return (step.after is not None, not step.path.endswith(b".gitattributes"), step.path)


@dataclass(frozen=True)
class _Todo:
    """A change that is still to be made, and what lay at its path before it was looked at."""

    change: Change
    seen: Signature | None


def _todo(git: Git, changes: Sequence[Change], scratch: str) -> dict[bytes, _Todo]:
    # The signatures are taken before the content is read: what is replaced later is what was read.
    seen = {x.path: _signature(_full(git, decode_path(x.path))) for x in changes}
    states = classify(git, changes, scratch)
    if states.other:
        raise UnknownContent(paths=states.other)
    waiting = set(states.before)
    return {decode_path(x.path): _Todo(x, seen[x.path]) for x in changes if x.path in waiting}


def _full(git: Git, path: bytes) -> bytes:
    return os.path.join(os.fsencode(git.top), path)


def _signature(full: bytes) -> Signature | None:
    try:
        found = os.lstat(full)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISDIR(found.st_mode):
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode)


def _check_targets(git: Git, todo: Collection[_Todo]) -> None:
    wanted = {x.change.after.raw or x.change.after.oid for x in todo if x.change.after}
    if missing := git.missing(wanted):
        raise CorruptRepository(reason=f"the objects {', '.join(sorted(missing))} to write are missing")


def _check_room(git: Git, todo: Mapping[bytes, _Todo]) -> None:
    """Checks that nothing of the user's lies where a file or one of its folders must come to lie."""
    going = {path for path, it in todo.items() if it.change.after is None}
    strange: set[bytes] = set()
    for path in set(todo) - going:
        if look(git.top, path).kind == "folder":
            strange |= _all_below(git, path) - going
        for parent in parents(path):
            if parent in going:
                break
            if look(git.top, parent).kind not in {"folder", "absent"}:
                strange.add(parent)
    if strange:
        raise UnknownContent(paths=tuple(sorted(encode_path(x) for x in strange)))


def _all_below(git: Git, path: bytes) -> set[bytes]:
    base = os.fsencode(git.top)
    below = os.walk(os.path.join(base, path))
    return {os.path.relpath(os.path.join(folder, x), base) for folder, _, files in below for x in files}


def _preserve(git: Git, todo: Mapping[bytes, _Todo]) -> None:
    """Makes sure that all bytes that go away exist as Git objects, even where they are not the blob's."""
    there = {x: blob_id(git.top, x, git.algorithm) for x, it in todo.items() if it.seen}
    missing = git.missing(there.values())
    stored = store_raw(git, [x for x, oid in there.items() if oid in missing and look(git.top, x).kind == "file"])
    if wrong := [x for x, oid in there.items() if oid in missing and stored.get(x) != oid]:
        raise UnknownContent(paths=tuple(sorted(encode_path(x) for x in wrong)))


def _prepare(git: Git, todo: Mapping[bytes, _Todo], scratch: str) -> list[_Step]:
    """Makes every new file ready in a folder of its own, flushed, before anything of the worktree is touched."""
    folder = os.fsencode(new_folder(scratch, "rewrite"))
    driven = _driven(git, todo, os.fsdecode(folder))
    steps = []
    for number, (path, it) in enumerate(sorted(todo.items())):
        ready = os.path.join(folder, b"new", path) if path in driven else os.path.join(folder, b"%d.new" % number)
        step = _Step(path, it.change.after, it.seen, ready, os.path.join(folder, b"%d.old" % number))
        if step.after and path not in driven:
            _make(git, step.after, ready, it.seen)
        if step.after and step.after.mode != "120000":
            _flush(ready)
        steps.append(step)
    return steps


def _driven(git: Git, todo: Mapping[bytes, _Todo], folder: str) -> set[bytes]:
    """Writes the files that a filter driver makes, by Git itself, and returns their paths."""
    files = {x for x, it in todo.items() if it.change.after and it.change.after.mode.startswith("100")}
    index = os.path.join(folder, "index")
    git.run("read-tree", "HEAD", index=index, settings=PRIVATE)
    lines = index_lines([x.change for x in todo.values()])
    git.run("update-index", "-z", "--index-info", stdin=lines, index=index, cwd=git.top, settings=PRIVATE)
    # When the attributes change too, those that will hold decide, else those on disk, tracked or not.
    turning = any(os.path.basename(x) == b".gitattributes" for x in todo)
    driven = set(attributed(git, files, index if turning else None))
    if driven:
        options = ("-f", "-q", "-z", "--stdin", "--prefix=" + os.path.join(folder, "new") + "/")
        git.run("checkout-index", *options, stdin=joined(sorted(driven)), index=index, cwd=git.top, settings=PRIVATE)
    return driven


def _make(git: Git, entry: Entry, target: bytes, seen: Signature | None) -> None:
    if entry.mode == "120000":
        os.symlink(git.read(entry.oid), target)
        return
    executable = entry.mode == "100755"
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o777 if executable else 0o666)
    with os.fdopen(handle, "wb") as file:
        for chunk in git.stream(entry.raw or entry.oid):
            file.write(chunk)
        if seen and stat.S_ISREG(seen[3]):
            # The file keeps who may read and write it; only Git's own bit follows the entry.
            kept = stat.S_IMODE(seen[3]) & 0o666
            os.fchmod(file.fileno(), kept | (kept & 0o444) >> 2 if executable else kept)


def _flush(path: bytes) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync_file(handle)
    finally:
        os.close(handle)


def _take(git: Git, step: _Step) -> None:
    """Brings one path to its new content; what was there keeps its second name in the scratch folder."""
    full = _full(git, step.path)
    if step.after is None:
        try:
            os.rename(full, step.hold)
        except FileNotFoundError:
            return  # somebody else removed it: that is where it was to go
        if _signature(step.hold) != step.seen:
            os.link(step.hold, full, follow_symlinks=False)
            raise UnknownContent(paths=(encode_path(step.path),))
        return
    if step.seen is not None:
        # From here on the bytes have a second name and cannot be lost; then the path changes in one step.
        try:
            os.link(full, step.hold, follow_symlinks=False)
        except FileNotFoundError:
            raise UnknownContent(paths=(encode_path(step.path),)) from None
        if _signature(full) != step.seen:
            raise UnknownContent(paths=(encode_path(step.path),))
        os.rename(step.ready, full)
        return
    _clear(full)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    if look(git.top, step.path).kind == "beyond":
        raise LeavesWorktree(paths=(encode_path(step.path),))
    try:
        os.link(step.ready, full, follow_symlinks=False)  # never replaces: somebody may have been faster
    except FileExistsError:
        raise UnknownContent(paths=(encode_path(step.path),)) from None


def _clear(full: bytes) -> None:
    """Removes a folder of nothing but empty folders that is where a file must come; anything else stays."""
    if os.path.isdir(full) and not os.path.islink(full):
        for folder, _, _ in sorted(os.walk(full), reverse=True):
            _remove_folder(folder)


def _remove_folder(full: bytes) -> bool:
    """Removes a folder if it is empty, and says whether it is gone. A disk that fails is no full folder."""
    try:
        os.rmdir(full)
    except OSError as error:
        if error.errno in (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            raise
        return not os.path.lexists(full)
    return True


def _remove_empty(git: Git, path: bytes, keep: Collection[bytes]) -> None:
    """Removes the folders above a removed file that are empty now, up to the project."""
    folder = os.path.dirname(path)
    while folder and folder + b"/" != git.prefix and folder not in keep and _remove_folder(_full(git, folder)):
        folder = os.path.dirname(folder)


def _flush_folders(git: Git, paths: Sequence[bytes]) -> None:
    """Flushes each folder above a touched path that still is there."""
    folders = {b""}
    for path in paths:
        parent = os.path.dirname(path)
        while parent:
            folders.add(parent)
            parent = os.path.dirname(parent)
    for folder in sorted(folders):
        if look(git.top, folder).kind == "folder":
            _flush(_full(git, folder))
