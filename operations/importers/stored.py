"""How the Records of an import lie in the store, and how one of them is read without reading the others.

`records.jsonl` holds one line for each Record. `records.index` says of every block of lines where it lies and what its
digest is, so that a Record is checked by its own block; the index is checked by the digest in the journal.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from operations.importers._json_values import dumps, loads
from operations.importers._shares import Record
from storage import contents
from storage.files import StoreDamaged
from storage.masking import SecondLook
from storage.project import Project
from storage.projection import State

RECORDS = "records.jsonl"
INDEX = "records.index"
SCORES = "scores.jsonl"

BLOCK = 32
"""Records in one block."""

_ENTRY = struct.Struct("<QQ32s")

_DIGITS = 16
"""Digits that no Record's number has."""


class RecordWriter:
    """Makes the lines of `records.jsonl`, and the index once all have been made."""

    def __init__(self, second_look: SecondLook | None = None) -> None:
        """`second_look` looks at the lines before they are stored."""
        self._second_look = second_look
        self.count = 0
        self._index = bytearray()
        self._offset = 0

    def lines(self, records: Iterable[Record]) -> Iterator[bytes]:
        """Yields the lines in blocks; each Record gets its number, from 1."""
        blocks = self._blocks(records)
        for block in self._second_look.lines(blocks) if self._second_look else blocks:
            yield self._close(block)

    def _blocks(self, records: Iterable[Record]) -> Iterator[list[bytes]]:
        block: list[bytes] = []
        for record in records:
            self.count += 1
            if isinstance(record, bytes):  # JSON of an object, which has at least one field
                block.append(b'{"n":%d,%b\n' % (self.count, record[1:]))
            else:
                block.append(dumps({"n": self.count, **record}) + b"\n")
            if len(block) == BLOCK:
                yield block
                block = []
        if block:
            yield block

    @property
    def index(self) -> bytes:
        """The content of `records.index`."""
        return bytes(self._index)

    def _close(self, lines: list[bytes]) -> bytes:
        data = b"".join(lines)
        self._index += _ENTRY.pack(self._offset, len(data), hashlib.sha256(data).digest())
        self._offset += len(data)
        return data


def number_in(record_id: str, batch_id: str) -> int | None:
    """Returns the number of a Record in a batch, or None where the id is none of that batch's.

    An id is one text: `batch-1-k3x9.01` names nothing.
    """
    prefix, _, digits = record_id.rpartition(".")
    fits = prefix == batch_id and digits.isascii() and digits.isdigit() and len(digits) < _DIGITS
    return int(digits) if fits and digits == str(int(digits)) else None


def record(project: Project, state: State, batch_id: str, record_id: str) -> dict[str, Any] | None:
    """Returns one Record of an import with its id, or None when the batch has none of that id.

    Raises:
        StoreDamaged: The index or the Record's block is not what was recorded.
    """
    n = number_in(record_id, batch_id)
    index = contents.checked(project, state, f"evidence/{batch_id}/{INDEX}")
    if n is None or not 1 <= n <= len(index) // _ENTRY.size * BLOCK:
        return None
    entry = (n - 1) // BLOCK
    found = list(_block(project, batch_id, index, entry))
    place = (n - 1) % BLOCK
    return found[place] if place < len(found) else None


def records(project: Project, state: State, batch_id: str) -> Iterator[dict[str, Any]]:
    """Yields the Records of an import with their ids, in order, reading a block at a time.

    Raises:
        StoreDamaged: The index or a block is not what was recorded.
    """
    index = contents.checked(project, state, f"evidence/{batch_id}/{INDEX}")
    for entry in range(len(index) // _ENTRY.size):
        yield from _block(project, batch_id, index, entry)


def some(project: Project, state: State, batch_id: str, numbers: Collection[int]) -> Iterator[dict[str, Any]]:
    """Yields the Records of an import that have one of `numbers`, in order, reading only the blocks that hold them.

    Raises:
        StoreDamaged: The index or a block is not what was recorded.
    """
    index = contents.checked(project, state, f"evidence/{batch_id}/{INDEX}")
    wanted = frozenset(numbers)
    for entry in sorted({(n - 1) // BLOCK for n in wanted if n > 0}):
        if (entry + 1) * _ENTRY.size <= len(index):
            yield from (one for one in _block(project, batch_id, index, entry) if one["n"] in wanted)


def _block(project: Project, batch_id: str, index: bytes, entry: int) -> Iterator[dict[str, Any]]:
    path = f"evidence/{batch_id}/{RECORDS}"
    offset, size, digest = _ENTRY.unpack_from(index, entry * _ENTRY.size)
    try:
        fd = project.store.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        raise StoreDamaged(path=project.store.full(path), reason="is missing") from None
    try:
        data = os.pread(fd, size, offset)
    finally:
        os.close(fd)
    if hashlib.sha256(data).digest() != digest:
        place = f" at byte {offset}"
        raise StoreDamaged(path=project.store.full(path), place=place, reason="does not have the digest of its block")
    for line in data.split(b"\n"):
        if line:
            found = loads(line)
            yield {"id": f"{batch_id}.{found['n']}", **found}
