"""Tells whether an export was imported before: the same content, read and masked in the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from storage.frames import canonical, digest
from storage.projection import State
from storage.schema.projects import Project
from storage.schema.traces import SourceFile


def fingerprint(files: Sequence[SourceFile], config: Mapping[str, Any], said: Mapping[str, Any], state: State) -> str:
    """Returns what is the same for the same content read in the same way.

    Args:
        files: What was read; their names do not count.
        config: What decides how they are read.
        said: What the person says of them.
        state: The project, whose own rules of masking count.
    """
    read = sorted([file.role, file.sha256] for file in files)
    return digest(canonical([read, dict(config), dict(said), *_rules(state)]))


def _rules(state: State) -> list[Any]:
    """Returns the project's own rules of masking; what is the default is left out."""
    (project,) = state.all(Project)
    own = [sorted(project.redact_patterns), project.second_look]
    return [sorted(project.redact_keys), *([own] if any(own) else [])]
