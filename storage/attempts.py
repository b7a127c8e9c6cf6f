"""A run's `attempts.log`: what its supervisor confirmed, read back.

Frames (storage.frames): `started` before an agent starts, `finished` with its whole Record, `ended` with the
reason at the end. Only `finished` counts: an attempt that started and did not finish is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from storage.files import Folder, StoreDamaged
from storage.frames import Frame, scan

FILE = "attempts.log"


@dataclass(frozen=True)
class Attempts:
    """What a log says. `finished` maps a Record's number to its frame's place in the file."""

    finished: dict[int, tuple[int, int]]
    started: dict[int, str]
    """Numbers and record ids of attempts that began."""
    counts: dict[str, int]
    ended: str | None

    @property
    def unknown(self) -> list[str]:
        """Ids of Records that were begun and not finished."""
        return [record_id for n, record_id in self.started.items() if n not in self.finished]


def read_attempts(store: Folder, batch_id: str) -> Attempts:
    """Reads the log of a batch. A torn tail is an attempt that was not confirmed.

    Raises:
        StoreDamaged: A frame that was confirmed is not what was written.
    """
    path = f"evidence/{batch_id}/{FILE}"
    finished: dict[int, tuple[int, int]] = {}
    started: dict[int, str] = {}
    counts: dict[str, int] = {}
    ended = None
    for frame in _frames(store, path):
        match frame.body["kind"]:
            case "started":
                started[frame.body["n"]] = frame.body["record_id"]
            case "finished":
                record = frame.body["record"]
                finished[record["n"]] = (frame.start, frame.end)
                status = record["execution"]["status"]
                counts[status] = counts.get(status, 0) + 1
            case "ended":
                ended = str(frame.body["reason"])
    return Attempts(finished, started, counts, ended)


def finished_records(store: Folder, batch_id: str) -> Iterator[dict[str, Any]]:
    """Yields the confirmed Records of a batch in the order in which they finished."""
    for frame in _frames(store, f"evidence/{batch_id}/{FILE}"):
        if frame.body["kind"] == "finished":
            yield frame.body["record"]


def _frames(store: Folder, path: str) -> Iterator[Frame]:
    data = store.read(path) if store.exists(path) else b""
    for found in scan(data):
        if isinstance(found, Frame):
            yield found
        elif found.state == "damaged":
            raise StoreDamaged(path=store.full(path), place=f" at byte {found.offset}", reason=found.reason)
