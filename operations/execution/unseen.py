"""Runs over holdout Cases: which of a run are, what they are opened with, and that running them is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from operations.execution.binding import BoundRun
from operations.tuning import continuing, holdout
from storage import contents
from storage.holdout import key_of, resealed
from storage.schema.batches import Batch
from storage.schema.exposures import Exposure
from storage.sealing import key_path


def key_path_of(run: BoundRun) -> str | None:
    """Returns where the key lies that opens the run's Cases, or None where none of them is sealed.

    Raises:
        HoldoutKeyMissing: It is not on this machine.
        HoldoutKeyUnusable: Its file is no key.
    """
    for case_id in dict.fromkeys(slot.case_id for slot in run.due):
        if (sealed := run.cases[case_id].sealed) is not None:
            return key_path(key_of(run.context.project, sealed).project_id)
    return None


def record_exposure(run: BoundRun, batch: Batch) -> None:
    """Records with a Round's first final run that the source groups of its holdout are seen from now on."""
    value, plan = run.round, run.plan
    if value is None or plan is None or not batch.holdout_case_ids:
        return
    if any(e.round_id == value.id and e.how == "final_run" for e in run.tx.state.all(Exposure)):
        return
    run.tx.put(
        Exposure(
            id=run.tx.new_id("exposure"),
            how="final_run",
            source_groups=holdout.groups_of(plan),
            dataset_id=plan.dataset_id,
            case_fingerprints=tuple(plan.case_fingerprints[c] for c in plan.holdout_case_ids),
            round_id=value.id,
            batch_id=batch.id,
            created_at=run.context.timestamp,
        )
    )


def carried_records(run: BoundRun) -> Iterator[dict[str, Any]]:
    """Yields the Records that the new batch takes over, under its own ids; sealed ones are bound to those."""
    if run.old is None or run.succession is None or not run.succession.carried:
        return
    project = run.context.project
    for record in contents.raw_records(project, run.tx.state, run.old.id):
        yield resealed(continuing.carried_over(record, run.batch_id), record["id"], project)
