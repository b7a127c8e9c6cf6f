"""Says on which systems ATK runs, before anything of it is loaded that needs one of them."""

from __future__ import annotations

import os


def refusal() -> str | None:
    """Returns why ATK cannot start here, or None."""
    if os.name == "posix":
        return None
    return (
        "ATK runs on Linux and macOS: it needs their file locks and process groups. On Windows, run it inside WSL "
        "(Windows Subsystem for Linux), with the project on the Linux side."
    )
