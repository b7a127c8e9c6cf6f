"""Keeps a run company: waits for its supervisor, seals the batch, and follows it for whoever asks.

Sealing is the recovery that every open does, so a run whose keeper dies is sealed by the next call of any process.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from operations.execution.launch import RunHandle, launch
from operations.execution.plan import STOP_FILE
from storage.attempts import FILE, AttemptsFollower
from storage.errors import AtkError
from storage.lock import ProjectBusy
from storage.owners import Owner, is_alive
from storage.project import Project
from storage.schema.batches import Batch
from storage.transaction import Call

LOOK_SECONDS = 0.1
"""How often a run is looked at while somebody waits for it."""

_kept: dict[str, threading.Thread] = {}


@dataclass(frozen=True)
class Followed:
    """A batch as somebody who waited finds it."""

    batch: Batch
    counts: dict[str, int]
    """Confirmed Executions by status."""
    alive: bool
    """Whether it still runs."""


def keep(project: Project, call: Call, batch_id: str, plan_path: str, owner: Owner) -> None:
    """Starts the supervisor of a recorded run, and a thread that seals the batch when it ends.

    Raises:
        OSError: The supervisor could not be started. The run is then sealed as one in which nothing began.
    """
    try:
        handle = launch(plan_path, owner.fd)
    except BaseException:
        owner.release()
        project.settle(call)
        raise
    thread = threading.Thread(target=_see_through, args=(project, call, handle, owner), name=batch_id, daemon=True)
    _kept[batch_id] = thread
    thread.start()


def _see_through(project: Project, call: Call, handle: RunHandle, owner: Owner) -> None:
    handle.wait()
    handle.close()
    owner.release()
    for _ in range(10):
        try:
            project.settle(call)
        except ProjectBusy:  # somebody holds the lock for long; their own recovery seals it as well
            continue
        except (AtkError, OSError):
            # What stands in the way is said to whoever asks next: their call recovers first and reports it.
            return
        else:
            return


def follow(  # noqa: PLR0913 - who waits, for what, and how it hears of it
    project: Project,
    call: Call,
    batch_id: str,
    *,
    seconds: float,
    progress: Callable[[float, float | None, str], None],
    stop_waiting: Callable[[], bool] = lambda: False,
    stop: bool = False,
) -> Followed:
    """Waits until a batch is sealed, at most `seconds`. A run whose processes are gone is sealed here.

    With `stop` the run is asked to end, again at every look: one that has just been recorded forgets what it was
    asked before its supervisor starts.

    Raises:
        UnknownObject: There is no such batch.
        AtkError: The run cannot be sealed; the error says what is in the way.
    """
    follower = AttemptsFollower(project.store.full(f"evidence/{batch_id}/{FILE}"))
    end = time.monotonic() + seconds
    shown = -1
    while True:
        state = project.state()
        batch = state.get(Batch, batch_id)
        run = state.runs.get(batch_id)
        if run is None:
            return Followed(batch, dict(batch.counts), alive=False)
        counts = dict(follower.update().counts)
        done = sum(counts.values())
        if done > shown:
            progress(done, batch.slots, f"{done} of {batch.slots} attempts")
            shown = done
        if not is_alive(project.store, run.owner):
            _seal(project, call, batch_id)
            continue
        if stop:
            _request_stop(project, batch_id)
        if time.monotonic() >= end or stop_waiting():
            return Followed(batch, counts, alive=True)
        time.sleep(LOOK_SECONDS)


def _seal(project: Project, call: Call, batch_id: str) -> None:
    project.settle(call)
    for found in project.unresolved:
        if batch_id in project.state().runs and found.operation == "run_evaluation":
            raise found.error


def _request_stop(project: Project, batch_id: str) -> None:
    """Asks the supervisor of a run to stop, whichever process started it."""
    path = os.path.join(project.store.full(f"work/{batch_id}"), STOP_FILE)
    with suppress(FileNotFoundError):  # the run has not come to its folder yet, or has left it
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))


def summary(found: Followed) -> dict[str, Any]:
    """Returns the counts of a batch for a response."""
    return {"planned": found.batch.slots, "done": sum(found.counts.values()), **found.counts}
