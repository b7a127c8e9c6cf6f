"""The commands of `atk` that look into the protocol: `trace` and `completion`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from atk_mcp.exits import OK
from atk_mcp.terminal import say

_RECORD = """\
Name this command in the client's configuration instead of the server's own: it starts the server, passes every byte on
as it came, and writes what passed into FILE, with credentials masked and for you alone to read. It ends as the server
ends, with its exit status. What you send is in the file: Cases of a holdout too, if you send them inline.

for example, in a client's configuration:
  command = "atk", args = ["trace", "record", "/tmp/atk.trace", "--", "atk-mcp", "--read-only"]
"""


def add(commands: Any, parser: argparse.ArgumentParser) -> None:  # noqa: ANN401 - argparse keeps that type to itself
    """Adds the commands to `parser`, which is that of `atk`."""
    trace = commands.add_parser("trace", help="record and show what goes between a client and its server")
    what = trace.add_subparsers(metavar="WHAT", required=True)
    record = what.add_parser(
        "record",
        help="start a server for a client, and record the wire between them",
        usage="atk trace record [-h] FILE -- COMMAND [ARGUMENT ...]",
        epilog=_RECORD,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    record.add_argument("path", metavar="FILE", help="the trace; a session is added to it")
    record.add_argument("server", nargs="+", metavar="-- COMMAND", help="what starts the server")
    record.set_defaults(command=_record)
    show = what.add_parser("show", help="tell a trace in lines")
    show.add_argument("path", metavar="FILE", help="what `atk trace record` wrote")
    show.add_argument("--json", action="store_true", help="whole messages, one line of JSON each")
    show.set_defaults(command=_show)

    completion = commands.add_parser("completion", help="print a script that completes `atk` in your shell")
    completion.add_argument("shell", choices=("bash", "zsh", "fish"), help="which shell it is for")
    completion.set_defaults(command=_completion(parser))


def _record(given: argparse.Namespace) -> int:
    from atk_mcp.tracing.tee import record  # noqa: PLC0415 - nothing else needs it

    return record(given.path, given.server)


def _show(given: argparse.Namespace) -> int:
    from atk_mcp.results import compact  # noqa: PLC0415 - nothing else here needs it
    from atk_mcp.tracing.showing import entries, lines  # noqa: PLC0415 - as above

    found = entries(given.path)
    for line in (compact(entry) for entry in found) if given.json else lines(found):
        say(line)
    return OK


def _completion(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    def complete(given: argparse.Namespace) -> int:
        from atk_mcp.completing import script  # noqa: PLC0415 - nothing else needs it

        say(script(given.shell, parser))
        return OK

    return complete
