"""Makes a store that was not there: whole, beside its place, so that one rename puts it in place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from storage import recovery
from storage.files import FILE_MODE, FOLDER_MODE, Folder, write_all
from storage.journal import SEGMENT, Journal, Position, first_frame, prepare
from storage.lock import PATIENCE_SECONDS, Held, take
from storage.masking import Masker, create_key, load_key
from storage.schema.projects import Project as ProjectRecord
from storage.transaction import Call
from storage.views import IGNORED, IGNORES, place, render

KEY = "mask.key"
"""The key of masks, which makes equal secrets equal."""

STAGED = ".atk.new-"
"""What the names of folders begin with in which a store is prepared."""


def masker_of(key: bytes, record: ProjectRecord | None) -> Masker:
    """Returns what masks by a project's configuration."""
    if record is None:
        return Masker(key)
    return Masker(key, record.redact_keys, record.redact_patterns, second_look=record.second_look)


@contextmanager
def alone(root: str, patience: float = PATIENCE_SECONDS) -> Iterator[str]:
    """Keeps apart all that make a store in `root`; yields the prefix of the folders in which they prepare it.

    The lock is on the project's folder, since there is no store yet. What an earlier try left is taken away.

    Raises:
        ProjectBusy: Another one is at it for longer than `patience` seconds.
        LocksNotSupported: The file system has no locks.
    """
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        take(fd, root, patience, lambda: f"another process makes or unpacks a project in {root}")
        for name in os.listdir(root):
            if name.startswith(STAGED):
                shutil.rmtree(os.path.join(root, name))
        yield os.path.join(root, STAGED)
    finally:
        os.close(fd)


def write_new_store(staging: str, call: Call, record: ProjectRecord, response: Mapping[str, Any]) -> None:
    """Writes and flushes a whole store: key, lock, journal with its first record, and the views."""
    os.mkdir(staging, FOLDER_MODE)
    with Folder(staging) as store:
        create_key(store.full(KEY))
        store.write_new(IGNORED, [IGNORES])
        os.close(store.open("lock", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        for folder in ("journal", *recovery.HOLDERS):
            store.make_folders(folder)
        masker = masker_of(load_key(store.full(KEY)), record)
        frame, digest = first_frame(record.id, call.at)
        fd = store.open(SEGMENT, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
        try:
            write_all(fd, frame)
        finally:
            os.close(fd)
        body: dict[str, Any] = {
            "kind": "operation",
            "op": call.operation,
            "at": call.at,
            "arguments": masker.value(dict(call.arguments)),
            "arguments_digest": call.digest(load_key(store.full(KEY))),
            "objects": {"project": {record.id: record.model_dump(mode="json")}},
            "files": {},
            "response": masker.value(dict(response)),
        }
        if call.request_id is not None:
            body["request_id"] = call.request_id
        Journal(store).append(prepare(body, Position(0, digest, 0, len(frame))), Held(call.operation))
        store.replace(place(record), render(record, 1))
        for path in ("journal", ""):
            store.sync(path)
