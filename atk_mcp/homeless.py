"""Refuses a call that does not say its project, where a server has no project of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from storage.errors import AtkError, NextCall

FIELD = "project_path"
SAID = " This server has no project of its own: give project_path, absolute, in every call."
"""What the instructions of such a server say."""


@dataclass(kw_only=True, eq=False)
class ProjectNotNamed(AtkError):
    """The server has no project of its own, and the call does not say by an absolute path which one it is about."""

    message = (
        "{operation} was called with project_path {given!r}. This server serves several projects: give project_path, "
        "the absolute path of the project's folder, in every call."
    )
    next_calls = (NextCall("{operation}", supply={FIELD: "the absolute path of the project's folder"}),)

    operation: str
    given: str | None


def refuse_unnamed(operation: str, arguments: Mapping[str, Any]) -> None:
    """Refuses arguments without an absolute project path.

    Raises:
        ProjectNotNamed: The call would be about wherever the server happens to have been started.
    """
    given = arguments.get(FIELD)
    if not isinstance(given, str) or not _is_absolute(given):
        raise ProjectNotNamed(operation=operation, given=None if given is None else str(given)[:200])


def _is_absolute(path: str) -> bool:
    try:
        return os.path.isabs(os.path.expanduser(path))
    except ValueError:  # no path at all: it names a user with a zero byte
        return False
