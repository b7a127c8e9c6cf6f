"""`import_evidence`: bring in what an agent did elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from operations.context import Context
from operations.definition import Effect, Example, Model, Response, WriteRequest, operation, steps
from operations.importers import _suggest, stored
from operations.importers._export_rows import HeaderUnusable, TooManyColumns
from operations.importers._fields import MappingSourceMissing, RowTooWide, ValuesConflict
from operations.importers._folders import RolesUnknown, RoleWithoutFile, SourceMissing
from operations.importers._intake import Guard
from operations.importers._mapping import MappingNotRead
from operations.importers._results import Columns, ResultsColumnMissing, ResultsMappingMissing
from operations.importers._rows import SourceNotRegular
from operations.importers._source import Options, Source
from operations.importers._streams import ExportFormatUnknown, PackedFileDamaged, UnpacksTooFar, ZstandardMissing
from operations.importers.evidence import EvidenceImport, ImportStopped, NoEvidence, TooManyDamaged, TraceTooLarge
from operations.importers.sources import open_source
from storage.errors import NextCall
from storage.files import CHUNK
from storage.frames import canonical, digest
from storage.projection import State
from storage.schema.base import ObjectId
from storage.schema.projects import Project as ProjectRecord
from storage.schema.traces import BatchLink, ImportedBatch, SourceKind
from storage.transaction import Staging, Transaction

SHOWN_WARNINGS = 10
SHOWN_DAMAGED = 5
_TEXT = 160
_NAME = 100
_FIELDS_ROOM = 2_500
"""Characters that the fields of a response may take."""


class EvidenceMapping(Model):
    input: Annotated[str | None, Field(description="batch_results: the column of the input.")] = None
    output: Annotated[str | None, Field(description="batch_results: the column of the output.")] = None
    case_id: str | None = None
    repeat: str | None = None
    expected: str | None = None
    scores: Annotated[dict[str, str], Field(description="batch_results: name of a score → column.")] = {}
    trace: Annotated[dict[str, str], Field(description="langfuse: canonical field → the export's.")] = {}
    observation: dict[str, str] = {}
    score: dict[str, str] = {}
    root_observation_name: Annotated[
        str | None, Field(description="langfuse: the root that gives a trace its input and output.")
    ] = None


class ImportEvidenceRequest(WriteRequest):
    source: Annotated[
        str,
        Field(
            min_length=1,
            description="A file or folder, absolute or relative to the project: .json, .jsonl, .ndjson, .csv, also "
            "with .gz or .zst.",
        ),
    ]
    source_kind: Annotated[
        SourceKind,
        Field(description="batch_results: rows with an output and perhaps scores."),
    ]
    adapter_profile: Annotated[
        Literal["langfuse_trace_bundle", "langfuse_observation_rows"] | None,
        Field(description="langfuse: what the rows are where neither file_roles nor the exporter's file names say it."),
    ] = None
    file_roles: Annotated[
        dict[str, Literal["trace", "observation", "score", "bundle", "ignore"]],
        Field(description="langfuse: file, relative to source → what its rows are."),
    ] = {}
    mapping: Annotated[EvidenceMapping, Field(description="Where fields are read from, other than usual.")] = (
        EvidenceMapping()
    )
    json_columns: Annotated[list[str], Field(description="Fields whose text is JSON, such as input in a CSV.")] = []
    source_namespace: Annotated[
        str, Field(min_length=1, max_length=200, description="Your name of the system that the ids are from.")
    ] = "default"
    mapping_version: Annotated[str | None, Field(description="Your own name of this mapping.")] = None
    filtered_scope: Annotated[str | None, Field(description="What the export was filtered by, kept as you say it.")] = (
        None
    )
    max_damaged: Annotated[int, Field(ge=0, description="How many unreadable rows may be left out.")] = 0
    dry_run: Annotated[
        bool, Field(description="Read a sample, store nothing, and say what fits and which request to send.")
    ] = False


class Damaged(Model):
    file: str
    row: int
    line: int | None
    reason: str


class ImportEvidenceResponse(Response):
    batch_id: ObjectId | None
    counts: dict[str, int] = {}
    completeness: str | None = None
    fields: Annotated[
        dict[str, dict[str, int]],
        Field(description="Field → rows kept, lossy, unknown, unparsable, collided; those not all kept come first."),
    ] = {}
    damaged: Annotated[list[Damaged], Field(description="The first rows that were left out.")] = []
    skipped_files: list[str] = []
    supersedes: str | None = None
    links: list[str] = []
    suggestion: Annotated[
        dict[str, Any] | None, Field(description="Of a dry run: what fits, what would be unknown, the request to send.")
    ] = None


@operation(
    effect=Effect.STORE,
    idempotent=True,
    raises=(
        SourceMissing,
        SourceNotRegular,
        ExportFormatUnknown,
        PackedFileDamaged,
        UnpacksTooFar,
        ZstandardMissing,
        TooManyColumns,
        HeaderUnusable,
        RowTooWide,
        RolesUnknown,
        RoleWithoutFile,
        MappingSourceMissing,
        MappingNotRead,
        ValuesConflict,
        ResultsMappingMissing,
        ResultsColumnMissing,
        TooManyDamaged,
        NoEvidence,
        TraceTooLarge,
        ImportStopped,
    ),
    examples=(
        Example("See what an export is.", {"source": "export", "source_kind": "langfuse", "dry_run": True}),
        Example(
            "Traces, observations and scores in files of their own.",
            {
                "source": "export",
                "source_kind": "langfuse",
                "file_roles": {"traces.jsonl": "trace", "observations.jsonl": "observation", "scores.jsonl": "score"},
            },
        ),
        Example(
            "Rows of results.",
            {
                "source": "results.csv",
                "source_kind": "batch_results",
                "mapping": {"case_id": "ticket", "input": "question", "output": "answer"},
            },
        ),
    ),
)
def import_evidence(request: ImportEvidenceRequest, context: Context) -> ImportEvidenceResponse:
    """Import traces or results from an export as an immutable batch, of any size, masked before it is stored.

    Each trace or row becomes a Record with what was asked, answered and done, where each was read, and what is not
    known. Nothing is guessed: conflicting values are refused with both shown, what an export lacks stays unknown,
    scores stay evidence and never become verdicts. The same content imported again is the same batch; changed content
    supersedes it; scores that come late make a batch linked to it. Start with dry_run.
    """
    # It stands in every Record, beside what was masked row by row.
    namespace = str(context.project.masker.text(request.source_namespace))
    request = request.model_copy(update={"source_namespace": namespace})
    source = os.path.join(context.root, os.path.expanduser(request.source))
    if request.dry_run:
        return _suggested(request, source, context)
    reader = _reader(request)
    with context.project.staging("evidence") as staging:
        reading = _reading(source, reader, request.max_damaged, staging, context)
        writer = stored.RecordWriter(reading.guard.second_look)
        with _LooseScores(context.project.store.full(staging.path)) as loose:
            staging.write(stored.RECORDS, writer.lines(reading.records(loose.add)))
            if reading.unattached:
                staging.write(stored.SCORES, loose.chunks())
        staging.write(stored.INDEX, [writer.index])
        if reading.guard.second_look is not None:
            reading.tally.counts["masked_by_second_look"] = reading.guard.second_look.count
        with context.transaction() as tx:
            return _stored(request, reading, writer, staging, tx, context)


class _LooseScores:
    """A file for the scores of no trace, which come while the Records are being written."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, ".loose")

    def __enter__(self) -> Self:
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(self._fd, "w+b")
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        os.unlink(self._path)

    def add(self, line: bytes) -> None:
        self._file.write(line)

    def chunks(self) -> Iterator[bytes]:
        self._file.seek(0)
        while chunk := self._file.read(CHUNK):
            yield chunk


def _reader(request: ImportEvidenceRequest) -> Source:
    given = request.mapping
    columns = Columns(
        input=given.input,
        output=given.output,
        case_id=given.case_id,
        repeat=given.repeat,
        expected=given.expected,
        scores=given.scores,
    )
    return open_source(
        request.source_kind,
        Options(
            namespace=request.source_namespace,
            adapter_profile=request.adapter_profile,
            file_roles=request.file_roles,
            mappings=(given.trace, given.observation, given.score),
            root_observation_name=given.root_observation_name,
            columns=columns,
            json_columns=tuple(request.json_columns),
        ),
    )


def _reading(path: str, reader: Source, max_damaged: int, staging: Staging, context: Context) -> EvidenceImport:
    return EvidenceImport(
        path=path,
        source=reader,
        found=reader.find(path),
        guard=Guard(context.project.masker),
        runs=os.path.join(context.project.store.full(staging.path), ".runs"),
        max_damaged=max_damaged,
        progress=context.progress,
        cancelled=context.cancelled,
    )


def _rules(state: State) -> list[Any]:
    """Returns the project's own rules of masking; what is the default is left out."""
    (project,) = state.all(ProjectRecord)
    own = [sorted(project.redact_patterns), project.second_look]
    return [sorted(project.redact_keys), *([own] if any(own) else [])]


def _fingerprint(request: ImportEvidenceRequest, reading: EvidenceImport, state: State) -> str:
    """Returns what is the same for the same content read in the same way."""
    config = request.model_dump(mode="json", include={"source_kind", "adapter_profile", "mapping", "json_columns"})
    said = request.model_dump(mode="json", include={"source_namespace", "mapping_version", "filtered_scope"})
    files = sorted([file.role, file.sha256] for file in reading.files)
    return digest(canonical([files, config, said, *_rules(state)]))


def _stored(  # noqa: PLR0913, PLR0917 - what an import leaves
    request: ImportEvidenceRequest,
    reading: EvidenceImport,
    writer: stored.RecordWriter,
    staging: Staging,
    tx: Transaction,
    context: Context,
) -> ImportEvidenceResponse:
    fingerprint = _fingerprint(request, reading, tx.state)
    earlier = tx.state.all(ImportedBatch)
    same = [batch for batch in earlier if batch.fingerprint == fingerprint]
    if same:
        return tx.commit(_answer(same[-1], reading, f"{same[-1].id} holds this content already."))
    batch_id = tx.new_id("batch")
    tx.place(staging, f"evidence/{batch_id}")
    batch = tx.put(
        ImportedBatch(
            id=batch_id,
            source_kind=request.source_kind,
            adapter_profile=reading.source.profile,
            source_namespace=request.source_namespace,
            mapping_version=request.mapping_version,
            filtered_scope=request.filtered_scope,
            files=tuple(reading.files),
            skipped=tuple(reading.found.skipped[:1000]),
            fingerprint=fingerprint,
            completeness=reading.completeness,
            counts={name: count for name, count in sorted(reading.tally.counts.items()) if count},
            fields=reading.fields,
            damaged=tuple(reading.damaged),
            links=_links(request, reading, earlier),
            notes=tuple(note[:1000] for note in reading.warnings()[:1000]),
            records_sha256=staging.files[stored.RECORDS].sha256,
            records_bytes=staging.files[stored.RECORDS].size,
            scores_unattached=reading.unattached,
            created_at=context.timestamp,
        )
    )
    return tx.commit(_answer(batch, reading, f"{batch_id} holds {writer.count} Records."))


def _links(
    request: ImportEvidenceRequest, reading: EvidenceImport, earlier: list[ImportedBatch]
) -> tuple[BatchLink, ...]:
    """Returns the batch that this one replaces, or those whose traces its late scores are about."""
    own = [batch for batch in earlier if batch.source_namespace == request.source_namespace]
    names = sorted(file.name for file in reading.files)
    replaced = [batch for batch in own if sorted(file.name for file in batch.files) == names]
    if replaced:
        return (BatchLink(batch_id=replaced[-1].id, relation="supersedes"),)
    if not reading.tally.counts["records"]:
        return tuple(
            BatchLink(batch_id=batch.id, relation="late_scores") for batch in own if batch.counts.get("records")
        )
    return ()


def _answer(batch: ImportedBatch, reading: EvidenceImport, message: str) -> ImportEvidenceResponse:
    ranked = sorted(batch.fields.items(), key=lambda item: (set(item[1]) <= {"kept"}, item[0]))
    judge = NextCall("store_assessment", {"batch_id": batch.id}, {"rows": "a verdict for each Record"})
    look = NextCall("read_record", {"record_id": f"{batch.id}.1"})
    whole = NextCall("read_record", {"record_id": batch.id})
    warnings = reading.warnings()
    more = (
        [f"{len(warnings) - SHOWN_WARNINGS} more: read notes of {batch.id}."] if len(warnings) > SHOWN_WARNINGS else []
    )
    return ImportEvidenceResponse(
        message=message,
        warnings=[warning[:_TEXT] for warning in warnings[:SHOWN_WARNINGS]] + more,
        batch_id=batch.id,
        counts=dict(batch.counts),
        completeness=batch.completeness,
        fields=_fitting(ranked),
        damaged=[
            Damaged(file=one.file[:_NAME], row=one.row, line=one.line, reason=one.reason[:_TEXT])
            for one in batch.damaged[:SHOWN_DAMAGED]
        ],
        skipped_files=[name[:_NAME] for name in batch.skipped[:8]],
        supersedes=next((link.batch_id for link in batch.links if link.relation == "supersedes"), None),
        links=[link.batch_id for link in batch.links if link.relation == "late_scores"][-10:],
        next=steps(*([look, judge] if batch.counts.get("records") else []), whole),
    )


def _fitting(fields: list[tuple[str, dict[str, int]]]) -> dict[str, dict[str, int]]:
    """Returns the first fields that a response has room for."""
    shown: dict[str, dict[str, int]] = {}
    room = _FIELDS_ROOM
    for name, counts in fields:
        room -= len(name[:_NAME]) + 8 + 20 * len(counts)
        if room < 0:
            break
        shown[name[:_NAME]] = counts
    return shown


def _suggested(request: ImportEvidenceRequest, source: str, context: Context) -> ImportEvidenceResponse:
    suggestion = _suggest.suggest(source, context.project.masker)
    arguments = {"source": request.source, **suggestion.request}
    return ImportEvidenceResponse(
        message=suggestion.message,
        warnings=list(suggestion.warnings[:SHOWN_WARNINGS]),
        batch_id=None,
        suggestion={"fits": suggestion.fits, "unknown": suggestion.unknown, "columns": suggestion.columns},
        next=steps(NextCall("import_evidence", arguments, suggestion.supply)),
    )
