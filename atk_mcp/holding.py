"""`atk run`: holds a batch's run in a terminal, and goes on with it where it ended before it was complete."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from atk_mcp.terminal import complain, say, typed
from storage.project import Project
from storage.projection import State
from storage.schema.batches import Batch

Call = Callable[[str, Mapping[str, Any]], dict[str, Any] | None]
"""Runs an operation to its end and returns its answer; None after a refusal, which was told."""

_SHOWN = 10
_RISK = "attempts whose end nobody saw may have acted already; a second run may act twice"


def hold(call: Call, root: str, batch_id: str, reason: str | None) -> bool:
    """Waits for the run of a batch where it is alive, and continues it here where it ended early.

    A batch that was continued already is followed to its newest successor. Ctrl-C ends a run that this process holds in
    an orderly way, and only the waiting where another process holds it.

    Args:
        call: Runs operations.
        root: The project's folder.
        batch_id: The batch, or one that it follows.
        reason: Why attempts of unknown end may run again, as the person said on the command line.

    Returns:
        Whether every slot has its attempt in the end.
    """
    project = Project.open(root)
    project.state().get(Batch, batch_id)
    newest = _newest(project.state(), batch_id)
    if newest != batch_id:
        say(f"{batch_id} was continued as {newest}.")
    found = call("wait_for_batch", {"batch_id": newest})
    if found is None or found["status"] in {"sealed", "running"}:
        return _told(found)
    batch = project.state().get(Batch, newest)
    say(f"{newest} is {batch.status} ({batch.end_reason}); it is continued here.")
    given: dict[str, Any] = {"continue_batch_id": newest}
    if batch.unknown_record_ids:
        word = reason or _ask(batch)
        if word is None:
            return False
        given["unknown_execution_authorization"] = {
            "source": "user",
            "batch_id": newest,
            "record_ids": list(batch.unknown_record_ids),
            "reason": word,
            "risk": _RISK,
        }
    return _told(call("run_evaluation", given))


def _newest(state: State, batch_id: str) -> str:
    followed = {batch.supersedes_batch_id: batch.id for batch in state.all(Batch)}
    while batch_id in followed:
        batch_id = followed[batch_id]
    return batch_id


def _told(found: dict[str, Any] | None) -> bool:
    if found is None:
        return False
    say(found["message"])
    for line in (*found.get("notes", ()), *found.get("warnings", ())):
        say(f"  {line}")
    if found["status"] == "running":
        say("  It goes on in the process that holds it.")
    elif found["status"] != "sealed":
        say(f"  Go on with: atk run {found['batch_id']}")
    return bool(found["status"] == "sealed")


def _ask(batch: Batch) -> str | None:
    """Asks the person at the terminal; None is no."""
    shown = ", ".join(batch.unknown_record_ids[:_SHOWN])
    complain(f"Attempts whose end is unknown may have acted already ({len(batch.unknown_record_ids)}): {shown}")
    if not (os.isatty(0) and os.isatty(2)):
        complain("Nobody is at the terminal to be asked; say --rerun-unknown REASON where they may run again.")
        return None
    return typed("Why may they run again? (empty: they may not) ") or None
