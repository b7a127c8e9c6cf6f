"""`atk doctor`: tells a person whether this machine and project are fit for ATK, and what to do where they are not."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict

from atk_mcp import results
from atk_mcp.terminal import say
from operations.health import examine

_SHOWN = {"ok": "ok      ", "warning": "WARNING ", "problem": "PROBLEM "}


def diagnosed(root: str, *, as_json: bool) -> bool:
    """Prints what was found. Returns whether nothing forbids to work."""
    found = examine(root)
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
        f"{counts['problem']} problems, {counts['warning']} warnings."
        if not fit or counts["warning"]
        else "All is well."
    )
    return fit
