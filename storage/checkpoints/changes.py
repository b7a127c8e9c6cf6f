"""Says by which files two states of the target differ: a draft from its parent, or one commit from another."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from storage.errors import AtkError, NextCall
from storage.git import Git, HeadMoved
from storage.schema.base import Commit, Value
from storage.worktree.disk import blob_id, fingerprint, look, new_folder
from storage.worktree.facts import (
    PRIVATE,
    attributed,
    changed,
    check_idle,
    fresh_index,
    joined,
    read_head,
    store_raw,
    submodules,
    untracked,
)
from storage.worktree.paths import decode_path, encode_path, is_store
from storage.worktree.snapshot import Surroundings

SUBMODULE = "160000"
"""Git's mode of a submodule."""


@dataclass(kw_only=True, eq=False)
class OtherRepository(AtkError):
    """The change lies in a submodule or in a repository of its own."""

    message: ClassVar[str] = (
        "Another Git repository holds {paths}, and ATK does not change it. Undo the edits there; to tune that "
        "repository, make it a project of its own."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (NextCall("cancel_draft"), NextCall("get_status"))

    paths: tuple[str, ...]


@dataclass(kw_only=True, eq=False)
class SpecialFile(AtkError):
    """A tracked path became a pipe, a socket or a device."""

    message: ClassVar[str] = "Neither a regular file nor a link nor a folder: {paths}. Put a regular file there."

    paths: tuple[str, ...]


@dataclass(kw_only=True, eq=False)
class LeavesWorktree(AtkError):
    """A link of the candidate's points out of the worktree, or a folder was replaced by a link."""

    message: ClassVar[str] = (
        "{paths} would lead out of the worktree through a link, where nothing can be restored. Replace the links by "
        "regular files or folders, or let them point inside the repository."
    )

    paths: tuple[str, ...]


@dataclass(kw_only=True, eq=False)
class NameCollision(AtkError):
    """Two names are one on this disk."""

    message: ClassVar[str] = (
        "{paths} differ only in case or Unicode form, and this disk cannot keep them apart. Rename one of them."
    )

    paths: tuple[str, ...]


class Entry(Value):
    """What Git records for a file: mode, blob, and the blob with its exact bytes on disk when those differ."""

    mode: str
    oid: Commit
    raw: Commit | None = None


class Change(Value):
    """One path in two states; None is no file. `path` is a repository path."""

    path: str
    before: Entry | None
    after: Entry | None


def inverse(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Returns the changes that lead back."""
    return tuple(Change(path=x.path, before=x.after, after=x.before) for x in changes)


def user_files(changes: Iterable[Change], before: Surroundings) -> tuple[str, ...]:
    """Returns the changed paths that were the user's own, uncommitted, before: no commit holds what they were."""
    return tuple(x.path for x in changes if x.path in before.dirty or x.path in before.untracked)


def changes_between(git: Git, from_commit: str, to_commit: str, raw: Mapping[str, str]) -> tuple[Change, ...]:
    """Returns what differs between two commits, a rename being a deletion and an addition.

    `raw` names blobs with the exact disk bytes of paths; each is taken for the side whose content it is.
    """
    options = ("-r", "-z", "--no-renames", "--no-ext-diff", "--full-index")
    found = _differences(git, git.run("diff-tree", *options, from_commit, to_commit).out)
    return tuple(
        Change(path=encode_path(path), before=_with_raw(git, path, old, raw), after=_with_raw(git, path, new, raw))
        for path, old, new in found
    )


def _differences(git: Git, said: bytes) -> list[tuple[bytes, Entry | None, Entry | None]]:
    """Returns the paths and both entries of a raw diff."""
    fields = said.split(b"\0")
    rows = [(path, meta[1:].decode().split()) for meta, path in zip(fields[0::2], fields[1::2], strict=False)]
    if linked := [path for path, (old, new, *_) in rows if SUBMODULE in {old, new}]:
        raise OtherRepository(paths=_shown(linked))
    return [
        (path, _entry(old, old_id), _entry(new, new_id))
        for path, (old, new, old_id, new_id, _) in sorted(rows)
        if not is_store(path, git.prefix)
    ]


def _entry(mode: str, oid: str) -> Entry | None:
    return None if mode == "000000" else Entry(mode=mode, oid=oid)


def _with_raw(git: Git, path: bytes, entry: Entry | None, raw: Mapping[str, str]) -> Entry | None:
    blob = raw.get(encode_path(path))
    if entry is None or blob is None or not entry.mode.startswith("100"):
        return entry
    # Whether these bytes are this entry's is asked of Git: it cleans them as it would the file.
    name = f"--path={os.fsdecode(path)}"
    cleaned = git.line("hash-object", name, "--stdin", stdin=git.read(blob), cwd=git.top)
    return entry.model_copy(update={"raw": blob}) if cleaned == entry.oid else entry


def draft_changes(
    git: Git, parent: str, before: Surroundings, scratch: str, *, at_head: bool = True
) -> tuple[Change, ...]:
    """Returns how the files under the project now differ from `parent`, as Git would record them.

    What was dirty or untracked in `before` and still is the same is left out; when it is not, it counts as a change,
    and `user_files` names it. Only objects are written, and a private index in the folder `scratch`. With `at_head`
    false, `parent` may be any commit: that is how the worktree is held against a Revision that no branch has.

    Raises:
        HeadMoved: `at_head`, and HEAD no longer is at `parent`.
        OperationInProgress: A merge, rebase, pick or bisect is under way.
        OtherRepository: A submodule or a nested repository was changed.
        SpecialFile: A path became neither file, link nor folder.
        LeavesWorktree: A link leads out of the worktree, or took the place of a folder.
        NameCollision: The disk cannot tell two of the names apart.
    """
    if at_head and (found_at := read_head(git).commit) != parent:
        raise HeadMoved(expected=parent[:12], found=found_at[:12])
    check_idle(git)
    index = fresh_index(git, parent, new_folder(scratch, "draft"))
    found = changed(git, index) | untracked(git, index)
    frozen = {decode_path(k): v for k, v in {**before.untracked, **before.dirty}.items()}
    same = {x for x, mark in frozen.items() if fingerprint(git.top, x.rstrip(b"/")) == mark}
    paths = {x for x in found - same if not is_store(x, git.prefix)}
    _check(git, index, paths)
    _record(git, index, paths)
    options = ("--cached", "-z", "--no-renames", "--no-ext-diff", "--full-index")
    differing = _differences(git, git.run("diff-index", *options, parent, index=index, cwd=git.top).out)
    afters = _raw_of(git, {p: new for p, _, new in differing if new})
    listed = {
        path: Change(
            path=encode_path(path), before=_frozen_raw(old, path, before), after=afters.get(path) if new else None
        )
        for path, old, new in differing
    }
    undone = {x: Change(path=encode_path(x), before=None, after=None) for x in set(frozen) - same if x not in listed}
    return tuple(change for _, change in sorted({**undone, **listed}.items()))


def _frozen_raw(entry: Entry | None, path: bytes, before: Surroundings) -> Entry | None:
    raw = before.raw.get(encode_path(path))
    return entry.model_copy(update={"raw": raw}) if entry and raw else entry


def _raw_of(git: Git, entries: Mapping[bytes, Entry]) -> dict[bytes, Entry]:
    """Returns the entries with the exact bytes on disk where those are not the blob's and no driver makes them."""
    files = [x for x, entry in entries.items() if entry.mode.startswith("100")]
    differing = [x for x in files if blob_id(git.top, x, git.algorithm) != entries[x].oid]
    driven = attributed(git, differing)
    raw = store_raw(git, [x for x in differing if x not in driven])
    return {k: v.model_copy(update={"raw": raw[k]}) if k in raw else v for k, v in entries.items()}


def _record(git: Git, index: str, paths: Collection[bytes]) -> None:
    """Brings the private index to what is on disk at the paths, storing their blobs."""
    gone = sorted(x for x in paths if look(git.top, x).kind not in {"file", "link"})
    there = sorted(set(paths) - set(gone))
    for flags, some in ((("--force-remove",), gone), (("--add", "--remove"), there)):  # which may go while git looks
        if some:
            options = ("-z", *flags, "--stdin")
            git.run("update-index", *options, stdin=joined(some), index=index, cwd=git.top, settings=PRIVATE)


def _check(git: Git, index: str, paths: Collection[bytes]) -> None:
    """Refuses what Git cannot record as plain content of this worktree."""
    if nested := [x for x in paths if x.endswith(b"/")]:
        raise OtherRepository(paths=_shown(nested))
    if linked := submodules(git, index) & set(paths):
        raise OtherRepository(paths=_shown(linked))
    found = {x: look(git.top, x) for x in paths}
    if special := [x for x, it in found.items() if it.kind == "special"]:
        raise SpecialFile(paths=_shown(special))
    outside = [x for x, it in found.items() if it.kind == "link" and _leads_out(git.top, x)]
    beyond = [x for x, it in found.items() if it.kind == "beyond"]
    if outside or beyond:
        raise LeavesWorktree(paths=_shown(outside or beyond))
    _check_names(git, index, [x for x, it in found.items() if it.kind in {"file", "link"}])


def _leads_out(top: str, path: bytes) -> bool:
    base = os.fsencode(top)
    return os.path.commonpath([os.path.realpath(os.path.join(base, path)), base]) != base


def _check_names(git: Git, index: str, paths: Collection[bytes]) -> None:
    if not git.setting("core.ignorecase"):
        return
    names: dict[str, set[bytes]] = {}
    for path in {*git.records("ls-files", "-z", "--full-name", index=index, cwd=git.top), *paths}:
        names.setdefault(unicodedata.normalize("NFC", encode_path(path)).casefold(), set()).add(path)
    if same := [x for group in names.values() if len(group) > 1 and group & set(paths) for x in group]:
        raise NameCollision(paths=_shown(same))


def _shown(paths: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(encode_path(x) for x in sorted(paths))
