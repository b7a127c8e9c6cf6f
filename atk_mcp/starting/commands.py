"""Adds `atk init` to the parser of `atk`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from atk_mcp.exits import project_folder

Add = Callable[[Any, str, Callable[[argparse.Namespace], int], str], argparse.ArgumentParser]
"""Makes a command that has `--project`."""

_EPILOG = """\
It looks at the files without starting anything, asks how the agent is started, how it takes its input, what may be
changed and what it can act on, and shows the request before anything is written. Then it makes the project, and
starts the agent once if you agree. --yes claims nothing that you have not said: what the code seems to act on outside
the folder is declared without a protection, and the agent is then not started.

exit status: 0 done, and the agent answered where it was started; 1 refused, declined, a project already, or an agent
that was not started or did not answer; 130 after Ctrl-C, which leaves nothing behind before the project is made

for example:
  atk init                     in the target's folder
  atk init --dry-run --yes     what it would write, without a question
"""


def add(commands: Any, command: Add) -> None:  # noqa: ANN401 - argparse keeps the type of its subparsers to itself
    """Adds the command."""
    init = command(commands, "init", _init, "make this folder a project, by questions, and start its agent once")
    init.formatter_class = argparse.RawDescriptionHelpFormatter
    init.epilog = _EPILOG
    init.add_argument("--yes", action="store_true", help="ask nothing, and take every default")
    init.add_argument("--without-git", action="store_true", help="where Git is not ready, go on without it by default")
    init.add_argument("--dry-run", action="store_true", help="show what would be written; write and start nothing")
    init.add_argument("--json", action="store_true", help="print what was found, asked for and done as JSON")


def _init(given: argparse.Namespace) -> int:
    from atk_mcp.starting.run import init  # noqa: PLC0415 - --help needs no store

    return init(given, project_folder(given))
