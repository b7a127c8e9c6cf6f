"""What other MCP clients want to read in their configuration to start ATK."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_MILLISECONDS = 600_000
"""How long a call may take where a client can be told."""


@dataclass(frozen=True)
class Client:
    """One client: where its configuration lies, and what belongs there."""

    name: str
    where: str
    config: Callable[[Sequence[str], Sequence[str]], dict[str, Any]]
    note: str = ""


def _entry(command: Sequence[str], **more: object) -> dict[str, Any]:
    return {"command": command[0], "args": list(command[1:]), **more}


def _variables(names: Sequence[str], form: str) -> dict[str, str]:
    return {name: form.format(name) for name in names}


CLIENTS: Mapping[str, Client] = {
    client.name: client
    for client in (
        Client(
            "claude-code",
            ".mcp.json in the project's folder",
            lambda command, names: {
                "mcpServers": {"atk": _entry(command, type="stdio", env=_variables(names, "${{{}}}"))}
            },
        ),
        Client(
            "cursor",
            "~/.cursor/mcp.json, or .cursor/mcp.json in the project's folder",
            lambda command, names: {"mcpServers": {"atk": _entry(command, env=_variables(names, "${{env:{}}}"))}},
        ),
        Client(
            "vscode",
            ".vscode/mcp.json in the project's folder",
            lambda command, names: {
                "servers": {
                    "atk": _entry(command, type="stdio", cwd="${workspaceFolder}", env=_variables(names, "${{env:{}}}"))
                }
            },
        ),
        Client(
            "gemini",
            "~/.gemini/settings.json, or .gemini/settings.json in the project's folder",
            lambda command, names: {
                "mcpServers": {"atk": _entry(command, env=_variables(names, "${}"), timeout=_MILLISECONDS)}
            },
        ),
        Client(
            "generic",
            "wherever the client keeps its MCP servers",
            lambda command, names: {"mcpServers": {"atk": _entry(command, env=_variables(names, "(the value)"))}},
            "Start it in the project's folder, or give project_path in every call.",
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
