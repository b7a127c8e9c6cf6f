"""What a Candidate may change: paths declared, allowed and protected, and nothing that the user left uncommitted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from storage.errors import AtkError, NextCall

_PUT_BACK = "Put those files back (git restore, or remove new ones), or cancel the draft and prepare "
_NAMED = f"{_PUT_BACK}one that names them."
_NEVER = f"{_PUT_BACK}one without them: no candidate may change what the plan protects."
_YOURS = (
    "No candidate may change what was uncommitted when the Round was created, and git restore does not bring it back: "
    "write their earlier content again; or end this Round with finish_round and action abandon, and create another "
    "from now."
)
"""How to go on, by what is wrong: not all that changed can be restored from a commit, or be named by a candidate."""
InScope = Callable[[str, Sequence[str]], bool]


@dataclass(kw_only=True, eq=False)
class OutOfScope(AtkError):
    """A change lies outside what the Candidate declared or what the plan allows."""

    message = (
        "The change is not within its scope. {problem}: {paths}. Allowed: {allowed}; protected: {protected}. {ways_out}"
    )
    next_calls = (
        NextCall("seal_candidate", {"round_id": "{round_id}", "candidate_id": "{candidate_id}"}),
        NextCall("cancel_draft", {"round_id": "{round_id}", "candidate_id": "{candidate_id}"}, {"reason": "why"}),
    )

    round_id: str
    candidate_id: str
    problem: str
    paths: list[str]
    allowed: list[str]
    protected: list[str]
    ways_out: str = _NAMED


@dataclass(kw_only=True, eq=False)
class NothingChanged(AtkError):
    """A draft without a change cannot be sealed."""

    message = "{candidate_id} changes nothing: the worktree is as its parent {parent:.12}. Edit the files, then seal."
    next_calls = (
        NextCall("seal_candidate", {"round_id": "{round_id}", "candidate_id": "{candidate_id}"}),
        NextCall("cancel_draft", {"round_id": "{round_id}", "candidate_id": "{candidate_id}"}, {"reason": "why"}),
    )

    round_id: str
    candidate_id: str
    parent: str


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The frame of one Candidate. Paths and patterns are relative to the project's folder."""

    round_id: str
    candidate_id: str
    declared: tuple[str, ...]
    """Exactly these paths; empty means any within `allowed`."""
    allowed: tuple[str, ...]
    protected: tuple[str, ...]
    frozen: frozenset[str]
    """The user's own uncommitted files, which no Candidate may touch."""


def check_declared(scope: Scope, in_scope: InScope) -> None:
    """Refuses declared paths that the plan does not allow.

    Raises:
        OutOfScope: It names them.
    """
    _refuse(scope, "Declared outside allowed_paths", [p for p in scope.declared if not in_scope(p, scope.allowed)])
    _refuse(scope, "Declared but protected", [p for p in scope.declared if in_scope(p, scope.protected)])
    _refuse(scope, "Declared but uncommitted before the Round", [p for p in scope.declared if p in scope.frozen])


def check_changes(scope: Scope, changed: Collection[str], in_scope: InScope) -> None:
    """Refuses changed paths outside the frame; a path that was declared and not changed is refused as well.

    Raises:
        OutOfScope: It names them.
    """
    _refuse(scope, "Changed though uncommitted before the Round", [p for p in changed if p in scope.frozen])
    _refuse(scope, "Changed but protected", [p for p in changed if in_scope(p, scope.protected)])
    _refuse(scope, "Changed outside allowed_paths", [p for p in changed if not in_scope(p, scope.allowed)])
    if scope.declared:
        _refuse(scope, "Changed but not declared", [p for p in changed if p not in scope.declared])
        _refuse(scope, "Declared but not changed", [p for p in scope.declared if p not in changed])


def _refuse(scope: Scope, problem: str, paths: list[str]) -> None:
    if paths:
        raise OutOfScope(
            round_id=scope.round_id,
            candidate_id=scope.candidate_id,
            problem=problem,
            paths=sorted(paths),
            allowed=list(scope.allowed),
            protected=list(scope.protected),
            ways_out=_way_out(problem),
        )


def _way_out(problem: str) -> str:
    if problem.endswith("but protected"):
        return _NEVER
    return _YOURS if problem.endswith("uncommitted before the Round") else _NAMED
