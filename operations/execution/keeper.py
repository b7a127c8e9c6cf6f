"""Keeps a run company: waits for its supervisor, seals the batch, and follows it for whoever asks.

Sealing is the recovery that every open does, so a run whose keeper dies is sealed by the next call of any process.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from operations.execution.launch import RunHandle, launch
from operations.execution.plan import STOP_FILE
from storage.attempts import FILE, AttemptsFollower
from storage.errors import AtkError, NextCall
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
    spent: float | None = None
    """The sum of the metric that the run has a limit of, over all its Records, as far as they report it."""
    successor_id: str | None = None
    """The batch that continues or retries it."""


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
            followed = next((b.id for b in state.all(Batch) if b.supersedes_batch_id == batch_id), None)
            spent = _spent(batch, batch.totals)
            return Followed(batch, dict(batch.counts), alive=False, spent=spent, successor_id=followed)
        seen = follower.update()
        counts = dict(seen.counts)
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
            return Followed(batch, counts, alive=True, spent=_spent(batch, seen.totals))
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


def _spent(batch: Batch, totals: Mapping[str, float]) -> float | None:
    return None if batch.spend_limit is None else totals.get(batch.spend_limit.metric)


def spending(found: Followed) -> dict[str, Any] | None:
    """Returns the limit of what a run may spend, whose figures that rests on, and what all its Records report."""
    limit = found.batch.spend_limit
    return None if limit is None else {**limit.model_dump(mode="json"), "spent": found.spent}


def warnings(found: Followed) -> list[str]:
    """Returns what somebody who reads the status of a batch has to be told besides."""
    batch, said = found.batch, []
    limit = batch.spend_limit
    if limit is not None and limit.trust == "self_reported":
        said.append(f"The limit of {limit.metric} rests on what the agent itself reports; no collector is declared.")
    if limit is not None and not found.alive and not batch.reported.get(limit.metric):
        said.append(f"No attempt reported {limit.metric}, so that limit could not stop anything.")
    stopped = {
        "infra_failures": f"The run stopped itself after {batch.stop_after_infra_failures} infrastructure failures "
        "in a row. Mend what failed before it is continued.",
        "spend_limit": "The run stopped itself at its spend limit.",
        "batch_timeout": "The run was ended at its batch_timeout_seconds.",
    }
    if batch.end_reason in stopped:
        said.append(stopped[batch.end_reason])
    return said


def leads_on(found: Followed) -> list[NextCall]:
    """Returns what to do next about a batch: follow it, finish it, or judge it."""
    batch, named = found.batch, {"batch_id": found.batch.id}
    if found.alive:
        return [NextCall("wait_for_batch", named), NextCall("stop_batch", named)]
    if found.successor_id is not None:
        return [NextCall("wait_for_batch", {"batch_id": found.successor_id})]
    judge = NextCall("store_assessment", named, {"rows": "verdicts, or a judger that ATK runs"})
    read = NextCall("read_record", {"record_id": batch.id})
    if batch.status == "sealed":
        return [judge, read]
    supply = {}
    if batch.unknown_record_ids:
        supply["unknown_execution_authorization"] = "the user's word for exactly unknown_record_ids of the batch"
    resume = NextCall("run_evaluation", {"continue_batch_id": batch.id}, supply)
    if batch.status == "contaminated" or batch.missing_record_ids or batch.counts.get("cancelled"):
        return [resume, judge, read]
    if batch.counts.get("infra_error"):
        retry = NextCall("run_evaluation", {"retry_batch_id": batch.id}, {"retry_execution_ids": "Records to retry"})
        return [judge, retry, read]
    return [judge, read]
