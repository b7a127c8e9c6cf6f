"""Shows an import to others while it is carried out, and hears from them that it is to stop."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Self

from operations.context import Context
from operations.importers import answers
from operations.importers._shares import Record
from operations.importers.evidence import EvidenceImport, ImportStopped
from storage.owners import Owner, forget
from storage.project import Project
from storage.recovery import IMPORTS
from storage.schema.base import Value
from storage.transaction import Call

PREFIX = "import-"
"""Begins the id of an import that is carried out; what it stores is a batch."""

ABOUT, PROGRESS, STOP = "about.json", "progress.json", "stop"
"""Files in the folder of an import: what it is, how far it is, and what asks it to stop."""


class About(Value):
    """What an import is: it lies in a folder in which agents may write, and is checked before it is believed."""

    source: str
    """As it was given, masked and cut."""
    began: str
    request_id: str | None
    digest: str
    """Of the call, keyed with the project's key."""
    stamp: str = ""
    """Of what is asked for, however long the caller waits, and of the files as they are: see `stamp_of`."""


class Progress(Value):
    """How far an import is."""

    bytes_read: int = 0
    bytes_total: int | None = None
    rows: int = 0
    note: str = ""


_SOURCE = 300
"""Bytes of the source that are shown."""
_SHOWN_SECONDS = 0.2
_AT_ONCE = 500
"""Records that are written between two looks at whether to go on."""


class Announced:
    """An import that this process carries out, where others can see it and ask it to stop. A context manager."""

    def __init__(self, project: Project, call: Call, source: str, stamp: str, handle: str | None) -> None:
        """`handle` is the id under which another process announced it already; None announces it here."""
        self._project = project
        self._owner: Owner | None = None
        if handle is None:
            self._owner = announce(project, call, source, stamp)
            handle = PREFIX + self._owner.nonce
        self.import_id = handle
        self._folder = f"{IMPORTS}/{handle.removeprefix(PREFIX)}"
        self._stop = project.store.full(f"{self._folder}/{STOP}")
        self._shown = 0.0

    def named(self, call: Call) -> Call:
        """Returns `call` with a request id, by which whoever follows the import finds in the journal what it stored."""
        return call if call.request_id is not None else replace(call, request_id=self.import_id)

    def stopped(self) -> bool:
        """Whether somebody asked it to stop."""
        return os.path.lexists(self._stop)

    def progress(self, done: float, total: float | None, rows: int, note: str) -> None:
        """Shows how far it is; most of the calls cost nothing."""
        now = time.monotonic()
        if now - self._shown < _SHOWN_SECONDS:
            return
        self._shown = now
        whole = None if total is None else int(total)
        said = Progress(bytes_read=int(done), bytes_total=whole, rows=rows, note=note)
        with contextlib.suppress(OSError):  # the folder is taken away, or the disk is full: the import says that itself
            self._project.store.replace(f"{self._folder}/{PROGRESS}", said.model_dump_json().encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends what was announced here; what another process announced is ended by it."""
        if self._owner is not None:
            self._project.store.remove_tree(self._folder)
            self._owner.release()
            forget(self._project.store, self._owner.nonce)


def stamp_of(project: Project, call: Call, paths: Iterable[str]) -> str:
    """Returns what is the same for calls that ask the same of the same files, as long as nobody writes to these.

    Raises:
        OSError: One is not there any more.
    """
    found = [[one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns] for one in map(os.stat, paths)]
    asked = {name: value for name, value in call.arguments.items() if name not in ("wait_seconds", "request_id")}
    return replace(call, arguments={"asked": asked, "files": found}).digest(project.mask_key)


def announce(project: Project, call: Call, source: str, stamp: str) -> Owner:
    """Makes the folder of an import. Returns its owner, whose lock says that it is carried out.

    Raises:
        OSError: It cannot be made.
    """
    owner = Owner(project.store)
    folder = f"{IMPORTS}/{owner.nonce}"
    about = About(
        source=answers.cut(project.masker.text(source), _SOURCE),
        began=call.at,
        request_id=call.request_id,
        digest=call.digest(project.mask_key),
        stamp=stamp,
    )
    try:
        project.store.make_folders(folder, durable=False)
        project.store.replace(f"{folder}/{ABOUT}", about.model_dump_json().encode())
    except BaseException:
        project.store.remove_tree(folder)
        owner.release()
        raise
    return owner


class Watch:
    """Tells how far an import is, and stops it, also while Records are written and no row is read."""

    def __init__(self, reading: EvidenceImport, context: Context, job: Announced | None) -> None:
        """Takes over what `reading` reports and asks. `job` is None where nobody else is to see it."""
        self._reading, self._context, self._job = reading, context, job
        reading.progress, reading.cancelled = self._progress, self._cancelled
        self._read: tuple[float, float | None] = (0, None)

    def over(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yields the Records.

        Raises:
            ImportStopped: It is to stop.
        """
        for number, record in enumerate(records, 1):
            yield record
            if number % _AT_ONCE == 0:
                if self._cancelled():
                    raise ImportStopped(rows=self._reading.row_total)
                self._show(f"{self._reading.row_total} rows read, {number} Records written")

    def _progress(self, done: float, total: float | None, note: str) -> None:
        self._read = done, total
        self._context.progress(done, total, note)
        self._show(note)

    def _cancelled(self) -> bool:
        return self._context.cancelled() or (self._job is not None and self._job.stopped())

    def _show(self, note: str) -> None:
        if self._job is not None:
            self._job.progress(*self._read, self._reading.row_total, note)
