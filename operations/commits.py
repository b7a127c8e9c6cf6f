"""Holds what a project recorded of commits against its repository: which are gone, and which it does not know."""

from __future__ import annotations

import re
from dataclasses import dataclass

from storage.errors import AtkError
from storage.git import Git
from storage.project import ATK
from storage.projection import State
from storage.schema.rounds import Revision

LOOKED_AT = 50
"""Commits of HEAD's first parents in which keeps are looked for."""

_ROUND = re.compile(rb"^ATK-Round: (\S+)$", re.MULTILINE)
_RECORD = re.compile(rb"^ATK-Operation: ([0-9]{1,18})$", re.MULTILINE)


@dataclass(frozen=True)
class Made:
    """A commit that a Round made, and the journal record by which it says so."""

    commit: str
    round_id: str
    record: int


def lost(git: Git, state: State) -> list[Revision]:
    """Returns the Revisions whose commit the repository does not have any more."""
    known = state.all(Revision)
    gone = git.missing(revision.commit for revision in known)
    return [revision for revision in known if revision.commit in gone]


def left_behind(root: str) -> str | None:
    """Returns a sentence where a folder without a project has refs or commits of ATK's, or None.

    Git carries no `.atk/` to a clone, and takes it away where it is told to clean what is ignored.
    """
    try:
        with Git(root) as git:
            if git.prefix:  # what Git has here may be of another folder's project
                return None
            found = git.run("for-each-ref", "--count=1", "refs/atk/").out or _made(git, "HEAD")
    except AtkError:  # no repository, or none with a commit: nothing that was kept can lie here
        return None
    if not found:
        return None
    return (
        f"Git has traces of a project here, and {ATK} is gone or was never copied: it is in no clone. Take it from "
        "where it is, or `atk export` it there and `atk import-project` it here, before a new project is made."
    )


def ahead(git: Git, commit: str, state: State) -> Made | None:
    """Returns the newest commit up to `commit` that says it was made by a record past the journal's end.

    A store that was put back from an old copy looks so. Commits of Rounds that the journal does not have may be of
    somebody else's store, and tell nothing.
    """
    for made in _made(git, commit):
        if made.round_id in state.objects.get("round", {}) and made.record > state.position.number:
            return made
    return None


def _made(git: Git, commit: str) -> list[Made]:
    """Returns what Rounds made among the first parents of a commit, the newest first."""
    asked = ("rev-list", "--first-parent", f"--max-count={LOOKED_AT}", "--no-commit-header", "--format=%H%n%B%x00")
    found = []
    for text in git.run(*asked, "--end-of-options", commit).out.split(b"\0"):
        name, _, message = text.strip().partition(b"\n")
        of, record = _ROUND.findall(message), _RECORD.findall(message)
        if of and record:
            found.append(Made(name.decode(), of[-1].decode(errors="replace"), int(record[-1])))
    return found
