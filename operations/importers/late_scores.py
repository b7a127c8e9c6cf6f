"""Keeps the scores of no trace, and finds the earlier imports that hold the traces which they are about."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, Self

from operations.importers import stored
from operations.importers._json_values import loads
from storage.files import CHUNK
from storage.project import Project
from storage.projection import State
from storage.schema.traces import BatchLink, ImportedBatch, SourceFile

_MARK_BYTES = 8


class LooseScores:
    """A file for the scores of no trace, which come while the Records are being written. A context manager."""

    def __init__(self, folder: str) -> None:
        """Keeps the file in `folder`, until the block is left."""
        self._path = os.path.join(folder, ".loose")

    def __enter__(self) -> Self:
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(self._fd, "w+b")
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        os.unlink(self._path)

    def add(self, line: bytes) -> None:
        """Takes the line of one score."""
        self._file.write(line)

    def chunks(self) -> Iterator[bytes]:
        """Yields what was taken, in pieces."""
        self._file.seek(0)
        while chunk := self._file.read(CHUNK):
            yield chunk

    def lines(self) -> Iterator[bytes]:
        """Yields what was taken, line by line."""
        self._file.seek(0)
        yield from self._file


class LateScores:
    """How an import relates to earlier ones: those that it replaces, and those whose traces its scores alone are about.

    Of each score eight bytes are kept.
    """

    def __init__(self, project: Project, namespace: str, lines: Iterable[bytes]) -> None:
        """Looks for the traces of `lines`, those of `scores.jsonl`, among what was imported under `namespace`."""
        self._project, self._namespace = project, namespace
        self._marks = array("Q", sorted(_marks(lines)))
        self._found = bytearray(len(self._marks))
        self._looked: dict[str, int] = {}
        self._own: list[ImportedBatch] = []
        self.look(project.state())  # before any lock is taken: what was imported stays as it is

    def look(self, state: State) -> None:
        """Looks through the imports that were not looked through yet.

        Raises:
            StoreDamaged: The Records of one are not what was recorded.
        """
        self._own = [batch for batch in state.all(ImportedBatch) if batch.source_namespace == self._namespace]
        for batch in self._own if self._marks else ():
            if batch.id not in self._looked:
                records = stored.records(self._project, state, batch.id) if batch.counts.get("records") else ()
                self._looked[batch.id] = self._found_in(records)

    def replaced(self, files: Iterable[SourceFile]) -> tuple[BatchLink, ...]:
        """Returns the link to the import that one of such files supersedes: the newest with the same names and roles.

        Exports of one kind of row are often named as those of another.
        """
        wanted = _named(files)
        found = [batch.id for batch in self._own if _named(batch.files) == wanted]
        return (BatchLink(batch_id=found[-1], relation="supersedes"),) if found else ()

    @property
    def links(self) -> tuple[BatchLink, ...]:
        """The imports that hold a trace of the scores."""
        return tuple(
            BatchLink(batch_id=batch_id, relation="late_scores", scores=count)
            for batch_id, count in self._looked.items()
            if count
        )

    def counted(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Returns the counts of the import: a score is unattached whose trace no import of its namespace has."""
        attached = sum(self._found)
        unattached = counts.get("scores_unattached", 0) - attached
        found = {**counts, "scores_attached": attached, "scores_unattached": unattached}
        return {name: found[name] for name in sorted(found) if found[name]}

    def _found_in(self, records: Iterable[Mapping[str, Any]]) -> int:
        """Returns how many scores are about one of `records`, and remembers which."""
        seen: set[int] = set()
        count = 0
        for record in records:
            trace = record["source"]["trace_id"]
            if trace is None:
                continue
            mark = _mark(trace)
            start = bisect_left(self._marks, mark)
            end = bisect_right(self._marks, mark, start)
            if end > start and start not in seen:
                seen.add(start)
                count += end - start
                self._found[start:end] = bytes([1]) * (end - start)
        return count


def _named(files: Iterable[SourceFile]) -> list[tuple[str, str]]:
    return sorted((file.name, file.role) for file in files)


def _marks(lines: Iterable[bytes]) -> Iterator[int]:
    for line in lines:
        trace = loads(line).get("trace_id")
        if trace is not None:
            yield _mark(trace)


def _mark(trace: str) -> int:
    text = trace.encode(errors="surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=_MARK_BYTES).digest(), "big")
