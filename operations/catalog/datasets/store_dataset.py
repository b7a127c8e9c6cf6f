"""`store_dataset`: keep a set of Cases for good."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

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
    CaseReader,
    ColumnMissing,
    HoldoutNotBlind,
    MappingFieldUnknown,
    SourceGroupSplit,
    UsageUnknown,
    read_cases,
)
from operations.importers._rows import (
    LastRowTorn,
    RowMalformed,
    SourceFormatUnknown,
    SourceHasNoRows,
    SourceNotRegular,
    SourceNotUtf8,
    read_by,
)
from operations.reading import counted
from storage.errors import AtkError, NextCall
from storage.frames import canonical
from storage.schema.base import ObjectId
from storage.schema.datasets import Dataset
from storage.schema.rounds import Round

FIRST = 10


@dataclass(kw_only=True, eq=False)
class SecretInCaseId(AtkError):
    """A Case's id holds what looks like a secret, and ids are shown everywhere."""

    message = "The id of row {row} holds what looks like a {kind}. Give the Case another id; nothing was stored."
    next_calls = (NextCall("store_dataset", supply={"mapping": "id to a column without secrets"}),)

    row: int
    kind: str


class CaseMapping(Model):
    input: Annotated[str | None, Field(description="Column of the input. Default: a column of that name.")] = None
    id: str | None = None
    expected: str | None = None
    usage: Annotated[
        str | None,
        Field(description="optimization (empty too) or protection. A plan protects every Case that is no target."),
    ] = None
    source_group_id: Annotated[str | None, Field(description="Cases of one source share it.")] = None
    initial_conditions: str | None = None
    attachments: Annotated[str | None, Field(description="Paths: a list, or a JSON array as text.")] = None


class StoreDatasetRequest(WriteRequest):
    source: Annotated[
        str, Field(min_length=1, description="A .csv or .jsonl file, absolute or relative to the project.")
    ]
    mapping: Annotated[
        CaseMapping, Field(description="Field of a Case → column of the source. Default: columns of the same names.")
    ] = CaseMapping()


class StoreDatasetResponse(Response):
    dataset_id: ObjectId
    case_count: int
    usage_counts: dict[str, int]
    case_ids: Annotated[list[str], Field(description="The first ten.")]
    source_sha256: str
    cases_sha256: str
    mapping: dict[str, str]
    kept_attachments: Annotated[int, Field(description="Different files that are kept with the dataset.")] = 0


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
        HoldoutNotBlind,
        AttachmentOutside,
        AttachmentUnreadable,
        AttachmentsTooLarge,
        SecretInCaseId,
    ),
    examples=(
        Example(
            "A CSV whose columns have other names.",
            {"source": "tickets.csv", "mapping": {"id": "ticket", "input": "text", "expected": "queue"}},
        ),
    ),
)
def store_dataset(request: StoreDatasetRequest, context: Context) -> StoreDatasetResponse:
    """Store Cases from a CSV or JSONL file as an immutable dataset.

    Each row is one Case: an input, perhaps an expected answer, a usage (optimization or protection), a source group and
    attachments, whose bytes are kept. The whole file is read or nothing is stored; a row that cannot be read is named
    with its column.
    Holdout Cases are refused until they can be kept blind.
    """
    project = context.project
    source = os.path.join(context.root, os.path.expanduser(request.source))
    mapping = {k: v for k, v in request.mapping.model_dump().items() if v is not None}
    with read_by("store_dataset"), project.staging("datasets") as staging:
        reader = read_cases(source, mapping, root=context.root)
        kept = KeptAttachments(project.store, staging, source=source, root=context.root)
        first: list[str] = []
        stored = staging.write("cases.jsonl", _lines(reader, first, kept, context))
        kept.sync()
        with context.transaction() as tx:
            dataset_id = tx.new_id("dataset")
            tx.place(staging, f"datasets/{dataset_id}")
            dataset = tx.put(
                Dataset(
                    id=dataset_id,
                    source_name=os.path.basename(source),
                    source_sha256=reader.source_sha256,
                    cases_sha256=stored.sha256,
                    case_count=reader.case_count,
                    usage_counts=dict(reader.usage_counts),
                    mapping=dict(reader.mapping),
                    created_at=context.timestamp,
                    attachment_bytes=reader.attachment_bytes,
                    kept_attachments=len(kept),
                )
            )
            evaluate = NextCall("run_evaluation", {"dataset_id": dataset_id}, {"revision_commit": "HEAD's commit"})
            rounds = [r for r in tx.state.all(Round) if r.status == "analysis_only"]
            return tx.commit(
                StoreDatasetResponse(
                    message=f"{dataset_id} holds {counted(reader.case_count, 'Case')}.",
                    warnings=list(reader.warnings)[:5],
                    dataset_id=dataset_id,
                    case_count=reader.case_count,
                    usage_counts={str(k): v for k, v in reader.usage_counts.items()},
                    case_ids=first,
                    source_sha256=reader.source_sha256,
                    cases_sha256=stored.sha256,
                    mapping=dict(dataset.mapping),
                    kept_attachments=len(kept),
                    next=steps(
                        evaluate, *(NextCall("freeze_round", {"round_id": r.id, "preview": True}) for r in rounds[:1])
                    ),
                )
            )


def _lines(reader: CaseReader, first: list[str], kept: KeptAttachments, context: Context) -> Iterator[bytes]:
    masker = context.project.masker
    for case in reader:
        if masker.changed(case.id):
            kind = str(masker.text(case.id)).partition("[masked:")[2].partition(":")[0] or "secret"
            raise SecretInCaseId(row=case.source.row, kind=kind)
        if len(first) < FIRST:
            first.append(case.id)
        kept.keep(case)
        yield canonical(case.model_dump(mode="json")) + b"\n"
        if reader.case_count % 1000 == 0:
            context.progress(reader.case_count, None, f"{reader.case_count} Cases read")
