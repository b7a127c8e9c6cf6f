"""Puts a crash on record: its masked stack goes to the project's log, and only its id to the client."""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
import traceback
from collections.abc import Mapping
from typing import Any

from storage.errors import AtkError
from storage.files import FILE_MODE, write_all
from storage.masking import KEY_BYTES, Masker
from storage.project import Project

LOG = "log/incidents.jsonl"
"""Where incidents lie, below `.atk/`."""

_STACK_LIMIT = 32_000


def record(error: BaseException, operation: str, arguments: Mapping[str, Any]) -> str:
    """Records a crash in the project's log, or on stderr where there is none, and returns its id."""
    incident_id = f"incident-{secrets.token_hex(4)}"
    entry = {
        "incident_id": incident_id,
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "operation": operation,
        "arguments": sorted(map(str, arguments)),
        "error": type(error).__name__,
        "stack": "".join(traceback.format_exception(error))[-_STACK_LIMIT:],
    }
    try:
        project = Project.open(_root(arguments))
        _append(project, _line(project.masker, entry))
    except (AtkError, OSError):
        # No project, or one whose log cannot be written: the crash must still be told to somebody.
        sys.stderr.write(_line(Masker(os.urandom(KEY_BYTES)), entry))
        sys.stderr.flush()
    return incident_id


def _root(arguments: Mapping[str, Any]) -> str:
    given = arguments.get("project_path")
    return os.path.realpath(os.path.expanduser(given if isinstance(given, str) else os.getcwd()))


def _line(masker: Masker, entry: dict[str, Any]) -> str:
    return json.dumps({**entry, "stack": masker.text(entry["stack"])}) + "\n"


def _append(project: Project, line: str) -> None:
    project.store.make_folders("log", durable=False)
    fd = project.store.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, FILE_MODE)
    try:
        write_all(fd, line.encode())
    finally:
        os.close(fd)
