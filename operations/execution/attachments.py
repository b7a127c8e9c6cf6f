"""Gives an attempt the files that belong to its Case, and tells whether they are those that its fingerprint names.

Where a dataset keeps their bytes, each attempt gets a copy of its own, which it may change; the project's files are
then not looked at. Else they are read where the project has them, and have to be the same before and after the attempt.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from storage.files import write_all
from storage.holdout import attachment_name, attachment_place
from storage.sealing import SealBroken, SealKey

FOLDER = "attachments"
"""The folder of an attempt that has its copies."""
_CHUNK = 1 << 20


class KeptBytesDamaged(ValueError):
    """What a dataset keeps of an attachment is missing or is not what was kept."""


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


def copies(
    attachments: Sequence[Mapping[str, Any]], kept: str, folder: str, key: SealKey | None = None
) -> list[dict[str, Any]]:
    """Copies a Case's attachments for one attempt, and returns them with the paths of the copies.

    The copies lie below `folder` as the files lie below the project, so that one may refer to another.

    Args:
        attachments: The Case's: `path`, relative to the project, and `sha256` of each.
        kept: The dataset's folder, which has them by their SHA-256.
        folder: The attempt's own, which must not exist.
        key: What the dataset's are encrypted with, where they are a holdout Case's.

    Raises:
        KeptBytesDamaged: It names the attachment and the kept file.
        OSError: They cannot be copied.
    """
    placed = {each["path"]: os.path.join(folder, each["path"]) for each in attachments}
    for each in {each["path"]: each for each in attachments}.values():
        os.makedirs(os.path.dirname(placed[each["path"]]), 0o700, exist_ok=True)
        name = each["sha256"] if key is None else attachment_name(key, each["sha256"])
        source = os.path.join(kept, name)
        chunks = _chunks(source) if key is None else key.open_bytes(_chunks(source), attachment_place(name))
        _copy(each, source, chunks, placed[each["path"]])
    return [{**each, "path": placed[each["path"]]} for each in attachments]


def _copy(attachment: Mapping[str, Any], source: str, chunks: Iterator[bytes], target: str) -> None:
    hashed = hashlib.sha256()
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        for chunk in chunks:
            hashed.update(chunk)
            write_all(handle, chunk)
    except (FileNotFoundError, ValueError):
        raise KeptBytesDamaged(_damaged(attachment, source, "are missing")) from None
    except SealBroken:
        raise KeptBytesDamaged(_damaged(attachment, source, "do not open with the holdout key")) from None
    finally:
        os.close(handle)
    if hashed.hexdigest() != attachment["sha256"]:
        raise KeptBytesDamaged(_damaged(attachment, source, f"have the SHA-256 {hashed.hexdigest()}"))


def _damaged(attachment: Mapping[str, Any], source: str, how: str) -> str:
    return f"The kept bytes of the attachment {attachment['path']!r} {how} ({source}); the dataset is damaged."


def _sha256(path: str) -> str:
    hashed = hashlib.sha256()
    for chunk in _chunks(path):
        hashed.update(chunk)
    return hashed.hexdigest()


def _chunks(path: str) -> Iterator[bytes]:
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is not a regular file")
        while chunk := file.read(_CHUNK):
            yield chunk
