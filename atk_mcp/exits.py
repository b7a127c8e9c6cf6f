"""How a command ends: its exit status, and a refusal on stderr in words or as JSON."""

from __future__ import annotations

import argparse
import os

from atk_mcp import results
from atk_mcp.terminal import complain
from storage.errors import AtkError

OK, REFUSED, USAGE, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 130


def refused(error: AtkError, *, as_json: bool) -> int:
    """Tells of a refusal and returns its exit status."""
    if as_json:
        complain(results.compact(results.refusal(error)))
    else:
        complain(f"Error [{error.code}] {error}")
        if words := results.in_words(error.next):
            complain(words)
    return REFUSED


def project_folder(given: argparse.Namespace) -> str:
    """Returns the project's folder that a command was given, or this one."""
    return os.path.realpath(os.path.expanduser(given.project or os.getcwd()))
