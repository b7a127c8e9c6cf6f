"""Holds the worktree against what a Round stands at: the current revision, the user's frozen files, declared inputs."""

from __future__ import annotations

from collections.abc import Iterable

from operations.tuning import lifecycle
from operations.tuning.identity import declared_inputs
from storage.checkpoints import Change, changes_between, draft_changes
from storage.git import Git
from storage.schema.candidates import Candidate
from storage.schema.projects import Project
from storage.schema.rounds import Round
from storage.worktree import Surroundings, in_scope, shown_path, surroundings


def frozen_paths(git: Git, around: Surroundings) -> frozenset[str]:
    """Returns the project paths of the user's own uncommitted files."""
    return frozenset(shown_path(git, path) for path in (*around.dirty, *around.untracked))


def require_clean(git: Git, value: Round, project: Project, scratch: str, *, ended: bool = False) -> None:
    """Refuses a worktree that is not the Round's current revision with the user's files around it as they were.

    Raises:
        SurroundingsChanged: Files outside the scope, or the user's own, are not as the Round froze them.
        FilesInTheWay: Files inside the scope hold changes that no commit has.
        HeadMoved: HEAD is not where the Round stands.
    """
    around = Surroundings.model_validate(value.surroundings)
    changes = draft_changes(git, value.current_commit, around, scratch)
    refuse_changes(git, value, project, changes, ended=ended)


def refuse_changes(git: Git, value: Round, project: Project, changes: Iterable[Change], *, ended: bool = False) -> None:
    """Refuses `changes`, which keep the worktree from being what the Round stands at; none is no refusal.

    Where all has been run that a Round `ended` with, and apart from the user's folder, files outside the scope are the
    user's to edit.
    """
    around = Surroundings.model_validate(value.surroundings)
    allowed = value.plan.allowed_paths if value.plan else project.allowed_paths
    frozen = frozen_paths(git, around)
    found = {path: _became(change, frozen, path) for change in changes if (path := shown_path(git, change.path))}
    if ended and value.plan is not None and value.plan.replay == "isolated":  # what was run never saw these files
        found = {path: how for path, how in found.items() if in_scope(path, allowed) and path not in frozen}
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

    What a candidate of the Round or its adopted change touches is Git's to compare, and left out.

    Raises:
        SurroundingsChanged: It names them.
    """
    before = Surroundings.model_validate(value.surroundings).inputs
    now = surroundings(git, declared_inputs(project)).inputs
    ours = {change["path"] for c in candidates if c.round_id == value.id for change in c.changes}
    ours |= adopted_paths(git, value)
    moved = [path for path in {*now, *before} if now.get(path) != before.get(path) and path not in ours]
    if moved:
        found = {shown_path(git, p): "gone" if not now.get(p) else "changed" if before.get(p) else "new" for p in moved}
        raise lifecycle.SurroundingsChanged(round_id=value.id, paths=sorted(found), how=lifecycle.described(found))
