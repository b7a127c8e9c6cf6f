"""Installs into Codex with Codex's own commands, and takes it away again."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess  # noqa: TID251 - Codex's own commands, never the target's
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import atk_mcp
from atk_mcp.installing import plugin
from atk_mcp.installing.clients import CLIENTS, TOKEN_VARIABLE, Running, how_to_reach, reached, shown
from atk_mcp.terminal import complain, say
from storage.errors import AtkError

_SECONDS = 120
"""How long one command of Codex may take."""

_TIMED_OUT = 124
"""The status that timeout(1) gives a command that did not end in time."""

_SHOWN = 600


@dataclass(kw_only=True, eq=False)
class CodexMissing(AtkError):
    """There is no Codex to install into."""

    message = (
        "{program} cannot be started. Install Codex (npm install -g @openai/codex), name it with --codex, or print the "
        "configuration of another client with --client."
    )
    program: str


@dataclass(kw_only=True, eq=False)
class CodexFailed(AtkError):
    """A command of Codex ended badly. What was written before it stays, and the same call may be made again."""

    message = "`{command}` ended with status {status}: {said}. Put right what it says, and run the same command again."
    command: str
    status: int
    said: str


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a person asked for."""

    client: str = "codex"
    codex: str = "codex"
    variables: tuple[str, ...] = ()
    """Names of variables that the server, and so the agent, is to see: clients pass on few by themselves."""
    dry_run: bool = False
    uninstall: bool = False
    running: Running | None = None
    """The server that the client is to reach over HTTP, instead of starting its own."""


def install(wanted: Wanted) -> None:
    """Does what was asked for and says what was done.

    Raises:
        CodexMissing: Codex cannot be started.
        CodexFailed: One of its commands failed.
    """
    command = plugin.server_command(os.path.dirname(sys.executable), sys.executable)
    if wanted.client != "codex":
        client = CLIENTS[wanted.client]
        say(reached(client, wanted.running) if wanted.running else shown(client, command, wanted.variables))
        return
    entry = (
        plugin.http_entry(wanted.running.url, TOKEN_VARIABLE)
        if wanted.running
        else plugin.server_entry(command, wanted.variables)
    )
    folder = plugin.home()
    steps = _removing() if wanted.uninstall else _adding(folder)
    if wanted.dry_run:
        _tell(wanted, folder, entry, steps)
        return
    codex = shutil.which(wanted.codex)
    if codex is None:
        raise CodexMissing(program=wanted.codex)
    if wanted.uninstall:
        _remove(codex, folder, steps)
        return
    if (warning := _not_apart()) is not None:
        complain(warning)
    before = plugin.installed_version(folder)
    plugin.write(folder, plugin.files(entry))
    for step in steps:
        _codex(codex, step)
    how = f"{before} is replaced by {atk_mcp.__version__}" if before else f"{atk_mcp.__version__} is installed"
    does = f"reaches {wanted.running.url}" if wanted.running else f"starts {shlex.join(command)}"
    say(f"ATK's plugin {how}. It {does}.")
    if wanted.running:
        say(how_to_reach(wanted.running))
    say("Start Codex in the project's folder and say: $atk:atk-init. `atk install --uninstall` takes it away.")


def _adding(folder: str) -> list[list[str]]:
    return [["plugin", "marketplace", "add", folder], ["plugin", "add", plugin.SELECTOR]]


def _removing() -> list[list[str]]:
    return [["plugin", "remove", plugin.SELECTOR], ["plugin", "marketplace", "remove", plugin.MARKETPLACE]]


def _tell(wanted: Wanted, folder: str, entry: Mapping[str, Any], steps: Sequence[Sequence[str]]) -> None:
    say("Nothing is changed. This is what would be done:")
    if not wanted.uninstall:
        for path, data in plugin.files(entry).items():
            say(f"\nwrite {os.path.join(folder, path)}")
            say(data.decode().rstrip())
        say(f"\ncopy the Skills from {plugin.skills()}")
    for step in steps:
        say(f"run {shlex.join([wanted.codex, *step])}")
    if wanted.uninstall:
        say(f"remove {folder}")


def _remove(codex: str, folder: str, steps: Sequence[Sequence[str]]) -> None:
    """Takes away what is there, and says what was not; what is not there any more is no failure."""
    failed = []
    for step in steps:
        try:
            _codex(codex, step)
        except CodexFailed as error:
            complain(str(error))
            failed.append(f"`{shlex.join(['codex', *step])}`")
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)
    if failed:
        say(f"{folder} is taken away; {' and '.join(failed)} failed, as said above.")
        say("Where `codex plugin list` still shows ATK, put that right and run `atk install --uninstall` again.")
    else:
        say("ATK's plugin is taken away.")
    say("Projects and their .atk folders are as they were.")


def _codex(codex: str, arguments: Sequence[str]) -> None:
    command = [codex, *arguments]
    try:
        done = subprocess.run(  # noqa: S603 - the program that the person named, with arguments of ours
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False
        )
        status, said = done.returncode, (done.stderr or done.stdout).decode("utf-8", "replace").strip()[-_SHOWN:]
    except subprocess.TimeoutExpired:
        status, said = _TIMED_OUT, f"it had not ended after {_SECONDS} s"
    except OSError as error:
        raise CodexMissing(program=f"{codex} ({error.strerror})") from error
    if status:
        raise CodexFailed(command=shlex.join(["codex", *arguments]), status=status, said=said)


def _not_apart() -> str | None:
    """Warns where the server would live in an environment that belongs to something else."""
    if sys.prefix == sys.base_prefix:
        return "ATK runs from the system's Python. An environment of its own is safer: uv tool install, or pipx."
    here = os.getcwd()
    if os.path.commonpath([os.path.realpath(sys.prefix), os.path.realpath(here)]) == os.path.realpath(here):
        return (
            f"ATK runs from {sys.prefix}, inside this folder. If that is the target's environment, install ATK apart."
        )
    return None
