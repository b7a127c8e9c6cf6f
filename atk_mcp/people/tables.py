"""Tables on a terminal: what is stored is shown as text, never as markup or as something the terminal obeys."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from atk_mcp.terminal import neutralised, say

COLOURS = {
    "pass": "green", "fail": "red", "unknown": "yellow", "regression": "red", "no_effect": "yellow",
    "insufficient": "yellow", "invalid": "yellow", "sealed": "green", "contaminated": "red", "interrupted": "yellow",
    "partial": "yellow", "running": "cyan", "accepted": "green", "rejected": "red", "completed": "green",
    "agent_error": "red", "infra_error": "yellow", "timeout": "yellow", "removed": "red", "added": "green",
    "regressed": "red", "fixed": "green",
}  # fmt: skip


_NARROW = 60
"""Characters in a line below which columns would be cut into letters."""


class _Console(Console):
    """Leaves it to the command line how a command ends whose reader has seen enough."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console() -> Console:
    """Returns a console on stdout: colours and width are the terminal's; in a pipe there are none, and no wrapping."""
    return _Console(
        file=sys.stdout,
        highlight=False,
        emoji=False,
        markup=False,
        soft_wrap=not sys.stdout.isatty(),
        width=None if sys.stdout.isatty() else 10_000,
    )


def text(value: object, limit: int | None = None) -> Text:
    """Returns a stored value as one line of text, coloured where it is a known word."""
    shown = "" if value is None else str(value)
    one = neutralised(" ".join(shown.split()) if limit is not None else shown)
    if limit is not None and len(one) > limit:
        one = f"{one[: limit - 1]}…"
    return Text(one, style=COLOURS.get(shown, ""))


def table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "", limit: int = 80
) -> Table | Group:
    """Returns a table of stored values; a column whose name begins with `#` is one of figures.

    Where the terminal has no room for columns, each row is a few lines instead.
    """
    if console().width < _NARROW:
        lines = [
            Text.assemble(f"  {name.removeprefix('#')}: " if n else "", text(value, limit))
            for row in rows
            for n, (name, value) in enumerate(zip(columns, row, strict=True))
            if value is not None and value != ""
        ]
        return Group(*([Text(neutralised(title))] if title else []), *lines)
    made = Table(title=Text(neutralised(title)) if title else None, title_justify="left", box=None, pad_edge=False)
    for name in columns:
        made.add_column(name.removeprefix("#"), justify="right" if name.startswith("#") else "left", overflow="fold")
    for row in rows:
        made.add_row(*(text(value, limit) for value in row))
    return made


def as_json(value: Any) -> None:  # noqa: ANN401 - any JSON
    """Prints a value as JSON."""
    say(json.dumps(value, ensure_ascii=False, indent=2))
