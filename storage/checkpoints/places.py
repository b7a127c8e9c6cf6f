"""Where an isolated run has its folder: outside the user's, private, and marked with the store that it belongs to."""

from __future__ import annotations

import json
import os
import secrets
import stat
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from storage.errors import AtkError, NextCall
from storage.files import FOLDER_MODE, Folder, open_plain
from storage.git import Git

MARKER = "atk-run.json"
"""In a run's folder: which store it belongs to."""

WORKTREE = "worktree"
"""Beside it: the Revision's files."""


@dataclass(kw_only=True, eq=False)
class NoPlaceOutside(AtkError):
    """There is no folder outside the user's in which a Revision could be put."""

    message: ClassVar[str] = (
        "An isolated run needs a folder outside {top}, and none of these can be used: {tried}. Set XDG_CACHE_HOME to a "
        "folder of your own that is outside it and can be written, and restart the server."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (NextCall("get_status"),)

    top: str
    tried: list[str]


def choose_place(git: Git, project_id: str, batch_id: str) -> str:
    """Returns the path of a new run's folder, which nobody had before. Nothing is made yet.

    Raises:
        NoPlaceOutside: The user's cache folder and the system's temporary one lie inside the worktree or are not ours.
    """
    tried = []
    for base in _bases():
        tried.append(base)
        if os.path.commonpath([base, git.top]) != git.top and _usable(base):
            return os.path.join(base, project_id, f"{batch_id}-{secrets.token_hex(8)}")
    raise NoPlaceOutside(top=git.top, tried=tried)


def make_place(folder: str, store: str) -> str:
    """Makes a run's folder, marked as that of the store at the path `store`. Returns the worktree's path, empty.

    Raises:
        NoPlaceOutside: A folder that leads there is a link or somebody else's.
        OSError: It cannot be made.
    """
    above = os.path.dirname(folder)
    os.makedirs(os.path.dirname(os.path.dirname(above)), FOLDER_MODE, exist_ok=True)
    for each in (os.path.dirname(above), above):
        with suppress(FileExistsError):
            os.mkdir(each, FOLDER_MODE)
        if not _ours_alone(each):
            raise NoPlaceOutside(top=os.path.dirname(store), tried=[each])
    os.mkdir(folder, FOLDER_MODE)
    with Folder(folder) as place:
        place.replace(MARKER, json.dumps({"store": store, **_identity(store)}).encode("ascii"))
    worktree = os.path.join(folder, WORKTREE)
    os.mkdir(worktree, FOLDER_MODE)
    return worktree


def remove_place(folder: str, store: str) -> bool:
    """Removes the folder that a run of this store recorded; anything else stays. Returns whether it is gone.

    One without a mark that can be read is what a killed start or a power cut left, where only such things lie in it.
    """
    if not os.path.lexists(folder):
        return True
    marked = _mark(folder)
    if not (_is_of(marked, store) if marked is not None else _only_ours(folder)):
        return False
    above, name = os.path.split(folder)
    with Folder(above) as place:
        # The mark goes last: while something stays, the next sweep has to know whose it is.
        gone = place.clear(f"{name}/{WORKTREE}") and place.clear(name)
    with suppress(OSError):  # others of the project's runs are still there
        os.rmdir(above)
    return gone


def sweep_places(store: str, project_id: str, keep: Collection[str]) -> list[str]:
    """Removes the folders of this store's runs that are not in `keep`: what a crash after the sealing left.

    Returns those that the system does not let go of.
    """
    kept = []
    for base in _bases():
        above = os.path.join(base, project_id)
        with suppress(FileNotFoundError, NotADirectoryError):
            for name in os.listdir(above):
                folder = os.path.join(above, name)
                if folder not in keep and _is_of(_mark(folder) or {}, store) and not remove_place(folder, store):
                    kept.append(folder)
    return kept


def _bases() -> Iterator[str]:
    cache = os.environ.get("XDG_CACHE_HOME", "")
    yield os.path.realpath(os.path.join(cache if cache.startswith("/") else os.path.expanduser("~/.cache"), "atk/runs"))
    yield os.path.realpath(os.path.join(tempfile.gettempdir(), f"atk-{os.getuid()}/runs"))


def _usable(base: str) -> bool:
    """Whether a folder is ours alone, or can be made."""
    if os.path.lexists(base):
        return _ours_alone(base)
    above = os.path.dirname(base)
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    return os.path.isdir(above) and os.access(above, os.W_OK | os.X_OK)


def _ours_alone(folder: str) -> bool:
    about = os.lstat(folder)
    return stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid() and not about.st_mode & 0o077


def _mark(folder: str) -> dict[str, object] | None:
    """Returns what a folder's mark says; None where it has none that can be read."""
    try:
        with open_plain(os.path.join(folder, MARKER)) as file:
            marked = json.load(file)
    except (OSError, ValueError):
        return None
    return marked if isinstance(marked, dict) else None


def _is_of(marked: Mapping[str, object], store: str) -> bool:
    """Whether a mark is of this store: by its path, or by what it is, where it was moved.

    A copy of a project has another store, whose runs of the same ids are none of the first one's.
    """
    return marked.get("store") == store or {k: marked.get(k) for k in ("device", "inode")} == _identity(store)


def _only_ours(folder: str) -> bool:
    about = os.lstat(folder)
    return stat.S_ISDIR(about.st_mode) and set(os.listdir(folder)) <= {MARKER, f".{MARKER}.new", WORKTREE}


def _identity(store: str) -> dict[str, int]:
    about = os.stat(store, follow_symlinks=False)
    return {"device": about.st_dev, "inode": about.st_ino}
