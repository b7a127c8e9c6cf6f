"""How a command ends: its exit status, and a refusal on stderr in words or as JSON."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Any

from atk_mcp import results, snapshot
from atk_mcp.terminal import command, complain, with_commands
from storage.errors import AtkError

OK, REFUSED, USAGE, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 130


def refused(error: AtkError, *, as_json: bool, project: str | None = None) -> int:
    """Tells of a refusal and returns its exit status.

    Args:
        error: What was raised.
        as_json: Whether to tell it as JSON, as a client gets it; else in words, with commands that lead on.
        project: The folder that the command was given, if any.
    """
    told = results.refusal(error)
    if as_json:
        complain(results.compact(told))
        return REFUSED
    complain(f"Error [{error.code}] {_sentence(error)}")
    if told["next"]:
        complain("\n".join(("Next:", *(f"  {command(step, project)}" for step in told["next"]))))
    return REFUSED


def _sentence(error: AtkError) -> str:
    """Returns what a refusal says, with commands in place of tools; what its facts hold stays as it is."""
    return error.worded(with_commands(error.message, [tool["name"] for tool in snapshot.load()]))


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
    """Returns the project's folder that a command was given, or this one.

    Raises:
        FolderMissing: This one was removed.
    """
    try:
        return os.path.realpath(os.path.expanduser(given.project or os.getcwd()))
    except FileNotFoundError:
        from operations.invocation import FolderMissing  # noqa: PLC0415 - --help needs neither models nor store

        raise FolderMissing(given="(the folder in which ATK was started)") from None
