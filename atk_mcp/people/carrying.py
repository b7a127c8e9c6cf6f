"""`atk export` and `atk import-project`: a project's whole store to another machine, and verified there."""

from __future__ import annotations

import argparse
import os
from datetime import UTC, datetime

from atk_mcp.people.tables import as_json
from atk_mcp.terminal import say
from operations import verification
from operations.wording import counted
from storage import carrying
from storage.project import Project
from storage.transaction import Call


def export(given: argparse.Namespace, root: str) -> int:
    """Writes the store into one file.

    Raises:
        ExportExists: There is something at the path.
        ExportInside: The path lies in the store.
        WorkInProgress: A run or an operation is open.
        OSError: The file cannot be written.
    """
    at = datetime.now(UTC).isoformat()  # noqa: TID251 - a command is its own call
    path = os.path.abspath(os.path.expanduser(given.path))
    made = carrying.export(Project.open(root), Call(operation="atk export", arguments={}, request_id=None, at=at), path)
    if given.json:
        as_json({"path": path, **vars(made)})
    else:
        held = f"{counted(made.files, 'file')}, {made.bytes:,} bytes"
        say(f"{made.project_id} as of journal record {made.journal_record}: {held}.")
        say(f"{path} holds all evidence and the masking key: keep it as private as the project.")
        say("Holdout keys and the Git repository are not in it: atk key export, git clone.")
    return 0


def bring(given: argparse.Namespace, root: str) -> int:
    """Unpacks such a file and makes every digest, count and Decision again. Returns 1 where something differs.

    Raises:
        ProjectInPlace: There is a store.
        ExportUnusable: The file is no export, or something in it is not what its manifest says.
        OSError: The file cannot be read, or the folder not be written.
    """
    path = os.path.abspath(os.path.expanduser(given.path))
    made = carrying.bring(path, root)
    report = verification.verify(Project.open(root))
    if given.json:
        as_json({"root": root, **vars(made), "findings": [str(f) for f in report.findings]})
    else:
        say(f"{made.project_id} is in {root}: {counted(made.files, 'file')}, journal record {made.journal_record}.")
        for finding in report.findings:
            say(f"  {finding}")
        say("Everything is what it was." if not report.findings else f"{counted(len(report.findings), 'difference')}.")
    return 1 if report.findings else 0
