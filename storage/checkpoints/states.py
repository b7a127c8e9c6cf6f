"""Tells, for each changed path, in which of its two known states the worktree is."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from storage.checkpoints.changes import Change, Entry
from storage.errors import AtkError, NextCall
from storage.git import Git
from storage.worktree.disk import Found, blob_id, look, new_folder
from storage.worktree.facts import PRIVATE, joined
from storage.worktree.paths import decode_path


@dataclass(kw_only=True, eq=False)
class UnknownContent(AtkError):
    """Files hold neither the content from before a change nor that from after it."""

    message: ClassVar[str] = (
        "Neither the content from before nor from after the change is in {paths}, so somebody else edited there. "
        "Nothing was overwritten. Save what is yours elsewhere, put back one of the two contents, and call again."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (NextCall("inspect_or_recover_operation"), NextCall("get_status"))

    paths: tuple[str, ...]


class States(NamedTuple):
    """The paths of some changes by the state that the worktree is in; a path whose states are one is in `after`."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    other: tuple[str, ...]


@dataclass(frozen=True)
class _Content:
    """What lies at a path: Git's mode and the ids that its bytes have, as they are and as Git would record them."""

    mode: str
    ids: frozenset[str]


def classify(git: Git, changes: Sequence[Change], scratch: str) -> States:
    """Returns which of the changes' paths are as before, as after, or neither. Nothing of the user's is changed."""
    modes_count = git.run("config", "--type=bool", "--get", "core.fileMode", ok=(0, 1)).out.strip() != b"false"
    paths = {decode_path(x.path): x for x in changes}
    found = {path: _seen(git, path, paths) for path in paths}
    content = {x: _on_disk(git, x, it) for x, it in found.items() if it.kind in {"file", "link"}}
    unclear = [x for x, have in content.items() if not _known(have, paths[x], modes_count=modes_count)]
    content |= _recorded(git, unclear, scratch)
    sorts: dict[str, list[str]] = {"before": [], "after": [], "other": []}
    for path, change in paths.items():
        there = content.get(path)
        if found[path].kind not in {"file", "link", "absent"}:
            state = "other"
        elif _is(there, change.after, modes_count=modes_count):
            state = "after"
        else:
            state = "before" if _is(there, change.before, modes_count=modes_count) else "other"
        sorts[state].append(change.path)
    return States(*(tuple(sorted(sorts[x])) for x in States._fields))


def _seen(git: Git, path: bytes, paths: Mapping[bytes, Change]) -> Found:
    """Returns what lies at a path, where a folder or link that the changes themselves put in its way is no file."""
    found = look(git.top, path)
    if found.kind == "folder" and any(x.startswith(path + b"/") for x in paths):
        return Found("absent")
    if found.kind == "beyond":
        link = next(x for x in parents(path) if look(git.top, x).kind == "link")
        return Found("absent") if link in paths and _is_link(paths[link]) else found
    return found


def parents(path: bytes) -> list[bytes]:
    """Returns the folders above a path, the topmost first."""
    parts = path.split(b"/")
    return [b"/".join(parts[:n]) for n in range(1, len(parts))]


def _is_link(change: Change) -> bool:
    return any(x is not None and x.mode == "120000" for x in (change.before, change.after))


def _on_disk(git: Git, path: bytes, found: Found) -> _Content:
    executable = bool(found.status and found.status.st_mode & stat.S_IXUSR)
    mode = "120000" if found.kind == "link" else "100755" if executable else "100644"
    return _Content(mode, frozenset({blob_id(git.top, path, git.algorithm)}))


def _recorded(git: Git, paths: Sequence[bytes], scratch: str) -> dict[bytes, _Content]:
    """Returns the content of paths as Git would record it, through filters and line endings."""
    if not paths:
        return {}
    index = os.path.join(new_folder(scratch, "state"), "index")
    git.run("read-tree", "--empty", index=index, settings=PRIVATE)
    options = ("-z", "--add", "--remove", "--stdin")  # one that goes meanwhile is as it was seen
    git.run("update-index", *options, stdin=joined(paths), index=index, cwd=git.top, settings=PRIVATE)
    contents = {}
    for entry in git.records("ls-files", "-s", "-z", index=index, cwd=git.top):
        meta, path = entry.split(b"\t", 1)
        mode, oid, _ = meta.decode().split()
        contents[path] = _Content(mode, frozenset({oid}))
    return contents


def _known(have: _Content, change: Change, *, modes_count: bool) -> bool:
    return any(_is(have, x, modes_count=modes_count) for x in (change.before, change.after))


def _is(have: _Content | None, entry: Entry | None, *, modes_count: bool) -> bool:
    if have is None or entry is None:
        return have is None and entry is None
    same_mode = have.mode == entry.mode if modes_count else have.mode[:3] == entry.mode[:3]
    return same_mode and bool(have.ids & {entry.oid, entry.raw})
