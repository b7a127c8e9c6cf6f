"""Says where ATK runs, before anything of it is loaded that needs that."""

from __future__ import annotations

import os
import stat
import sys

_WITHOUT_DOCSTRINGS = 2
"""The level of optimization from which on Python leaves docstrings out."""

_OTHERS = 0o077
"""What nobody but the owner of a new file may do with it."""


def refusal() -> str | None:
    """Returns why ATK cannot start here, or None."""
    if sys.flags.optimize >= _WITHOUT_DOCSTRINGS:
        return (
            "Python was told to leave docstrings out (PYTHONOPTIMIZE=2 or -OO), and ATK tells its clients by them what "
            "its operations do. Take PYTHONOPTIMIZE out of the environment in which it is started."
        )
    if os.name == "posix":
        return _of_mask()
    return (
        "ATK runs on Linux and macOS: it needs their file locks and process groups. On Windows, run it inside WSL "
        "(Windows Subsystem for Linux), with the project on the Linux side."
    )


def _of_mask() -> str | None:
    """Returns why this process's umask does not do, or None. Only for a process with one thread."""
    mask = os.umask(_OTHERS)  # it cannot be read without being set
    os.umask(mask)
    if not mask & stat.S_IRWXU:
        return None
    return (
        f"The umask is {mask:04o}, which takes rights from the owner of what is made: ATK could not use its own "
        "folders. Set one of 0077 or less (`umask 0077`; `UMask=` in a unit of systemd) where it is started."
    )
