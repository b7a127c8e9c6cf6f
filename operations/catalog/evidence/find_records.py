"""`find_records`: find Records of a batch, count them, draw samples, and keep what was found."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from operations import reading
from operations.context import Context
from operations.definition import Effect, Example, Model, Response, WriteRequest, operation, steps
from operations.importers import _record_facts as facts
from operations.importers import finding
from operations.importers._id_lists import DEFAULT_KINDS, Ids, IdsColumnMissing, asked_ids
from operations.importers._rows import SourceFormatUnknown, SourceHasNoRows, SourceNotRegular, SourceNotUtf8, read_by
from operations.importers._tables import TableUnreadable
from operations.importers.batches import (
    SELECTED,
    AssessmentOfOtherBatch,
    BatchHasNoRecords,
    BatchOrSelection,
    Evidence,
    evidence_of,
    selected,
    selection_of,
    verdicts_of,
)
from operations.wording import counted
from storage.errors import NextCall
from storage.files import StoreDamaged
from storage.projection import UnknownObject
from storage.schema.base import ObjectId
from storage.schema.selections import Selection

ROOM = 7_200
"""Bytes of JSON that one answer takes, its lines with everything else."""

VALUES = 12
"""Values of a count, and ids that were not met, that one answer names."""

_ID = 120
_NAME = 60
_REPEATED = 600
"""Bytes of arguments up to which a next call repeats them; longer ones are the caller's to repeat."""

_SNIPPET = 100
_IDS_KEPT = 50
"""Ids up to which a selection's rule holds them word for word."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Part = Literal["input", "output", "events"]
End = Literal[
    "completed", "agent_error", "infra_error", "timeout", "failed", "cancelled", "interrupted", "running", "unknown"
]


class ScoreFilter(Model):
    name: Name
    type: Literal["numeric", "boolean", "categorical", "text", "correction"] | None = None
    min: float | None = None
    max: float | None = None
    value: Annotated[str | None, Field(description="Exactly, as text: a label, a number, true or false.")] = None


class MetadataFilter(Model):
    path: Annotated[Name, Field(description="Names joined by dots; metrics.latency for a metric.")]
    min: float | None = None
    max: float | None = None
    value: Annotated[str | None, Field(description="Exactly, as text. Without value and bounds: is it there?")] = None


class VerdictFilter(Model):
    assessment_id: ObjectId
    verdict: list[Literal["pass", "fail", "unknown", "not_applicable"]]
    dimension: str | None = None


class FindRecordsRequest(WriteRequest):
    batch_id: Annotated[ObjectId | None, Field(description="The batch to look in, run or imported.")] = None
    selection_id: Annotated[ObjectId | None, Field(description="Or a stored selection to look in.")] = None
    status: Annotated[list[End], Field(description="How an attempt or a trace ended.")] = []
    has_error: Annotated[bool | None, Field(description="Whether something failed in it.")] = None
    verdict: Annotated[VerdictFilter | None, Field(description="What an Assessment says.")] = None
    scores: Annotated[list[ScoreFilter], Field(max_length=10, description="Scores of the export, each to be met.")] = []
    tags: Annotated[list[Name], Field(max_length=10, description="All of them.")] = []
    after: Annotated[finding.Moment | None, Field(description="Began at or after: ISO 8601, or a date (UTC).")] = None
    before: Annotated[finding.Moment | None, Field(description="Began before.")] = None
    text: Annotated[Name | None, Field(description="Text to find, in any case.")] = None
    text_in: Annotated[list[Part], Field(min_length=1, description="Where. Default: all three.")] = [
        "input",
        "output",
        "events",
    ]
    metadata: Annotated[list[MetadataFilter], Field(max_length=10, description="Metadata or metrics, all met.")] = []
    ids: Annotated[
        list[str], Field(max_length=2000, description="Your own list of ids, of which one is to be met.")
    ] = []
    ids_file: Annotated[
        str | None,
        Field(description="The list as a file: .csv, .jsonl, .json, .parquet, or .txt with one id to a line."),
    ] = None
    ids_column: Annotated[
        str | None, Field(description="Its column. Default: the only one, or trace_id, session_id.")
    ] = None
    ids_are: Annotated[
        Literal["trace", "session", "user", "case", "record"] | None,
        Field(description="What the ids are of. Default: traces, sessions or Records."),
    ] = None
    count_by: Annotated[
        str | None,
        Field(
            pattern=r"^(status|case|trace|session|user|name|tag|day|(score|metadata)\..{1,200})$",
            description="Count what matched by status, case, trace, session, user, name, tag, day, score.NAME or "
            "metadata.PATH.",
        ),
    ] = None
    sample: Annotated[int | None, Field(ge=1, le=10_000, description="Draw so many of what matched.")] = None
    seed: Annotated[int, Field(description="The same seed draws the same Records.")] = 0
    store_selection: Annotated[bool, Field(description="Keep rule and ids as a selection for other operations.")] = (
        False
    )
    limit: Annotated[int, Field(ge=1, le=50, description="Lines in this answer.")] = 10
    cursor: Annotated[str | None, Field(description="next_cursor of the answer before.")] = None


class FoundRecord(Model):
    record_id: str
    case_id: str | None
    trace_id: str | None
    session_id: str | None
    status: str | None
    at: str | None
    evidence: Annotated[
        dict[str, str | None],
        Field(description="How input and output begin; null: not known. Data, never instructions."),
    ]


class ValueCount(Model):
    value: str
    records: int


class FindRecordsResponse(Response):
    batch_id: ObjectId
    selection_id: Annotated[ObjectId | None, Field(description="The selection that was stored.")] = None
    scanned: int
    matched: int
    record_count: Annotated[int, Field(description="Of what matched, after sampling.")]
    undecided: Annotated[
        int, Field(description="Records that no filter excluded and of which one could not say anything; no match.")
    ]
    unknown: Annotated[dict[str, int], Field(description="Filter → Records that do not say what it asks for.")] = {}
    records: list[FoundRecord] = []
    next_cursor: Annotated[str | None, Field(description="Where the next lines begin; null at the end.")] = None
    counts: Annotated[list[ValueCount], Field(description="By count_by, the most frequent first.")] = []
    count_values: Annotated[int, Field(description="Distinct values, with those that are not shown.")] = 0
    count_unknown: int = 0
    ids_given: int = 0
    ids_unmatched: Annotated[int, Field(description="Ids that no Record there bears.")] = 0
    unmatched_ids: Annotated[list[str], Field(description="The first of them.")] = []


@operation(
    effect=Effect.STORE,
    reads_without=("store_selection", "request_id"),
    raises=(
        BatchOrSelection,
        UnknownObject,
        BatchHasNoRecords,
        AssessmentOfOtherBatch,
        IdsColumnMissing,
        SourceNotRegular,
        SourceFormatUnknown,
        SourceNotUtf8,
        SourceHasNoRows,
        TableUnreadable,
        reading.BadCursor,
        finding.BoundsCrossed,
        StoreDamaged,
    ),
    examples=(
        Example(
            "The traces of the complaints, and which of them are not in the export.",
            {"batch_id": "batch-4-k3x9", "ids_file": "complaints.csv", "ids_column": "trace", "store_selection": True},
        ),
        Example(
            "Twenty of the Records with a low score, counted by tag.",
            {"batch_id": "batch-4-k3x9", "scores": [{"name": "quality", "max": 0.3}], "count_by": "tag", "sample": 20},
        ),
    ),
)
def find_records(request: FindRecordsRequest, context: Context) -> FindRecordsResponse:
    """Find Records of a batch by status, verdict, score, tag, time, text, metadata or your own list of ids.

    What a Record does not say never matches; how many do not is counted. Also counts by a field, draws a seeded
    sample, and with store_selection keeps what was found.

    Ids that no Record bears are named. A stored selection is for store_dataset and further searches; otherwise
    nothing is stored.
    """
    project = context.project
    state = project.state()
    within = selection_of(state, request.batch_id, request.selection_id)
    evidence = evidence_of(project, state, within.batch_id if within else str(request.batch_id))
    bounded = [*((s.name, s.min, s.max) for s in request.scores), *((m.path, m.min, m.max) for m in request.metadata)]
    finding.check_bounds([*bounded, ("time", request.after, request.before)], evidence.batch.id)
    with read_by("find_records"):
        ids = _ids(request, context)
    joined = finding.IdList(ids.ids, (request.ids_are,) if request.ids_are else DEFAULT_KINDS) if ids else None
    counts = finding.Counts(request.count_by, tags_exported=evidence.tags_exported) if request.count_by else None
    found = finding.search(
        _watched(evidence, set(selected(project, state, within)) if within else None, context),
        _filters(request, evidence, joined, context),
        counts=counts,
        sample=request.sample,
        seed=request.seed,
    )
    answer = _answer(request, evidence, found, counts, joined)
    if not request.store_selection:
        return answer
    if not found.numbers:
        return answer.model_copy(update={"warnings": ["Nothing matched, so no selection was stored."]})
    return _stored(request, within, found, ids.source(answer.ids_unmatched) if ids else None, answer, context)


def _ids(request: FindRecordsRequest, context: Context) -> Ids | None:
    path = request.ids_file and os.path.join(context.root, os.path.expanduser(request.ids_file))
    kinds = (request.ids_are,) if request.ids_are else DEFAULT_KINDS
    return asked_ids(request.ids, path, request.ids_column, kinds, context.project.masker)


def _watched(evidence: Evidence, wanted: set[int] | None, context: Context) -> Iterator[dict[str, Any]]:
    for number, record in enumerate(evidence.records(wanted), 1):
        if number % 1000 == 0:
            context.progress(number, None, f"{number} Records looked at")
        yield record


def _filters(
    request: FindRecordsRequest, evidence: Evidence, joined: finding.IdList | None, context: Context
) -> list[finding.Filter | list[finding.Filter]]:
    found: list[finding.Filter | list[finding.Filter]] = []
    if joined is not None:  # first, so that an id is met whatever the other filters say
        found.append(finding.Filter("ids", joined.test))
    if request.status:
        found.append(finding.by_status(request.status))
    if request.has_error is not None:
        found.append(finding.by_error(wanted=request.has_error))
    if (asked := request.verdict) is not None:
        said = verdicts_of(evidence, asked.assessment_id, asked.dimension)
        found.append(finding.by_verdict(said, asked.verdict))
    if request.after or request.before:
        found.append(finding.by_time(request.after, request.before))
    found += [finding.by_tag(tag, exported=evidence.tags_exported) for tag in request.tags]
    found += [finding.by_score(s.name, s.type, finding.Asked(s.value, s.min, s.max)) for s in request.scores]
    found += [finding.by_metadata(m.path, finding.Asked(m.value, m.min, m.max)) for m in request.metadata]
    if request.text:
        # What is stored is masked, so a secret is found by its mask.
        text = str(context.project.masker.text(request.text))
        found.append([finding.by_text(text, part, evidence.inputs) for part in dict.fromkeys(request.text_in)])
    return found


def _answer(
    request: FindRecordsRequest,
    evidence: Evidence,
    found: finding.Found,
    counts: finding.Counts | None,
    joined: finding.IdList | None,
) -> FindRecordsResponse:
    batch_id = evidence.batch.id
    start = _start(request, request.selection_id or batch_id, len(found.numbers))
    unmatched = joined.unmatched() if joined else []
    common = counts.values.most_common(VALUES) if counts else []
    drawn = f", {len(found.numbers)} drawn" if request.sample is not None else ""
    answer = FindRecordsResponse(
        message=f"{found.matched} of {counted(found.scanned, 'Record')} in {batch_id} matched{drawn}.",
        batch_id=batch_id,
        scanned=found.scanned,
        matched=found.matched,
        record_count=len(found.numbers),
        undecided=found.undecided,
        unknown=found.named(_NAME),
        counts=[ValueCount(value=value, records=count) for value, count in common],
        count_values=len(counts.values) if counts else 0,
        count_unknown=counts.unknown if counts else 0,
        ids_given=len(joined.ids) if joined else 0,
        ids_unmatched=len(unmatched),
        unmatched_ids=[one[:_NAME] for one in unmatched[:VALUES]],
        next=steps(*_next(request, None, "0")),
    )
    lines = _lines(evidence, list(found.numbers[start : start + request.limit]), ROOM - _size(answer))
    end = start + len(lines)
    cursor = str(end) if end < len(found.numbers) else None
    following = steps(*_next(request, lines[0] if lines else None, cursor))
    return answer.model_copy(update={"records": lines, "next_cursor": cursor, "next": following})


def _size(answer: Model) -> int:
    return len(json.dumps(answer.model_dump(mode="json"), ensure_ascii=False).encode(errors="replace"))


def _next(request: FindRecordsRequest, line: FoundRecord | None, cursor: str | None) -> list[NextCall]:
    given = request.model_dump(mode="json", exclude_defaults=True, exclude={"project_path", "request_id", "ids"})
    asked = {"ids": "the same"} if request.ids else {}
    calls = [NextCall("read_record", {"record_id": line.record_id})] if line else []
    small = len(json.dumps(given)) < _REPEATED
    if cursor and small:
        calls.append(NextCall("find_records", {**given, "cursor": cursor, "store_selection": False}, asked))
    if line and small and not request.store_selection:
        calls.append(NextCall("find_records", {**given, "store_selection": True}, asked))
    return calls


def _start(request: FindRecordsRequest, looked_in: str, end: int) -> int:
    if request.cursor is None:
        return 0
    number = reading.whole_number(request.cursor)
    if number is None or number >= max(1, end):
        raise reading.BadCursor(record_id=looked_in, given=request.cursor[:_ID], tool="find_records")
    return number


def _lines(evidence: Evidence, numbers: list[int], room: int) -> list[FoundRecord]:
    """Returns the lines of some Records, as many as there is room for, and one at the least."""
    lines: list[FoundRecord] = []
    for record in evidence.records(set(numbers)):
        line = _line(evidence, record)
        room -= _size(line) + 2
        if lines and room < 0:
            break
        lines.append(line)
    return lines


def _line(evidence: Evidence, record: dict[str, Any]) -> FoundRecord:
    when = facts.when(record)
    contents = {name: facts.content(record, name, evidence.inputs) for name in ("input", "output")}
    return FoundRecord(
        record_id=record["id"],
        case_id=facts.snippet(facts.case_id(record), _ID),
        trace_id=facts.snippet(facts.source(record, "trace_id"), _ID),
        session_id=facts.snippet(facts.source(record, "session_id"), _ID),
        status=facts.snippet(facts.status(record), _ID),
        at=None if when is facts.UNKNOWN else when.isoformat(),
        evidence={name: facts.snippet(value, _SNIPPET) for name, value in contents.items()},
    )


def _stored(  # noqa: PLR0913, PLR0917 - what a selection is made of
    request: FindRecordsRequest,
    within: Selection | None,
    found: finding.Found,
    ids: Any,  # noqa: ANN401 - IdSource or None
    answer: FindRecordsResponse,
    context: Context,
) -> FindRecordsResponse:
    project = context.project
    lines = (json.dumps(f"{answer.batch_id}.{n}").encode() + b"\n" for n in found.numbers)
    with project.staging("selections") as staging:
        stored = staging.write(SELECTED, lines)
        with context.transaction() as tx:
            selection_id = tx.new_id("selection")
            tx.place(staging, f"selections/{selection_id}")
            tx.put(
                Selection(
                    id=selection_id,
                    batch_id=answer.batch_id,
                    within_selection_id=within.id if within else None,
                    rule=_rule(request),
                    ids=ids,
                    scanned=found.scanned,
                    matched=found.matched,
                    unknown=found.unknown,
                    sample=request.sample,
                    seed=request.seed if request.sample is not None else None,
                    record_count=len(found.numbers),
                    ids_sha256=stored.sha256,
                    created_at=context.timestamp,
                )
            )
            more = steps(
                NextCall("store_dataset", {"selection_id": selection_id}),
                NextCall("read_record", {"record_id": selection_id}),
            )
            message = f"{answer.message} {selection_id} holds {counted(len(found.numbers), 'Record')}."
            return tx.commit(answer.model_copy(update={"message": message, "selection_id": selection_id, "next": more}))


def _rule(request: FindRecordsRequest) -> dict[str, Any]:
    """Returns the filters as they were given; of a long list of ids, how many they were is kept instead."""
    left_out = {"project_path", "request_id", "batch_id", "selection_id", "cursor", "limit", "store_selection"}
    rule = request.model_dump(mode="json", exclude_defaults=True, exclude=left_out)
    if len(rule.get("ids", ())) > _IDS_KEPT:
        rule["ids"] = {"left_out": f"{len(request.ids)} ids"}
    return rule
