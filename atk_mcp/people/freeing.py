"""`atk gc`: what can be freed: reports, which can be made again, and leftovers, which are nobody's. Never evidence."""

from __future__ import annotations

import argparse
import os
from datetime import UTC, datetime

from atk_mcp.people.tables import as_json, console, table
from atk_mcp.terminal import say
from storage import recovery
from storage.project import Project
from storage.transaction import Call
from storage.views import REPORTS

KEPT = ("journal", "datasets", "evidence", "assessments", "validations", "selections", "deals")


def gc(given: argparse.Namespace, root: str) -> int:
    """Says what is kept and what can be freed, and frees it unless it is a dry run.

    Raises:
        StoreDamaged: The store is to be put right first.
        OSError: The disk refuses, for instance since it is read-only.
    """
    project = Project.open(root)
    state = project.state()
    freed = [
        ("reports", f"{REPORTS}/{name}", _size(project.store.full(f"{REPORTS}/{name}")))
        for name in project.store.names(REPORTS)
    ]
    freed += [("leftovers", path, _size(project.store.full(path))) for path in recovery.nobodys(project.store, state)]
    kept = [(name, _size(project.store.full(name))) for name in KEPT if project.store.exists(name)]
    if not given.dry_run:
        at = datetime.now(UTC).isoformat()  # noqa: TID251 - a command is its own call
        project.recover(Call(operation="atk gc", arguments={}, request_id=None, at=at))
        project.store.remove_tree(REPORTS)
        freed = [entry for entry in freed if not project.store.exists(entry[1])]  # another process may be at work
    total = sum(size for _, _, size in freed)
    if given.json:
        as_json(
            {"freed": [{"what": w, "path": p, "bytes": s} for w, p, s in freed], "kept": dict(kept), "bytes": total}
        )
        return 0
    if freed:
        console().print(table(("What", "Path in .atk/", "#Bytes"), [(w, p, f"{s:,}") for w, p, s in freed]))
    verb = "can be freed; without --dry-run they are" if given.dry_run else "were freed"
    say(f"{total:,} bytes {verb}." if freed else "There is nothing to free.")
    say("Kept: " + ", ".join(f"{name} {size:,}" for name, size in kept) + " bytes. Evidence is never freed.")
    return 0


def _size(path: str) -> int:
    if not os.path.isdir(path):
        return os.lstat(path).st_size if os.path.lexists(path) else 0
    return sum(os.lstat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(path) for name in names)
