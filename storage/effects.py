"""Effects outside the store: each a list of steps that can be made so again and again.

A step names what must be there before and after. Doing it twice is doing it once; finding neither stops it
before it changes anything. So an intent that a crash left open is finished by the code that began it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from storage import checkpoints as git_states
from storage.checkpoints import Change
from storage.git import Git
from storage.worktree import Head, read_head

Step = Mapping[str, Any]


def hold(ref: str, commit: str) -> Step:
    """A ref of ATK's that keeps a commit alive."""
    return {"do": "hold", "ref": ref, "commit": commit}


def rewrite(changes: Sequence[Change], folders: Sequence[str] = (), head: Head | None = None) -> Step:
    """Paths of the worktree, brought from `before` to `after`. `folders` stay even when they become empty.

    With `head`, only while HEAD is there: what is to be restored belongs to that commit.
    """
    return {
        "do": "rewrite",
        "changes": [c.model_dump(mode="json") for c in changes],
        "folders": list(folders),
        "head": head.model_dump(mode="json") if head else None,
    }


def publish(head: Head, commit: str, changes: Sequence[Change]) -> Step:
    """The branch, moved from `head` to `commit`, and the user's index with it."""
    return {
        "do": "publish",
        "head": head.model_dump(mode="json"),
        "commit": commit,
        "changes": [c.model_dump(mode="json") for c in changes],
    }


def flush(git: Git) -> None:
    """Makes the objects that steps name survive a power cut, so that an intent on the disk can be made so.

    Raises:
        GitSyncFailed: The disk reported an error.
    """
    git.sync()


ALL_OURS = 0
"""Instead of the time of the announcement: no lock stood then, so one that could be ours is. Clocks may have jumped."""

NONE_OURS = 1 << 63
"""Instead of it: a lock stood then, and nothing tells it from one of ours."""


def strangers_locks(git: Git) -> bool:
    """Whether a lock stands that hinders no step, but would hinder taking back a ref; it is not ours to remove."""
    return os.path.lexists(os.path.join(git.refs.shared, "packed-refs.lock"))


def require_unlocked(git: Git, steps: Sequence[Step]) -> None:
    """Refuses to announce what a standing lock of Git's is in the way of, so that a lock found later is younger.

    Raises:
        GitLocked: It names the lock.
    """
    for step in steps:
        if step["do"] == "publish":
            git_states.require_unlocked(git, Head.model_validate(step["head"]))
        elif step["do"] == "hold":
            git_states.require_refs_unlocked(git)


def make_it_so(git: Git, steps: Sequence[Step], *, since_ns: int, scratch: str) -> None:
    """Carries out `steps`, each of them idempotent. `since_ns` is when they were announced; `scratch` an own folder.

    Raises:
        AtkError: A target is in neither its before nor its after state; that step changed nothing.
    """
    for step in steps:
        match step["do"]:
            case "hold":
                git_states.hold(git, step["ref"], step["commit"], intent_time_ns=since_ns)
            case "rewrite":
                head = Head.model_validate(step["head"]) if step.get("head") else None
                git_states.rewrite(git, _changes(step), scratch, set(step["folders"]), head=head)
            case "publish":
                head = Head.model_validate(step["head"])
                git_states.publish(git, head, step["commit"], _changes(step), since_ns, scratch)
            case other:
                raise ValueError(f"BUG: no step {other!r}")


def take_back(git: Git, steps: Sequence[Step], *, since_ns: int, scratch: str) -> None:
    """Removes the refs of ATK's own that `steps` made, and locks of theirs, for an intent that is given up.

    A new try makes its own, and would take a lock that is older than itself for a stranger's.

    Raises:
        AtkError: A ref could not be removed; the intent then stays open and is finished at the next call.
    """
    for step in steps:
        if step["do"] == "hold" and git.ref(step["ref"]) in (step["commit"], None):
            git_states.release(git, step["ref"], step["commit"], intent_time_ns=since_ns)
        elif step["do"] == "publish":
            head = Head.model_validate(step["head"])
            git_states.clear_locks(git, head, step["commit"], _changes(step), ALL_OURS, scratch)  # none stood then


def untouched(git: Git, steps: Sequence[Step], scratch: str) -> bool:
    """Whether none of `steps` that touches what is the user's has begun, so that giving up changes nothing."""
    return not any(_begun(git, step, scratch) for step in steps)


def _begun(git: Git, step: Step, scratch: str) -> bool:
    match step["do"]:
        case "rewrite":
            return bool(git_states.classify(git, _changes(step), scratch).after)
        case "publish":
            return read_head(git).commit == str(step["commit"])
        case _:
            return False


def _changes(step: Step) -> tuple[Change, ...]:
    return tuple(Change.model_validate(c) for c in step["changes"])
