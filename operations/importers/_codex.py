"""The format `codex`: sessions of Codex, as rollout files keep them or as `codex exec --json` prints them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from operations.importers._cells import has_not_finite
from operations.importers._codex_lines import Line, ancestors_named, id_in_name, is_line, read_line, session_named
from operations.importers._codex_session import Session
from operations.importers._export_rows import Damage, RawRow, rows_of
from operations.importers._folders import ExportFile, Found
from operations.importers._grouping import groups
from operations.importers._json_values import loads
from operations.importers._session_files import find_sessions, suggest_sessions
from operations.importers._sorting import Sorter
from operations.importers._source import Feed, Format, Options, Sample, Suggestion
from operations.importers._streams import Opened
from operations.importers._tally import Tally
from storage.masking import Masker
from storage.schema.traces import Completeness

_OPENING = ("session_meta", "thread.started", None)
"""Types of lines that may name their session; the oldest form's have none."""


class Codex:
    """Sessions of Codex; see `_source.Source`."""

    roles = ("session",)
    profile = "codex"

    def __init__(self, options: Options) -> None:
        self._namespace = options.namespace
        self._options = options

    def find(self, path: str) -> Found:
        """Returns the files whose first rows are lines of a session.

        Raises:
            EvidenceRefused: There is nothing at the path.
        """
        return find_sessions(path, is_line, self._options)

    def rows(self, file: ExportFile, opened: Opened) -> Iterator[RawRow | Damage]:
        """Yields the lines of a file."""
        del file
        return rows_of(opened)

    def records(self, feed: Feed) -> Iterator[dict[str, Any]]:
        """Yields a record for each session, whichever files its lines are in.

        Raises:
            ValuesConflict: Two lines of one place in a session say different things.
            TraceTooLarge: A session has more than is put together in memory.
        """
        sorter = Sorter(feed.runs)
        names = [file.name for file in feed.found.files]
        try:
            count = 0
            for number, file in enumerate(feed.found.files):
                opener = _Opener(file.name)
                for row in feed.rows(number):
                    count += 1
                    if not row.plain and has_not_finite(row.value):
                        feed.tally.outcome("line.numbers", "lossy")
                    value, payload = feed.guard.masked(row.value, row.raw)
                    sorter.add((opener.session(value), count, number, row.number, row.line, payload))
            for rows in groups(sorter):
                session = Session(self._namespace, feed.tally)
                for _, _, number, row_number, line, payload in rows:
                    session.take(number, names[number], row_number, line, loads(payload))
                yield session.record(_id_of(rows[0][0]))
        finally:
            sorter.close()

    def fields(self, tally: Tally) -> dict[str, dict[str, int]]:
        """Returns what was kept of each field."""
        return tally.outcomes()

    def completeness(self, *, partial: bool) -> Completeness:
        """Files of sessions do not say whether there are more of them."""
        return "partial" if partial else "unknown"


class _Opener:
    """Tells which session the lines of one file belong to: the one that the last head named."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._id = id_in_name(name)
        self._headed = False
        self._ancestors: set[str] = set()

    def session(self, value: Mapping[str, Any]) -> bytes:
        """Returns the key of the session of the next line. A head that names an ancestor's is copied history."""
        if value.get("type") in _OPENING:
            self._open(read_line(value))
        return b"i" + self._id.encode("utf-8", "surrogatepass") if self._id else b"n" + self._name.encode()

    def _open(self, line: Line) -> None:
        named = session_named(line)
        if named is None:
            return
        if not self._headed or (named != self._id and named not in self._ancestors):
            self._id, self._headed, self._ancestors = named, True, set()
        self._ancestors |= ancestors_named(line)


def _id_of(key: bytes) -> str | None:
    return key[1:].decode("utf-8", "surrogatepass") if key.startswith(b"i") else None


def _role_of(row: RawRow) -> int | None:
    return 0 if is_line(row.value) else None


def _suggest(
    found: Suggestion, path: str, samples: Sequence[Sample], roles: Mapping[str, int | None], masker: Masker
) -> None:
    del path, samples, masker
    suggest_sessions(found, "codex", roles)
    found.unknown = ["scores: sessions hold none"]
    found.message = "Sessions of Codex. Send the request in next."


FORMAT = Format(kind="codex", open=Codex, role_of=_role_of, suggest=_suggest)
