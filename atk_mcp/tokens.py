"""The token that clients of the HTTP server show: made once, kept where only its owner reads it."""

from __future__ import annotations

import os
import re
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass

from storage.errors import AtkError

_BYTES = 32
_TOKEN = re.compile(r"([A-Za-z0-9_-]{32,256})\s*")
_SIZE = 1024
_MODE, _FOLDER_MODE = 0o600, 0o700


@dataclass(kw_only=True, eq=False)
class TokenUnusable(AtkError):
    """The file of the HTTP server's token cannot be used."""

    message = (
        "The token in {path} cannot be used: {reason}. Its file is one line of at least 32 letters, digits, - or _, "
        "and is only its owner's to read. Remove it, and the next start makes a new one; or name another with "
        "--token-file."
    )

    path: str
    reason: str


@dataclass(frozen=True)
class Token:
    """A token and where it lies."""

    secret: str
    path: str


def token_path() -> str:
    """Returns where the user's token lies: `atk/http-token` in the user's configuration folder."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):  # to be ignored, says the XDG base directory specification
        base = os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(base, "atk", "http-token")


def token_place(path: str | None = None) -> str:
    """Returns the absolute path of a token's file: the one given, as seen from the working folder, or the user's."""
    return os.path.abspath(os.path.expanduser(path or token_path()))


def made_or_known(path: str | None = None) -> Token:
    """Returns the token in a file, made now where there is none.

    Args:
        path: Its file. Default: the user's.

    Raises:
        TokenUnusable: It cannot be read or written, others may read it, or it is no token.
    """
    place = token_place(path)
    if not os.path.lexists(place):
        with suppress(FileExistsError):  # another server was first, and its token counts
            return Token(_made(place), place)
    return Token(_read(place), place)


def _made(place: str) -> str:
    secret = secrets.token_urlsafe(_BYTES)
    draft = f"{place}.{secrets.token_hex(4)}"
    try:
        os.makedirs(os.path.dirname(place), mode=_FOLDER_MODE, exist_ok=True)
        opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
        try:
            with os.fdopen(opened, "w") as file:
                file.write(secret + "\n")
            os.link(draft, place)  # whole or not at all, and never over another one
        finally:
            os.unlink(draft)
    except FileExistsError:
        raise
    except OSError as error:
        raise TokenUnusable(path=place, reason=error.strerror or str(error)) from error
    return secret


def _read(place: str) -> str:
    try:
        fd = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            about = os.fstat(file.fileno())
            said = _TOKEN.fullmatch(file.read(_SIZE).decode("ascii", "replace"))
    except OSError as error:
        raise TokenUnusable(path=place, reason=error.strerror or str(error)) from error
    if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
        raise TokenUnusable(path=place, reason="it is not a file of yours")
    if stat.S_IMODE(about.st_mode) & 0o077:
        raise TokenUnusable(path=place, reason=f"others may read it (its mode is {stat.S_IMODE(about.st_mode):04o})")
    if said is None:
        raise TokenUnusable(path=place, reason="it holds something else")
    return said[1]
