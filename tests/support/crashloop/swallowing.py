"""Whether a call that met an error of the disk kept silent about it."""

from __future__ import annotations

import json
import re

from tests.support.crashloop.tracer import Ran

_HARMLESS = re.compile(r"(^|/)\.atk/(owners|lock)(/|$)|(^|/)\.staging-")
"""Places that are nobody's once the call has ended: what stays there is taken away by the next one."""

_SCRATCH = re.compile(r"(^|/)\.atk/work(/|$)")
"""No flush there promises anything."""

_WRITTEN_ANEW = re.compile(r"/evidence/[^/]+/attempts\.log$")
"""A run that lost its log ends; what the log says is sealed into another file, which is flushed."""

_OBJECT = re.compile(r"(^|/)\.git/objects/")
"""Where Git cannot link a new object to its name, it renames it instead: nothing is lost that could be told."""

_COMPARED = re.compile(r"/atk/runs/[^/]+/batch-[^/]+/worktree/(?!\.git/)")
"""An isolated run's folder is held against the Revision before anything starts: Git had written again what failed."""

_TRIED_OUT = re.compile(r"/atk/runs/[^/]+/batch-[^/]+/worktree/\.git/(config|t\w{6})( |$)")
"""What `git init` learns there of the file system; the configuration of the repository is the user's own."""

_VIEW = re.compile(r"/\.[^/]+\.json\.new$|/\.atk/[a-z]+(/[a-z]+-[^/]+)?$")


def swallowed(ran: Ran, at: int, refused: str, *, runs: bool) -> str:
    """Returns what was swallowed, or nothing. `refused` is the code of the refusal that the call is to end with.

    A call that answers as if nothing had been, without a warning, has met an error that does not matter: leftovers
    that could not be taken away. A flush that failed matters.
    """
    as_if_nothing_had_been = f"[{refused}]" in ran.stderr if refused else ran.status == 0
    if not as_if_nothing_had_been or len(ran.points) < at or _warned(ran):
        return ""
    point = ran.points[at - 1]
    if (refused or runs) and not point.flushes and _VIEW.search(point.path):
        return ""  # a refusal has no warnings, and a run is sealed by whoever comes; the next change writes the view
    if point.name in ("link", "linkat") and _OBJECT.search(point.path):
        return ""
    if point.name in ("mkdir", "mkdirat"):
        return ""  # what was to lie in a folder that is not there could not have been written: the folder was there
    if point.name == "sendfile":
        return ""  # Python copies by reading and writing then, and what fails there is told
    if _COMPARED.search(point.path) or (point.name in ("chmod", "symlink") and _TRIED_OUT.search(point.path)):
        return ""
    if _WRITTEN_ANEW.search(point.path) or _SCRATCH.search(point.path):
        return ""
    if not point.flushes and (_HARMLESS.search(point.path) or point.name in ("unlink", "unlinkat", "rmdir")):
        return ""
    return f"an error of {point} was swallowed: {ran.stdout[-200:]}"


def _warned(ran: Ran) -> bool:
    if "warning: " in ran.stderr:
        return True
    try:
        answer = json.loads(ran.stdout)
    except ValueError:
        return False
    return isinstance(answer, dict) and bool(answer.get("warnings") or answer.get("status") == "interrupted")
