"""Holds the worktree against what a Round stands at: the current revision, the user's frozen files, declared inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from operations.tuning import lifecycle
from operations.tuning.identity import declared_inputs
from storage.checkpoints import Change, changes_between, draft_changes, entries
from storage.git import Git
from storage.schema.candidates import Candidate
from storage.schema.projects import Project
from storage.schema.rounds import Round
from storage.worktree import Surroundings, encode_path, in_scope, shown_path, surroundings

_NAMED = 8
"""How many of the user's files a sentence names."""


def frozen_paths(git: Git, around: Surroundings) -> frozenset[str]:
    """Returns the project paths of the user's own uncommitted files."""
    return frozenset(shown_path(git, path) for path in (*around.dirty, *around.untracked))


def parted(git: Git, value: Round, changes: Iterable[Change]) -> tuple[list[Change], list[str]]:
    """Parts changes of the worktree into those that are about a Round and, by their project paths, the user's own.

    Where the plan runs Revisions apart, nothing that runs sees a file outside the scope or one that the user had left
    uncommitted: such edits are the user's own. In place all that differs is about the Round.
    """
    around, plan = Surroundings.model_validate(value.surroundings), value.plan
    if plan is None or plan.replay != "isolated":
        return list(changes), []
    frozen = frozen_paths(git, around)
    about: list[Change] = []
    own: list[str] = []
    for change in changes:
        path = shown_path(git, change.path)
        if in_scope(path, plan.allowed_paths) and path not in frozen:
            about.append(change)
        else:
            own.append(path)
    return about, sorted(own)


def left_alone(paths: Sequence[str]) -> list[str]:
    """Returns a sentence that names the user's own edits, for an answer; none where there are none."""
    if not paths:
        return []
    named = ", ".join(paths[:_NAMED]) + (f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else "")
    return [f"Outside the scope and no part of this, since Revisions run apart: {named}. They are left as they are."]


def require_clean(git: Git, value: Round, project: Project, scratch: str) -> None:
    """Refuses a worktree that is not the Round's current revision with the user's files around it as they were.

    Raises:
        SurroundingsChanged: Files outside the scope, or the user's own, are not as the Round froze them.
        FilesInTheWay: Files inside the scope hold changes that no commit has.
        HeadMoved: HEAD is not where the Round stands.
    """
    around = Surroundings.model_validate(value.surroundings)
    refuse_changes(git, value, project, draft_changes(git, value.current_commit, around, scratch))


def refuse_changes(git: Git, value: Round, project: Project, changes: Iterable[Change]) -> None:
    """Refuses `changes` that keep the worktree from being what the Round stands at; none is no refusal."""
    around = Surroundings.model_validate(value.surroundings)
    allowed = value.plan.allowed_paths if value.plan else project.allowed_paths
    frozen = frozen_paths(git, around)
    about, _ = parted(git, value, changes)
    found = {path: _became(change, frozen, path) for change in about if (path := shown_path(git, change.path))}
    lifecycle.require_clean(value, found, frozen, lambda path: in_scope(path, allowed))


def _became(change: Change, frozen: frozenset[str], path: str) -> str:
    """Says whether a path is new, changed or gone; the user's own files were there without a commit."""
    if change.after is None:
        return "gone"
    return "changed" if change.before is not None or path in frozen else "new"


def adopted_paths(git: Git, value: Round) -> frozenset[str]:
    """Returns the repository paths of the Round's adopted change.

    Where the configuration names one of them, its fingerprint was taken before the baseline was restored; no ignored
    file is among them, so Git compares them all.
    """
    if value.adopt_commit is None:
        return frozenset()
    return frozenset(c.path for c in changes_between(git, value.baseline_commit, value.adopt_commit, {}))


def require_inputs(git: Git, value: Round, project: Project, candidates: Iterable[Candidate]) -> None:
    """Refuses when files that the configuration names, ignored by Git or not, are not as the Round froze them.

    What a candidate of the Round or its adopted change touches is Git's to compare, and left out. So is what a commit
    holds where Revisions run apart: they find it as the commit has it.

    Raises:
        SurroundingsChanged: It names them.
    """
    before = Surroundings.model_validate(value.surroundings).inputs
    now = surroundings(git, declared_inputs(project)).inputs
    ours = {change["path"] for c in candidates if c.round_id == value.id for change in c.changes}
    ours |= adopted_paths(git, value)
    moved = [path for path in {*now, *before} if now.get(path) != before.get(path) and path not in ours]
    if moved and value.plan is not None and value.plan.replay == "isolated":
        held = {encode_path(path) for path, _ in entries(git, value.baseline_commit)}
        moved = [path for path in moved if path not in held]
    if moved:
        found = {shown_path(git, p): "gone" if not now.get(p) else "changed" if before.get(p) else "new" for p in moved}
        raise lifecycle.SurroundingsChanged(round_id=value.id, paths=sorted(found), how=lifecycle.described(found))
