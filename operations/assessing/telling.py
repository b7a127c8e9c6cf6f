"""What the answer to a judgement says besides it: what it leads to, and what keeps it from deciding anything."""

from __future__ import annotations

from operations.wording import counted, either
from storage.errors import NextCall
from storage.projection import State
from storage.schema.assessments import Assessment
from storage.schema.batches import Batch
from storage.schema.rounds import ACTIVE, Round
from storage.schema.traces import ImportedBatch


def fitting(ids: list[str], room: int) -> list[str]:
    """Returns the first ids that take at most `room` characters."""
    shown: list[str] = []
    for name in ids:
        room -= len(name) + 3
        if room < 0:
            break
        shown.append(name)
    return shown


def to_round(batch: Batch | ImportedBatch, found: Assessment, state: State) -> NextCall:
    """Returns what evidence from outside of Rounds leads to."""
    rounds = state.all(Round)
    if any(r.status in ACTIVE for r in rounds):
        return NextCall("get_status")
    if opened := [r for r in rounds if r.status == "analysis_only"]:
        return NextCall("store_diagnosis", {"round_id": opened[-1].id}, {"issues": "what fails and why"})
    return NextCall("create_round", {"batch_ids": [batch.id], "assessment_ids": [found.id]})


def reservations(found: Assessment, batch: Batch | ImportedBatch) -> list[str]:
    """Says what keeps an Assessment from deciding a comparison."""
    said = [f"{batch.id} is {batch.status}; a comparison needs sealed batches."] if batch.status != "sealed" else []
    if found.rest is not None and (number := sum(found.defaulted.values())):
        default = (
            f"{number} of {counted(found.row_count, 'verdict')} {either(number, 'is', 'are')} {found.rest.verdict}"
        )
        said.append(f"{default} by default; a comparison takes that for unknown.")
    return said
