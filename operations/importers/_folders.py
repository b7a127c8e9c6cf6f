"""Finds the files of an export and what each of them holds; what is no evidence is named and left alone."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from operations.importers._fields import OBSERVATION, SCORE, TRACE
from operations.importers._intake import BUNDLE
from operations.importers._json_values import parse
from operations.importers._rows import MAX_LINE, open_regular
from operations.importers._streams import ELSEWHERE, EvidenceRefused, ExportFormatUnknown, format_of
from storage.errors import NextCall

ROLE_NAMES = {"trace": TRACE, "observation": OBSERVATION, "score": SCORE, "bundle": BUNDLE}
PROFILES = {"langfuse_trace_bundle": BUNDLE, "langfuse_observation_rows": OBSERVATION}
MAX_FILES = 100_000
LONGEST = 4096
"""Characters of a path; a longer key of a manifest is of no file."""

_TABLES = {"observations_v2": OBSERVATION, "observations": OBSERVATION, "traces": TRACE, "scores": SCORE}
_UI_NAME = re.compile(r"\d+-lf-([a-z_]+)-export-")
_UI_TABLES = {"traces": TRACE, "observations": OBSERVATION, "events": OBSERVATION, "scores": SCORE}
_DOWNLOAD = re.compile(r"(?:trace|session)-.+\.json", re.IGNORECASE)


@dataclass(kw_only=True, eq=False)
class SourceMissing(EvidenceRefused):
    """There is nothing to import at the path."""

    message = "{path} is neither a file nor a folder. Give the path of an export, absolute or relative to the project."
    next_calls: ClassVar[tuple[NextCall, ...]] = ELSEWHERE

    path: str


@dataclass(kw_only=True, eq=False)
class RolesUnknown(EvidenceRefused):
    """Nothing says what some files hold."""

    message = (
        "Nothing says what is in {files}. Give adapter_profile (langfuse_trace_bundle or langfuse_observation_rows) "
        "for one kind of row, or file_roles with trace, observation, score, bundle or ignore for each file. "
        "A call with dry_run says which fit."
    )

    files: tuple[str, ...]


@dataclass(kw_only=True, eq=False)
class RoleWithoutFile(EvidenceRefused):
    """`file_roles` names a file that is not there."""

    message = "file_roles names {given}, which is not in {path}. Name a file that is there: {found}."

    given: tuple[str, ...]
    path: str
    found: tuple[str, ...]


@dataclass(frozen=True)
class ExportFile:
    """A file to be read: where it is, how locators call it, and what its rows are."""

    path: str
    name: str
    role: int


@dataclass
class Found:
    """What was found at a path."""

    files: list[ExportFile] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    partial: bool = False
    """Whether something of the export is known to be missing."""
    row_counts: dict[str, int] = field(default_factory=dict)
    """How many rows a manifest says that a file has."""


def names_in(path: str) -> list[str]:
    """Returns the names of the files at `path`, relative to it: its own when it is a file. Links are not followed.

    Raises:
        SourceMissing: There is nothing.
    """
    if os.path.isfile(path):
        return [os.path.basename(path)]
    if not os.path.isdir(path):
        raise SourceMissing(path=path)
    found: list[str] = []
    for folder, folders, files in os.walk(path):
        folders.sort()
        found += [os.path.relpath(os.path.join(folder, name), path) for name in sorted(files)]
        if len(found) > MAX_FILES:
            raise SourceMissing(path=f"{path} (more than {MAX_FILES} files)")
    return sorted(name.replace(os.sep, "/") for name in found)


def full_path(source: str, name: str) -> str:
    """Returns where the file called `name` of a source lies."""
    return source if os.path.isfile(source) else os.path.join(source, *name.split("/"))


def is_stray_link(source: str, path: str) -> bool:
    """Returns whether a file of a folder is a link, which is left alone; what was named itself is followed."""
    return path != source and os.path.islink(path)


def _readable(source: str) -> list[str]:
    """Returns `names_in(source)`.

    Raises:
        ExportFormatUnknown: The source is one file, in no format that is read.
    """
    names = names_in(source)
    if os.path.isfile(source) and format_of(source) is None:
        raise ExportFormatUnknown(path=source)
    return names


def find_files(source: str, profile: str | None, file_roles: Mapping[str, str]) -> Found:
    """Returns the files of a Langfuse export by role.

    A role is the one given in `file_roles`, else the one that the exporter's own names say, else the profile's.

    Raises:
        SourceMissing: There is nothing at `source`.
        RoleWithoutFile: `file_roles` names a file that is not there.
        RolesUnknown: Nothing says what a file holds.
    """
    names = _readable(source)
    known = frozenset(names)
    if absent := tuple(name for name in file_roles if name not in known):
        raise RoleWithoutFile(given=absent, path=source, found=tuple(names[:20]))
    found = Found()
    manifests = {name: None for name in names if "manifests" in name.split("/")[:-1] and name.endswith(".json")}
    listed = _Listed(_rows_listed(source, manifests, found))
    unknown: list[str] = []
    for name in names:
        path = full_path(source, name)
        if name in manifests:
            continue
        role = _role(name, profile, file_roles)
        link = is_stray_link(source, path)
        if role is None or format_of(name) is None or not os.path.isfile(path) or link:
            given = name in file_roles or format_of(name) is None or _is_other_table(name)
            (found.skipped if given or link else unknown).append(name)
        elif manifests and name not in file_roles and not listed.keys(name):
            found.skipped.append(name)
            found.partial = True
            found.warnings.append(f"file without manifest: {name}; its export did not end, so it was left out")
        else:
            found.files.append(ExportFile(path, name, role))
    if unknown:
        raise RolesUnknown(files=tuple(unknown))
    there = {key for name in names for key in listed.keys(name)} if manifests else set()
    for key in sorted(listed.rows.keys() - there):
        if _table(key) is not None:
            found.partial = True
            found.warnings.append(f"a manifest names {key}, which is not there")
    found.row_counts = {
        one.name: rows for one in found.files for key in listed.keys(one.name) if (rows := listed.rows[key]) is not None
    }
    return found


def find_tables(source: str) -> Found:
    """Returns the files of rows of results: every file in a format that is read.

    Raises:
        SourceMissing: There is nothing at `source`.
    """
    found = Found()
    for name in _readable(source):
        path = full_path(source, name)
        if format_of(name) is None or is_stray_link(source, path):
            found.skipped.append(name)
        else:
            found.files.append(ExportFile(path, name, TRACE))
    return found


def _role(name: str, profile: str | None, file_roles: Mapping[str, str]) -> int | None:
    if name in file_roles:
        return ROLE_NAMES.get(file_roles[name])
    table = _table(name)
    if table is not None:
        return table
    base = name.rpartition("/")[2]
    if (ui := _UI_NAME.match(base)) is not None:
        return _UI_TABLES.get(ui[1])
    if _DOWNLOAD.fullmatch(base):
        return BUNDLE
    return PROFILES.get(profile or "")


def _table(name: str) -> int | None:
    """What the folder of a blob export says of the files in it."""
    parts = name.split("/")
    return _TABLES.get(parts[-2]) if len(parts) > 1 else None


def _is_other_table(name: str) -> bool:
    """Whether an export of the UI holds something that is no evidence, such as sessions or audit logs."""
    ui = _UI_NAME.match(name.rpartition("/")[2])
    return ui is not None and ui[1] not in _UI_TABLES


class _Listed:
    """What manifests name, found by the names of files: either may have more folders before it."""

    def __init__(self, rows: Mapping[str, int | None]) -> None:
        """`rows` are the keys, with the rows that each is said to have."""
        self.rows = rows
        self._by_ending: dict[str, list[str]] = {}
        for key in rows:
            for ending in _endings(key) if len(key) <= LONGEST else ():
                self._by_ending.setdefault(ending, []).append(key)

    def keys(self, name: str) -> list[str]:
        """Returns the keys that mean the file of a name."""
        return [*self._by_ending.get(name, ()), *(key for key in _endings(name) if key in self.rows and key != name)]


def _endings(path: str) -> Iterator[str]:
    """Yields a path, and what of it begins at each of its folders and at its name."""
    while path:
        yield path
        path = path.partition("/")[2]


def _rows_listed(source: str, manifests: Iterable[str], found: Found) -> dict[str, int | None]:
    """Returns the keys that manifests name, with the rows that they say each has."""
    listed: dict[str, int | None] = {}
    for name in manifests:
        with open_regular(full_path(source, name)) as file:
            raw = file.read(MAX_LINE)
        try:
            content: Any = parse(raw)[0].get("files")
            listed |= {str(one["key"]): one.get("rowCount") for one in content}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            found.partial = True
            found.warnings.append(f"the manifest {name} cannot be read, so it vouches for no file")
    return listed
