"""`atk-mcp`: serves ATK to an MCP client over stdin and stdout."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Sequence

import atk_mcp
from atk_mcp import snapshot
from atk_mcp.greeting import Greeting
from atk_mcp.pipes import Pipes
from atk_mcp.platforms import refusal
from atk_mcp.toolsets import UnknownToolset

HELP = """\
An MCP client starts this command and speaks to it over stdin and stdout; you hardly ever start it yourself.

for Codex, in ~/.codex/config.toml:
  [mcp_servers.atk]
  command = "atk-mcp"
  required = true
  startup_timeout_sec = 60
  tool_timeout_sec = 600
  default_tools_approval_mode = "approve"   # `codex exec` asks nobody and refuses what runs or moves files

to look into a project from a terminal, use `atk --help`.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Serves until the client hangs up. Returns only when there was nothing to serve."""
    if (why := refusal()) is not None:
        sys.stderr.write(f"atk-mcp: {why}\n")
        return 2
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
    given = parser.parse_args(argv)
    if given.version:
        sys.stdout.write(f"atk-mcp {atk_mcp.__version__}\n")
        return 0
    gc.disable()  # loading allocates much and frees nothing; the server turns it on again
    try:
        offer = snapshot.offer(toolsets=given.toolsets, read_only=given.read_only)
    except UnknownToolset as error:
        parser.error(f"--toolsets: {error}.")
    greeting = Greeting(offer.tools, atk_mcp.__version__, offer.words)
    pipes = Pipes.claim(greeting)
    pipes.start()
    from atk_mcp import server  # noqa: PLC0415 - the SDK loads while the client is greeted, and cannot print to the wire

    server.run(pipes, greeting, offer=offer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
