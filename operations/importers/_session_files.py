"""Finds the files of sessions in a folder by what they hold, and says so in a dry run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from operations.importers._export_rows import RawRow, rows_of
from operations.importers._folders import ExportFile, Found, full_path, names_in
from operations.importers._source import Suggestion
from operations.importers._streams import format_of, opened

LOOKED_AT = 20
"""Rows at the beginning of a file of which one must be a session's."""


def find_sessions(path: str, is_line: Callable[[Mapping[str, Any]], bool]) -> Found:
    """Returns the JSONL files at `path` that hold sessions; a file that was itself named is taken as it is.

    Raises:
        EvidenceRefused: There is nothing at the path, or a file cannot be unpacked.
    """
    found = Found()
    for name in names_in(path):
        file = full_path(path, name)
        if format_of(name) == "jsonl" and not os.path.islink(file) and (file == path or _holds(file, is_line)):
            found.files.append(ExportFile(file, name, 0))
        else:
            found.skipped.append(name)
    return found


def _holds(file: str, is_line: Callable[[Mapping[str, Any]], bool]) -> bool:
    with opened(file) as source:
        first = list(islice(rows_of(source), LOOKED_AT))
    return any(isinstance(row, RawRow) and is_line(row.value) for row in first)


def suggest_sessions(found: Suggestion, kind: str, roles: Mapping[str, int | None]) -> None:
    """Completes what a suggestion says of files and the request."""
    found.fits = {name: "session" if role is not None else "ignore" for name, role in roles.items()}
    found.request = {"source_kind": kind}
