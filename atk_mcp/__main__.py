"""`atk-mcp`: serves ATK to an MCP client over stdin and stdout."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence

import atk_mcp
from atk_mcp import snapshot
from atk_mcp.greeting import Greeting
from atk_mcp.pipes import Pipes, fill_closed
from atk_mcp.platforms import refusal
from atk_mcp.toolsets import Offer, UnknownToolset

OK, REFUSED, USAGE = 0, 1, 2
PORT = 7285
"""Where `--http` listens unless told otherwise."""

HELP = """\
An MCP client starts this command and speaks to it over stdin and stdout; you hardly ever start it yourself.

for Codex, in ~/.codex/config.toml:
  [mcp_servers.atk]
  command = "atk-mcp"
  required = true
  startup_timeout_sec = 60
  tool_timeout_sec = 600
  default_tools_approval_mode = "approve"   # `codex exec` asks nobody and refuses what runs or moves files

one server for several clients and projects of this machine:
  atk-mcp --http                  prints its address and where its token lies; clients send the token in each request
  atk install --http              puts the way to it into Codex; with --client NAME it is printed for others

to look into a project from a terminal, use `atk --help`.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Serves until the client hangs up. Returns only when there was nothing to serve."""
    fill_closed()
    if (why := refusal()) is not None:
        sys.stderr.write(f"atk-mcp: {why}\n")
        return USAGE
    parser = argparse.ArgumentParser(
        prog="atk-mcp",
        description="The ATK MCP server: makes an existing agent better with proof and without losing anything.",
        epilog=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    parser.add_argument("--read-only", action="store_true", help="offer only tools that change nothing")
    parser.add_argument(
        "--toolsets", metavar="A,B", help="offer only these sets of tools; `atk tools --toolsets` lists them"
    )
    http = parser.add_argument_group("one long-lived server instead, on 127.0.0.1 and nowhere else")
    http.add_argument("--http", action="store_true", help="serve Streamable HTTP until Ctrl-C or SIGTERM")
    http.add_argument("--port", type=int, help=f"default {PORT}; 0 takes any that is free")
    http.add_argument("--token-file", metavar="FILE", help="default: atk/http-token in your configuration folder")
    http.add_argument(
        "--project", metavar="DIR", help="what calls without project_path are about (default: they are refused)"
    )
    try:
        given = parser.parse_args(argv)
    except SystemExit as ended:  # it has printed its help, or what was wrong
        return _say("") or int(ended.code or OK)
    if given.version:
        return _say(f"atk-mcp {atk_mcp.__version__}\n")
    for option in () if given.http else ("port", "token_file", "project"):
        if getattr(given, option) is not None:
            parser.error(
                f"--{option.replace('_', '-')} goes with --http; a server over stdio works where it is started."
            )
    gc.disable()  # loading allocates much and frees nothing; the server turns it on again
    try:
        offer = snapshot.offer(toolsets=given.toolsets, read_only=given.read_only)
    except UnknownToolset as error:
        parser.error(f"--toolsets: {error}.")
    if given.http:
        return _serve_http(given, offer)
    greeting = Greeting(offer.tools, atk_mcp.__version__, offer.words)
    pipes = Pipes.claim(greeting)
    pipes.start()
    from atk_mcp import server  # noqa: PLC0415 - the SDK loads while the client is greeted, and cannot print to the wire

    server.run(pipes, greeting, offer=offer)
    return OK


def _say(text: str) -> int:
    """Prints what there is to print and returns the exit status; left to Python's end, a failure would show a stack."""
    try:
        if text:
            sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if isinstance(error, BrokenPipeError):  # whoever read it has seen enough
            return OK
        sys.stderr.write(f"atk-mcp: stdout takes no more: {error.strerror}.\n")
        return REFUSED
    return OK


def _serve_http(given: argparse.Namespace, offer: Offer) -> int:
    """Serves over HTTP until it is asked to end. Returns only when it cannot."""
    from atk_mcp.door import listening  # noqa: PLC0415 - a server over stdio needs none of it
    from atk_mcp.exits import refused  # noqa: PLC0415 - as above
    from atk_mcp.tokens import made_or_known, token_place  # noqa: PLC0415 - as above
    from storage.errors import AtkError  # noqa: PLC0415 - as above

    place = token_place(given.token_file)  # as seen from here, not from the project
    try:
        if given.project is not None:
            os.chdir(os.path.expanduser(given.project))
        opened = listening(PORT if given.port is None else given.port)
        token = made_or_known(place)
    except AtkError as error:
        return refused(error, as_json=False)
    except OSError as error:
        sys.stderr.write(f"atk-mcp: --project {given.project}: {error.strerror}.\n")
        return USAGE
    from atk_mcp import loopback  # noqa: PLC0415 - the SDK loads once there is something to serve

    loopback.run(opened, token, offer, home=given.project is not None)
    return OK


if __name__ == "__main__":
    sys.exit(main())
