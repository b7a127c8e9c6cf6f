"""Views: what a person finds under `.atk/`, rendered from the journal and rebuilt whenever it differs.

A view shows its journal record. It is never read as truth: a hand edit is noticed, reported and written over.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable

from storage.files import Folder, StoreDamaged
from storage.projection import State
from storage.schema.base import Record

PLACES = {
    "project": "project.json",
    "dataset": "datasets/{id}/manifest.json",
    "batch": "evidence/{id}/manifest.json",
    "import": "evidence/{id}/manifest.json",
    "assessment": "assessments/{id}/manifest.json",
    "deal": "deals/{id}/manifest.json",
    "spec": "specs/{id}.json",
    "judger": "judgers/{id}.json",
    "revision": "revisions/{id}.json",
    "round": "rounds/{id}/round.json",
    "issue": "rounds/{round_id}/issues/{id}.json",
    "candidate": "rounds/{round_id}/candidates/{id}.json",
    "validation": "rounds/{round_id}/validations/{id}.json",
    "external_validation": "rounds/{round_id}/validations/{id}.json",
    "approval": "approvals/{id}.json",
    "decision": "rounds/{round_id}/decisions/{id}.json",
    "probe": "evidence/{id}/manifest.json",
    "selection": "selections/{id}/manifest.json",
    "rows": "datasets/{id}/manifest.json",
    "contract": "contracts/{id}.json",
    "exposure": "exposures/{id}.json",
    "knowledge": "knowledge/{id}.json",
}
"""Kind of record → where its view lies."""

REPORTS = "reports"
"""Where reports lie, a folder for each object. They are made when asked for, and never read."""

IGNORED, IGNORES = ".gitignore", b"*\n"
"""What keeps everything under `.atk/` out of Git without a line in any file of the user's; written anew like a view."""

_LONGER = 1 << 20
"""Bytes by which a view may be longer than it should be and still be looked into."""


def place(record: Record) -> str:
    """Returns where the view of `record` lies."""
    return PLACES[record.kind].format(id=record.id, round_id=getattr(record, "round_id", None) or "none")


def render(record: Record, number: int) -> bytes:
    """Returns the view of `record` as of journal record `number`."""
    shown = {"journal_record": number, "kind": record.kind, "object": record.model_dump(mode="json")}
    return json.dumps(shown, indent=1, ensure_ascii=True).encode() + b"\n"


def write(store: Folder, state: State, keys: Iterable[tuple[str, str]]) -> list[str]:
    """Writes the views of the named objects. Returns a warning for each that could not be written."""
    warnings = []
    for kind, object_id in keys:
        record = state.objects[kind][object_id]
        path = place(record)
        try:
            if "/" in path:
                store.make_folders(path.rpartition("/")[0], durable=False)
            store.replace(path, render(record, state.written[kind, object_id]))
        except OSError as error:
            warnings.append(f"The view {path} could not be written ({error.strerror}); it is rebuilt at the next call.")
        except StoreDamaged as error:  # the record stands; the next change is refused until this is put right
            warnings.append(f"The view {path} could not be written. {error}")
    return warnings


def rebuild(store: Folder, state: State) -> tuple[list[str], list[str]]:
    """Writes every view that differs from the journal. Returns (hand-edited or rotten ones, warnings)."""
    stale, edited = [], []
    for kind, records in state.objects.items():
        for object_id, record in records.items():
            path, number = place(record), state.written[kind, object_id]
            right = render(record, number)
            found = store.read(path, len(right) + _LONGER) if store.exists(path) else b""
            if found == right:
                continue
            stale.append((kind, object_id))
            shown = _number(found)
            if found and (shown is None or shown >= number):
                edited.append(path)
    return edited, [*_ignore(store, edited), *write(store, state, stale)]


def _ignore(store: Folder, edited: list[str]) -> list[str]:
    """Puts `IGNORED` right where it differs, and notes that in `edited`. Returns a warning if it cannot."""
    found = store.read(IGNORED, len(IGNORES) + 1) if store.exists(IGNORED) else b""
    if found == IGNORES:
        return []
    if found:
        edited.append(IGNORED)
    try:
        store.replace(IGNORED, IGNORES)
    except OSError as error:
        return [f"{IGNORED} could not be written ({error.strerror}); it is rebuilt at the next call."]
    return []


def write_pages(store: Folder, object_id: str, pages: Iterable[tuple[str, bytes]]) -> list[str]:
    """Writes what a report of `object_id` is made of, and takes away what an earlier one had more.

    Returns where each file lies, relative to the store, in the order in which it was written. Each file is whole or
    as it was before; calls that make the same report take turns. What is shown can be made again from the records, so
    nothing is flushed.

    Raises:
        OSError: A file cannot be written.
        StoreDamaged: Something else stands where the report belongs.
    """
    folder = f"{REPORTS}/{object_id}"
    store.make_folders(folder, durable=False)
    written = []
    turn = store.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(turn, fcntl.LOCK_EX)  # no call that makes a report holds the project
        for name, data in pages:
            store.replace(f"{folder}/{name}", data)
            written.append(f"{folder}/{name}")
        kinds = {os.path.splitext(path)[1] for path in written}
        for name in store.names(folder):
            if f"{folder}/{name}" not in written and os.path.splitext(name)[1] in kinds:
                store.remove_tree(f"{folder}/{name}")
    finally:
        os.close(turn)
    return written


def _number(found: bytes) -> int | None:
    """The journal record that a view says it shows; None when it cannot say."""
    try:
        return int(json.loads(found)["journal_record"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
