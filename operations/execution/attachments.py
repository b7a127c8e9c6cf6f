"""Tells whether the files that belong to a Case are still those that its fingerprint names."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from typing import Any

_CHUNK = 1 << 20


def pinned(attachments: Iterable[Any], folder: str) -> list[dict[str, str]]:
    """Returns path and digest of the attachments that have one; a relative path begins at `folder`."""
    return [
        {"name": each["path"], "path": os.path.join(folder, each["path"]), "sha256": each["sha256"]}
        for each in attachments
        if isinstance(each, Mapping) and isinstance(each.get("path"), str) and isinstance(each.get("sha256"), str)
    ]


def trouble(pins: Iterable[Mapping[str, str]]) -> str | None:
    """Reads each file whole and returns a sentence that names the first which is missing or changed, if any."""
    for pin in pins:
        try:
            found = _sha256(pin["path"])
        except (OSError, ValueError) as why:
            reason = why.strerror if isinstance(why, OSError) and why.strerror else str(why)
            return f"The attachment {pin['name']!r} of the Case cannot be read: {reason} ({pin['path']})."
        if found != pin["sha256"]:
            return (
                f"The attachment {pin['name']!r} of the Case has changed: its SHA-256 is {found}, and {pin['sha256']} "
                f"when the dataset was stored ({pin['path']})."
            )
    return None


def _sha256(path: str) -> str:
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is not a regular file")
        hashed = hashlib.sha256()
        while chunk := file.read(_CHUNK):
            hashed.update(chunk)
    return hashed.hexdigest()
