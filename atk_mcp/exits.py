"""How a command ends: its exit status, and a refusal on stderr in words or as JSON."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Any

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


def crashed(error: Exception, name: str, arguments: Mapping[str, Any], *, as_json: bool) -> int:
    """Puts a crash on record, tells the incident's id and returns the exit status.

    Args:
        error: What was raised.
        name: The operation or the command that raised it.
        arguments: What it was given; `project_path` says where the record goes.
        as_json: Whether to tell it as JSON.
    """
    from atk_mcp.incidents import record  # noqa: PLC0415 - rarely needed

    told = results.incident(record(error, name, arguments), name)
    complain(results.compact(told) if as_json else f"Error [{told['code']}] {told['message']}")
    return INTERNAL


def hush() -> None:
    """Lets what is still to be written to stdout go nowhere; Python flushes it once more when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def project_folder(given: argparse.Namespace) -> str:
    """Returns the project's folder that a command was given, or this one."""
    return os.path.realpath(os.path.expanduser(given.project or os.getcwd()))
