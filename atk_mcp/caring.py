"""The commands of `atk` that look after machine, client and store, and that no agent has as a tool."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from atk_mcp.exits import OK, REFUSED, USAGE, project_folder
from atk_mcp.installing.clients import CLIENT_NAMES, CLIENTS, Running
from atk_mcp.terminal import complain

_PORTS = 1 << 16

Add = Callable[[Any, str, Callable[[argparse.Namespace], int], str], argparse.ArgumentParser]


def add(commands: Any, command: Add) -> None:  # noqa: ANN401 - argparse keeps the type of its subparsers to itself
    """Adds the commands to the parser of `atk`; `command` makes one that has `--project`."""
    install = commands.add_parser("install", help="put the server and the Skills where a client finds them")
    install.add_argument(
        "--client",
        default="codex",
        choices=CLIENT_NAMES,
        help="codex (default): installed into it; another: what belongs into its settings is printed",
    )
    install.add_argument("--codex", default="codex", metavar="PATH", help="the Codex program (default: from PATH)")
    install.add_argument(
        "--env", action="append", default=[], metavar="NAME", help="a variable that the agent needs; may be repeated"
    )
    install.add_argument(
        "--http", action="store_true", help="reach the server that `atk-mcp --http` runs, and start none"
    )
    install.add_argument("--port", type=int, metavar="N", help="with --http: its port (default: that of `atk-mcp`)")
    install.add_argument(
        "--token-file", metavar="FILE", help="with --http: the file of its token (default: that of `atk-mcp`)"
    )
    install.add_argument("--dry-run", action="store_true", help="show what would be done")
    install.add_argument("--uninstall", action="store_true", help="take it away again")
    install.set_defaults(command=_install)

    approve = command(commands, "approve", _approve, "allow or decline what an agent needs a person's word for")
    approve.add_argument("approval_id", nargs="?", metavar="ID", help="the question (default: list what waits)")
    approve.add_argument("--decline", action="store_true", help="refuse it, without asking")

    verify = command(
        commands,
        "verify",
        _verify,
        "make every digest, count, Validation and Decision again and compare; change nothing",
    )
    verify.add_argument("--json", action="store_true", help="print the findings as JSON")
    verify.set_defaults(unsaid=REFUSED)

    key = commands.add_parser(
        "key", help="the keys of holdout Cases, which lie outside of projects: list, export, import"
    )
    what = key.add_subparsers(metavar="WHAT", required=True)
    what.add_parser("list", help="the keys of this user, by project").set_defaults(command=_key_list)
    export = what.add_parser("export", help="write a project's key into a new file, to take it to another machine")
    export.add_argument("project_id", metavar="PROJECT", help="its id, as `atk key list` has it")
    export.add_argument("path", metavar="FILE", help="a file that does not exist; only you will be able to read it")
    export.set_defaults(command=_key_export)
    bring = what.add_parser("import", help="take over a key that was exported")
    bring.add_argument("path", metavar="FILE", help="what `atk key export` wrote")
    bring.set_defaults(command=_key_import)

    doctor = command(commands, "doctor", _doctor, "whether this machine and project are fit, and what to do")
    doctor.add_argument("--json", action="store_true", help="print the checks as JSON")


def _install(given: argparse.Namespace) -> int:
    from atk_mcp.installing.run import Wanted, install  # noqa: PLC0415 - nothing else needs it

    if given.uninstall and given.client != "codex":
        where = CLIENTS[given.client].where
        complain(f"atk install: ATK puts nothing into {given.client} by itself. Take the entry atk out of {where}.")
        return USAGE
    if wrong := [name for name in given.env if not (name.isidentifier() and name.isascii())]:
        complain(
            f"atk install: --env {wrong[0].partition('=')[0]!r}… is no name of a variable. Give names such as "
            "OPENAI_API_KEY, never values."
        )
        return USAGE
    if given.http and given.env:
        complain("atk install: --env goes without --http: such a server sees what it was started with.")
        return USAGE
    if not given.http and (given.port is not None or given.token_file is not None):
        complain("atk install: --port and --token-file go with --http.")
        return USAGE
    if given.port is not None and not 0 < given.port < _PORTS:
        complain(
            f"atk install: --port {given.port} is no port at which a server can be reached; give 1 to {_PORTS - 1}."
        )
        return USAGE
    install(
        Wanted(
            running=_running(given) if given.http else None,
            client=given.client,
            codex=given.codex,
            variables=tuple(given.env),
            dry_run=given.dry_run,
            uninstall=given.uninstall,
        )
    )
    return OK


def _running(given: argparse.Namespace) -> Running:
    from atk_mcp.__main__ import PORT  # noqa: PLC0415 - nothing else needs it
    from atk_mcp.door import ADDRESS, PATH  # noqa: PLC0415 - as above
    from atk_mcp.tokens import token_place  # noqa: PLC0415 - as above

    port = PORT if given.port is None else given.port
    return Running(f"http://{ADDRESS}:{port}{PATH}", token_place(given.token_file))


def _approve(given: argparse.Namespace) -> int:
    from atk_mcp.approving import approve  # noqa: PLC0415 - --help needs no store

    allowed = approve(project_folder(given), given.approval_id, decline=given.decline)
    return OK if allowed or given.decline else REFUSED


def _verify(given: argparse.Namespace) -> int:
    from atk_mcp.verifying import verified  # noqa: PLC0415 - --help needs no store

    return OK if verified(project_folder(given), as_json=given.json) else REFUSED


def _key_list(_: argparse.Namespace) -> int:
    from atk_mcp import keys  # noqa: PLC0415 - --help needs no store

    return OK if keys.listed() else REFUSED


def _key_export(given: argparse.Namespace) -> int:
    from atk_mcp import keys  # noqa: PLC0415 - --help needs no store

    keys.exported(given.project_id, given.path)
    return OK


def _key_import(given: argparse.Namespace) -> int:
    from atk_mcp import keys  # noqa: PLC0415 - --help needs no store

    keys.imported(given.path)
    return OK


def _doctor(given: argparse.Namespace) -> int:
    from atk_mcp.doctor import diagnosed  # noqa: PLC0415 - --help needs no store

    return OK if diagnosed(project_folder(given), as_json=given.json) else REFUSED
