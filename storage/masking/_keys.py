"""The key of a project's masks: made once, read whole or not at all."""

from __future__ import annotations

import os
from dataclasses import dataclass

from storage.errors import AtkError
from storage.files import open_plain, sync_file

KEY_BYTES = 32
"""Length of a project's masking key."""


@dataclass(kw_only=True, eq=False)
class MaskingKeyDamaged(AtkError):
    """The project's masking key cannot be read whole, so equal secrets would no longer get equal masks."""

    message = (
        "The masking key {path} cannot be used: {reason}. A masking key is a regular file of {wanted} bytes. "
        "Nothing was stored. Put the project's own key file back from a copy."
    )

    path: str
    reason: str
    wanted: int = KEY_BYTES


@dataclass(kw_only=True, eq=False)
class MaskingKeyExists(AtkError):
    """A masking key is made once: a second one would give old secrets new masks."""

    message = "The masking key {path} exists already and is kept. Read it instead of making a new one."

    path: str


def create_key(path: str) -> bytes:
    """Makes a new key file at `path` (mode 0600, flushed to disk) and returns its 32 random bytes.

    Raises:
        MaskingKeyExists: There is a file at `path`.
    """
    key = os.urandom(KEY_BYTES)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise MaskingKeyExists(path=path) from error
    with os.fdopen(handle, "wb") as file:
        file.write(key)
        file.flush()
        sync_file(file.fileno())
    return key


def load_key(path: str) -> bytes:
    """Returns the key in the file at `path`.

    Raises:
        MaskingKeyDamaged: The file is missing, is a link, or is not 32 bytes long.
    """
    try:
        with open_plain(path) as file:
            key = file.read(KEY_BYTES + 1)
    except OSError as error:
        raise MaskingKeyDamaged(path=path, reason=error.strerror or str(error)) from error
    if len(key) != KEY_BYTES:
        count = f"more than {KEY_BYTES}" if len(key) > KEY_BYTES else str(len(key))
        raise MaskingKeyDamaged(path=path, reason=f"it holds {count} bytes")
    return key
