"""Finds the files that a Case names, inside the project only, and takes their digests."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import Any

from operations.importers._rows import SourceNotRegular, SourceRefused, open_regular, shown, strict_json
from storage.schema.datasets import Attachment

CHUNK = 1 << 20


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


def attachments(given: Any, *, source: str, root: str, row: int, column: str) -> tuple[Attachment, ...]:  # noqa: ANN401 - JSON
    """Returns the attachments that a row names; `given` is a list of paths, its JSON as text, or nothing.

    Args:
        given: What the row says.
        source: The source file; relative paths begin at its folder.
        root: The project's folder, in which every attachment must lie once links are followed.
        row: The row's number, for refusals.
        column: The column's name, for refusals.

    Raises:
        AttachmentsMalformed: `given` is not a list of paths.
        AttachmentOutside: A path leads outside `root`.
        AttachmentUnreadable: A path names no regular file that may be read.
    """
    paths = _paths(given)
    if paths is None:
        raise AttachmentsMalformed(path=source, row=row, column=column, given=shown(given))
    return tuple(_attachment(path, source, root, row) for path in paths)


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


def _attachment(path: str, source: str, root: str, row: int) -> Attachment:
    if "\0" in path:
        raise AttachmentUnreadable(path=source, row=row, attachment=path.replace("\0", "\\0"), reason="has a NUL byte")
    real = os.path.realpath(os.path.join(os.path.dirname(source), path))
    inside = os.path.realpath(root)
    if os.path.commonpath((real, inside)) != inside:
        raise AttachmentOutside(path=source, row=row, attachment=path)
    hashed, size = hashlib.sha256(), 0
    try:
        with open_regular(real) as file:
            while chunk := file.read(CHUNK):
                hashed.update(chunk)
                size += len(chunk)
    except SourceNotRegular as error:
        raise AttachmentUnreadable(path=source, row=row, attachment=path, reason=error.reason) from None
    return Attachment(path=os.path.relpath(real, inside), sha256=hashed.hexdigest(), bytes=size)
