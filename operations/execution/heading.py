"""A run without a Round: the commit that a caller names, which has to be HEAD's, and the Revision that it is."""

from __future__ import annotations

import re
from dataclasses import dataclass

from operations.tuning import running
from operations.tuning.identity import declared_inputs
from storage.errors import AtkError, NextCall
from storage.git import Git
from storage.schema.projects import Project
from storage.schema.rounds import Revision
from storage.transaction import Transaction
from storage.worktree import Head, Surroundings, shown_path, surroundings

_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_NAMES = ("refs/tags/{}", "refs/heads/{}", "{}")
"""Where a name is looked for, as Git does; the last is for whole refs."""


@dataclass(kw_only=True, eq=False)
class UncommittedFiles(AtkError):
    """A run without a Round is of a commit as a whole, and files differ from it."""

    message = (
        "A run without a Round is of HEAD's commit, and these tracked files are not as it has them: {paths}. Commit, "
        "restore or stash them (those of a submodule inside it), and call again. In a Round only the files inside "
        "allowed_paths have to be as committed."
    )
    next_calls = (NextCall("run_evaluation", {"revision_commit": "HEAD"}), NextCall("get_status"))

    paths: list[str]


def require_head(git: Git, head: Head, given: str | None) -> None:
    """Refuses what is not HEAD's commit: HEAD, a branch or a tag by name, or seven digits of a commit or more.

    Raises:
        RevisionMismatch: Nothing is given, it is no commit, or it is another one.
    """
    if given is None or not given.strip():
        problem = "neither round_id nor revision_commit is given; without a Round, HEAD is what can run"
        raise running.RevisionMismatch(given="(nothing)", problem=problem, possible=[head.commit])
    if given in {"HEAD", "@"} or (_COMMIT.fullmatch(given.lower()) and head.commit.startswith(given.lower())):
        return
    found = _named(git, given)
    if found != head.commit:
        named = f"that is commit {found:.12}, and" if found else "it is no branch, tag or commit of HEAD, and"
        problem = f"{named} without a Round, revision_commit has to be HEAD's commit"
        raise running.RevisionMismatch(given=given, problem=problem, possible=[head.commit])


def _named(git: Git, given: str) -> str | None:
    """Returns the commit of a branch or tag; a name is never read as an expression of Git's."""
    if "\0" in given:  # which no argument of a program can hold
        return None
    for form in _NAMES:
        name = form.format(given)
        well_formed = name.startswith("refs/") and not git.run("check-ref-format", name, ok=(0, 1)).status
        if well_formed and (found := git.ref(name + "^{commit}")):
            return found
    return None


def head_revision(git: Git, head: Head, project: Project, tx: Transaction, now: str) -> tuple[Revision, Surroundings]:
    """Returns the Revision that HEAD is with the user's declared inputs, and what lies around it.

    Raises:
        UncommittedFiles: Tracked files hold changes that no commit has.
    """
    around = surroundings(git, declared_inputs(project))
    if around.dirty:
        raise UncommittedFiles(paths=sorted(shown_path(git, path) for path in around.dirty))
    for known in tx.state.all(Revision):
        if (known.origin, known.commit, known.surroundings_digest) == ("head", head.commit, around.digest):
            return known, around
    fresh = Revision(
        id=tx.new_id("revision"),
        origin="head",
        commit=head.commit,
        tree=head.tree,
        surroundings_digest=around.digest,
        created_at=now,
    )
    return fresh, around
