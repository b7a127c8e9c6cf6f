"""What other MCP clients want to read in their configuration to start ATK, or to reach a server that runs."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

_MILLISECONDS = 600_000
"""How long a call may take where a client can be told."""


TOKEN_VARIABLE = "ATK_HTTP_TOKEN"  # noqa: S105 - its name, not a token
"""The variable in which a client is given the token of a server over HTTP, so that no file of a project holds it."""

_INPUT = "atk-http-token"


@dataclass(frozen=True)
class Running:
    """A server over HTTP: its address, and the file in which its token lies."""

    url: str
    token_file: str


@dataclass(frozen=True)
class Client:
    """One client: where its configuration lies, and what belongs there."""

    name: str
    where: str
    config: Callable[[Sequence[str], Sequence[str]], dict[str, Any]]
    """From how the server is started and the names of variables that it needs."""
    http: Callable[[str], dict[str, Any]]
    """From the address of a server over HTTP."""
    note: str = ""
    given: Literal["variable", "asked", "written"] = "variable"
    """How it gets the token of a server over HTTP: from a variable, by asking, or from what the person writes."""


def _entry(command: Sequence[str], **more: object) -> dict[str, Any]:
    return {"command": command[0], "args": list(command[1:]), **more}


def _variables(names: Sequence[str], form: str) -> dict[str, str]:
    return {name: form.format(name) for name in names}


def _reached(url: str, form: str, **more: object) -> dict[str, Any]:
    return {**more, "url": url, "headers": _shown_token(form)}


def _shown_token(form: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {form.format(TOKEN_VARIABLE)}"}


CLIENTS: Mapping[str, Client] = {
    client.name: client
    for client in (
        Client(
            "claude-code",
            ".mcp.json in the project's folder",
            lambda command, names: {
                "mcpServers": {"atk": _entry(command, type="stdio", env=_variables(names, "${{{}}}"))}
            },
            lambda url: {"mcpServers": {"atk": _reached(url, "${{{}}}", type="http")}},
        ),
        Client(
            "cursor",
            "~/.cursor/mcp.json, or .cursor/mcp.json in the project's folder",
            lambda command, names: {"mcpServers": {"atk": _entry(command, env=_variables(names, "${{env:{}}}"))}},
            lambda url: {"mcpServers": {"atk": _reached(url, "${{env:{}}}")}},
        ),
        Client(
            "vscode",
            ".vscode/mcp.json in the project's folder",
            lambda command, names: {
                "servers": {
                    "atk": _entry(command, type="stdio", cwd="${workspaceFolder}", env=_variables(names, "${{env:{}}}"))
                }
            },
            lambda url: {
                "inputs": [
                    {"type": "promptString", "id": _INPUT, "description": "Token of the ATK server", "password": True}
                ],
                "servers": {"atk": _reached(url, f"${{{{input:{_INPUT}}}}}", type="http")},
            },
            given="asked",
        ),
        Client(
            "gemini",
            "~/.gemini/settings.json, or .gemini/settings.json in the project's folder",
            lambda command, names: {
                "mcpServers": {"atk": _entry(command, env=_variables(names, "${}"), timeout=_MILLISECONDS)}
            },
            lambda url: {
                "mcpServers": {"atk": {"httpUrl": url, "headers": _shown_token("${}"), "timeout": _MILLISECONDS}}
            },
        ),
        Client(
            "generic",
            "wherever the client keeps its MCP servers",
            lambda command, names: {"mcpServers": {"atk": _entry(command, env=_variables(names, "(the value)"))}},
            lambda url: {"mcpServers": {"atk": _reached(url, "(the token)", type="http")}},
            "Start it in the project's folder, or give project_path in every call.",
            given="written",
        ),
    )
}


CLIENT_NAMES = ("codex", *CLIENTS)
"""Codex is installed into; of the others the configuration is printed."""


def shown(client: Client, command: Sequence[str], variables: Sequence[str]) -> str:
    """Returns what a person has to put where."""
    text = json.dumps(client.config(command, variables), indent=2)
    lines = [f"For {client.name}, in {client.where}:", "", text]
    if client.name == "claude-code":
        flags = "".join(f" --env {name}=${name}" for name in variables)
        lines += ["", "or:", f"  claude mcp add atk{flags} -- {shlex.join(command)}"]
    if client.note:
        lines += ["", client.note]
    return "\n".join(lines)


def reached(client: Client, running: Running) -> str:
    """Returns what a person has to put where, so that the client reaches a server that runs, with its token."""
    text = json.dumps(client.http(running.url), indent=2)
    return "\n".join([f"For {client.name}, in {client.where}:", "", text, "", how_to_reach(running, client.given)])


def how_to_reach(running: Running, given: Literal["variable", "asked", "written"] = "variable") -> str:
    """Returns what has to run before a client, and how the client gets the token."""
    made = "" if os.path.lexists(running.token_file) else " Its first start makes the token."
    server = f"`atk-mcp --http` has to run first.{made} Calls give project_path, unless it was started with --project."
    export = f'export {TOKEN_VARIABLE}="$(cat {shlex.quote(running.token_file)})"'
    how = {
        "variable": f"Start the client from a shell in which this was said:\n  {export}",
        "asked": f"It asks for the token: the line in {running.token_file}.",
        "written": f"The token is the line in {running.token_file}. Keep the file that you copy it to for yourself.",
    }
    return f"{server}\n{how[given]}"
