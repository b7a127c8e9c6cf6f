"""Runs git, the one place that does, and names what goes wrong there."""

from storage.git.command import Git, Output, sync_disk
from storage.git.failures import (
    CorruptRepository,
    FilterMissing,
    GitFailed,
    GitLocked,
    GitMissing,
    GitSyncFailed,
    GitTimedOut,
    HeadMoved,
    NotARepository,
    RepositoryTooNew,
    UnsafeOwner,
    locked,
)

__all__ = [
    "CorruptRepository",
    "FilterMissing",
    "Git",
    "GitFailed",
    "GitLocked",
    "GitMissing",
    "GitSyncFailed",
    "GitTimedOut",
    "HeadMoved",
    "NotARepository",
    "Output",
    "RepositoryTooNew",
    "UnsafeOwner",
    "locked",
    "sync_disk",
]
