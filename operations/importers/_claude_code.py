"""The format `claude_code`: sessions of Claude Code, as its project folders keep them or as its stream prints them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from operations.importers._claude_lines import identity_of, is_line, line_of, session_of
from operations.importers._claude_session import record_of
from operations.importers._grouping import groups
from operations.importers._json_values import loads
from operations.importers._session_files import MaskedRow, SessionSource, masked_rows, session_format
from operations.importers._sorting import Row, Sorter
from operations.importers._source import Feed

_HELD = 10_000
"""Lines at the head of a file that may wait for the first one that names a session."""


class ClaudeCode(SessionSource):
    """Sessions of Claude Code; see `_source.Source`."""

    profile = "claude_code"
    is_line = staticmethod(is_line)

    def records(self, feed: Feed) -> Iterator[dict[str, Any]]:
        """Yields a record for each session, whichever files its lines are in.

        Lines are sorted twice: by what is the same in every copy of them, to tell which session wrote each first, and
        then by session.

        Raises:
            ValuesConflict: Two lines of one `uuid` and one time say different things.
            TraceTooLarge: A session has more than is put together in memory.
        """
        copies, sessions = Sorter(f"{feed.runs}-copies"), Sorter(feed.runs)
        names = [file.name for file in feed.found.files]
        try:
            self._file_copies(feed, copies)
            owners = _Owners(copies)
            for same in groups(copies):
                owner = owners.of(same)
                for _, count, session, _, *place, payload in same:
                    sessions.add((session, count, *place, None if session == owner else _text(owner), payload))
            copies.close()
            for rows in groups(sessions):
                lines = [
                    line_of(loads(payload), _locator(names[file], row, line), copied_from)
                    for _, _, file, row, line, copied_from, payload in rows
                ]
                yield record_of(_text(rows[0][0]), self._namespace, lines, feed.tally)
        finally:
            copies.close()
            sessions.close()

    def _file_copies(self, feed: Feed, copies: Sorter) -> None:
        """Files every line under what its copies share: (key, number, session, time, file, row, line, payload)."""
        count = 0
        for number, file in enumerate(feed.found.files):
            for session, row in _with_sessions(file.name, masked_rows(feed, number)):
                count += 1
                when = row.value.get("timestamp")
                place = (session.encode("utf-8", "surrogatepass"), when if isinstance(when, str) else "", number)
                copies.add((identity_of(row.value, row.payload), count, *place, row.number, row.line, row.payload))


class _Owners:
    """Tells which session wrote a line first, where several hold it.

    The one that has nothing of its own yet, since a resumed session goes on; else the one whose own lines begin first;
    of two that are even the shorter one, which the other one goes on from.
    """

    def __init__(self, rows: Sorter) -> None:
        self._began: dict[bytes, str] = {}
        self._lines: dict[bytes, int] = {}
        for same in groups(rows):
            holders = {row[2] for row in same}
            for holder in holders:
                self._lines[holder] = self._lines.get(holder, 0) + 1
            if len(holders) == 1 and (times := [row[3] for row in same if row[3]]):
                (holder,) = holders
                self._began[holder] = min([*times, self._began.get(holder, min(times))])

    def of(self, same: Sequence[Row]) -> bytes:
        """Returns the session that wrote a line first, of which these are the copies."""
        owner: bytes = min({row[2] for row in same}, key=self._rank)
        return owner

    def _rank(self, session: bytes) -> tuple[str, int, bytes]:
        return self._began.get(session, ""), self._lines[session], session


def _with_sessions(name: str, rows: Iterator[MaskedRow]) -> Iterator[tuple[str, MaskedRow]]:
    """Yields each row with its session: its own, else that of the row before, else that of the first row with one."""
    current: str | None = None
    waiting: list[MaskedRow] = []
    for row in rows:
        named = session_of(row.value)
        if named is None and current is None and len(waiting) < _HELD:
            waiting.append(row)
            continue
        current = named or current or _stem(name)
        yield from ((current, held) for held in waiting)
        waiting = []
        yield current, row
    yield from ((_stem(name), held) for held in waiting)


def _stem(name: str) -> str:
    return name.rpartition("/")[2].partition(".")[0]


def _locator(name: str, row: int, line: int | None) -> dict[str, Any]:
    return {"file": name, "row": row} | ({} if line is None else {"line": line})


def _text(key: bytes) -> str:
    return key.decode("utf-8", "surrogatepass")


FORMAT = session_format("claude_code", "Claude Code", ClaudeCode)
