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
from storage.checkpoints.objects import RefTaken, build_tree, commit_tree, hold, release
from storage.checkpoints.publishing import BranchShared, Staged, publish
from storage.checkpoints.restoring import rewrite
from storage.checkpoints.states import States, UnknownContent, classify

__all__ = [
    "BranchShared",
    "Change",
    "Entry",
    "LeavesWorktree",
    "NameCollision",
    "OtherRepository",
    "RefTaken",
    "SpecialFile",
    "Staged",
    "States",
    "UnknownContent",
    "build_tree",
    "changes_between",
    "classify",
    "commit_tree",
    "draft_changes",
    "hold",
    "inverse",
    "publish",
    "release",
    "rewrite",
    "user_files",
]
