"""`validate_external_fix`: see whether a repair made outside the project helped here."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from operations import external_fixes
from operations.context import Context
from operations.definition import Effect, Example, Response, WriteRequest, operation, steps
from operations.tuning import comparing, lifecycle
from operations.tuning.external_fix import NoExternalFix
from storage.errors import NextCall
from storage.projection import UnknownObject
from storage.schema.base import ObjectId
from storage.schema.rounds import Round
from storage.schema.validations import ExternalValidation


class ValidateExternalFixRequest(WriteRequest):
    round_id: ObjectId
    assessment_id: Annotated[ObjectId, Field(description="Of the baseline's run with phase final, whole.")]


class ValidateExternalFixResponse(Response):
    round_id: ObjectId
    external_validation_id: ObjectId
    assessment_id: ObjectId
    batch_id: ObjectId
    result: Annotated[str, Field(description="pass, no_effect or insufficient")]
    reasons: list[str]


@operation(
    effect=Effect.STORE,
    raises=(lifecycle.WrongRoundStatus, NoExternalFix, comparing.SidesNotComparable, UnknownObject),
    examples=(
        Example(
            "The baseline was run and judged.", {"round_id": "round-9-t4hx", "assessment_id": "assessment-12-k2fa"}
        ),
    ),
)
def validate_external_fix(request: ValidateExternalFixRequest, context: Context) -> ValidateExternalFixResponse:
    """Judge a repair that was made outside the project, by the permission that its Round was opened with.

    The baseline's fresh final run has to pass at every repeat of every frozen Case in every required dimension.

    One-sided, and nothing of that can be chosen here. A failure is no_effect; what is not known is insufficient.
    """
    with context.transaction() as tx:
        value = tx.state.get(Round, request.round_id)
        lifecycle.require_awake(value, "validate_external_fix")
        if value.external_fix is None or value.plan_digest is None:
            raise NoExternalFix(round_id=value.id)
        lifecycle.require_status(value, "validate_external_fix", "finalizing")
        found = external_fixes.found(context.project, tx.state, value, request.assessment_id)
        made = tx.put(
            ExternalValidation(
                id=tx.new_id("external_validation"),
                round_id=value.id,
                component_identity=value.external_fix.component_identity,
                issue_ids=value.issue_ids,
                revision_id=value.baseline_revision_id,
                batch_id=found.batch_id,
                assessment_id=request.assessment_id,
                result=found.result,
                reasons=found.reasons,
                plan_digest=value.plan_digest,
                table_digest=found.table_digest,
                created_at=context.timestamp,
            )
        )
        action = "complete_external_fix" if found.result == "pass" else "close_without_adoption"
        return tx.commit(
            ValidateExternalFixResponse(
                message=f"{made.id} is {found.result}. {' '.join(found.reasons)}"[:1_000],
                round_id=value.id,
                external_validation_id=made.id,
                assessment_id=request.assessment_id,
                batch_id=found.batch_id,
                result=found.result,
                reasons=list(found.reasons),
                next=steps(
                    NextCall("finish_round", {"round_id": value.id, "action": action}, {"reason": "why it ends"})
                ),
            )
        )
