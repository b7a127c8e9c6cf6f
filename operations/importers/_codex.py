"""The format `codex`: sessions of Codex, as rollout files keep them or as `codex exec --json` prints them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from operations.importers._codex_lines import Line, ancestors_named, id_in_name, is_line, read_line, session_named
from operations.importers._codex_session import Session
from operations.importers._grouping import groups
from operations.importers._json_values import loads
from operations.importers._session_files import SessionSource, masked_rows, session_format
from operations.importers._sorting import Sorter
from operations.importers._source import Feed

_OPENING = ("session_meta", "thread.started", None)
"""Types of lines that may name their session; the oldest form's have none."""


class Codex(SessionSource):
    """Sessions of Codex; see `_source.Source`."""

    profile = "codex"
    is_line = staticmethod(is_line)

    def records(self, feed: Feed) -> Iterator[dict[str, Any]]:
        """Yields a record for each session, whichever files its lines are in.

        Raises:
            ValuesConflict: Two lines of one place in a session say different things.
            TraceTooLarge: A session has more than is put together in memory.
        """
        sorter = Sorter(feed.runs)
        names = [file.name for file in feed.found.files]
        try:
            _file(feed, sorter)
            for rows in groups(sorter):
                session = Session(self._namespace, feed.tally)
                for _, _, number, row_number, line, payload in rows:
                    session.take(number, names[number], row_number, line, loads(payload))
                yield session.record(_id_of(rows[0][0]))
        finally:
            sorter.close()


def _file(feed: Feed, sorter: Sorter) -> None:
    """Files every line under its session. What was read last is let go with this: it may be a line of megabytes."""
    count = 0
    for number, file in enumerate(feed.found.files):
        opener = _Opener(file.name)
        for row in masked_rows(feed, number):
            count += 1
            sorter.add((opener.session(row.value), count, number, row.number, row.line, row.payload))


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


FORMAT = session_format("codex", "Codex", Codex)
