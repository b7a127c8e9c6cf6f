"""`atk key`: shows, writes out and takes in the keys that holdout Cases are encrypted with."""

from __future__ import annotations

import os

from atk_mcp.terminal import say
from storage import sealing


def listed() -> bool:
    """Prints the keys of this user, each with its project, and returns whether all of them can be used.

    Raises:
        HoldoutKeyUnusable: Their folder cannot be read.
    """
    found = sealing.known_keys()
    for project_id, key in found.items():
        say(f"{project_id}  {key.id}" if isinstance(key, sealing.SealKey) else f"{project_id}  {key}")
    if not found:
        say(f"There is no key in {sealing.key_home()}; the first holdout Case makes its project's.")
    return all(isinstance(key, sealing.SealKey) for key in found.values())


def exported(project_id: str, path: str) -> None:
    """Writes the key of a project into a new file.

    Raises:
        HoldoutKeyUnusable: There is no such key, or the file exists or cannot be written.
    """
    place = os.path.abspath(os.path.expanduser(path))
    key = sealing.exported(project_id, place)
    say(f"{place} holds the key {key.id} of {project_id}. Whoever has it and the project can read its holdout Cases.")


def imported(path: str) -> None:
    """Takes over a key from a file.

    Raises:
        HoldoutKeyUnusable: The file is no key, or the key cannot be written.
        OtherKeyThere: The project has another key here.
    """
    key = sealing.imported(os.path.abspath(os.path.expanduser(path)))
    say(f"The key {key.id} of {key.project_id} is in {sealing.key_home()}.")
