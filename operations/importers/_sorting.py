"""Sorts more rows than memory holds: sorted runs in a folder, then one merge of them.

Runs were chosen over a temporary SQLite: they write and read each byte once and in order, so that time grows with
the size of the export and not with the seeks of a tree that no longer fits the page cache.
"""

from __future__ import annotations

import heapq
import marshal
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, BinaryIO

Row = tuple[Any, ...]
"""A key in bytes, a number that no other row has, then what belongs to them: bytes, texts, integers and None."""

RUN_BYTES = 16 * 1024 * 1024
"""Payload that is sorted in memory at once."""

BLOCK_BYTES = 64 * 1024
"""What is read of each run at a time."""

FAN_IN = 200
"""Runs that are merged at once; so many files are open."""

_OVERHEAD = 300
"""Bytes that a row costs in memory beside its payload."""


class Sorter:
    """Rows go in in any order and come out sorted by key, then number. Call `close` in every case."""

    def __init__(self, folder: str) -> None:
        """Keeps its runs in `folder`, which is made when the first one is written."""
        self._folder = folder
        self._rows: list[Row] = []
        self._size = 0
        self._runs: list[str] = []
        self._made = 0

    def add(self, row: Row) -> None:
        """Takes one row; its last item is its payload in bytes."""
        self._rows.append(row)
        self._size += len(row[-1]) + _OVERHEAD
        if self._size >= RUN_BYTES:
            self._spill()

    def extend(self, rows: list[Row], size: int) -> None:
        """Takes some rows, whose payloads have `size` bytes together."""
        self._rows += rows
        self._size += size + _OVERHEAD * len(rows)
        if self._size >= RUN_BYTES:
            self._spill()

    def __iter__(self) -> Iterator[Row]:
        """Yields the rows in order. What is still in memory is not written."""
        while len(self._runs) > FAN_IN:
            some, self._runs = self._runs[:FAN_IN], self._runs[FAN_IN:]
            self._runs.append(self._write(heapq.merge(*map(_read, some))))
            for path in some:
                os.unlink(path)
        self._rows.sort()
        return heapq.merge(*map(_read, self._runs), self._rows) if self._runs else iter(self._rows)

    def close(self) -> None:
        """Removes the runs."""
        self._rows.clear()
        if self._made:
            self._made = 0
            with suppress(FileNotFoundError):  # whoever writes the Records failed, and took the folder away before
                for name in os.listdir(self._folder):
                    os.unlink(os.path.join(self._folder, name))
                os.rmdir(self._folder)

    def _spill(self) -> None:
        self._rows.sort()
        self._runs.append(self._write(self._rows))
        self._rows.clear()
        self._size = 0

    def _write(self, rows: Iterable[Row]) -> str:
        if not self._made:
            os.mkdir(self._folder, 0o700)
        self._made += 1
        path = os.path.join(self._folder, f"run-{self._made}")
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            block: list[Row] = []
            size = 0
            for row in rows:
                block.append(row)
                size += len(row[-1]) + _OVERHEAD
                if size >= BLOCK_BYTES:
                    marshal.dump(block, file)
                    block, size = [], 0
            marshal.dump(block, file)
            marshal.dump(None, file)
        return path


def _read(path: str) -> Iterator[Row]:
    with open(path, "rb") as file:
        while (block := _block(file)) is not None:
            yield from block


def _block(file: BinaryIO) -> list[Row] | None:
    found: list[Row] | None = marshal.load(file)  # noqa: S302 - this process wrote it a moment ago, for itself
    return found
