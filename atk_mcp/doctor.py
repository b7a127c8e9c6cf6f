"""`atk doctor`: tells a person whether this machine and project are fit for ATK, and what to do where they are not."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict

import atk_mcp
from atk_mcp import results
from atk_mcp.installing import plugin
from atk_mcp.terminal import say
from operations.health import Check, examine
from operations.wording import counted

_SHOWN = {"ok": "ok      ", "warning": "WARNING ", "problem": "PROBLEM "}


def _plugin() -> list[Check]:
    """Tells of a Codex plugin that is not of this version."""
    version = plugin.installed_version(plugin.home())
    if version is None:
        return [Check("ok", "plugin", "none is installed in Codex", "`atk install` installs it.")]
    if version == atk_mcp.__version__:
        return [Check("ok", "plugin", f"Codex's is {version}, as ATK is")]
    said = f"Codex's is {version}, and ATK is {atk_mcp.__version__}"
    return [Check("warning", "plugin", said, "Run `atk install` again.")]


def diagnosed(root: str, *, as_json: bool) -> bool:
    """Prints what was found. Returns whether nothing forbids to work."""
    found = [*examine(root), *_plugin()]
    fit = not any(check.level == "problem" for check in found)
    if as_json:
        say(results.compact({"fit": fit, "checks": [asdict(check) for check in found]}))
        return fit
    for check in found:
        say(f"{_SHOWN[check.level]} {check.name}: {check.said}")
        if check.advice:
            say(f"         {check.advice}")
    counts = Counter(check.level for check in found)
    say(
        f"{counted(counts['problem'], 'problem')}, {counted(counts['warning'], 'warning')}."
        if not fit or counts["warning"]
        else "All is well."
    )
    return fit
