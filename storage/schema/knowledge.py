"""Knowledge: a lesson, its scope, what carries it, and the identities it was shown under."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from storage.schema.base import ObjectId, Record, Value

KnowledgeStatus = Literal["provisional", "validated_in_scope", "contradicted", "retired"]


class Identities(Value):
    """What the target, its sources and its judge were: a lesson is known to hold only where they are the same."""

    component_hashes: dict[str, str] = {}
    """Component id → digest of its content, or its version."""
    contract_hashes: dict[str, str] = {}
    """Source namespace → digest of the contract that says what its fields mean."""
    judger_hash: str | None = None


class Knowledge(Record):
    """A lesson as it stands. A revision keeps the id; the journal has the earlier ones."""

    kind: ClassVar[str] = "knowledge"

    revision: Annotated[int, Field(ge=1)]
    status: KnowledgeStatus
    body: str
    applicability: str
    """Its scope, in words."""
    identities: Identities
    evidence_refs: tuple[ObjectId, ...] = ()
    """Records that carry it."""
    contrary_refs: tuple[ObjectId, ...] = ()
    """Records that speak against it."""
    candidate_ids: tuple[ObjectId, ...] = ()
    validation_ids: tuple[ObjectId, ...] = ()
    source_groups: tuple[str, ...] = ()
    """Of the Cases that it was drawn from: they are no fresh holdout any more."""
    created_at: str
