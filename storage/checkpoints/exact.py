"""Knows the exact bytes that a Round's files have on the user's disk, where Git's conversions make them differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from storage.checkpoints.changes import Change, Entry, changes_between
from storage.git import Git
from storage.worktree.paths import encode_path
from storage.worktree.snapshot import Surroundings

RawBytes = Mapping[tuple[str, str], str]
"""(repository path, blob) → the blob with the exact bytes that the user's disk has for it, where they differ."""


def entries(git: Git, commit: str) -> Iterator[tuple[bytes, Entry]]:
    """Yields the repository path and the entry of each file, link and submodule of a commit."""
    for record in git.records("ls-tree", "-r", "-z", "--full-tree", commit):
        meta, path = record.split(b"\t", 1)
        mode, _, oid = meta.decode().split()
        yield path, Entry(mode=mode, oid=oid)


def raw_bytes(git: Git, baseline: str, around: Surroundings, changes: Iterable[Change]) -> dict[tuple[str, str], str]:
    """Returns the exact bytes that are known: those around the baseline, and those of a Round's sealed `changes`."""
    known = {
        (x.path, entry.oid): entry.raw
        for x in changes
        for entry in (x.before, x.after)
        if entry is not None and entry.raw is not None
    }
    if around.raw:
        for path, entry in entries(git, baseline):
            if blob := around.raw.get(encode_path(path)):
                known[encode_path(path), entry.oid] = blob
    return known


def revision_changes(git: Git, from_commit: str, to_commit: str, raw: RawBytes) -> tuple[Change, ...]:
    """Returns what differs between two Revisions, each entry with its exact bytes, a rename as two changes."""

    def exact(path: str, entry: Entry | None) -> Entry | None:
        blob = raw.get((path, entry.oid)) if entry else None
        return entry.model_copy(update={"raw": blob}) if entry and blob else entry

    found = changes_between(git, from_commit, to_commit, {})
    return tuple(Change(path=x.path, before=exact(x.path, x.before), after=exact(x.path, x.after)) for x in found)
