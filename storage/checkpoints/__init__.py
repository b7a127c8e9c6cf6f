"""Moves the target between known states: draft, commit, worktree and branch, each step idempotent and checked."""

from storage.checkpoints.changes import (
    Change,
    Entry,
    LeavesWorktree,
    NameCollision,
    OtherRepository,
    SpecialFile,
    changes_between,
    draft_changes,
    inverse,
    user_files,
)
from storage.checkpoints.exact import RawBytes, entries, raw_bytes, revision_changes
from storage.checkpoints.isolated import Isolated, IsolatedContentDiffers, apart_differs, put_apart, user_copies
from storage.checkpoints.objects import RefTaken, build_tree, commit_tree, hold, release, require_refs_unlocked
from storage.checkpoints.places import NoPlaceOutside, choose_place, remove_place, sweep_places
from storage.checkpoints.publishing import BranchShared, Staged, clear_locks, publish, require_unlocked
from storage.checkpoints.restoring import StoreApart, rewrite
from storage.checkpoints.states import States, UnknownContent, classify

__all__ = [
    "BranchShared",
    "Change",
    "Entry",
    "Isolated",
    "IsolatedContentDiffers",
    "LeavesWorktree",
    "NameCollision",
    "NoPlaceOutside",
    "OtherRepository",
    "RawBytes",
    "RefTaken",
    "SpecialFile",
    "Staged",
    "States",
    "StoreApart",
    "UnknownContent",
    "apart_differs",
    "build_tree",
    "changes_between",
    "choose_place",
    "classify",
    "clear_locks",
    "commit_tree",
    "draft_changes",
    "entries",
    "hold",
    "inverse",
    "publish",
    "put_apart",
    "raw_bytes",
    "release",
    "remove_place",
    "require_refs_unlocked",
    "require_unlocked",
    "revision_changes",
    "rewrite",
    "sweep_places",
    "user_copies",
    "user_files",
]
