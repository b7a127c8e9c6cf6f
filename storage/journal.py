"""The operation journal: the truth, and the commit point of every operation.

A segment is a file of frames (storage.frames). Its first frame is a checkpoint of the state before it, with
the digest of the segment before; every later frame is a record of what one operation did. Records are appended to the
newest segment; the older ones are kept compressed (storage.segments).
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import Any

from storage.errors import AtkError
from storage.files import Folder, StoreDamaged, sync_file, write_all
from storage.frames import HEADER, ORIGIN, Frame, Tail, encode, scan
from storage.frames import digest as sha256
from storage.lock import Held
from storage.schema.base import FORMAT

FOLDER = "journal"
_SEGMENT = re.compile(r"([0-9]{6})\.log")


def segment_path(number: int) -> str:
    """Returns where a segment lies in the store."""
    return f"{FOLDER}/{number:06d}.log"


SEGMENT = segment_path(1)
"""The first segment."""


@dataclass(kw_only=True, eq=False)
class NewerFormat(AtkError):
    """The store was written by a newer ATK."""

    message = "The store in {path} has format {found}, and this ATK knows formats up to {known}. Install a newer ATK."

    path: str
    found: int
    known: int


@dataclass(frozen=True)
class Position:
    """Where a reader stands: the number, the digest and the bytes of the last frame it knows."""

    number: int = -1
    digest: str = ORIGIN
    start: int = 0
    offset: int = 0
    segment: int = 1

    def after(self, frame: Frame) -> Position:
        """Returns the position behind `frame`.

        Raises:
            ValueError: The frame's number is not the one that follows.
        """
        if frame.body["n"] != self.number + 1:
            raise ValueError(frame.body["n"])
        return Position(int(frame.body["n"]), frame.digest, frame.start, frame.end, self.segment)


@dataclass(frozen=True)
class Prepared:
    """A record that is about to be appended: its bytes, and the frame as a reader will find it."""

    data: bytes
    frame: Frame
    segment: int = 1


def prepare(body: dict[str, Any], position: Position) -> Prepared:
    """Returns `body` as the record that follows `position`. `n` and `prev` are set here."""
    data, digest = encode({**body, "n": position.number + 1, "prev": position.digest})
    # Read back, so that who appended and who reads it later have the very same values.
    value = json.loads(data[HEADER:-1])
    frame = Frame(value, digest, position.offset, position.offset + len(data))
    return Prepared(data, frame, position.segment)


def first_frame(project_id: str, at: str) -> tuple[bytes, str]:
    """Returns a new journal's checkpoint of the empty state, and its digest."""
    body = {
        "kind": "checkpoint",
        "n": 0,
        "prev": ORIGIN,
        "format": FORMAT,
        "project_id": project_id,
        "at": at,
        "segment": 1,
        "segment_before": None,
        "state": {},
    }
    return encode(body)


class Journal:
    """Reads the journal without a lock, and appends to it with one."""

    def __init__(self, store: Folder) -> None:
        self._store = store

    def current(self) -> int:
        """Returns the number of the segment that is appended to."""
        found = [int(match[1]) for name in self._store.names(FOLDER) if (match := _SEGMENT.fullmatch(name))]
        return max(found, default=1)

    @property
    def path(self) -> str:
        """Where the segment that is appended to lies."""
        return self._store.full(segment_path(self.current()))

    def read(self, position: Position) -> tuple[list[Frame], Tail]:
        """Returns the frames after `position`, and how the file ends.

        Who knows no frame yet begins with the newest checkpoint.

        Raises:
            StoreDamaged: The journal is missing, or is shorter than `position`.
        """
        frames: list[Frame] = []
        tail = Tail("clean", position.offset)
        known = position.number >= 0
        segment = position.segment if known else self.current()
        try:
            data = self._bytes(segment, position.offset)
        except StoreDamaged:
            if segment == self.current():
                raise
            if known:  # another process began a segment and packed this one just now
                return self.read(Position())
            return self.read(position)
        prev = position.digest if known or segment == 1 else None
        for found in scan(data, offset=position.offset, prev=prev):
            if isinstance(found, Tail):
                tail = found
            else:
                frames.append(found)
        return frames, tail

    def follows(self, position: Position) -> bool:
        """Whether the last frame that `position` knows is still where it was, so that reading on is enough."""
        if not position.offset:
            return True
        try:
            if position.segment != self.current():
                return False
            fd = self._store.open(segment_path(position.segment), os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            last = os.pread(fd, position.offset - position.start, position.start)
        finally:
            os.close(fd)
        return len(last) == position.offset - position.start and sha256(last[HEADER:-1]) == position.digest

    def cut(self, tail: Tail, held: Held) -> None:
        """Takes a torn tail away. Nothing that was acknowledged can be in it.

        Raises:
            StoreDamaged: The lock is not the project's any more.
        """
        held.require()
        fd = self._store.open(segment_path(self.current()), os.O_RDWR)
        try:
            os.ftruncate(fd, tail.offset)
            sync_file(fd)
        finally:
            os.close(fd)

    def sync(self) -> None:
        """Flushes what is there: a writer that was killed may have appended a record and not flushed it."""
        fd = self._store.open(segment_path(self.current()), os.O_RDWR)
        try:
            sync_file(fd)
        finally:
            os.close(fd)

    def append(self, record: Prepared, held: Held) -> None:
        """Appends one record and flushes it: the commit point.

        A failed write or flush is taken back before it is reported, so that the record is there or it is not.

        Raises:
            StoreDamaged: The lock is not the project's any more.
            OSError: The record could not be made durable. Where it could not be taken back either, the next
                opener decides by what is on the disk.
        """
        held.require()
        fd = self._store.open(segment_path(record.segment), os.O_WRONLY | os.O_APPEND)
        try:
            try:
                write_all(fd, record.data)
                sync_file(fd)
            except OSError:
                os.ftruncate(fd, record.frame.start)
                sync_file(fd)
                raise
        finally:
            os.close(fd)

    def _bytes(self, segment: int, offset: int) -> bytes:
        path = segment_path(segment)
        try:
            fd = self._store.open(path, os.O_RDONLY)
        except FileNotFoundError:
            raise StoreDamaged(path=self._store.full(path), reason="is missing") from None
        with os.fdopen(fd, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < offset or size == 0:
                raise StoreDamaged(path=self._store.full(path), reason=f"is only {size} bytes long")
            file.seek(offset)
            return file.read()


def check_format(body: dict[str, Any], path: str) -> None:
    """Refuses a store of a newer format.

    Raises:
        NewerFormat: The checkpoint names a format that this ATK does not know.
        StoreDamaged: It names none.
    """
    found = body.get("format")
    if not isinstance(found, int):
        raise StoreDamaged(path=path, reason="does not say which format it has")
    if found > FORMAT:
        raise NewerFormat(path=path, found=found, known=FORMAT)
