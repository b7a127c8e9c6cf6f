"""Hands sorted rows on a group at a time, and refuses a group that would not fit into memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from operations.importers._intake import UNATTACHED
from operations.importers._sorting import Row
from operations.importers._streams import EvidenceRefused

MAX_TRACE = 256 * 1024 * 1024
"""Bytes of the rows of one trace or session, which is put together in memory."""

AT_ONCE = 1000
"""Rows of no trace that are handed on together."""


@dataclass(kw_only=True, eq=False)
class TraceTooLarge(EvidenceRefused):
    """One trace is more than is put together in memory."""

    message = (
        "The rows of trace {trace_id} are larger than {limit} bytes. Nothing was stored. Export fewer fields of it, or "
        "leave it out."
    )

    trace_id: str
    limit: int = MAX_TRACE


def groups(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yields the rows of each key together; those of `UNATTACHED` some at a time. A row's last item is its payload.

    Raises:
        TraceTooLarge: One key has more than is put together in memory.
    """
    for key, group in groupby(rows, key=_key):
        found: list[Row] = []
        size = 0
        for row in group:
            found.append(row)
            size += len(row[-1])
            if key == UNATTACHED and len(found) >= AT_ONCE:
                yield found
                found = []
            elif size > MAX_TRACE and key != UNATTACHED:
                raise TraceTooLarge(trace_id=key.decode("utf-8", "replace")[:80])
        if found:
            yield found


def _key(row: tuple[Any, ...]) -> bytes:
    key: bytes = row[0]
    return key
