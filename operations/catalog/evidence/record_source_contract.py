"""`record_source_contract`: keep what a source's fields mean, and the lines that say so."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, StringConstraints

from operations import confirming
from operations.context import Context
from operations.definition import Effect, Example, Model, Reason, Response, WriteRequest, operation, steps
from operations.importers._rows import SourceNotRegular, open_regular
from operations.importers.contracts import FIELDS, contract_of
from operations.wording import counted
from storage.errors import AtkError, NextCall
from storage.frames import canonical, digest
from storage.projection import UnknownObject
from storage.schema.base import ObjectId
from storage.schema.contracts import ContractField, ContractType, Excerpt, SourceContract
from storage.schema.rounds import Round
from storage.transaction import Transaction

MAX_LINES = 100
MAX_BYTES = 1 << 20
STORE = ".atk"

Short = Annotated[str, StringConstraints(min_length=1, max_length=200)]


@dataclass(kw_only=True, eq=False)
class ContractUnclear(AtkError):
    """A contract says nothing, or does not say what it is of."""

    message = (
        "{problem}. Give mapping_version, fields and agreed_by for what a source means; source_path, start_line and "
        "end_line for lines that say so; or both."
    )
    next_calls = (NextCall("record_source_contract", supply={"fields": "what each field means"}),)

    problem: str


@dataclass(kw_only=True, eq=False)
class ContractVersionTaken(AtkError):
    """A version of a contract is never changed, since imports refer to it."""

    message = (
        "{contract_id} is version {version!r} of {source_namespace!r} already, with other content. Choose a new "
        "mapping_version; imports say which one they were made under."
    )
    next_calls = (
        NextCall("read_record", {"record_id": "{contract_id}"}),
        NextCall("record_source_contract", supply={"mapping_version": "a new one, and the same fields"}),
    )

    contract_id: str
    version: str
    source_namespace: str


@dataclass(kw_only=True, eq=False)
class ExcerptUnusable(AtkError):
    """The lines cannot be kept: the file or the range is not one that may be read."""

    message = (
        "{path} lines {start_line} to {end_line}: {problem}. An excerpt is 1 to 100 lines of a UTF-8 text file inside "
        "the project, of at most 1 MiB, and none of ATK's own."
    )
    next_calls = (NextCall("record_source_contract", supply={"source_path": "a file of the project"}),)

    path: str
    start_line: int
    end_line: int
    problem: str


class FieldMeaning(Model):
    field: Annotated[
        str,
        Field(
            pattern=FIELDS,
            description="input, output, expected, case_id, name, at, tags, trace_id, session_id, user_id, scores.NAME, "
            "metrics.NAME or metadata.PATH.",
        ),
    ]
    meaning: Annotated[Reason, Field(max_length=1000)]
    source_field: Annotated[str | None, Field(description="What the export calls it.")] = None
    type: ContractType | None = None
    unit: str | None = None
    required: Annotated[bool, Field(description="Whether every Record says it.")] = False
    values: Annotated[list[Short], Field(max_length=50, description="All that there are, as text.")] = []
    min: float | None = None
    max: float | None = None


class RecordSourceContractRequest(WriteRequest):
    source_namespace: Annotated[Short, Field(description="As in import_evidence.")] = "default"
    mapping_version: Annotated[Short | None, Field(description="The version; imports that name it are held to it.")] = (
        None
    )
    source_kind: Annotated[Short | None, Field(description="As in import_evidence.")] = None
    fields: Annotated[list[FieldMeaning], Field(max_length=60, description="What each field means.")] = []
    agreed_by: Annotated[Short | None, Field(description="The person who agreed to the meanings.")] = None
    source_path: Annotated[Short | None, Field(description="A file of the project with lines that say it.")] = None
    start_line: Annotated[int, Field(ge=1)] = 1
    end_line: Annotated[int | None, Field(ge=1, description="Default: start_line.")] = None
    component_id: Annotated[Short | None, Field(description="The component whose lines they are.")] = None
    source_revision: Annotated[Short | None, Field(description="Its revision.")] = None
    artifact_identity: Annotated[Short | None, Field(description="What was built of it.")] = None
    round_id: Annotated[ObjectId | None, Field(description="The Round that it was looked up for.")] = None


class RecordSourceContractResponse(Response):
    contract_id: ObjectId
    version: str | None
    fields: Annotated[list[str], Field(description="The fields that imports are held to.")]
    agreed: Annotated[str | None, Field(description="How it is known that a person agreed.")]
    supersedes: ObjectId | None = None
    excerpt_sha256: Annotated[str | None, Field(description="Of the whole file that the lines are from.")] = None
    excerpt_masked: bool = False


@operation(
    effect=Effect.STORE,
    idempotent=True,
    raises=(
        ContractUnclear,
        ContractVersionTaken,
        ExcerptUnusable,
        UnknownObject,
        confirming.NotConfirmed,
    ),
    examples=(
        Example(
            "A latency is in seconds, and quality goes from 0 to 1.",
            {
                "source_namespace": "support",
                "mapping_version": "2",
                "agreed_by": "the owner of the support agent",
                "fields": [
                    {"field": "metrics.latency", "meaning": "from question to answer", "unit": "s", "max": 600},
                    {"field": "scores.quality", "meaning": "the reviewer's mark", "type": "number", "min": 0, "max": 1},
                    {"field": "session_id", "meaning": "one customer's conversation", "required": True},
                ],
            },
        ),
        Example(
            "The lines of a tool that say what it returns.",
            {"source_path": "tools/refund.py", "start_line": 10, "end_line": 31, "component_id": "code"},
        ),
    ),
)
def record_source_contract(request: RecordSourceContractRequest, context: Context) -> RecordSourceContractResponse:
    """Record what the fields of a source mean, as the person agreed, and the lines of code that say so.

    Imports of the same source_namespace and mapping_version are held to it: what an export does not keep is a
    warning. A version is never changed.

    The warning names the field, what was agreed and what is found. Another version supersedes an earlier one. The
    lines are kept masked, as evidence for a diagnosis.
    """
    _check(request)
    masker = context.project.masker
    excerpt = _excerpt(request, context) if request.source_path else None
    namespace = str(masker.text(request.source_namespace))
    # By the model, so that what is compared with an earlier one went the same way.
    fields = tuple(ContractField.model_validate(masker.value(f.model_dump(mode="json"))) for f in request.fields)
    agreed = [f.model_dump(mode="json") for f in fields]
    identity = digest(canonical([namespace, request.mapping_version, agreed, excerpt and excerpt.model_dump()]))
    with context.transaction() as tx:
        if request.round_id is not None:
            tx.state.get(Round, request.round_id)
        known = next((c for c in tx.state.all(SourceContract) if c.digest == identity), None)
        if known is not None:
            return tx.commit(_answer(known, f"{known.id} says this already."))
        taken = contract_of(tx.state, namespace, request.mapping_version) if fields else None
        if taken is not None:
            raise ContractVersionTaken(
                contract_id=taken.id, version=str(request.mapping_version), source_namespace=namespace
            )
        how = confirming.confirmed(_question(request, namespace, agreed), context, tx) if fields else None
        contract = tx.put(
            SourceContract(
                id=tx.new_id("contract"),
                source_namespace=namespace,
                version=request.mapping_version,
                source_kind=request.source_kind,
                fields=fields,
                excerpt=excerpt,
                agreed_by=request.agreed_by,
                agreed=how,
                round_id=request.round_id,
                supersedes=_before(namespace, tx) if fields else None,
                digest=identity,
                created_at=context.timestamp,
            )
        )
        kept = [counted(len(fields), "field")] * bool(fields) + ["an excerpt"] * (excerpt is not None)
        return tx.commit(_answer(contract, f"{contract.id} keeps {' and '.join(kept)}."))


def _check(request: RecordSourceContractRequest) -> None:
    if not request.fields and request.source_path is None:
        raise ContractUnclear(problem="Neither fields nor source_path is given")
    names = [one.field for one in request.fields]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ContractUnclear(problem=f"fields names {twice[0]} more than once")
    if request.fields and request.mapping_version is None:
        raise ContractUnclear(problem="fields are given without mapping_version")
    if request.fields and request.agreed_by is None:
        raise ContractUnclear(problem="fields are given without agreed_by, and meaning is the person's to say")


def _question(
    request: RecordSourceContractRequest, namespace: str, agreed: list[dict[str, object]]
) -> confirming.Question:
    meanings = "; ".join(f"{one['field']}: {one['meaning']}" for one in agreed[:10])
    more = f" and {len(agreed) - 10} more" if len(agreed) > 10 else ""  # noqa: PLR2004 - what a person can read
    return confirming.Question(
        operation="record_source_contract",
        subject=namespace,
        text=f"Do the fields of {namespace}, version {request.mapping_version}, mean this? {meanings}{more}",
        facts={"version": request.mapping_version, "fields": agreed},
    )


def _before(namespace: str, tx: Transaction) -> str | None:
    made = [c.id for c in tx.state.all(SourceContract) if c.fields and c.source_namespace == namespace]
    return made[-1] if made else None


def _excerpt(request: RecordSourceContractRequest, context: Context) -> Excerpt:
    """Returns the lines that are named, masked.

    Raises:
        ExcerptUnusable: They are not lines of a text file of the project.
    """
    start, end = request.start_line, request.end_line or request.start_line
    given = str(request.source_path)

    def unusable(problem: str) -> ExcerptUnusable:
        return ExcerptUnusable(path=given, start_line=start, end_line=end, problem=problem)

    if not start <= end < start + MAX_LINES:
        raise unusable("the range is empty or longer than 100 lines")
    if "\0" in given:
        raise unusable("a path has no NUL character")
    real = os.path.realpath(os.path.join(context.root, given))
    path = os.path.relpath(real, context.root)
    if path.split(os.sep)[0] in ("..", STORE):
        raise unusable("the file lies outside the project or in ATK's own folder")
    try:
        with open_regular(real) as file:
            data = file.read(MAX_BYTES + 1)
    except SourceNotRegular as error:
        raise unusable(f"the file {error.reason}") from None
    if len(data) > MAX_BYTES:
        raise unusable("the file is larger than 1 MiB")
    try:
        lines = data.decode("utf-8-sig").removesuffix("\n").split("\n")
    except UnicodeDecodeError:
        raise unusable("the file is not UTF-8") from None
    if end > len(lines) or not data:
        raise unusable(f"the file has {len(lines) if data else 0} lines")
    text = "\n".join(line.removesuffix("\r") for line in lines[start - 1 : end])
    shown = str(context.project.masker.text(text))
    return Excerpt(
        path=path,
        start_line=start,
        end_line=end,
        text=shown,
        masked=shown != text,
        sha256=hashlib.sha256(data).hexdigest(),
        bytes=len(data),
        component_id=request.component_id,
        source_revision=request.source_revision,
        artifact_identity=request.artifact_identity,
    )


def _answer(contract: SourceContract, message: str) -> RecordSourceContractResponse:
    version = {"source_namespace": contract.source_namespace, "mapping_version": contract.version}
    asked = {"source": "the export", "source_kind": "what it is"}
    calls = [NextCall("import_evidence", {**version, "dry_run": True}, asked)] * bool(contract.fields)
    return RecordSourceContractResponse(
        message=message,
        contract_id=contract.id,
        version=contract.version,
        fields=[one.field[:80] for one in contract.fields],
        agreed=confirming.TOLD[contract.agreed] if contract.agreed else None,
        supersedes=contract.supersedes,
        excerpt_sha256=contract.excerpt.sha256 if contract.excerpt else None,
        excerpt_masked=contract.excerpt.masked if contract.excerpt else False,
        next=steps(*calls, NextCall("read_record", {"record_id": contract.id})),
    )
