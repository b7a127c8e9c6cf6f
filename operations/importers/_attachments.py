"""Finds the files that a Case names, inside the project only, takes their digests, and keeps their bytes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from operations.importers._rows import SourceNotRegular, SourceRefused, open_regular, shown, strict_json
from storage.files import Folder, Stored
from storage.holdout import attachment_name, attachment_place
from storage.schema.datasets import Attachment, Case
from storage.sealing import SealKey
from storage.transaction import Staging

CHUNK = 1 << 20
KEPT_FOLDER = "attachments"
"""The folder of a dataset in which its attachments are kept, each named by the SHA-256 of its bytes."""
BLIND = "(of a holdout Case; not shown)"
"""What a refusal says in place of what a holdout Case holds."""
MAX_FILE_BYTES = 256 << 20
"""The largest attachment that is kept. Each attempt gets a copy of its own, so a larger one belongs elsewhere."""
MAX_DATASET_BYTES = 2 << 30
"""How much all attachments of a dataset may have, equal ones counted once."""
MAX_FILES = 10_000
"""How many different attachments a dataset may have: the journal names each."""


@dataclass(kw_only=True, eq=False)
class AttachmentsMalformed(SourceRefused):
    """The attachments of a row are not a list of paths."""

    message = (
        "Row {row} of {path}: the column {column} holds {given}. Attachments are a list of paths: a JSON array of "
        "texts, also as the text of a CSV cell."
    )

    row: int
    column: str
    given: str


@dataclass(kw_only=True, eq=False)
class AttachmentOutside(SourceRefused):
    """An attachment lies outside the project's folder."""

    message = (
        "Row {row} of {path}: the attachment {attachment} leads outside the project. "
        "Copy it into the project's folder and name it there."
    )

    row: int
    attachment: str


@dataclass(kw_only=True, eq=False)
class AttachmentUnreadable(SourceRefused):
    """An attachment is not a regular file that can be read."""

    message = (
        "Row {row} of {path}: the attachment {attachment} {reason}. Attachments are regular files; a relative path "
        "begins at the folder of the source file."
    )

    row: int
    attachment: str
    reason: str


@dataclass(kw_only=True, eq=False)
class AttachmentsTooLarge(SourceRefused):
    """The attachments have more bytes, or are more files, than a dataset keeps."""

    message = (
        "Row {row} of {path}: with the attachment {attachment} there are {found} {unit}, and a dataset keeps at most "
        "{limit}. Nothing was stored. Name smaller files, or tell the agent in a Case's input where the large ones are."
    )

    row: int
    attachment: str
    found: int
    unit: str
    limit: int


def attachments(  # noqa: PLR0913 - a cell, where it is, and what may be said of it
    given: Any,  # noqa: ANN401 - JSON
    *,
    source: str,
    root: str,
    row: int,
    column: str,
    blind: bool = False,
) -> tuple[Attachment, ...]:
    """Returns the attachments that a row names; `given` is a list of paths, its JSON as text, or nothing.

    Args:
        given: What the row says.
        source: The source file; relative paths begin at its folder.
        root: The project's folder, in which every attachment must lie once links are followed.
        row: The row's number, for refusals.
        column: The column's name, for refusals.
        blind: Whether refusals must not repeat the cell, since it is a holdout Case's.

    Raises:
        AttachmentsMalformed: `given` is not a list of paths.
        AttachmentOutside: A path leads outside `root`.
        AttachmentUnreadable: A path names no regular file that may be read.
    """
    paths = _paths(given)
    if paths is None:
        raise AttachmentsMalformed(path=source, row=row, column=column, given=BLIND if blind else shown(given))
    return tuple(_attachment(path, source, root, row, BLIND if blind else path) for path in paths)


def _paths(given: Any) -> list[str] | None:  # noqa: ANN401 - JSON
    if given is None or given == "":
        return []
    if isinstance(given, str):
        try:
            given = strict_json(given)
        except ValueError:
            return None
    whole = isinstance(given, list) and all(isinstance(path, str) and path for path in given)
    return given if whole else None


_OWN = frozenset({".git", ".atk"})
"""Folders whose files no agent is handed: keys, configuration, evidence."""


def _attachment(path: str, source: str, root: str, row: int, name: str) -> Attachment:
    if "\0" in path:
        raise AttachmentUnreadable(path=source, row=row, attachment=name.replace("\0", "\\0"), reason="has a NUL byte")
    real = os.path.realpath(os.path.join(os.path.dirname(source), path))
    inside = os.path.realpath(root)
    if os.path.commonpath((real, inside)) != inside:
        raise AttachmentOutside(path=source, row=row, attachment=name)
    if _OWN.intersection(os.path.relpath(real, inside).split(os.sep)):
        raise AttachmentUnreadable(path=source, row=row, attachment=name, reason="belongs to Git or ATK, not to a Case")
    hashed, size = hashlib.sha256(), 0
    try:
        with open_regular(real) as file:
            while chunk := file.read(CHUNK):
                hashed.update(chunk)
                size += len(chunk)
    except SourceNotRegular as error:
        raise AttachmentUnreadable(path=source, row=row, attachment=name, reason=error.reason) from None
    return Attachment(path=os.path.relpath(real, inside), sha256=hashed.hexdigest(), bytes=size)


class KeptAttachments:
    """Copies the attachments of Cases as they are read, each different content once."""

    def __init__(self, store: Folder, staging: Staging, *, source: str, root: str, kept_in: str | None = None) -> None:
        """Keeps them in a folder of what is staged for the dataset; paths of attachments begin at `root`.

        `kept_in` is the folder of a dataset that keeps them already, each named by its SHA-256.
        """
        self._kept_in = kept_in
        self._store, self._staging = store, staging
        self._source = source
        self._root = os.path.realpath(root)
        self._kept: set[str] = set()
        self.bytes = 0
        """How much is kept."""

    def __len__(self) -> int:
        """How many different files are kept."""
        return len(self._kept)

    def keep(self, case: Case, key: SealKey | None = None) -> None:
        """Keeps what a Case names, as it is: unmasked, like the Case's input, because the agent needs it.

        With `key`, a holdout Case's, they are encrypted and have keyed names.

        Raises:
            AttachmentsTooLarge: A file, or all together, are more than a dataset keeps.
            AttachmentUnreadable: A file cannot be read, or is not any more what its digest was taken of.
        """
        for file in case.attachments:
            kept_as = file.sha256 if key is None else attachment_name(key, file.sha256)
            if kept_as in self._kept:
                continue
            self._require_room(file, case)
            if not self._kept:
                self._store.make_folders(f"{self._staging.path}/{KEPT_FOLDER}")
            path = os.path.join(self._kept_in or self._root, file.sha256 if self._kept_in else file.path)
            read = _Read(path)
            chunks = iter(read) if key is None else key.seal_bytes(read, attachment_place(kept_as))
            try:
                self._staging.write(f"{KEPT_FOLDER}/{kept_as}", chunks)
            except SourceNotRegular as error:
                raise self._unreadable(file, case, error.reason) from None
            if read.found != Stored(file.sha256, file.bytes):
                raise self._unreadable(file, case, "changed while it was read")
            self._kept.add(kept_as)
            self.bytes += file.bytes

    def sync(self) -> None:
        """Flushes the folder's entries; the files are flushed already. To be called before it is put in place."""
        if self._kept:
            self._store.sync(f"{self._staging.path}/{KEPT_FOLDER}")

    def _require_room(self, file: Attachment, case: Case) -> None:
        bounds = (
            (file.bytes, "bytes in one file", MAX_FILE_BYTES),
            (self.bytes + file.bytes, "bytes of attachments", MAX_DATASET_BYTES),
            (len(self) + 1, "different attachments", MAX_FILES),
        )
        for found, unit, limit in bounds:
            if found > limit:
                raise AttachmentsTooLarge(
                    path=self._source,
                    row=case.source.row,
                    attachment=_named(file, case),
                    found=found,
                    unit=unit,
                    limit=limit,
                )

    def _unreadable(self, file: Attachment, case: Case, reason: str) -> AttachmentUnreadable:
        return AttachmentUnreadable(
            path=self._source, row=case.source.row, attachment=_named(file, case), reason=reason
        )


def _named(file: Attachment, case: Case) -> str:
    return BLIND if case.usage == "holdout" else file.path


class _Read:
    """The bytes of a file, read once; `found` says afterwards what they were."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.found = Stored("", 0)

    def __iter__(self) -> Iterator[bytes]:
        hashed, size = hashlib.sha256(), 0
        with open_regular(self._path) as file:
            while chunk := file.read(CHUNK):
                hashed.update(chunk)
                size += len(chunk)
                yield chunk
        self.found = Stored(hashed.hexdigest(), size)
