"""Finds the files of sessions in a folder by what they hold, and says so in a dry run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar, NamedTuple

from operations.importers._cells import has_not_finite
from operations.importers._export_rows import Damage, RawRow, rows_of
from operations.importers._folders import ExportFile, Found, RoleWithoutFile, full_path, is_stray_link, names_in
from operations.importers._source import Feed, Format, Options, Sample, Suggestion
from operations.importers._streams import Opened, format_of, opened
from operations.importers._tally import Tally
from storage.masking import Masker
from storage.schema.traces import Completeness

LOOKED_AT = 20
"""Rows at the beginning of a file of which one must be a session's."""


class MaskedRow(NamedTuple):
    """A line that was masked."""

    number: int
    line: int | None
    value: dict[str, Any]
    payload: bytes


def masked_rows(feed: Feed, number: int) -> Iterator[MaskedRow]:
    """Yields the lines of a file, masked; numbers that JSON does not have are counted as lossy."""
    for row in feed.rows(number):
        if not row.plain and has_not_finite(row.value):
            feed.tally.outcome("line.numbers", "lossy")
        yield MaskedRow(row.number, row.line, *feed.guard.masked(row.value, row.raw))


class SessionSource(ABC):
    """What every format of sessions has in common; see `_source.Source`."""

    roles = ("session",)
    profile: ClassVar[str]

    def __init__(self, options: Options) -> None:
        self._namespace = options.namespace
        self._options = options

    @staticmethod
    @abstractmethod
    def is_line(value: Mapping[str, Any]) -> bool:
        """Whether a row is a line of such a session."""

    @abstractmethod
    def records(self, feed: Feed) -> Iterator[dict[str, Any]]:
        """Yields a record for each session, whichever files its lines are in."""

    def find(self, path: str) -> Found:
        """Returns the files whose first rows are lines of a session.

        Raises:
            EvidenceRefused: There is nothing at the path.
        """
        return find_sessions(path, self.is_line, self._options)

    def rows(self, file: ExportFile, opened: Opened) -> Iterator[RawRow | Damage]:
        """Yields the lines of a file."""
        del file
        return rows_of(opened)

    def fields(self, tally: Tally) -> dict[str, dict[str, int]]:
        """Returns what was kept of each field."""
        return tally.outcomes()

    def completeness(self, *, partial: bool) -> Completeness:
        """Files of sessions do not say whether there are more of them."""
        return "partial" if partial else "unknown"


def find_sessions(path: str, is_line: Callable[[Mapping[str, Any]], bool], options: Options) -> Found:
    """Returns the JSONL files at `path` that hold sessions; a file that was itself named is taken as it is.

    `file_roles` may leave files out (`ignore`); of what else the options say of rows there is nothing to apply.

    Raises:
        RoleWithoutFile: `file_roles` names a file that is not there.
        EvidenceRefused: There is nothing at the path, or a file cannot be unpacked.
    """
    names = names_in(path)
    if absent := tuple(name for name in options.file_roles if name not in names):
        raise RoleWithoutFile(given=absent, path=path, found=tuple(names[:20]))
    found = Found(warnings=_unused(options))
    for name in names:
        file = full_path(path, name)
        is_left = options.file_roles.get(name) == "ignore" or format_of(name) != "jsonl" or is_stray_link(path, file)
        if not is_left and (file == path or _holds(file, is_line)):
            found.files.append(ExportFile(file, name, 0))
        else:
            found.skipped.append(name)
    return found


def _unused(options: Options) -> list[str]:
    """Returns a warning of what was said and is not used: sessions name their own fields."""
    columns = {**options.columns.named(), **{name: name for mapping in options.mappings for name in mapping}}
    said = {
        "adapter_profile": options.adapter_profile,
        "mapping": columns or options.root_observation_name,
        "json_columns": options.json_columns,
        "file_roles other than ignore": set(options.file_roles.values()) - {"ignore"},
    }
    names = [name for name, given in said.items() if given]
    return [f"not used for sessions, which name their own fields: {', '.join(names)}"] if names else []


def _holds(file: str, is_line: Callable[[Mapping[str, Any]], bool]) -> bool:
    with opened(file) as source:
        first = list(islice(rows_of(source), LOOKED_AT))
    return any(isinstance(row, RawRow) and is_line(row.value) for row in first)


def session_format(kind: str, name: str, source: type[SessionSource]) -> Format:
    """Returns the format of a source of sessions, which are called `name`."""

    def role_of(row: RawRow) -> int | None:
        return 0 if source.is_line(row.value) else None

    def suggest(
        found: Suggestion, path: str, samples: Sequence[Sample], roles: Mapping[str, int | None], masker: Masker
    ) -> None:
        del path, samples, masker
        found.fits = {file: "session" if role is not None else "ignore" for file, role in roles.items()}
        found.request = {"source_kind": kind}
        found.unknown = ["scores: sessions hold none"]
        found.message = f"Sessions of {name}. Send the request in next."

    return Format(kind=kind, open=source, role_of=role_of, suggest=suggest)
