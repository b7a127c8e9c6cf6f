"""`atk verify`: tells a person what differs between a project's bytes and what they must be."""

from __future__ import annotations

from atk_mcp import results
from atk_mcp.terminal import ProgressLine, say
from operations.verification import Report, verify
from operations.wording import counted
from storage.project import Project

SHOWN = 200
"""Findings that are listed for a person; `--json` lists all."""


def verified(root: str, *, as_json: bool) -> bool:
    """Verifies the project in `root`, prints what was found, and returns whether nothing differs.

    Raises:
        ProjectNotInitialized: There is no project.
        LegacyStore: There is a store of another kind.
    """
    with ProgressLine(None if as_json else 1.0) as line:
        report = verify(Project.open(root), lambda note: line(0, None, f"verifying {note}"))
    if as_json:
        say(results.compact(_told(report)))
    else:
        for text in _lines(report):
            say(text)
    return not report.findings


def _told(report: Report) -> dict[str, object]:
    return {
        "verified": not report.findings,
        "findings": [{"path": found.path, "problem": found.problem} for found in report.findings],
        "checked": dict(report.checked),
        "open_work": report.open_work,
    }


def _lines(report: Report) -> list[str]:
    checked = ", ".join(f"{kind} ({count})" for kind, count in report.checked.items())
    lines = [f"DIFFERS  {found}" for found in report.findings[:SHOWN]]
    if len(report.findings) > SHOWN:
        lines.append(f"... and {len(report.findings) - SHOWN} more; --json lists all.")
    lines += [f"OPEN     {work}: announced and not ended; not verified" for work in report.open_work]
    lines.append(f"Checked: {checked}.")
    if report.findings:
        lines.append(f"{counted(len(report.findings), 'difference')}. Nothing was changed.")
        lines.append("The next change or `atk recover` rebuilds views; for the rest restore `.atk/` from a copy.")
    else:
        lines.append("Everything is as it was recorded.")
    return lines
