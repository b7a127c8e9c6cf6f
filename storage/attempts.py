"""A run's `attempts.log`, read back: what its supervisor confirmed, and what it began.

A frame (storage.frames) is `started` (record_id, n, at), `finished` (record) or `ended` (reason). A Record counts once
its `finished` frame is on the disk. What was started and has no `finished` frame is unknown: it may have had effects.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from storage.files import open_plain
from storage.frames import HEADER, ORIGIN, Frame, Tail, encode, scan
from storage.schema.evidence import EvidenceRecord

FILE = "attempts.log"
EndReason = Literal[
    "all_done", "stopped", "server_gone", "batch_timeout", "infra_failures", "spend_limit", "not_prepared"
]
"""Why a supervisor ended its run. A log without one was left by a supervisor that was killed or could not write."""


@dataclass
class Attempts:
    """What a log says as a whole. Grows with the number of attempts, never with their outputs."""

    path: str
    finished: set[str] = field(default_factory=set)
    """Ids of the Records that count."""
    places: dict[int, int] = field(default_factory=dict)
    """Where each of them begins in the file, by its number."""
    unfinished: dict[str, None] = field(default_factory=dict)
    """Ids of the Records that were started and have no known end, in the order of their start."""
    counts: Counter[str] = field(default_factory=Counter)
    """How many Records have each status."""
    unsettled: dict[str, str] = field(default_factory=dict)
    """Ids of the Records that say nothing of the agent because of infrastructure or ATK, with their status.

    One that was tried again is left out: the last attempt of a chain speaks for its slot.
    """
    totals: dict[str, float] = field(default_factory=dict)
    """Sums of each metric over all Records that have it."""
    reported: Counter[str] = field(default_factory=Counter)
    """How many Records have each metric."""
    ended: EndReason | None = None
    """Why the last supervisor ended; None while one runs, or when it could not say."""
    tail: Tail = field(default_factory=lambda: Tail("clean", 0))
    digest: str = ORIGIN
    """The digest of the last whole frame."""

    def records(self) -> Iterator[EvidenceRecord]:
        """Yields the Records that count, in the order in which they ended, one at a time from the file."""
        for found in read_frames(self.path):
            if isinstance(found, Frame) and found.body["kind"] == "finished":
                yield EvidenceRecord.model_validate(found.body["record"])

    def in_order(self) -> Iterator[dict[str, Any]]:
        """Yields the Records that count as plain values in the order of their numbers, one at a time from the file."""
        if not self.places:
            return
        with open_plain(self.path) as file:
            for n in sorted(self.places):
                file.seek(self.places[n])
                yield json.loads(file.readline()[HEADER:])["record"]

    def take(self, found: Frame | Tail) -> None:
        """Takes in the next thing that `read_frames` found."""
        if isinstance(found, Tail):
            self.tail = found
            return
        body = found.body
        self.digest = found.digest
        self.ended = None
        if body["kind"] == "started":
            self.unfinished[body["record_id"]] = None
        elif body["kind"] == "finished":
            self._finish(body["record"], found.start)
        else:
            self.ended = cast("EndReason", body["reason"])

    def _finish(self, record: Mapping[str, Any], start: int) -> None:
        execution = record["execution"]
        self.unfinished.pop(record["id"], None)
        self.finished.add(record["id"])
        self.places[record["n"]] = start
        self.counts[execution["status"]] += 1
        self.unsettled.pop(execution.get("retry_of") or "", None)
        if execution["status"] in ("infra_error", "cancelled"):
            self.unsettled[record["id"]] = execution["status"]
        for metric, value in record.get("metrics", {}).items():
            self.totals[metric] = self.totals.get(metric, 0.0) + value
            self.reported[metric] += 1


def carried_frames(records: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """Yields the frames with which a log begins whose batch takes over Records of an earlier one."""
    prev = ORIGIN
    for record in records:
        chunk, prev = encode({"kind": "finished", "record": record, "prev": prev})
        yield chunk


def read_attempts(path: str) -> Attempts:
    """Returns what the log at `path` says; one that does not exist yet says nothing.

    Time grows with the file's size, memory with the number of attempts. `tail` says whether the end is torn or damaged.
    """
    attempts = Attempts(path)
    for found in read_frames(path):
        attempts.take(found)
    return attempts


class AttemptsFollower:
    """Follows a log that is being written: each `update` reads only what is new."""

    def __init__(self, path: str) -> None:
        self._attempts = Attempts(path)

    def update(self) -> Attempts:
        """Returns what the log says by now. A frame that is still being written is left for the next time."""
        seen = self._attempts
        for found in read_frames(seen.path, offset=seen.tail.offset, prev=seen.digest):
            seen.take(found)
        return seen


def read_frames(path: str, *, offset: int = 0, prev: str = ORIGIN) -> Iterator[Frame | Tail]:
    """Yields the frames of a file from `offset`, then one `Tail`, with one frame in memory at a time."""
    try:
        opened = open_plain(path)
    except FileNotFoundError:
        yield Tail("clean", offset)
        return
    with opened as file:
        file.seek(offset)
        # A frame is a line: its body has no line break of its own.
        for line in file:
            found = next(scan(line, offset=offset, prev=prev))
            yield found
            if isinstance(found, Tail):
                return
            prev, offset = found.digest, found.end
    yield Tail("clean", offset)
