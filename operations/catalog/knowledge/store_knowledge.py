"""`store_knowledge`: keep a lesson with its scope and what carries it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from operations.context import Context
from operations.definition import Effect, Example, Model, Reason, Response, WriteRequest, operation, steps
from operations.importers import stored
from operations.tuning import knowledge
from storage import contents
from storage.errors import NextCall
from storage.holdout import HoldoutStaysUnseen, require_opened
from storage.masking import Masker
from storage.projection import State, UnknownObject
from storage.schema.assessments import Assessment, Judger
from storage.schema.base import ObjectId
from storage.schema.batches import Batch
from storage.schema.candidates import Candidate
from storage.schema.contracts import SourceContract
from storage.schema.exposures import Exposure
from storage.schema.knowledge import Identities, Knowledge
from storage.schema.rounds import Round
from storage.schema.traces import ImportedBatch
from storage.schema.validations import Validation
from storage.transaction import Transaction

_RECORDS = 200
"""References that one lesson may have of each kind."""

References = Annotated[list[ObjectId], Field(max_length=_RECORDS)]


class KnowledgeGiven(Model):
    status: Annotated[
        Literal["provisional", "validated_in_scope", "contradicted", "retired"],
        Field(description="validated_in_scope needs a Validation that passed, contradicted needs contrary_refs."),
    ] = "provisional"
    body: Annotated[Reason, Field(max_length=20_000, description="The lesson.")]
    applicability: Annotated[Reason, Field(max_length=2_000, description="Its scope: where it should hold.")]
    component_hashes: Annotated[
        dict[str, str] | None, Field(description="Component id → digest. Default: as the newest Validation's run saw.")
    ] = None
    contract_hashes: Annotated[
        dict[str, str] | None, Field(description="Source namespace → digest. Default: the newest contracts.")
    ] = None
    judger_hash: Annotated[str | None, Field(description="Default: the digest of that Validation's judger.")] = None
    evidence_refs: Annotated[References, Field(description="Records that carry it.")] = []
    contrary_refs: Annotated[References, Field(description="Records that speak against it.")] = []
    candidate_ids: Annotated[References, Field(description="Candidates that it was learned with.")] = []
    validation_ids: Annotated[References, Field(description="Validations that show it.")] = []


class StoreKnowledgeRequest(WriteRequest):
    knowledge: Annotated[KnowledgeGiven, Field(description="The lesson, whole: a revision replaces the one before.")]
    knowledge_id: Annotated[ObjectId | None, Field(description="To store a new revision of this lesson.")] = None


class StoreKnowledgeResponse(Response):
    knowledge_id: ObjectId
    revision: int
    status: str
    identities: Annotated[dict[str, dict[str, str] | str | None], Field(description="What it was shown under.")]
    source_groups: Annotated[list[str], Field(description="No fresh holdout any more; the first 20.")]


@operation(
    effect=Effect.STORE,
    raises=(
        knowledge.KnowledgeUnsupported,
        knowledge.KnowledgeRefUnknown,
        HoldoutStaysUnseen,
        UnknownObject,
    ),
    examples=(
        Example(
            "A lesson that a Validation shows.",
            {
                "knowledge": {
                    "status": "validated_in_scope",
                    "body": "The prompt has to name refunds, or the agent files them under other.",
                    "applicability": "tickets in English",
                    "validation_ids": ["validation-18-a4kd"],
                }
            },
        ),
    ),
)
def store_knowledge(request: StoreKnowledgeRequest, context: Context) -> StoreKnowledgeResponse:
    """Keep a lesson: its scope, the Records and Validations that carry it, and the identities it was shown under.

    That it holds may be claimed only with a Validation that passed. knowledge_applicability tells later whether it
    holds where the target then is.

    The source groups of what it was drawn from are exposed: they are no fresh holdout.
    """
    given = request.knowledge
    with context.transaction() as tx:
        state = tx.state
        earlier = state.get(Knowledge, request.knowledge_id) if request.knowledge_id else None
        validations = _validations(given, state)
        knowledge.require_known("candidate_ids", given.candidate_ids, state.objects.get(Candidate.kind, {}))
        shown = _shown(validations, state)
        groups = tuple(dict.fromkeys([*_groups_of_records(given, context, state), *_compared(validations, state)]))
        made = Knowledge(
            id=earlier.id if earlier else tx.new_id("knowledge"),
            revision=earlier.revision + 1 if earlier else 1,
            status=given.status,
            body=given.body,
            applicability=given.applicability,
            identities=_identities(given, shown, context.project.masker),
            evidence_refs=tuple(given.evidence_refs),
            contrary_refs=tuple(given.contrary_refs),
            candidate_ids=tuple(given.candidate_ids),
            validation_ids=tuple(given.validation_ids),
            source_groups=groups,
            created_at=context.timestamp,
        )
        knowledge.check_claim(made, validations)
        knowledge.check_identities(made, shown)
        _expose(made, tx, context)
        tx.put(made)
        return tx.commit(
            StoreKnowledgeResponse(
                message=f"{made.id} is stored in revision {made.revision}, {made.status}.",
                knowledge_id=made.id,
                revision=made.revision,
                status=made.status,
                identities=made.identities.model_dump(mode="json"),
                source_groups=list(groups[:20]),
                next=steps(NextCall("knowledge_applicability", {"knowledge_id": made.id})),
            )
        )


def _validations(given: KnowledgeGiven, state: State) -> list[Validation]:
    knowledge.require_known("validation_ids", given.validation_ids, state.objects.get(Validation.kind, {}))
    return [state.get(Validation, name) for name in given.validation_ids]


def _compared(validations: Sequence[Validation], state: State) -> Iterator[str]:
    for validation in validations:
        plan = state.get(Round, validation.round_id).plan
        if plan is not None:
            yield from knowledge.groups_of(plan, validation)


def _groups_of_records(given: KnowledgeGiven, context: Context, state: State) -> Iterator[str]:
    """Yields the source groups of the Records that a lesson names, which have to be there and to be seen."""
    named = {"evidence_refs": given.evidence_refs, "contrary_refs": given.contrary_refs}
    batch_ids = dict.fromkeys(name.rpartition(".")[0] for names in named.values() for name in names)
    group_of = {name: group for batch_id in batch_ids for name, group in _records(batch_id, context, state).items()}
    for field, names in named.items():
        knowledge.require_known(field, names, group_of)
        yield from (group for name in names if (group := group_of[name]) is not None)


def _records(batch_id: str, context: Context, state: State) -> dict[str, str | None]:
    """Returns the Records of a batch, each with its source group; nothing for what is no batch."""
    project = context.project
    if state.find(ImportedBatch, batch_id) is not None:
        records = stored.records(project, state, batch_id)
        return {r["id"]: r["source"].get("session_id") or r["source"].get("trace_id") for r in records}
    batch = state.find(Batch, batch_id)
    if batch is None or batch.records_sha256 is None:
        return {}
    require_opened(state, batch, subject=f"Some of {batch_id}", instead="Draw the lesson then.")
    groups = {case.id: case.source_group_id for case in contents.cases(project, state, batch.dataset_id)}
    return {r["id"]: groups.get(r["case_id"]) for r in contents.raw_records(project, state, batch_id)}


def _shown(validations: Sequence[Validation], state: State) -> Identities:
    """Returns what the right side of the newest Validation was run and judged under."""
    if not validations:
        return Identities()
    newest = validations[-1]
    batch = state.get(Batch, newest.right_batch_id)
    judger = state.get(Judger, state.get(Assessment, newest.right_assessment_id).judger_id)
    contracts = {contract.source_namespace: contract.digest for contract in state.all(SourceContract)}
    return knowledge.observed(batch.components, contracts, judger.digest)


def _identities(given: KnowledgeGiven, shown: Identities, masker: Masker) -> Identities:
    """Returns what the caller names, and else what was shown."""
    parts, sources = given.component_hashes, given.contract_hashes
    return Identities(
        component_hashes=shown.component_hashes if parts is None else _masked(parts, masker),
        contract_hashes=shown.contract_hashes if sources is None else _masked(sources, masker),
        judger_hash=given.judger_hash or shown.judger_hash,
    )


def _masked(hashes: Mapping[str, str], masker: Masker) -> dict[str, str]:
    """Returns the hashes with their names masked, since these come back in answers."""
    return {masker.text(name): found for name, found in hashes.items()}


def _expose(made: Knowledge, tx: Transaction, context: Context) -> None:
    """Records which source groups are no fresh holdout any more because of a lesson."""
    told = {group for e in tx.state.all(Exposure) if made.id in e.seen_in for group in e.source_groups}
    fresh = tuple(group for group in made.source_groups if group not in told)
    if fresh:
        tx.put(
            Exposure(
                id=tx.new_id("exposure"),
                how="knowledge",
                source_groups=fresh,
                dataset_id=None,
                seen_in=(made.id,),
                created_at=context.timestamp,
            )
        )
