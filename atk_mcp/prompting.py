"""The seven Skills as prompts, for clients that know prompts and no Skills."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from atk_mcp.installing.plugin import skills

_FRONT = re.compile(r"\A---\n(?P<front>.*?)\n---\n(?P<body>.*)\Z", re.DOTALL)
_LINK = re.compile(r"\[CONTRACT\.md\]\([^)]*\)")

TASK = {"name": "task", "description": "What you want done, in your own words.", "required": False}


@cache
def prompts() -> tuple[dict[str, Any], ...]:
    """Returns what `prompts/list` says, in the order of the names."""
    found = []
    for name in sorted(os.listdir(skills())):
        path = os.path.join(skills(), name, "SKILL.md")
        if os.path.isfile(path):
            front, _ = _read(path)
            about = {"name": name, "title": f"ATK: {name.removeprefix('atk-')}", "description": front["description"]}
            found.append({**about, "arguments": [TASK]})
    return tuple(found)


def prompt(name: str, arguments: Mapping[str, str]) -> dict[str, Any] | None:
    """Returns what `prompts/get` says: the Skill with the rules that all of them share; None where there is none."""
    if name not in {known["name"] for known in prompts()}:
        return None
    front, body = _read(os.path.join(skills(), name, "SKILL.md"))
    with open(os.path.join(skills(), "CONTRACT.md"), encoding="utf-8") as file:
        contract = file.read()
    text = _LINK.sub("below", body).strip() + "\n\n" + contract.strip()
    if task := arguments.get("task", "").strip():
        text += f"\n\n# The task\n\n{task}"
    message = {"role": "user", "content": {"type": "text", "text": text}}
    return {"description": front["description"], "messages": [message]}


def _read(path: str) -> tuple[dict[str, str], str]:
    """Returns the front matter of a Skill, whose values are plain lines, and its body."""
    with open(path, encoding="utf-8") as file:
        found = _FRONT.match(file.read())
    if found is None:
        raise ValueError(f"{path} has no front matter")
    front = dict(line.split(": ", 1) for line in found["front"].splitlines() if ": " in line)
    return front, found["body"]
