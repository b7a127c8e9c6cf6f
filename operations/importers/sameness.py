"""Tells whether an export was imported before: the same content, read and masked in the same way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from storage.frames import canonical, digest
from storage.projection import State
from storage.schema.projects import Project
from storage.schema.traces import SourceFile


def fingerprints(request: BaseModel, files: Sequence[SourceFile], state: State) -> tuple[str, ...]:
    """Returns what is the same for the same content read in the same way, and under what it was kept before.

    Args:
        request: That of the import, which decides how the files are read.
        files: What was read; neither their names count nor how they are packed.
        state: The project, whose own rules of masking count.
    """
    config = request.model_dump(mode="json", include={"source_kind", "adapter_profile", "mapping", "json_columns"})
    said = request.model_dump(mode="json", include={"source_namespace", "mapping_version", "filtered_scope"})
    found = []
    for digests in ([one.content_sha256 or one.sha256 for one in files], [one.sha256 for one in files]):
        read = sorted([file.role, sha256] for file, sha256 in zip(files, digests, strict=True))
        found.append(digest(canonical([read, config, said, *_rules(state)])))
    return tuple(dict.fromkeys(found))


def _rules(state: State) -> list[Any]:
    """Returns the project's own rules of masking; what is the default is left out."""
    (project,) = state.all(Project)
    own = [sorted(project.redact_patterns), project.second_look]
    return [sorted(project.redact_keys), *([own] if any(own) else [])]
