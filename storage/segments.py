"""Begins a new segment of the journal when the last has grown, and keeps the older ones compressed. None is dropped."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from storage.files import Folder, StoreDamaged
from storage.frames import HEADER, ORIGIN, Frame, FrameTooLarge, Tail, encode, scan
from storage.journal import FOLDER, Journal, segment_path
from storage.lock import Held
from storage.projection import State, dump
from storage.schema.base import FORMAT

if TYPE_CHECKING:
    from storage.project import Project

LEAST = 4 * 1024 * 1024
"""Bytes of a segment below which none is begun."""

TIMES_CHECKPOINT = 3
"""How much longer than its checkpoint a segment grows: what checkpoints take stays in proportion to the records."""

_PACKED = ".zst"
_UNFINISHED = ".new"
_MOST = 64 * 1024**3
"""Bytes of a segment beyond which a packed one is damage."""


@dataclass(frozen=True)
class Segment:
    """One segment, read whole."""

    number: int
    path: str
    """Relative to the store's folder."""
    sha256: str
    """Of its bytes before they were packed."""
    frames: list[Frame]
    tail: Tail


def due(store: Folder, state: State) -> bool:
    """Whether the segment has grown enough for a new one."""
    grown = state.position.offset
    return grown >= LEAST and grown >= TIMES_CHECKPOINT * _checkpoint_size(store, state.position.segment)


def rotate(project: Project, state: State, held: Held, at: str) -> bool:
    """Begins a segment with a checkpoint of `state`, and packs the ones before. The project's lock is held.

    Returns whether it did: a state that no frame can hold has no checkpoint, and the segment grows on.

    A crash in between leaves a segment that was begun, or one that is packed later by `tidy`.

    Raises:
        StoreDamaged: The lock is not the project's any more.
        OSError: The checkpoint could not be made durable; the journal is as before.
    """
    held.require()
    store, position = project.store, state.position
    last = segment_path(position.segment)
    body = {
        "kind": "checkpoint",
        "n": position.number + 1,
        "prev": position.digest,
        "format": FORMAT,
        "project_id": state.project_id,
        "at": at,
        "segment": position.segment + 1,
        "segment_before": store.digest(last).sha256,
        "state": dump(state),
    }
    try:
        frame, _ = encode(body)
    except FrameTooLarge:
        return False
    path = segment_path(position.segment + 1)
    _place(store, path, frame)
    tidy(store)
    return True


def tidy(store: Folder) -> None:
    """Packs every segment but the newest, and takes away what an interrupted packing or beginning left."""
    for name in store.names(FOLDER):
        if name.endswith(_UNFINISHED):
            store.remove_tree(f"{FOLDER}/{name}")
    newest = Journal(store).current()
    for number in range(1, newest):
        path = segment_path(number)
        if store.exists(path):
            _pack(store, path)


def segments(store: Folder) -> Iterator[Segment]:
    """Yields every segment from the first on, packed or not.

    Raises:
        StoreDamaged: One is missing, or cannot be unpacked.
    """
    prev = ORIGIN
    for number in range(1, Journal(store).current() + 1):
        path = segment_path(number)
        packed = False
        try:
            data = store.read(path)
        except FileNotFoundError:  # packed, perhaps just now by another process
            packed, data = True, _unpacked(store, path + _PACKED)
        frames: list[Frame] = []
        tail = Tail("clean", 0)
        for found in scan(data, prev=prev):
            if isinstance(found, Tail):
                tail = found
            else:
                frames.append(found)
                prev = found.digest
        yield Segment(number, path + (_PACKED if packed else ""), hashlib.sha256(data).hexdigest(), frames, tail)


def _checkpoint_size(store: Folder, segment: int) -> int:
    return int(store.read(segment_path(segment), HEADER)[:8], 16)


def _place(store: Folder, path: str, data: bytes) -> None:
    """Puts a file in place whole: written, flushed, renamed, and its folder flushed."""
    unfinished = path + _UNFINISHED
    store.remove_tree(unfinished)
    store.write_new(unfinished, [data])
    store.move(unfinished, path)
    store.sync(FOLDER)


def _pack(store: Folder, path: str) -> None:
    """Replaces a segment by its packed form, which is read back first."""
    import zstandard  # noqa: PLC0415 - a few times in the life of a store

    data = store.read(path)
    packed = path + _PACKED
    if not store.exists(packed):
        _place(store, packed, zstandard.ZstdCompressor(write_checksum=True).compress(data))
    if _unpacked(store, packed) != data:
        raise StoreDamaged(path=store.full(packed), reason="does not unpack to the segment beside it")
    store.remove_tree(path)
    store.sync(FOLDER)


def _unpacked(store: Folder, path: str) -> bytes:
    import zstandard  # noqa: PLC0415 - as above

    try:
        fd = store.open(path, os.O_RDONLY)
    except FileNotFoundError:
        missing = path.removesuffix(_PACKED)
        raise StoreDamaged(path=store.full(missing), reason="is missing, and so is its packed form") from None
    with os.fdopen(fd, "rb") as file:
        try:
            return zstandard.ZstdDecompressor().decompress(file.read(), max_output_size=_MOST)
        except zstandard.ZstdError as error:
            raise StoreDamaged(path=store.full(path), reason=f"cannot be unpacked ({error})") from None
