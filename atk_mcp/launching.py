"""Starts `atk` and `atk-mcp`: a Ctrl-C while they load ends them as any program, and shows no stack."""

from __future__ import annotations

import importlib
import signal
import sys
from typing import NoReturn


def atk() -> NoReturn:
    """Runs `atk` and ends with its exit status."""
    _run("atk_mcp.inspector")


def atk_mcp() -> NoReturn:
    """Runs `atk-mcp` and ends with its exit status."""
    _run("atk_mcp.__main__")


def _run(name: str) -> NoReturn:
    """Loads a module and runs its `main`, which sees to a Ctrl-C itself."""
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is ignored, as in the background
    if usual:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    main = importlib.import_module(name).main
    if usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
