"""The change of a candidate as Git shows it, bounded."""

from __future__ import annotations

from storage.errors import AtkError
from storage.project import Project
from storage.schema.candidates import Candidate

LINES = 400
"""Lines of a change that a report shows."""
_BYTES = 200_000


def diff_of(project: Project, candidate: Candidate) -> tuple[str | None, int]:
    """Returns the first lines of a sealed candidate's change, and how many more there are.

    None where nothing is sealed, or Git cannot show it (a copy of the store on a machine without the repository).
    """
    if candidate.sealed_commit is None:
        return None, 0
    options = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--unified=3", "-r", "-p")
    try:
        with project.git() as git:
            found = git.run("diff-tree", *options, candidate.parent_commit, candidate.sealed_commit).out
    except AtkError:  # the records say what changed; the page says that the content is elsewhere
        return None, 0
    lines = found.decode(errors="replace").splitlines()
    kept = "\n".join(lines[:LINES])[:_BYTES]
    return kept, len(lines) - len(kept.splitlines())
