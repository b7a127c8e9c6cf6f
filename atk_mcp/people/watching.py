"""`atk watch`: follows a running batch until it has ended. It holds nothing: Ctrl-C ends the watching only."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from atk_mcp.people.tables import COLOURS, console, text
from atk_mcp.results import compact, payload
from atk_mcp.terminal import complain, say
from operations.invocation import invoke
from operations.registry import all_operations
from storage.project import Project
from storage.schema.batches import Batch

_EVERY = 1.0
"""Seconds that one look waits for a change."""


def watch(given: argparse.Namespace, root: str) -> int:
    """Follows a batch. Returns 0 where it ended sealed, 1 where it ended otherwise.

    Raises:
        UnknownObject: There is no such batch.
    """
    project = Project.open(root)
    state = project.state()
    batch_id = given.batch_id or next(iter(state.runs), None)
    if batch_id is None:
        complain("atk: no batch is running; name one to see how it ended.")
        return 2
    batch = state.get(Batch, batch_id)
    shown = ""
    if sys.stdout.isatty() and not given.json:
        with Live(console=console(), transient=False) as live:
            found = _look(root, batch_id)
            began, before = time.monotonic(), found["counts"].get("done", 0)
            while True:
                speed = (found["counts"].get("done", 0) - before) / max(0.1, time.monotonic() - began)
                live.update(_picture(batch, found, speed))
                if found["status"] != "running":
                    break
                found = _look(root, batch_id)
    else:
        while True:
            found = _look(root, batch_id)
            line = compact({k: found[k] for k in ("batch_id", "status", "counts")}) if given.json else found["message"]
            if line != shown:
                say(line)
                shown = line
            if found["status"] != "running":
                break
    for warning in () if given.json else found.get("warnings", ()):
        say(warning)
    return 0 if found["status"] == "sealed" else 1


def _look(root: str, batch_id: str) -> dict[str, Any]:
    arguments = {"project_path": root, "batch_id": batch_id, "wait_seconds": _EVERY}
    return payload(invoke(all_operations()["wait_for_batch"], arguments))


def _picture(batch: Batch, found: dict[str, Any], speed: float) -> Table:
    counts = {k: v for k, v in found["counts"].items() if isinstance(v, int)}
    done, planned = counts.pop("done", 0), counts.pop("planned", batch.slots)
    made = Table.grid(padding=(0, 2))
    made.add_row(text(batch.id), text(found["status"]), text(f"{batch.phase}, {batch.revision_id}", 60))
    bar = ProgressBar(total=max(1, planned), completed=done, width=40)
    left = f"about {(planned - done) / speed:.0f} s left" if speed and done < planned else ""
    made.add_row(text(f"{done} of {planned}"), bar, text(left))
    for name, count in counts.items():
        if count:
            made.add_row(Text(name.replace("_", " "), style=COLOURS.get(name, "")), text(count))
    return made
