"""Says whether a repository is in a state that a Round can be built on, and refuses what is not, changing nothing."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from storage.errors import AtkError, NextCall
from storage.git import CorruptRepository, FilterMissing, Git
from storage.worktree.disk import look
from storage.worktree.facts import (
    PRIVATE,
    Head,
    attributed,
    check_idle,
    fresh_index,
    is_linked_store,
    joined,
    read_head,
    tags,
)
from storage.worktree.facts import changed as changed_paths
from storage.worktree.paths import encode_path


@dataclass(kw_only=True, eq=False)
class BareRepository(AtkError):
    """The repository has no worktree."""

    message: ClassVar[str] = "{path} is a bare repository and has no files to work on. Name a folder of a clone of it."
    next_calls: ClassVar[tuple[NextCall, ...]] = (NextCall("initialize_project"),)

    path: str


@dataclass(kw_only=True, eq=False)
class WorktreeElsewhere(AtkError):
    """Git's worktree is not where the project is."""

    message: ClassVar[str] = (
        "Git's worktree is {top}, which does not contain the project {path}. Look at core.worktree in the "
        "repository's configuration, or name a folder below {top}."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (NextCall("initialize_project"),)

    path: str
    top: str


@dataclass(kw_only=True, eq=False)
class StoreIsLink(AtkError):
    """The store is a symbolic link."""

    message: ClassVar[str] = "{path} is a symbolic link; ATK writes only to a real folder. Remove the link."

    path: str


@dataclass(kw_only=True, eq=False)
class TrackedStore(AtkError):
    """Git tracks files of the store."""

    message: ClassVar[str] = (
        "Git tracks {paths} of ATK's store, so a commit would contain it. Run `git rm -r --cached .atk`, add `.atk/` "
        "to .gitignore and commit that."
    )

    paths: tuple[str, ...]


@dataclass(kw_only=True, eq=False)
class FilterUnstable(AtkError):
    """A filter driver gives another result each time."""

    message: ClassVar[str] = (
        "The Git filter {driver} gives different results for the same bytes of {paths}, so no content can be checked. "
        "Repair the filter, or remove the attribute from these files."
    )

    driver: str
    paths: tuple[str, ...]


@dataclass(kw_only=True, eq=False)
class HiddenChange(AtkError):
    """A bit in the index hides that files differ from HEAD."""

    message: ClassVar[str] = (
        "assume-unchanged or skip-worktree hides changes in {paths}, so the baseline would not be what ran. Run "
        "`git update-index --no-assume-unchanged --no-skip-worktree` on them, then commit or undo the changes."
    )

    paths: tuple[str, ...]


@dataclass(kw_only=True, eq=False)
class HardlinkedFile(AtkError):
    """Tracked files share their bytes with other names."""

    message: ClassVar[str] = (
        "Further hard links lead to {paths}; an edit in place would change those files too. Replace each by a copy of "
        "its own (`cp f f.new && mv f.new f`)."
    )

    paths: tuple[str, ...]


def shown(paths: Collection[bytes]) -> tuple[str, ...]:
    """Returns paths in order, as they stand in an error."""
    return tuple(encode_path(x) for x in sorted(paths))


def ready(git: Git) -> Head:
    """Returns where HEAD stands, when nothing about the repository forbids to build on it.

    Files of the user's that differ from HEAD are no reason to refuse here: `surroundings` reports them.

    Raises:
        AtkError: One subclass for each state that must be put right first.
    """
    _check_place(git)
    head = read_head(git)
    tree = git.run("ls-tree", "-r", "-z", "--name-only", head.commit, ok=(0, 1, 128))
    if tree.status:
        raise CorruptRepository(reason=tree.err[-300:])
    check_idle(git)
    if tracked := git.records("ls-files", "-z", "--", ".atk"):
        raise TrackedStore(paths=shown(tracked))
    with tempfile.TemporaryDirectory(prefix="atk-") as folder:
        files = _tracked_files(git)
        _check_filters(git, files, folder)
        _check_hardlinks(git, files)
        _check_hidden(git, head, folder)
    return head


def _check_place(git: Git) -> None:
    if is_linked_store(git):
        raise StoreIsLink(path=os.path.join(git.root, ".atk"))
    if git.line("rev-parse", "--is-bare-repository") == "true":
        raise BareRepository(path=git.root)
    if os.path.commonpath([git.top, git.root]) != git.top:
        raise WorktreeElsewhere(path=git.root, top=git.top)


def _tracked_files(git: Git) -> list[bytes]:
    """Returns the tracked paths under the project at which a regular file lies."""
    return [x for x in git.records("ls-files", "-z", "--full-name") if look(git.top, x).kind == "file"]


def _check_filters(git: Git, files: Collection[bytes], folder: str) -> None:
    drivers: dict[str, list[bytes]] = {}
    for path, driver in attributed(git, files).items():
        drivers.setdefault(driver, []).append(path)
    for driver, paths in drivers.items():
        first = _filtered(git, paths, os.path.join(folder, "filtered"))
        if first != _filtered(git, paths, os.path.join(folder, "filtered-again")):
            raise FilterUnstable(driver=driver, paths=shown(paths))


def _filtered(git: Git, paths: Collection[bytes], index: str) -> list[bytes]:
    """Returns what Git would record for the files now, through their filters."""
    options = ("-z", "--add", "--stdin")
    said = git.run("update-index", *options, stdin=joined(paths), index=index, cwd=git.top, settings=PRIVATE)
    if "external filter" in said.err or "cannot run" in said.err:
        raise FilterMissing(reason=said.err[-300:])
    entries = git.records("ls-files", "-s", "-z", index=index, cwd=git.top)
    os.unlink(index)
    return entries


def _check_hardlinks(git: Git, files: Collection[bytes]) -> None:
    found = ((x, look(git.top, x).status) for x in files)
    if linked := [path for path, status in found if status and status.st_nlink > 1]:
        raise HardlinkedFile(paths=shown(linked))


def _check_hidden(git: Git, head: Head, folder: str) -> None:
    suspects = {path for tag, path in tags(git) if tag.islower() or tag == b"S"}
    if not suspects:
        return
    if hidden := suspects & changed_paths(git, fresh_index(git, head.commit, folder)):
        raise HiddenChange(paths=shown(hidden))
