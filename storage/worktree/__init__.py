"""Facts about the user's worktree: what lies there, what Git would make of it, and whether it can be built on."""

from storage.worktree.facts import Head, NoCommitYet, OperationInProgress, check_idle, read_head, same_head
from storage.worktree.paths import (
    UnsafePattern,
    check_patterns,
    decode_path,
    encode_path,
    in_scope,
    project_path,
    repository_path,
    shown_path,
)
from storage.worktree.readiness import (
    BareRepository,
    FilterUnstable,
    HardlinkedFile,
    HiddenChange,
    StoreIsLink,
    TrackedStore,
    WorktreeElsewhere,
    ready,
)
from storage.worktree.snapshot import Surroundings, TooManyInputs, input_fingerprints, surroundings
from storage.worktree.steering import conversions, steered, steering

__all__ = [
    "BareRepository",
    "FilterUnstable",
    "HardlinkedFile",
    "Head",
    "HiddenChange",
    "NoCommitYet",
    "OperationInProgress",
    "StoreIsLink",
    "Surroundings",
    "TooManyInputs",
    "TrackedStore",
    "UnsafePattern",
    "WorktreeElsewhere",
    "check_idle",
    "check_patterns",
    "conversions",
    "decode_path",
    "encode_path",
    "in_scope",
    "input_fingerprints",
    "project_path",
    "read_head",
    "ready",
    "repository_path",
    "same_head",
    "shown_path",
    "steered",
    "steering",
    "surroundings",
]
