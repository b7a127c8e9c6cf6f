"""`project_trajectories`: Records as a file of rows to train on, of messages, of a judge's views or of spans."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from operations import projecting
from operations.context import Context
from operations.definition import Effect, Example, Model, Response, WriteRequest, operation, steps
from operations.holding import held_out
from operations.importers.batches import (
    AssessmentOfOtherBatch,
    BatchHasNoRecords,
    BatchOrSelection,
    Evidence,
    evidence_of,
    selected,
    selection_of,
)
from operations.importers.stored import number_in
from operations.tuning.row_rules import current
from operations.wording import counted
from storage.errors import AtkError, NextCall
from storage.files import StoreDamaged
from storage.projection import State, UnknownObject
from storage.schema.assessments import Assessment
from storage.schema.base import ObjectId
from storage.schema.batches import Batch
from storage.schema.datasets import Dataset
from storage.schema.rows import RowFile, RowForm
from storage.schema.traces import ImportedBatch
from storage.sealing import HoldoutKeyMissing, HoldoutKeyUnusable, SealBroken

ROOM = 6_000
"""Bytes of JSON that the lists of one answer take."""

_TOLD = 200
"""Characters of a reason that an answer shows."""


@dataclass(kw_only=True, eq=False)
class RowsNeedVerdicts(AtkError):
    """Rows to train on come from what passes, and nobody has judged the batch."""

    message = (
        "{batch_id} has no current Assessment, so nothing says which of its Records pass. Rows to train on come from "
        "passing Records alone. Judge it, or ask for a form that is not to train on: evaluator, audit, otlp."
    )
    next_calls = (NextCall("store_assessment", {"batch_id": "{batch_id}"}),)

    batch_id: str


@dataclass(kw_only=True, eq=False)
class AssessmentNotCurrent(AtkError):
    """An Assessment was superseded, so what it says does not hold any more."""

    message = (
        "{assessment_id} was superseded by {newer_id}. Name that, or leave assessment_ids out for all that hold now."
    )
    next_calls = (NextCall("read_record", {"record_id": "{newer_id}"}),)

    assessment_id: str
    newer_id: str


@dataclass(kw_only=True, eq=False)
class ContaminatedEvidence(AtkError):
    """The target's files changed during the run, so nobody knows what its Records were made by."""

    message = "{batch_id} is contaminated: the target's files changed while it ran. Run the Cases again for rows."
    next_calls = (NextCall("run_evaluation"),)

    batch_id: str


@dataclass(kw_only=True, eq=False)
class RowsOutdated(AtkError):
    """Something that decides over rows was stored while they were made."""

    message = (
        "While the rows were made, {what} changed, which decides what may be in them. Nothing was stored; call again."
    )
    next_calls = (NextCall("project_trajectories", {"batch_id": "{batch_id}"}),)

    batch_id: str
    what: str


class ProjectTrajectoriesRequest(WriteRequest):
    batch_id: Annotated[ObjectId | None, Field(description="The batch, run or imported.")] = None
    selection_id: Annotated[ObjectId | None, Field(description="Or a stored selection of one.")] = None
    record_ids: Annotated[list[str], Field(max_length=2000, description="Only these Records of it.")] = []
    form: Annotated[
        RowForm,
        Field(
            description="To train on: messages (weights and mask for each), tokens (only full logs), openai. Else "
            "evaluator, audit, otlp."
        ),
    ] = "messages"
    assessment_ids: Annotated[
        list[ObjectId],
        Field(
            max_length=20,
            description="Rows to train on pass by each. Default: by all that hold now and judged the Record.",
        ),
    ] = []
    usages: Annotated[
        list[Literal["optimization", "protection"]],
        Field(min_length=1, description="Usages of Cases that may be trained on. Holdout never is."),
    ] = ["optimization"]
    reasoning: Annotated[bool, Field(description="Whether rows of messages hold the reasoning.")] = True


class LeftOutRecords(Model):
    reason: str
    records: int
    first: Annotated[list[str], Field(description="The first of them.")]


class LostField(Model):
    kind: str
    field: str
    reason: str
    events: int


class ProjectTrajectoriesResponse(Response):
    batch_id: ObjectId
    rows_id: Annotated[ObjectId | None, Field(description="What was stored; null where no Record gave a row.")] = None
    path: Annotated[str | None, Field(description="The file: one JSON object to a line.")] = None
    sha256: str | None = None
    bytes: int = 0
    row_count: int
    scanned: int
    splits: Annotated[dict[str, int], Field(description="Usage of the Case → rows.")]
    assessment_ids: Annotated[list[ObjectId], Field(description="By which the Records pass.")]
    holdout_cases: Annotated[int, Field(description="Holdout Cases that every row was held against.")]
    left_out: Annotated[list[LeftOutRecords], Field(description="Records that gave no row, and why.")]
    losses: Annotated[list[LostField], Field(description="What the rows do not carry, most events first.")]
    losses_total: int


@operation(
    effect=Effect.STORE,
    raises=(
        BatchOrSelection,
        UnknownObject,
        BatchHasNoRecords,
        AssessmentOfOtherBatch,
        RowsNeedVerdicts,
        AssessmentNotCurrent,
        ContaminatedEvidence,
        RowsOutdated,
        HoldoutKeyMissing,
        HoldoutKeyUnusable,
        SealBroken,
        StoreDamaged,
    ),
    examples=(
        Example("Rows to fine-tune on, of what passes.", {"batch_id": "batch-14-m3qa"}),
        Example("Spans for another tool.", {"selection_id": "selection-9-k2d7", "form": "otlp"}),
    ),
)
def project_trajectories(request: ProjectTrajectoriesRequest, context: Context) -> ProjectTrajectoriesResponse:
    """Project Records to a file of rows: to train on, as messages, for judges, audits or as spans.

    Rows to train on come only from Records of Cases that may be used, that pass in current Assessments. No row is like
    a holdout Case by name, origin or text, nor of a correction that nobody verified. Every row says its Case's
    fingerprint, split and origin; the answer says what was left out and what rows do not carry.
    """
    project = context.project
    state = project.state()
    within = selection_of(state, request.batch_id, request.selection_id)
    batch_id = within.batch_id if within else str(request.batch_id)
    evidence = evidence_of(project, state, batch_id)
    if isinstance(evidence.batch, Batch) and evidence.batch.status == "contaminated":
        raise ContaminatedEvidence(batch_id=batch_id)
    wanted = _wanted(request, evidence)
    held = held_out(project, state)
    made = projecting.RowMaker(evidence, wanted, held)
    numbers = set(selected(project, state, within)) if within else None
    if request.record_ids:
        asked = {_number(record_id, batch_id) for record_id in request.record_ids}
        numbers = asked if numbers is None else asked & numbers
    answer: dict[str, Any] = {
        "batch_id": batch_id,
        "assessment_ids": list(wanted.chosen or wanted.others),
        "holdout_cases": held.cases,
    }
    scanned = f"of {batch_id}"
    with project.staging("datasets") as staging:
        stored = staging.write("rows.jsonl", made.lines(_watched(evidence, numbers, context)))
        answer |= _figures(made)
        answer["warnings"] = [f"{batch_id} was superseded by {newer}." for newer in _successors(state, batch_id)]
        if (missing := len(set(request.record_ids)) - made.scanned) > 0:
            where = within.id if within else batch_id
            answer["warnings"] += [f"{missing} of the record_ids name no Record of {where}."]
        if not made.count:
            message = f"None of {counted(made.scanned, 'Record')} {scanned} gave a row; nothing was stored."
            return ProjectTrajectoriesResponse(message=message, **answer)
        with context.transaction() as tx:
            _require_same(state, tx.state, batch_id)
            rows_id = tx.new_id("rows")
            tx.place(staging, f"datasets/{rows_id}")
            kept = tx.put(
                RowFile(
                    id=rows_id,
                    form=request.form,
                    batch_id=batch_id,
                    selection_id=within.id if within else None,
                    assessment_ids=tuple(wanted.chosen or wanted.others),
                    usages=tuple(request.usages) if wanted.form in projecting.TRAINING else (),
                    options={"reasoning": request.reasoning, "record_ids": len(request.record_ids) or None},
                    holdout_cases=held.cases,
                    scanned=made.scanned,
                    row_count=made.count,
                    splits=made.splits,
                    rows_sha256=stored.sha256,
                    rows_bytes=stored.size,
                    losses=made.losses,
                    left_out=made.left_out,
                    created_at=context.timestamp,
                )
            )
            return tx.commit(
                ProjectTrajectoriesResponse(
                    message=f"{rows_id}: {counted(made.count, 'row')} of {counted(made.scanned, 'Record')} {scanned}.",
                    rows_id=rows_id,
                    path=os.path.join(project.store.path, "datasets", rows_id, "rows.jsonl"),
                    sha256=kept.rows_sha256,
                    bytes=kept.rows_bytes,
                    next=steps(NextCall("read_record", {"record_id": rows_id, "field": "rows.0"})),
                    **answer,
                )
            )


def _wanted(request: ProjectTrajectoriesRequest, evidence: Evidence) -> projecting.Wanted:
    """Returns what rows are asked for, with the verdicts that decide over them."""
    state, batch_id, usages = evidence.state, evidence.batch.id, tuple(request.usages)
    if request.form not in projecting.TRAINING:
        return projecting.Wanted(form=request.form, usages=usages, reasoning=request.reasoning)
    holding = {a.id: a for a in current(state.all(Assessment), batch_id)}
    for name in request.assessment_ids:
        found = state.get(Assessment, name)
        if found.batch_id != batch_id:
            raise AssessmentOfOtherBatch(assessment_id=name, judged_batch_id=found.batch_id, batch_id=batch_id)
        if name not in holding:
            newer = next(a.id for a in state.all(Assessment) if a.supersedes == name)
            raise AssessmentNotCurrent(assessment_id=name, newer_id=newer)
    if not holding:
        raise RowsNeedVerdicts(batch_id=batch_id)
    rows = {name: projecting.verdicts_by_record(evidence.project, state, one) for name, one in holding.items()}
    chosen = dict.fromkeys(request.assessment_ids)
    return projecting.Wanted(
        form=request.form,
        usages=usages,
        reasoning=request.reasoning,
        chosen={name: rows[name] for name in chosen},
        others={name: said for name, said in rows.items() if name not in chosen},
    )


def _successors(state: State, batch_id: str) -> list[str]:
    """Returns the batches that took the place of one: its run was continued, or its export was read again."""
    runs = [b.id for b in state.all(Batch) if b.supersedes_batch_id == batch_id]
    imports = [
        b.id
        for b in state.all(ImportedBatch)
        if any(link.relation == "supersedes" and link.batch_id == batch_id for link in b.links)
    ]
    return [*runs, *imports]


def _number(record_id: str, batch_id: str) -> int:
    number = number_in(record_id, batch_id)
    if number is None:
        raise UnknownObject(kind=f"Record of {batch_id}", given=record_id[:80], known=[f"{batch_id}.1"])
    return number


def _watched(evidence: Evidence, wanted: set[int] | None, context: Context) -> Iterator[dict[str, Any]]:
    for number, record in enumerate(evidence.records(wanted), 1):
        if number % 1000 == 0:
            context.progress(number, None, f"{number} Records looked at")
        yield record


def _require_same(before: State, now: State, batch_id: str) -> None:
    """Refuses rows whose grounds have changed since they were made."""
    changed = {
        "the datasets": [set(x.objects.get(Dataset.kind, {})) for x in (before, now)],
        "the Assessments of the batch": [{a.id for a in current(x.all(Assessment), batch_id)} for x in (before, now)],
    }
    for what, (old, new) in changed.items():
        if old != new:
            raise RowsOutdated(batch_id=batch_id, what=what)


def _figures(made: projecting.RowMaker) -> dict[str, Any]:
    """Returns what is told of the rows, in lists that have room in an answer."""
    left = [
        LeftOutRecords(reason=one.reason[:_TOLD], records=one.records, first=list(one.first)) for one in made.left_out
    ]
    lost = [LostField(**{**one.model_dump(), "reason": one.reason[:_TOLD]}) for one in made.losses]
    room, shown = ROOM, (list[Model](), list[Model]())
    lists: tuple[Sequence[Model], Sequence[Model]] = left, lost
    for target, items in zip(shown, lists, strict=True):
        for item in items:
            room -= len(json.dumps(item.model_dump()).encode()) + 2
            if room < 0:
                break
            target.append(item)
    return {
        "row_count": made.count,
        "scanned": made.scanned,
        "splits": dict(made.splits),
        "left_out": shown[0],
        "losses": shown[1],
        "losses_total": len(lost),
    }
