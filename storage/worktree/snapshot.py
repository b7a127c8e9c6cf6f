"""Writes down everything around a Round's tracked content that could change what the target does."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from storage.errors import AtkError, NextCall
from storage.frames import canonical, digest
from storage.git import Git
from storage.schema.base import Value
from storage.worktree.disk import blob_id, fingerprint, look, walk
from storage.worktree.facts import (
    attributed,
    changed,
    fresh_index,
    own_folders,
    read_head,
    staged,
    store_raw,
    untracked,
)
from storage.worktree.paths import check_patterns, decode_path, encode_path, is_store, repository_path

MOST_INPUTS = 5_000
"""Files that the declared inputs may name together."""


@dataclass(kw_only=True, eq=False)
class TooManyInputs(AtkError):
    """The declared inputs name more files than can be fingerprinted at every run."""

    message: ClassVar[str] = (
        "The declared inputs hold more than {limit} files; {path} is where the limit was reached. Declare the files or "
        "smaller folders that the target really reads."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (NextCall("get_status"),)

    limit: int
    path: str


class Surroundings(Value):
    """The user's state around a commit. All paths are repository paths.

    Attributes:
        dirty: Fingerprints of the tracked files under the project that differ from HEAD, on disk or in the index.
        staged: Those of them, in order, whose index entry differs from HEAD.
        untracked: Fingerprints of what is neither tracked nor ignored.
        inputs: Fingerprints of what the caller declared, ignored or not; a folder stands as its files.
        raw: Blobs with the exact bytes of clean tracked files that line endings, ident or encoding make differ from
            their blob.
        folders: The folders with nothing tracked in them, ignored ones left out: they stay when a file in them goes.
    """

    dirty: dict[str, str] = {}
    staged: tuple[str, ...] = ()
    untracked: dict[str, str] = {}
    inputs: dict[str, str] = {}
    raw: dict[str, str] = {}
    folders: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """The SHA-256 of all that can change what the target does: not `raw`, not `folders`."""
        return digest(canonical(self.model_dump(include={"dirty", "staged", "untracked", "inputs"})))


def surroundings(git: Git, inputs: Sequence[str] = ()) -> Surroundings:
    """Returns the user's state around HEAD. `inputs` are project paths of files and folders; a link is not followed.

    The only thing written is the blobs that `raw` names.

    Raises:
        UnsafePattern: An input is absolute, leaves the project, or names `.git` or `.atk`.
        TooManyInputs: The inputs hold more than `MOST_INPUTS` files.
    """
    wanted = _wanted(git, inputs)
    head = read_head(git)
    with tempfile.TemporaryDirectory(prefix="atk-") as folder:
        index = fresh_index(git, head.commit, folder)
        pending = staged(git, head.commit)
        dirty = {x for x in changed(git, index) | pending if not is_store(x, git.prefix)}
        return Surroundings(
            dirty=fingerprints(git, dirty),
            staged=tuple(sorted(encode_path(x) for x in pending)),
            untracked=fingerprints(git, untracked(git, index) - dirty),
            inputs=fingerprints(git, _input_files(git, wanted)),
            raw={encode_path(k): v for k, v in raw_bytes(git, head.commit, dirty).items()},
            folders=tuple(sorted(encode_path(x) for x in own_folders(git, index))),
        )


def input_fingerprints(git: Git, inputs: Sequence[str]) -> dict[str, str]:
    """Returns the fingerprints of the declared inputs alone, as `surroundings` does, whatever else the worktree holds.

    Raises:
        UnsafePattern: An input is absolute, leaves the project, or names `.git` or `.atk`.
        TooManyInputs: The inputs hold more than `MOST_INPUTS` files.
    """
    return fingerprints(git, _input_files(git, _wanted(git, inputs)))


def _wanted(git: Git, inputs: Sequence[str]) -> list[bytes]:
    return [decode_path(repository_path(git, x)).rstrip(b"/") for x in check_patterns(inputs)]


def fingerprints(git: Git, paths: Iterable[bytes]) -> dict[str, str]:
    """Returns the fingerprint of each repository path, in order."""
    return {encode_path(x): fingerprint(git.top, x.rstrip(b"/")) for x in sorted(paths)}


def raw_bytes(git: Git, commit: str, besides: Collection[bytes]) -> dict[bytes, str]:
    """Stores the bytes of clean files that differ from their blob without a filter driver; returns the blobs' ids."""
    differing: dict[bytes, str] = {}
    for entry in git.records("ls-tree", "-r", "-z", "--full-tree", commit):
        meta, path = entry.split(b"\t", 1)
        mode, _, recorded = meta.split()
        if not mode.startswith(b"100") or not path.startswith(git.prefix) or path in besides:
            continue
        if look(git.top, path).kind == "file" and (own := blob_id(git.top, path, git.algorithm)) != recorded.decode():
            differing[path] = own
    driven = attributed(git, differing)
    return store_raw(git, [x for x in differing if x not in driven])


def _input_files(git: Git, wanted: Iterable[bytes]) -> set[bytes]:
    found: set[bytes] = set()
    for path in wanted:
        for below in walk(git.top, path) if look(git.top, path).kind == "folder" else (path,):
            if len(found) >= MOST_INPUTS:
                raise TooManyInputs(limit=MOST_INPUTS, path=encode_path(below))
            found.add(below)
    return found
