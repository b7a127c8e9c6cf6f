"""Says where ATK runs, before anything of it is loaded that needs that."""

from __future__ import annotations

import os
import sys

_WITHOUT_DOCSTRINGS = 2
"""The level of optimization from which on Python leaves docstrings out."""


def refusal() -> str | None:
    """Returns why ATK cannot start here, or None."""
    if sys.flags.optimize >= _WITHOUT_DOCSTRINGS:
        return (
            "Python was told to leave docstrings out (PYTHONOPTIMIZE=2 or -OO), and ATK tells its clients by them what "
            "its operations do. Take PYTHONOPTIMIZE out of the environment in which it is started."
        )
    if os.name == "posix":
        return None
    return (
        "ATK runs on Linux and macOS: it needs their file locks and process groups. On Windows, run it inside WSL "
        "(Windows Subsystem for Linux), with the project on the Linux side."
    )
