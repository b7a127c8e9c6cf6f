"""Puts a Revision into a folder of its own outside the user's, and tells whether it still is that Revision.

ATK looks at the folder as a linked worktree of the user's repository: objects, configuration, filters and attributes
are shared, HEAD and index are ATK's own and lie in a scratch folder. It is registered nowhere, so that nothing is
written to the user's `.git`. The agent finds a repository of its own there, which borrows the user's objects: what it
commits, stashes or tags stays in the folder.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from storage.checkpoints.changes import draft_changes
from storage.checkpoints.exact import RawBytes, entries
from storage.checkpoints.places import WORKTREE, make_place
from storage.errors import AtkError, NextCall
from storage.git import Git
from storage.schema.base import Commit, Value
from storage.worktree.disk import blob_id, look, new_folder, open_file
from storage.worktree.facts import PRIVATE, attributed
from storage.worktree.paths import decode_path, encode_path
from storage.worktree.snapshot import Surroundings, input_fingerprints
from storage.worktree.steering import conversions

_WHOLE = {**PRIVATE, "core.sparseCheckout": "false"}
"""Settings under which all of a tree is written, whatever of it the user's own worktree leaves out."""


_OWN = b"[core]\n\tfsmonitor = false\n\tsparseCheckout = false\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n"
"""What stands above the user's configuration in the agent's repository: no program may outlive the run there."""


@dataclass(kw_only=True, eq=False)
class IsolatedContentDiffers(AtkError):
    """What was put into the folder of a run is not the Revision."""

    message: ClassVar[str] = (
        "The folder of the isolated run does not hold what the Revision or the declared inputs say: {paths}. Nothing "
        "was started. A declared file may have been edited meanwhile, or a Git filter gives another result each time: "
        "put that right and run again."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (NextCall("get_status"), NextCall("run_evaluation"))

    paths: list[str]


class Isolated(Value):
    """A Revision in a folder of its own: what a run records to check and remove it."""

    folder: str
    """Absolute; ATK's own. The worktree lies in it."""
    commit: Commit
    copies: dict[str, str] = {}
    """Repository path → fingerprint of each declared input that is the user's own and was copied."""
    inputs: tuple[str, ...] = ()
    """The declared inputs, project paths."""
    prefix: str = ""
    """The project folder seen from the worktree's top, as `Git.prefix`."""

    @property
    def worktree(self) -> str:
        """Where the Revision's files are."""
        return os.path.join(self.folder, WORKTREE)

    @property
    def project(self) -> str:
        """Where the project is in them."""
        return os.path.normpath(os.path.join(self.worktree, os.fsdecode(decode_path(self.prefix))))


def put_apart(  # noqa: PLR0913 - what, as it lies where, and for whom
    git: Git, isolated: Isolated, raw: RawBytes, around: Surroundings, *, store: str, scratch: str
) -> None:
    """Makes the folder and puts the Revision and the declared inputs there, byte for byte as they would be in place.

    Args:
        git: At the user's project, which is only read.
        isolated: What to put where.
        raw: Exact bytes of files that line endings, ident or encoding make differ from their blob.
        around: The user's state around the baseline: of a file that was dirty there, nobody knows the bytes it has
            when it is clean, and Git's rules make them.
        store: The path of the project's store, which the folder is marked with.
        scratch: An own folder.

    Raises:
        NoPlaceOutside: The folder cannot be ours alone.
        IsolatedContentDiffers: The result is not the Revision.
        AtkError: Git cannot read or check out the Revision.
        OSError: The folder cannot be written.
    """
    make_place(isolated.folder, store)
    os.makedirs(isolated.project, exist_ok=True)
    with _linked(git, isolated, scratch) as (link, eyes):
        eyes.run("read-tree", "--reset", "-u", isolated.commit, cwd=eyes.top, settings=_WHOLE)
        _write_exact(eyes, isolated, raw, around.dirty)
        for path in sorted(isolated.copies):
            _copy(git.top, eyes.top, decode_path(path))
        _lend(git, isolated, link)
    if differing := apart_differs(git, isolated, scratch):
        raise IsolatedContentDiffers(paths=differing[:20])


def apart_differs(git: Git, isolated: Isolated, scratch: str) -> list[str]:
    """Returns the repository paths in which the folder is not the Revision with the declared inputs.

    Raises:
        AtkError: Something lies there that Git cannot record.
    """
    before = Surroundings(untracked=isolated.copies)
    with _linked(git, isolated, scratch) as (link, eyes):
        place = (link, isolated.worktree)
        with Git(isolated.worktree, git.program, linked=place, settings=conversions(git)) as whole:
            found = {c.path for c in draft_changes(whole, isolated.commit, before, scratch, at_head=False)}
        tracked = {encode_path(path) for path, _ in entries(eyes, isolated.commit)}
        now = input_fingerprints(eyes, isolated.inputs)
    found |= {
        path
        for path in {*now, *isolated.copies} - tracked
        if now.get(path, "absent") != isolated.copies.get(path, "absent")
    }
    return sorted(found)


@contextmanager
def _linked(git: Git, isolated: Isolated, scratch: str) -> Iterator[tuple[str, Git]]:
    """Yields an administrative folder, made anew, and git that sees the run's worktree through it.

    Whatever an agent did to its own repository there, a merge under way included, is not seen.
    """
    link = new_folder(scratch, "link")
    for name, text in (("HEAD", isolated.commit), ("commondir", git.common_dir)):
        with open(os.path.join(link, name), "wb") as file:
            file.write(os.fsencode(text) + b"\n")
    eyes = Git(isolated.project, git.program, linked=(link, isolated.worktree), settings=conversions(git))
    try:
        yield link, eyes
    finally:
        eyes.close()


def _write_exact(eyes: Git, isolated: Isolated, raw: RawBytes, besides: Collection[str]) -> None:
    """Gives files of the project the bytes that they have in place, where Git's conversions made others.

    Git checks out by its rules of today; a file of the user's may lie there with other line endings since long ago.
    """
    top, prefix = eyes.top, decode_path(isolated.prefix)
    differing: dict[bytes, str] = {}
    for path, entry in entries(eyes, isolated.commit):
        wanted = raw.get((encode_path(path), entry.oid), entry.oid)
        ours = path.startswith(prefix) and encode_path(path) not in besides and entry.mode.startswith("100")
        if ours and look(top, path).kind == "file" and blob_id(top, path, eyes.algorithm) != wanted:
            differing[path] = wanted
    driven = attributed(eyes, differing)
    for path, blob in differing.items():
        if path not in driven:
            with open(os.path.join(os.fsencode(top), path), "wb") as file:
                file.writelines(eyes.stream(blob))


def _copy(source: str, target: str, path: bytes) -> None:
    """Copies a declared input of the user's; what is no file and no link is left out, and found to differ."""
    full = os.path.join(os.fsencode(target), path)
    if look(target, path).kind in {"file", "link"}:
        os.unlink(full)
    found = look(source, path)
    if found.kind not in {"file", "link"}:
        return
    os.makedirs(os.path.dirname(full), exist_ok=True)
    if look(target, path).kind != "absent":
        return
    if found.kind == "link":
        os.symlink(os.readlink(os.path.join(os.fsencode(source), path)), full)
        return
    with open_file(source, path) as file, open(full, "xb") as copy:
        shutil.copyfileobj(file, copy)
        os.fchmod(copy.fileno(), stat.S_IMODE(os.fstat(file.fileno()).st_mode) | stat.S_IRUSR)


def _lend(git: Git, isolated: Isolated, link: str) -> None:
    """Makes the repository that the agent finds: at the Revision, with the user's objects, refs and configuration."""
    top = isolated.worktree
    options = ("--template=", f"--object-format={git.algorithm}")
    git.run("init", "-q", *options, top, settings={"init.defaultRefFormat": "files"})
    own = os.path.join(top, ".git")
    with open(os.path.join(own, "config"), "rb") as file:
        config = file.read()
    shared = os.fsencode(git.common_dir)
    said = git.run("for-each-ref", "--format=%(objectname) %(refname)").out
    refs = [x for x in said.splitlines() if b" refs/atk/" not in x]
    for name, content in {
        "config": b"[include]\n\tpath = " + _quoted(shared + b"/config") + b"\n" + config + _OWN,
        "HEAD": isolated.commit.encode() + b"\n",
        "packed-refs": b"".join(x + b"\n" for x in refs),
        "objects/info/alternates": _quoted(shared + b"/objects") + b"\n",
    }.items():
        _write(os.path.join(own, name), content)
    for name in ("shallow", "info/attributes", "info/exclude"):
        if os.path.isfile(os.path.join(git.common_dir, name)):
            os.makedirs(os.path.dirname(os.path.join(own, name)), exist_ok=True)
            shutil.copyfile(os.path.join(git.common_dir, name), os.path.join(own, name))
    shutil.copyfile(os.path.join(link, "index"), os.path.join(own, "index"))


def _quoted(path: bytes) -> bytes:
    escaped = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + escaped + b'"'


def _write(path: str, content: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)


def user_copies(around: Surroundings, tracked: Collection[str], ours: Collection[str]) -> dict[str, str]:
    """Returns the declared inputs that no commit holds as they were, with their fingerprints.

    `tracked` are the paths of the baseline, `ours` those that the Round's own changes touch.
    """
    return {
        path: mark
        for path, mark in around.inputs.items()
        if path not in ours and (path in around.dirty or (path not in tracked and mark != "absent"))
    }
