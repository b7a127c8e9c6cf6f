"""Writes the configuration of Codex that a run needs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TAP = Path(__file__).resolve().parent / "tap.py"


def toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml_value(v) for v in value) + "]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(str(k))} = {toml_value(v)}" for k, v in value.items()) + " }"
    raise TypeError(f"no TOML form for {value!r}")


def base_config(base_url: str, model: str) -> str:
    return "\n".join(
        [
            f"model = {toml_value(model)}",
            'model_provider = "stub"',
            "check_for_update_on_startup = false",
            "",
            "[model_providers.stub]",
            'name = "loopback stub"',
            f"base_url = {toml_value(base_url)}",
            'wire_api = "responses"',
            "request_max_retries = 0",
            "stream_max_retries = 0",
            "",
            "[analytics]",
            "enabled = false",
            "",
        ]
    )


def server_table(name: str, settings: Mapping[str, Any]) -> str:
    lines = [f"[mcp_servers.{json.dumps(name)}]"]
    lines += [f"{key} = {toml_value(value)}" for key, value in settings.items()]
    return "\n".join(lines) + "\n"


def tapped(name: str, settings: Mapping[str, Any], log: Path) -> dict[str, Any]:
    """The same server, launched behind tap.py."""
    if "command" not in settings:
        raise ValueError(f"server {name}: only stdio servers can be tapped")
    wrapped = dict(settings)
    wrapped["command"] = sys.executable
    wrapped["args"] = [str(TAP), "--log", str(log), "--", settings["command"], *settings.get("args", [])]
    return wrapped
