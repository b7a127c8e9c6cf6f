"""Sealing a probe: its confirmed Executions become immutable evidence, when it ends and when its server has died."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from storage.attempts import read_frames
from storage.files import Stored
from storage.frames import Tail, canonical
from storage.projection import State
from storage.schema.probes import Probe, ProbeStatus

if TYPE_CHECKING:
    from storage.project import Project

LOG = "attempts.log"
SLOTS = "slots.jsonl"
RECORDS = "records.jsonl"
PATH_LIMIT = 50
"""How many changed paths a probe names."""


def open_probes(state: State) -> list[Probe]:
    """Returns the probes that are recorded as running."""
    return [probe for probe in state.all(Probe) if probe.status == "running"]


def work_folder(probe: Probe) -> str:
    """Returns where a running probe's own files are; it goes when its owner is gone."""
    return f"work/scratch-{probe.owner}"


@dataclass
class _Confirmed:
    """What a probe's log says."""

    begun: set[int] = field(default_factory=set)
    records: dict[int, dict[str, Any]] = field(default_factory=dict)
    end: Mapping[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def sealed_body(project: Project, state: State, probe: Probe) -> dict[str, Any]:
    """Writes `records.jsonl` and returns the journal record that seals the probe. Its owner must be gone.

    What stands behind a damaged frame of the log cannot be trusted and is left out; a note says so.
    """
    folder = f"evidence/{probe.id}"
    found = _read(project.store.full(f"{folder}/{LOG}"))
    stored = _write_records(project, folder, found)
    files = {f"{folder}/{RECORDS}": stored}
    if project.store.exists(f"{folder}/{LOG}"):
        log = f"{folder}/{LOG}"
        files[log] = project.store.digest(log) if found.end else project.store.flushed_anew(log)
    project.store.clear(work_folder(probe))
    sealed = _sealed(project, probe, found, stored)
    return {
        "kind": "operation",
        "op": "diagnostic_probe",
        "at": project.clock(),
        "arguments": {},
        "seals": state.written[Probe.kind, probe.id],
        "objects": {Probe.kind: {probe.id: sealed.model_dump(mode="json")}},
        "files": {path: {"sha256": each.sha256, "size": each.size} for path, each in files.items()},
        "response": {},
    }


def _read(path: str) -> _Confirmed:
    found = _Confirmed()
    for frame in read_frames(path):
        if isinstance(frame, Tail):
            if frame.state == "damaged":
                found.notes.append(f"The log is damaged at byte {frame.offset}; what follows was left out.")
            return found
        body = frame.body
        if body["kind"] == "started":
            found.begun.add(body["n"])
        elif body["kind"] == "finished":
            found.records[body["record"]["n"]] = body["record"]
        else:
            found.end = body
    return found


def _write_records(project: Project, folder: str, found: _Confirmed) -> Stored:
    """Writes the confirmed Executions in the order of their numbers. Done again it replaces an unfinished try."""
    path = f"{folder}/{RECORDS}"
    project.store.remove_tree(path)
    stored = project.store.write_new(path, (canonical(found.records[n]) + b"\n" for n in sorted(found.records)))
    project.store.sync(folder)
    return stored


def _sealed(project: Project, probe: Probe, found: _Confirmed, stored: Stored) -> Probe:
    changed = [str(path) for path in found.end.get("changed", ())]
    missing = [n for n in range(1, probe.slots + 1) if n not in found.records]
    notes = [*found.notes, *(str(note) for note in found.end.get("notes", ()))]
    if not found.end and probe.leases_worktree:
        notes.append("It ended before the worktree was looked at again, so files may have changed.")
    if len(changed) > PATH_LIMIT:
        notes.append(f"Changed paths that are not listed: {len(changed) - PATH_LIMIT}.")
    return probe.model_copy(
        update={
            "status": _status(found, missing, changed),
            "ended_at": project.clock(),
            "end_reason": str(found.end.get("reason", "server_gone")),
            "counts": dict(Counter(record["execution"]["status"] for record in found.records.values())),
            "missing_record_ids": tuple(f"{probe.id}.{n}" for n in missing),
            "unknown_record_ids": tuple(f"{probe.id}.{n}" for n in missing if n in found.begun),
            "changed_paths": tuple(project.masker.value(changed[:PATH_LIMIT])),
            "records_sha256": stored.sha256,
            "notes": (*probe.notes, *project.masker.value(notes)),
        }
    )


def _status(found: _Confirmed, missing: list[int], changed: list[str]) -> ProbeStatus:
    if changed:
        return "contaminated"
    cancelled = any(record["execution"]["status"] == "cancelled" for record in found.records.values())
    return "completed" if found.end.get("reason") == "all_done" and not missing and not cancelled else "interrupted"
