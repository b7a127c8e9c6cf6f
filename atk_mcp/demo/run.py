"""Runs the demo: makes a target, starts `atk-mcp` on it, and plays a whole Round through the official client."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import IO, TextIO, cast

import anyio
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

from atk_mcp.demo.loop import Loop
from atk_mcp.demo.repository import make_target
from atk_mcp.demo.session import DemoStopped, Session
from atk_mcp.demo.story import Story
from atk_mcp.terminal import ProgressLine, complain, say
from storage.errors import AtkError

OK, STOPPED = 0, 1

_HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_SAID_SHOWN = 2_000
"""Characters of what the server wrote to stderr that are shown when the demo stops."""


def run(
    seed: int = 7, path: str | None = None, *, no_op_edit: bool = False, out: Callable[[str], None] | None = None
) -> int:
    """Plays a Round on a small agent and tells it as it goes, line by line, to `out`.

    Args:
        seed: Makes the tickets; the same seed tells the same story.
        path: A new or empty folder for the target. Default: a new one in the system's folder for temporary files.
        no_op_edit: Makes the first candidate change nothing that matters, so that nothing should be kept.
        out: Where the lines go. Default: standard output.

    Returns:
        0 when the Round ended as its evidence says, whatever that is; 1 when something broke, which stderr then tells.
    """
    return play(Story(out or _print), seed=seed, path=path, no_op_edit=no_op_edit)


def play(story: Story, *, seed: int, path: str | None, no_op_edit: bool) -> int:
    """Plays the demo into a story, whose facts the caller can then look up. Arguments and result as of `run`."""
    stopped: list[str] = []
    root = ""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        try:
            root, cases = make_target(path, seed)
            story.out(f"A ticket-triage agent is in {root}")
            anyio.run(_conversation, story, root, cases, no_op_edit, log)
        except* (DemoStopped, MCPError, AtkError) as group:  # the client's task groups wrap what ends them
            stopped = [str(problem) for problem in _each(group)]
        if stopped:
            log.seek(0)
            _complain(stopped, log.read()[-_SAID_SHOWN:].strip(), root)
            return STOPPED
    _farewell(story, root)
    return OK


def _each(group: BaseExceptionGroup[Exception]) -> Iterator[Exception]:
    for problem in group.exceptions:
        if isinstance(problem, BaseExceptionGroup):
            yield from _each(problem)
        else:
            yield problem


def _complain(stopped: Sequence[str], said: str, root: str) -> None:
    for problem in stopped:
        complain(f"atk demo: {problem}")
    if said:
        complain(f"The server said:\n{said}")
    if root:
        complain(f"What was done so far is in {root}; `{_atk()} status` there says where it stands.")


async def _conversation(story: Story, root: str, cases: str, no_op_edit: bool, log: IO[str]) -> None:  # noqa: FBT001 - anyio.run passes positions
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "atk_mcp"], cwd=root, env={"PYTHONPATH": _HOME, "PYTHONSAFEPATH": "1"}
    )
    progress = ProgressLine()
    async with Client(stdio_client(server, errlog=cast("TextIO", log))) as client:
        session = Session(client, progress, progress.clear)
        story.out(f"{server.command} -m atk_mcp serves it; the official MCP client calls its tools.")
        await Loop(session, story, root, cases).play(no_op_edit=no_op_edit)


def _farewell(story: Story, root: str) -> None:
    story.out("\nLook at it; every id above can be read:")
    atk = _atk()
    for line in (
        f"cd {shlex.quote(root)}",
        "git log --stat",
        f"{atk} status",
        f"{atk} journal",
        f"""{atk} call read_record --request '{{"record_id": "ID"}}'""",
    ):
        story.out(f"  {line}")


def _atk() -> str:
    """Returns how to start the `atk` that is running, from any folder and whether or not it is on the path."""
    started = os.path.abspath(sys.argv[0])
    beside = os.path.join(os.path.dirname(sys.executable), "atk")
    for command in (started, beside):
        if os.path.basename(command) == "atk" and os.access(command, os.X_OK) and os.path.isfile(command):
            return shlex.quote(command)
    return f"{shlex.quote(sys.executable)} -m atk_mcp.inspector"


def _print(line: str) -> None:
    say(line)
    sys.stdout.flush()
