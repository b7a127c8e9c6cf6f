"""The keys of projects: one file each, in the user's own configuration folder and never in a project's."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass

from storage.errors import AtkError
from storage.files import FOLDER_MODE, open_plain, sync_file
from storage.schema.base import ID_GRAMMAR
from storage.sealing._boxes import KEY_BYTES, SealKey

KEY_HOME = "ATK_KEY_HOME"
"""The environment variable that names another folder for keys."""
_HEAD = "atk-key-1"
_FILE = re.compile(rf"{_HEAD} (\S+) ([0-9a-f]{{{2 * KEY_BYTES}}})\s*")
_SIZE = 4096


@dataclass(kw_only=True, eq=False)
class HoldoutKeyMissing(AtkError):
    """The key that seals a project's holdout Cases is not on this machine."""

    message = (
        "The holdout key {key_id} of {project_id} is not in {folder}{instead}, so what it seals cannot be opened here. "
        "Where the dataset was stored, `atk key export {project_id} FILE` writes it out; `atk key import FILE` takes "
        "it in here. Everything that needs no holdout content still works."
    )

    project_id: str
    key_id: str
    folder: str
    instead: str = ""


@dataclass(kw_only=True, eq=False)
class HoldoutKeyUnusable(AtkError):
    """A key's file cannot be read or written, or is no key."""

    message = (
        "The holdout key in {path} cannot be used: {reason}. A key's file is one line, `atk-key-1`, the project's id "
        "and 64 hexadecimal digits, and is only its owner's to read. Put it right, or import a copy with `atk key "
        "import FILE`."
    )

    path: str
    reason: str


@dataclass(kw_only=True, eq=False)
class OtherKeyThere(AtkError):
    """The project has another key here, which would be lost."""

    message = (
        "{project_id} has the key {known} here, and {path} holds {given}. Nothing was changed: what the first one "
        "seals would never open again. Move {place} aside if it is not needed any more."
    )

    project_id: str
    known: str
    given: str
    path: str
    place: str


def key_home() -> str:
    """Returns the folder of the user's keys: `ATK_KEY_HOME`, else `atk/keys` in the user's configuration folder."""
    if given := os.environ.get(KEY_HOME):
        return os.path.abspath(os.path.expanduser(given))
    base = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):  # to be ignored, says the XDG base directory specification; it may lie in a project
        base = os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(base, "atk", "keys")


def load_key(project_id: str, key_id: str) -> SealKey:
    """Returns the key of a project that has the id `key_id`.

    Raises:
        HoldoutKeyMissing: There is none, or another one.
        HoldoutKeyUnusable: Its file is no key.
    """
    path = key_path(project_id)
    if not os.path.lexists(path):
        raise HoldoutKeyMissing(project_id=project_id, key_id=key_id, folder=key_home())
    key = read_key(path)
    if key.id != key_id or key.project_id != project_id:
        instead = f" (the one there is {key.id})"
        raise HoldoutKeyMissing(project_id=project_id, key_id=key_id, folder=key_home(), instead=instead)
    return key


def made_or_known(project_id: str) -> SealKey:
    """Returns the project's key, made now where there is none; its file is flushed before it seals anything.

    Raises:
        HoldoutKeyUnusable: It cannot be written, or what is there is no key.
    """
    path = key_path(project_id)
    if not os.path.lexists(path):
        with suppress(FileExistsError):  # another process was first, and its key is the project's
            _write(path, SealKey(project_id, os.urandom(KEY_BYTES)))
    return read_key(path)


def read_key(path: str) -> SealKey:
    """Returns the key in a file.

    Raises:
        HoldoutKeyUnusable: It cannot be read, or is no key.
    """
    try:
        with open_plain(path) as file:
            said = _FILE.fullmatch(file.read(_SIZE).decode("ascii", "replace"))
    except OSError as error:
        raise HoldoutKeyUnusable(path=path, reason=error.strerror or str(error)) from error
    if said is None or not re.fullmatch(ID_GRAMMAR, said[1]):
        raise HoldoutKeyUnusable(path=path, reason="it holds something else")
    return SealKey(said[1], bytes.fromhex(said[2]))


def known_keys() -> dict[str, SealKey | HoldoutKeyUnusable]:
    """Returns the keys of this user by project id, or what is wrong with one.

    Raises:
        HoldoutKeyUnusable: Their folder cannot be read.
    """
    found: dict[str, SealKey | HoldoutKeyUnusable] = {}
    try:
        names = sorted(os.listdir(key_home()))
    except FileNotFoundError:
        return found
    except OSError as error:
        raise HoldoutKeyUnusable(path=key_home(), reason=error.strerror or str(error)) from error
    for name in names:
        if name.endswith(".key"):
            try:
                found[name.removesuffix(".key")] = read_key(os.path.join(key_home(), name))
            except HoldoutKeyUnusable as wrong:
                found[name.removesuffix(".key")] = wrong
    return found


def exported(project_id: str, path: str) -> SealKey:
    """Writes the key of a project into a new file that only its owner can read, and returns it.

    Raises:
        HoldoutKeyUnusable: There is no such key, or the file exists or cannot be written.
    """
    key = read_key(key_path(project_id))
    try:
        _write(path, key, folders=False)
    except FileExistsError:
        raise HoldoutKeyUnusable(path=path, reason="a file is there already") from None
    return key


def imported(path: str) -> SealKey:
    """Takes over the key that a file holds, under its project's id, and returns it. The same key again is fine.

    Raises:
        HoldoutKeyUnusable: The file is no key, or the key cannot be written.
        OtherKeyThere: The project has another key here.
    """
    key = read_key(path)
    place = key_path(key.project_id)
    with suppress(FileExistsError):
        _write(place, key)
    known = read_key(place)
    if known.id != key.id:
        raise OtherKeyThere(project_id=key.project_id, known=known.id, given=key.id, path=path, place=place)
    return key


def key_path(project_id: str) -> str:
    """Returns where the key of a project is, or would be.

    Raises:
        HoldoutKeyUnusable: That is no project's id.
    """
    if not re.fullmatch(ID_GRAMMAR, project_id):
        raise HoldoutKeyUnusable(path=key_home(), reason="that is no project's id")
    return os.path.join(key_home(), f"{project_id}.key")


def _write(path: str, key: SealKey, *, folders: bool = True) -> None:
    """Writes a key whole or not at all: a spare file takes the name only where nothing has it."""
    spare = f"{path}.{os.urandom(4).hex()}.new"
    try:
        if folders:
            os.makedirs(os.path.dirname(path), FOLDER_MODE, exist_ok=True)
        fd = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(fd, "w", encoding="ascii") as file:
                file.write(f"{_HEAD} {key.project_id} {key.secret.hex()}\n")
                file.flush()
                sync_file(file.fileno())
            os.link(spare, path)
        finally:
            os.unlink(spare)
        folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except FileExistsError:
        raise
    except OSError as error:
        raise HoldoutKeyUnusable(path=path, reason=error.strerror or str(error)) from error
