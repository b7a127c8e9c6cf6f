"""`import_evidence`: bring in what an agent did elsewhere."""

from __future__ import annotations

import json
import os
from typing import Annotated, Any, Literal

from pydantic import Field

from operations.context import Context
from operations.definition import Effect, Example, Model, Response, WriteRequest, operation, steps
from operations.execution import importing
from operations.execution.announcing import Announced, Watch, stamp_of
from operations.execution.import_helper import helped
from operations.importers import _suggest, answers, contracts, sameness, stored
from operations.importers._export_rows import HeaderUnusable, TooManyColumns
from operations.importers._fields import MappingSourceMissing, RowTooWide, ValuesConflict
from operations.importers._folders import RolesUnknown, RoleWithoutFile, SourceMissing
from operations.importers._inspect_zip import NotAnInspectLog
from operations.importers._intake import Guard
from operations.importers._mapping import MappingNotRead
from operations.importers._parquet import ParquetMissing, ParquetUnreadable
from operations.importers._results import Columns, ResultsColumnMissing, ResultsMappingMissing
from operations.importers._rows import SourceNotRegular, read_by
from operations.importers._source import Options, Source
from operations.importers._streams import ExportFormatUnknown, PackedFileDamaged, UnpacksTooFar, led_back
from operations.importers.evidence import EvidenceImport, ImportStopped, NoEvidence, TooManyDamaged, TraceTooLarge
from operations.importers.late_scores import LateScores, LooseScores
from operations.importers.sources import open_source
from operations.wording import counted
from storage.errors import NextCall
from storage.schema.base import ObjectId
from storage.schema.traces import ImportedBatch, SourceKind
from storage.transaction import ResourceBusy, Staging, Transaction

SHOWN_WARNINGS = 10
SHOWN_DAMAGED = 5
_TEXT = 160
_NAME = 100
"""Bytes of JSON that a text and a name may take in an answer."""
_REQUEST = 2_000
"""And the request that a dry run suggests."""


class EvidenceMapping(Model):
    input: Annotated[str | None, Field(description="batch_results: the column of the input.")] = None
    output: Annotated[str | None, Field(description="batch_results: the column of the output.")] = None
    case_id: str | None = None
    repeat: str | None = None
    expected: str | None = None
    scores: Annotated[dict[str, str], Field(description="batch_results: name of a score → column.")] = {}
    trace: Annotated[dict[str, str], Field(description="langfuse, otel: canonical field → the export's.")] = {}
    observation: dict[str, str] = {}
    score: dict[str, str] = {}
    root_observation_name: Annotated[
        str | None, Field(description="langfuse, otel: the root that gives a trace its input and output.")
    ] = None


class ImportEvidenceRequest(WriteRequest):
    source: Annotated[
        str,
        Field(
            min_length=1,
            description="A file or folder, absolute or relative to the project: .json, .jsonl, .ndjson, .csv, also "
            "with .gz or .zst, .parquet, and .eval of inspect_ai.",
        ),
    ]
    source_kind: Annotated[
        SourceKind,
        Field(description="batch_results: rows with an output and perhaps scores."),
    ]
    adapter_profile: Annotated[
        Literal["langfuse_trace_bundle", "langfuse_observation_rows"] | None,
        Field(description="langfuse: what the rows are, if neither file_roles nor file names say it."),
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
    wait_seconds: Annotated[
        float, Field(ge=0, le=240, description="How long the call waits; the import goes on after it.")
    ] = 20


class Damaged(Model):
    file: str
    row: int
    line: int | None
    reason: str


class ImportEvidenceResponse(Response):
    batch_id: ObjectId | None
    import_id: Annotated[
        ObjectId | None,
        Field(description="Of a long import: what wait_for_batch and stop_batch take until it is over."),
    ] = None
    status: Annotated[str | None, Field(description="running or sealed")] = None
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


def _again(_: ImportEvidenceRequest, __: Context, recorded: ImportEvidenceResponse) -> ImportEvidenceResponse:
    """An answer that was read from the journal lists its fields as a fresh one does."""
    return recorded.model_copy(update={"fields": answers.ranked(recorded.fields)})


@operation(
    effect=Effect.STORE,
    idempotent=True,
    replay=_again,
    raises=(
        SourceMissing,
        SourceNotRegular,
        ExportFormatUnknown,
        PackedFileDamaged,
        UnpacksTooFar,
        ParquetMissing,
        ParquetUnreadable,
        TooManyColumns,
        HeaderUnusable,
        RowTooWide,
        RolesUnknown,
        RoleWithoutFile,
        MappingSourceMissing,
        MappingNotRead,
        NotAnInspectLog,
        ValuesConflict,
        ResultsMappingMissing,
        ResultsColumnMissing,
        TooManyDamaged,
        NoEvidence,
        TraceTooLarge,
        ImportStopped,
        importing.ImportLost,
        importing.ImportCrashed,
        ResourceBusy,
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

    Start with dry_run: it answers with the request to send. Nothing is guessed: what an export lacks stays
    unknown, and scores never become verdicts. Importing the same content again gives the same batch.

    A Record says where each field was read. Conflicts are refused. Changed content supersedes; late scores are linked.
    """
    with read_by("import_evidence"), led_back(request.source, request.source_kind):
        source = os.path.join(context.root, os.path.expanduser(request.source))
        if request.dry_run:
            return _suggested(request, source, context)
        stamp = ""
        if context.handle is None:
            if (running := importing.running_as(context.project, context.call)) is not None:
                return _followed(request, context, running)
            paths = [file.path for file in _reader(request).find(source).files]
            if importing.is_short(paths):
                return _carried_out(request, source, context, None)
            stamp = stamp_of(context.project, context.call, paths)
            if (running := importing.same_as(context.project, context.call, stamp)) is not None:
                return _followed(request, context, running, others=True)
            if not context.stays:
                own = importing.start(context.project, context.call, request.source, stamp)
                return _followed(request, context, own)
        with Announced(context.project, context.call, request.source, stamp, context.handle) as job:
            return _carried_out(request, source, context, job)


def _followed(
    request: ImportEvidenceRequest, context: Context, import_id: str, *, others: bool = False
) -> ImportEvidenceResponse:
    """Waits as long as was asked, and returns how far it is then. Who gives up stops it, where it is not `others`."""
    found = importing.follow(
        context.project,
        import_id,
        seconds=1e9 if context.stays else request.wait_seconds,
        progress=context.progress,
        stop_waiting=context.cancelled,
    )
    if found.job is not None and context.cancelled() and not others:
        found = importing.follow(context.project, import_id, seconds=30, progress=context.progress, stop=True)
    if found.job is None:
        return _again(request, context, ImportEvidenceResponse.model_validate_json(json.dumps(found.answer)))
    return ImportEvidenceResponse(
        message=f"{found.job.sentence}. It goes on; follow it, or stop it and nothing is stored.",
        import_id=import_id,
        status="running",
        batch_id=None,
        counts=found.job.counts,
        next=steps(*found.job.leads_on),
    )


def _carried_out(
    request: ImportEvidenceRequest, source: str, context: Context, job: Announced | None
) -> ImportEvidenceResponse:
    """Reads the export and stores it, in this process."""
    # It stands in every Record, beside what was masked row by row.
    namespace = str(context.project.masker.text(request.source_namespace))
    request = request.model_copy(update={"source_namespace": namespace})
    project = context.project
    with project.staging("evidence") as staging:
        reading = _reading(source, _reader(request), request.max_damaged, staging, context)
        watch = Watch(reading, context, job)
        writer = stored.RecordWriter(reading.guard.second_look)
        with LooseScores(project.store.full(staging.path)) as loose, helped(reading, project):
            records = contracts.held(reading, project.state(), namespace, request.mapping_version, loose.add)
            staging.write(stored.RECORDS, writer.lines(watch.over(records)))
            if reading.unattached:
                staging.write(stored.SCORES, loose.chunks())
            alone = reading.unattached and not reading.tally.counts["records"]
            late = LateScores(project, request.source_namespace, loose.lines() if alone else ())
        staging.write(stored.INDEX, [writer.index])
        if reading.guard.second_look is not None:
            reading.tally.counts["masked_by_second_look"] = reading.guard.second_look.count
        with project.transaction(context.call if job is None else job.named(context.call)) as tx:
            return _stored(request, reading, writer, staging, tx, context, late, job.import_id if job else None)


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


def _stored(  # noqa: PLR0913, PLR0917 - what an import leaves
    request: ImportEvidenceRequest,
    reading: EvidenceImport,
    writer: stored.RecordWriter,
    staging: Staging,
    tx: Transaction,
    context: Context,
    late: LateScores,
    import_id: str | None,
) -> ImportEvidenceResponse:
    fingerprints = sameness.fingerprints(request, reading.files, tx.state)
    same = [batch for batch in tx.state.all(ImportedBatch) if batch.fingerprint in fingerprints]
    if same:
        return tx.commit(_answer(same[-1], reading, f"{same[-1].id} holds this content already.", import_id))
    late.look(tx.state)
    batch_id = tx.new_id("batch")
    tx.place(staging, f"evidence/{batch_id}")
    batch = tx.put(
        ImportedBatch(
            id=batch_id,
            source_kind=request.source_kind,
            adapter_profile=reading.source.profile,
            source_namespace=request.source_namespace,
            mapping_version=request.mapping_version,
            contract_id=reading.contract_id,
            filtered_scope=request.filtered_scope,
            files=tuple(reading.files),
            skipped=tuple(reading.found.skipped[:1000]),
            fingerprint=fingerprints[0],
            completeness=reading.completeness,
            counts=late.counted(reading.tally.counts),
            fields=reading.fields,
            damaged=tuple(reading.damaged),
            links=(*late.replaced(reading.files), *late.links),
            notes=tuple(note[:1000] for note in reading.warnings()[:1000]),
            records_sha256=staging.files[stored.RECORDS].sha256,
            records_bytes=staging.files[stored.RECORDS].size,
            scores_unattached=reading.unattached,
            created_at=context.timestamp,
        )
    )
    return tx.commit(_answer(batch, reading, f"{batch_id} holds {counted(writer.count, 'Record')}.", import_id))


def _answer(
    batch: ImportedBatch, reading: EvidenceImport, message: str, import_id: str | None
) -> ImportEvidenceResponse:
    """Returns what fits: every part has its share of the 8 kB of an answer, whatever the export holds."""
    judge = NextCall("store_assessment", {"batch_id": batch.id}, {"rows": "a verdict for each Record"})
    look = NextCall("read_record", {"record_id": f"{batch.id}.1"})
    find = NextCall("find_records", {"batch_id": batch.id}, {"ids_file": "a list of complaints, or another filter"})
    whole = NextCall("read_record", {"record_id": batch.id})
    warnings = reading.warnings()
    shown = answers.first_texts(warnings[:SHOWN_WARNINGS], 1_500, each=_TEXT)
    left = [f"{len(warnings) - len(shown)} more: read notes of {batch.id}."] if len(warnings) > len(shown) else []
    return ImportEvidenceResponse(
        message=message,
        warnings=[*shown, *left],
        import_id=import_id,
        status="sealed",
        batch_id=batch.id,
        counts=answers.first_items(batch.counts.items(), 900, each=_NAME),
        completeness=batch.completeness,
        fields=answers.first_items(answers.ranked(batch.fields).items(), 2_200, each=_NAME),
        damaged=[
            Damaged(file=answers.cut(one.file, 80), row=one.row, line=one.line, reason=answers.cut(one.reason, _TEXT))
            for one in batch.damaged[:SHOWN_DAMAGED]
        ],
        skipped_files=answers.first_texts(batch.skipped[:8], 500, each=_NAME),
        supersedes=next((link.batch_id for link in batch.links if link.relation == "supersedes"), None),
        links=[link.batch_id for link in batch.links if link.relation == "late_scores"][-10:],
        next=steps(*([look, find, judge] if batch.counts.get("records") else []), whole),
    )


def _suggested(request: ImportEvidenceRequest, source: str, context: Context) -> ImportEvidenceResponse:
    found = _suggest.suggest(source, context.project.masker)
    arguments, supply = {"source": request.source, **_suggest.kept(request, found.request)}, dict(found.supply)
    if "output" in request.mapping.model_dump(exclude_none=True) or request.mapping.scores:
        supply.pop("mapping", None)
    if "source" in supply:
        arguments = {"dry_run": True}  # there is nothing to import at the path
    shown = _suggest.shown(found)
    if answers.size(arguments) > _REQUEST:
        roles = arguments.pop("file_roles", {})
        supply["file_roles"] = f"what each of the {len(roles)} files is; see fits"
    return ImportEvidenceResponse(
        message=answers.cut(found.message, 600),
        warnings=answers.first_texts(found.warnings[:SHOWN_WARNINGS], 1_200, each=_TEXT),
        batch_id=None,
        suggestion=shown,
        next=steps(NextCall("import_evidence", arguments, supply)),
    )
