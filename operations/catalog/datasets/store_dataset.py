"""`store_dataset`: keep a set of Cases for good."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from operations.context import Context
from operations.definition import Effect, Example, Model, Response, WriteRequest, operation, steps
from operations.importers._attachments import (
    AttachmentOutside,
    AttachmentsTooLarge,
    AttachmentUnreadable,
    KeptAttachments,
)
from operations.importers._cases import (
    CaseIdTwice,
    ColumnMissing,
    MappingFieldUnknown,
    SourceGroupSplit,
    UsageUnknown,
)
from operations.importers._cases_dividing import Division
from operations.importers._cases_noted import CasesNoted
from operations.importers._cases_records import (
    RecordCases,
    RecordInputUnknown,
    RecordsDisagree,
    RecordsUnknown,
    Wanted,
)
from operations.importers._cases_sealed import Sealer
from operations.importers._cases_sources import Cases, FileSource, RecordSource, record_source
from operations.importers._cases_split import SplitRefused
from operations.importers._rows import (
    LastRowTorn,
    RowMalformed,
    SourceFormatUnknown,
    SourceHasNoRows,
    SourceNotRegular,
    SourceNotUtf8,
    read_by,
)
from operations.importers._tables import TableUnreadable
from operations.importers.batches import BatchHasNoRecords, BatchOrSelection
from operations.tuning.holdout import seen_groups
from operations.wording import counted
from storage import contents
from storage.errors import AtkError, NextCall
from storage.files import StoreDamaged
from storage.frames import canonical
from storage.project import Project
from storage.projection import UnknownObject
from storage.schema.base import ObjectId
from storage.schema.datasets import Dataset
from storage.schema.exposures import Exposure
from storage.schema.rounds import Round
from storage.sealing import HoldoutKeyMissing, HoldoutKeyUnusable

WARNINGS = 8


@dataclass(kw_only=True, eq=False)
class SecretInCaseId(AtkError):
    """A Case's id holds what looks like a secret, and ids are shown everywhere."""

    message = "The id of row {row} holds what looks like a {kind}. Give the Case another id; nothing was stored."
    next_calls = (NextCall("store_dataset", supply={"mapping": "id to a column without secrets"}),)

    row: int
    kind: str


@dataclass(kw_only=True, eq=False)
class CasesOfWhat(AtkError):
    """It is not said, or said twice, what the Cases are made of."""

    message = (
        "{problem}. Give source, perhaps with mapping, for a file; or batch_id, perhaps with record_ids, or "
        "selection_id for Records, perhaps with group_by, expected_score and skip_unknown_inputs."
    )
    next_calls = (NextCall("store_dataset", supply={"source": "a file, or batch_id or selection_id instead"}),)

    problem: str


@dataclass(kw_only=True, eq=False)
class SourceChanged(AtkError):
    """The file was written to between the two times that it is read for a split."""

    message = "{source} changed while it was read. Nothing was stored. Call again once nobody writes to it."
    next_calls = (NextCall("store_dataset", {"source": "{source}"}),)

    source: str


class CaseMapping(Model):
    input: Annotated[str | None, Field(description="Column of the input. Default: a column of that name.")] = None
    id: str | None = None
    expected: str | None = None
    usage: Annotated[
        str | None,
        Field(
            description="optimization (empty too), protection or holdout. A plan protects what is no target or holdout."
        ),
    ] = None
    source_group_id: Annotated[str | None, Field(description="Cases of one source share it.")] = None
    initial_conditions: str | None = None
    attachments: Annotated[str | None, Field(description="Paths: a list, or a JSON array as text.")] = None


class SplitWanted(Model):
    protection: Annotated[float, Field(ge=0, lt=1, description="The share of Cases to protect.")] = 0
    holdout: Annotated[float, Field(ge=0, lt=1, description="The share to keep unseen until the end. Of a file.")] = 0
    seed: int = 0


class StoreDatasetRequest(WriteRequest):
    source: Annotated[
        str | None,
        Field(min_length=1, description="A .csv, .jsonl, .json or .parquet file, absolute or relative to the project."),
    ] = None
    mapping: Annotated[
        CaseMapping, Field(description="Field of a Case → column of the source. Default: columns of the same names.")
    ] = CaseMapping()
    batch_id: Annotated[ObjectId | None, Field(description="Instead of source: a batch whose Records are Cases.")] = (
        None
    )
    record_ids: Annotated[list[str], Field(max_length=2000, description="Of batch_id, these. Default: all.")] = []
    selection_id: Annotated[ObjectId | None, Field(description="Instead of source: what find_records kept.")] = None
    group_by: Annotated[
        Literal["session", "user", "trace"] | None,
        Field(description="Records: what the source group is. Default: the session, where known."),
    ] = None
    expected_score: Annotated[
        str | None,
        Field(description="Records: the correction score that is the expected answer, kept as unverified."),
    ] = None
    skip_unknown_inputs: Annotated[
        bool, Field(description="Records: leave out those that do not say their input, instead of refusing.")
    ] = False
    split: Annotated[
        SplitWanted | None,
        Field(
            description="Divide Cases without a usage by source group: the shares of protection and holdout; the rest "
            "is to optimize on."
        ),
    ] = None
    preview: Annotated[bool, Field(description="Read all, store nothing, and say what would be stored.")] = False


class StoreDatasetResponse(Response):
    dataset_id: Annotated[ObjectId | None, Field(description="Null for a preview.")]
    case_count: int
    usage_counts: dict[str, int]
    group_counts: Annotated[
        dict[str, int], Field(description="Of a split: source groups by usage; both_by_source were cut by the source.")
    ] = {}
    case_ids: Annotated[list[str], Field(description="The first ten.")]
    source_sha256: str
    cases_sha256: str | None
    mapping: dict[str, str]
    kept_attachments: Annotated[int, Field(description="Different files that are kept with the dataset.")] = 0
    masked_input_records: Annotated[
        list[str],
        Field(description="The first Records whose input holds a mask: the agent will not see what was asked."),
    ] = []
    unverified_expected: Annotated[int, Field(description="Expected answers that are unverified corrections.")] = 0
    exposed_cases: Annotated[int, Field(description="Cases of Records that were judged or cited before.")] = 0


@operation(
    effect=Effect.STORE,
    raises=(
        SourceNotRegular,
        SourceFormatUnknown,
        SourceHasNoRows,
        SourceNotUtf8,
        RowMalformed,
        LastRowTorn,
        MappingFieldUnknown,
        ColumnMissing,
        CaseIdTwice,
        UsageUnknown,
        SourceGroupSplit,
        HoldoutKeyMissing,
        HoldoutKeyUnusable,
        AttachmentOutside,
        AttachmentUnreadable,
        AttachmentsTooLarge,
        SecretInCaseId,
        CasesOfWhat,
        BatchOrSelection,
        UnknownObject,
        BatchHasNoRecords,
        RecordInputUnknown,
        RecordsDisagree,
        RecordsUnknown,
        SourceChanged,
        SplitRefused,
        TableUnreadable,
        StoreDamaged,
    ),
    examples=(
        Example(
            "A CSV whose columns have other names.",
            {"source": "tickets.csv", "mapping": {"id": "ticket", "input": "text", "expected": "queue"}},
        ),
        Example(
            "What find_records kept, a third of it protected; see first what would be stored.",
            {"selection_id": "selection-9-k3x9", "split": {"protection": 0.34, "seed": 1}, "preview": True},
        ),
        Example(
            "A file of which a fifth stays unseen until the final validation.",
            {"source": "tickets.jsonl", "split": {"protection": 0.3, "holdout": 0.2, "seed": 1}},
        ),
    ),
)
def store_dataset(request: StoreDatasetRequest, context: Context) -> StoreDatasetResponse:
    """Store Cases from a file, or made of Records, as an immutable dataset.

    Each row is one Case. All is read or nothing is stored; a row that cannot be read is named with its column.
    Holdout Cases are kept encrypted and run only in a Round's final validation. split never cuts a source group.

    A Case has an input, perhaps an expected answer, a usage, a source group and attachments, whose bytes are kept.
    A Case of a Record keeps where it came from; a Record that does not say its input is refused by name. split
    divides by a seed.
    """
    project = context.project
    source = _source(request, context)
    asked = request.split
    division = Division(project, asked.protection, asked.seed, asked.holdout) if asked else None
    with read_by("store_dataset"):
        before = division.decide(source, project.state(), _seen_groups(division, project)) if division else None
        cases = source.cases(division.usage if division else None)
        if request.preview:
            read = CasesNoted()
            for _ in _lines(cases, read, None, None, context):
                pass
            return _answer(request, source, cases, read, division, None)
        with project.staging("datasets") as staging:
            kept = KeptAttachments(
                project.store, staging, source=source.path, root=context.root, kept_in=source.kept_in
            )
            read, sealer = CasesNoted(), Sealer(project)
            stored = staging.write("cases.jsonl", _lines(cases, read, kept, sealer, context))
            kept.sync()
            known = sealer.known(project.state())
            if before not in (None, source.sha256(cases)):
                raise SourceChanged(source=request.source or source.name)
            with context.transaction() as tx:
                dataset_id = tx.new_id("dataset")
                tx.place(staging, f"datasets/{dataset_id}")
                dataset = tx.put(
                    Dataset(
                        id=dataset_id,
                        source_name=source.name,
                        source_sha256=source.sha256(cases),
                        cases_sha256=stored.sha256,
                        case_count=cases.case_count,
                        usage_counts=dict(cases.usage_counts),
                        mapping=dict(cases.mapping),
                        created_at=context.timestamp,
                        attachment_bytes=cases.attachment_bytes,
                        kept_attachments=len(kept),
                        batch_id=source.evidence.batch.id if isinstance(source, RecordSource) else None,
                        selection_id=request.selection_id,
                        split=division.made() if division else None,
                    )
                )
                if known is not None:
                    tx.put(known.exposure(tx.new_id("exposure"), dataset.id, context.timestamp))
                rounds = [r.id for r in tx.state.all(Round) if r.status == "analysis_only"]
                answer = _answer(request, source, cases, read, division, dataset, rounds)
                said = [*sealer.warnings(source.name, known), *answer.warnings][:WARNINGS]
                return tx.commit(answer.model_copy(update={"warnings": said}))


def _source(request: StoreDatasetRequest, context: Context) -> FileSource | RecordSource:
    """Returns what the Cases are made of.

    Raises:
        CasesOfWhat: The request does not say one thing.
    """
    of_records = {"record_ids", "group_by", "expected_score", "skip_unknown_inputs"}
    given = {name for name in request.model_fields_set if getattr(request, name) not in (None, [], False)}
    named = [name for name in ("source", "batch_id", "selection_id") if name in given]
    if not named:
        raise CasesOfWhat(problem="None of source, batch_id and selection_id is given")
    if "source" in named:
        if more := sorted(given & (of_records | {"batch_id", "selection_id"})):
            raise CasesOfWhat(problem=f"source is given, and so is what belongs to Records: {', '.join(more)}")
        path = os.path.join(context.root, os.path.expanduser(request.source or ""))
        return FileSource(path, {k: v for k, v in request.mapping.model_dump().items() if v is not None}, context.root)
    if request.mapping != CaseMapping():
        raise CasesOfWhat(problem=f"{named[0]} is given, and so is mapping, which belongs to a file")
    options = Wanted(
        group_by=request.group_by,
        expected_score=request.expected_score,
        skip_unknown=request.skip_unknown_inputs,
    )
    return record_source(
        context.project,
        context.project.state(),
        batch_id=request.batch_id,
        selection_id=request.selection_id,
        record_ids=request.record_ids,
        options=options,
    )


def _seen_groups(division: Division, project: Project) -> Collection[str]:
    """Returns the source groups that are no fresh holdout, where one is to be dealt."""
    if not division.holdout:
        return ()
    state = project.state()
    elsewhere = (case for dataset in state.all(Dataset) for case in contents.cases(project, state, dataset.id))
    return seen_groups(state.all(Exposure), elsewhere)


def _lines(
    cases: Cases, read: CasesNoted, kept: KeptAttachments | None, sealer: Sealer | None, context: Context
) -> Iterator[bytes]:
    masker = context.project.masker
    for case in cases:
        if masker.changed(case.id):
            kind = str(masker.text(case.id)).partition("[masked:")[2].partition(":")[0] or "secret"
            raise SecretInCaseId(row=case.source.row, kind=kind)
        read.note(case)
        if kept is not None and sealer is not None:
            kept.keep(case, sealer.key_for(case))
            case = sealer.stored(case)  # noqa: PLW2901 - what was read may only be stored sealed
        yield canonical(case.model_dump(mode="json")) + b"\n"
        if cases.case_count % 1000 == 0:
            context.progress(cases.case_count, None, f"{cases.case_count} Cases read")


def _answer(  # noqa: PLR0913, PLR0917 - what there is to say of a dataset
    request: StoreDatasetRequest,
    source: FileSource | RecordSource,
    cases: Cases,
    read: CasesNoted,
    division: Division | None,
    dataset: Dataset | None,
    rounds: Sequence[str] = (),
) -> StoreDatasetResponse:
    number = counted(cases.case_count, "Case")
    if cases.case_count > len(read.first):
        number += f", of which case_ids names the first {len(read.first)}"
    made = cases if isinstance(cases, RecordCases) else None
    divided = division.warnings(cases.usage_counts) if division else []
    if dataset is not None:
        message = f"{dataset.id} holds {number}."
        evaluate = NextCall("run_evaluation", {"dataset_id": dataset.id}, {"revision_commit": "HEAD's commit"})
        freeze = (NextCall("freeze_round", {"round_id": r, "preview": True}) for r in rounds[:1])
        following = [evaluate, *freeze]
    else:
        message = f"{source.name} gives {number}. Nothing was stored."
        asked = request.model_dump(mode="json", exclude_defaults=True, exclude={"project_path", "request_id"})
        ids = {"record_ids": "the same"} if asked.pop("record_ids", []) else {}
        following = [NextCall("store_dataset", {**asked, "preview": False}, ids)]
    return StoreDatasetResponse(
        message=message,
        warnings=[*source.warnings(cases), *divided, *read.warnings()][:WARNINGS],
        dataset_id=dataset.id if dataset else None,
        case_count=cases.case_count,
        usage_counts={str(k): v for k, v in cases.usage_counts.items()},
        group_counts=division.group_counts() if division else {},
        case_ids=read.first,
        source_sha256=source.sha256(cases),
        cases_sha256=dataset.cases_sha256 if dataset else None,
        mapping=dict(cases.mapping),
        kept_attachments=dataset.kept_attachments if dataset else 0,
        masked_input_records=made.masked if made else [],
        unverified_expected=made.unverified if made else 0,
        exposed_cases=made.exposed if made else 0,
        next=steps(*following),
    )
