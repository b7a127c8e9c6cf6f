"""What keeps a project that can be stored from running."""

from __future__ import annotations

import os
import shutil

from storage.schema.projects import Project


def obstacles_of(record: Project) -> list[str]:
    """Returns what keeps a project that can be stored from running, as phrases."""
    found = []
    if record.adapter == "command":
        program = record.command[0]
        at = os.path.join(record.workspace_path, record.working_directory, program)
        there = os.path.exists(at) if "/" in program else shutil.which(program)
        if "{" not in program and not there:
            found.append(f"the program {program} is not found")
    unprotected = [effect.name for effect in record.external_effects if effect.protection is None]
    if unprotected:
        found.append(f"nothing protects {', '.join(unprotected)} of external_effects")
    return found
