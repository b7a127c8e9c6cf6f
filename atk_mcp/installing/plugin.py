"""The Codex plugin as files: manifest, server and Skills, in a marketplace of its own.

Formats: Codex CLI 0.171, the `.codex-plugin` layout; only that one can carry time limits and the approval mode.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import atk_mcp
from atk_mcp.greeting import PLUGIN_VERSION

MARKETPLACE = "atk-local"
PLUGIN = "atk"
SELECTOR = f"{PLUGIN}@{MARKETPLACE}"
_ROOT = f"plugins/{PLUGIN}"
_HOW: Mapping[str, Any] = {
    "required": True,
    "startup_timeout_sec": 60,
    "tool_timeout_sec": 600,
    # `codex exec` asks nobody and refuses what runs the target or moves files.
    "default_tools_approval_mode": "approve",
}
_DESCRIPTION = "Makes an existing agent better with proof and without losing anything."


def home() -> str:
    """Returns the folder of the marketplace: beside other programs' data, and not in any project."""
    data = os.environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(data):  # to be ignored, says the XDG base directory specification
        data = os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(data, "atk", "codex-marketplace")


def server_command(bin_folder: str, python: str) -> list[str]:
    """Returns how the server is started: the installed program, or the interpreter it runs on."""
    program = os.path.join(bin_folder, "atk-mcp")
    return [program] if os.path.isfile(program) else [python, "-m", "atk_mcp"]


def server_entry(command: Sequence[str], variables: Sequence[str]) -> dict[str, Any]:
    """Returns the server's table. Without `cwd`, so that it starts in the person's project."""
    entry: dict[str, Any] = {
        "command": command[0],
        "args": list(command[1:]),
        "env": {PLUGIN_VERSION: atk_mcp.__version__},
        **_HOW,
    }
    return entry | ({"env_vars": list(variables)} if variables else {})


def http_entry(url: str, token_variable: str) -> dict[str, Any]:
    """Returns the table of a server that runs already. Codex reads the token from the variable when it starts."""
    return {"url": url, "bearer_token_env_var": token_variable, **_HOW}


def files(entry: Mapping[str, Any]) -> dict[str, bytes]:
    """Returns the plugin's and the marketplace's own files, by their paths below the marketplace.

    Args:
        entry: The server's table.
    """
    manifest = {
        "name": PLUGIN,
        "version": atk_mcp.__version__,
        "description": _DESCRIPTION,
        "license": "MIT",
        "keywords": ["agents", "evaluation", "regression", "prompts", "traces"],
        "skills": "./skills/",
        "mcpServers": "./.mcp.json",
        "interface": {
            "displayName": "ATK",
            "shortDescription": _DESCRIPTION,
            "category": "Productivity",
            "defaultPrompt": ["Use $atk:atk-init to set up this project.", "Use $atk:atk-eval to evaluate the agent."],
        },
    }
    market = {
        "name": MARKETPLACE,
        "interface": {"displayName": "ATK on this machine"},
        "plugins": [
            {
                "name": PLUGIN,
                "source": {"source": "local", "path": f"./{_ROOT}"},
                "policy": {"installation": "AVAILABLE", "authentication": "ON_INSTALL"},
                "category": "Productivity",
            }
        ],
    }
    return {
        ".agents/plugins/marketplace.json": _json(market),
        f"{_ROOT}/.codex-plugin/plugin.json": _json(manifest),
        f"{_ROOT}/.mcp.json": _json({"mcpServers": {"atk": entry}}),
    }


def skills() -> str:
    """Returns the folder of the seven Skills: in the package, or in the checkout that it is developed in."""
    here = os.path.dirname(os.path.abspath(atk_mcp.__file__))
    packed = os.path.join(here, "_skills")
    return packed if os.path.isdir(packed) else os.path.join(os.path.dirname(here), "skills")


def write(folder: str, content: Mapping[str, bytes]) -> None:
    """Puts the marketplace in place, whole: an earlier one is replaced, and a failure leaves it."""
    fresh = f"{folder}.new"
    shutil.rmtree(fresh, ignore_errors=True)
    for path, data in content.items():
        full = os.path.join(fresh, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as file:
            file.write(data)
    shutil.copytree(skills(), os.path.join(fresh, _ROOT, "skills"))
    old = f"{folder}.old"
    shutil.rmtree(old, ignore_errors=True)
    if os.path.isdir(folder):
        os.rename(folder, old)
    os.rename(fresh, folder)
    shutil.rmtree(old, ignore_errors=True)


def installed_version(folder: str) -> str | None:
    """Returns the version of the plugin that was put there, or None where there is none that can be read."""
    try:
        with open(os.path.join(folder, _ROOT, ".codex-plugin", "plugin.json"), encoding="utf-8") as file:
            return str(json.load(file)["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _json(value: object) -> bytes:
    return json.dumps(value, indent=2).encode() + b"\n"
