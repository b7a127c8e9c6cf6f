"""A project to import into, and what an import left in it."""

from __future__ import annotations

import os
import signal
from typing import Any

from operations.execution.announcing import PREFIX
from operations.importers import stored
from operations.invocation import invoke
from operations.registry import all_operations
from operations.trajectories import EventLog
from storage.project import Project
from storage.schema.events import Event
from storage.schema.traces import ExternalScore, ImportedBatch, ImportedRecord
from tests.support.projects import bare


class Imports:
    """A project without a target, and imports into it."""

    def __init__(self, root: Any, **settings: Any) -> None:
        self.project: Project = bare(root, **settings)
        self.root = self.project.root

    def send(self, source: Any, **arguments: Any) -> Any:
        """Calls import_evidence. Returns its response."""
        given = {"project_path": self.root, "source": str(source), "source_kind": "langfuse", **arguments}
        return invoke(all_operations()["import_evidence"], given)

    def call(self, name: str, **arguments: Any) -> Any:
        """Calls another operation on the project."""
        return invoke(all_operations()[name], {"project_path": self.root, **arguments})

    def batch(self, batch_id: str) -> ImportedBatch:
        """Returns what the journal says of a batch."""
        return self.project.state().get(ImportedBatch, batch_id)

    def raw(self, batch_id: str) -> list[dict[str, Any]]:
        """Returns the Records as they are stored, with their ids."""
        return list(stored.records(self.project, self.project.state(), batch_id))

    def records(self, batch_id: str) -> dict[str | None, ImportedRecord]:
        """Returns the Records by their trace's id, else by their Case's; each is checked against its schema.

        Its log is taken over by the library and written and read as chained lines, and stays what it is.
        """
        found = []
        for value in self.raw(batch_id):
            found.append(ImportedRecord.model_validate(value))
            log = EventLog.from_stored(value["log"])
            assert found[-1].log == type(found[-1].log).model_validate(log.as_stored())
            assert EventLog.from_lines(log.lines()).as_stored() == log.as_stored()
        return {record.source.trace_id or record.case_id: record for record in found}

    def loose(self, batch_id: str) -> list[ExternalScore]:
        """Returns the scores of no trace."""
        data = self.project.store.read(f"evidence/{batch_id}/scores.jsonl")
        return [ExternalScore.model_validate_json(line) for line in data.splitlines()]

    def every_byte(self) -> bytes:
        """Returns the content of every file of the store but its key."""
        found = []
        for folder, _, names in os.walk(self.project.store.path):
            for name in names:
                if name != "mask.key":
                    with open(os.path.join(folder, name), "rb") as file:
                        found.append(name.encode() + b"\n" + file.read())
        return b"\n".join(found)


def processes_of(import_id: str) -> list[int]:
    """Returns the pids of an import's processes that live; the id is given with or without its prefix."""
    nonce = import_id.removeprefix(PREFIX).encode()
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            with open(f"/proc/{pid}/stat", "rb") as file:
                dead = b") Z " in file.read()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if nonce in words and not dead:
            found.append(int(pid))
    return found


def hold(import_id: str) -> None:
    """Lets an import wait, so that whatever is asked meanwhile meets it running, on the fastest machine too."""
    pids = processes_of(import_id)
    assert pids, "the import ended before it could be held"
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)


def go_on(import_id: str) -> None:
    """Lets an import that waits go on."""
    for pid in processes_of(import_id):
        os.kill(pid, signal.SIGCONT)


def event(record: ImportedRecord, event_id: str, kind: str | None = None) -> Event:
    """Returns an event of a Record."""
    return next(e for e in record.log.events if e.id == event_id and kind in (None, e.kind))
