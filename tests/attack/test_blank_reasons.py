"""A reason of blanks is no reason: it is asked for wherever a person will read later why, and is no fault of ATK's."""

from typing import get_args

import pytest
from pydantic import BaseModel

from operations.definition import Reason
from operations.invocation import InvalidArguments
from operations.registry import all_operations
from tests.operations.catalog.stages import AUTHORIZED, Stages

WHY = {
    "reason", "risk", "supersede_reason", "validation_missing_reason", "symptom", "hypothesis", "question",
    "repeatability_basis", "external_fix_identity", "isolation_ref", "meaning", "body", "applicability",
}  # fmt: skip
MAY_SAY_NOTHING = {
    "RowGiven.reason",  # a verdict of a rule or a count needs none
    "CheckGiven.reason",  # only a check that was not run needs one, and is asked for it
    "InspectOrRecoverOperationRequest.reason",
    "IdentityGiven.applicability",  # of knowledge, compared with what it says itself
}
CHECKED = get_args(Reason)[-1]


def reasons_of(model):
    """Yields each field of a request, and of what it holds, that says why: its name and what is checked of it."""
    for name, field in model.model_fields.items():
        if name in WHY:
            yield f"{model.__name__}.{name}", [*field.metadata, *_metadata(field.annotation)]
        for inner in _models(field.annotation):
            yield from reasons_of(inner)


def _models(annotation):
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]


def _metadata(annotation):
    found = list(getattr(annotation, "__metadata__", ()))
    return found + [each for part in get_args(annotation) if part not in found for each in _metadata(part)]


def test_every_field_that_says_why_refuses_blanks():
    known = dict(found for operation in all_operations().values() for found in reasons_of(operation.request))
    assert len(known) > 20
    assert set(known) >= MAY_SAY_NOTHING
    assert [name for name in known if CHECKED not in known[name] and name not in MAY_SAY_NOTHING] == []


CALLS = {
    "cancel_draft": ("drafted", {"round_id": "{round_id}", "candidate_id": "{candidate_id}"}),
    "decide_candidate": ("sealed", {"round_id": "{round_id}", "candidate_id": "{candidate_id}", "action": "reject"}),
    "finish_round": ("opened", {"round_id": "{round_id}", "action": "abandon"}),
    "transition_round": ("opened", {"round_id": "{round_id}", "action": "pause"}),
}


@pytest.mark.parametrize("reason", [" ", "\u2028", "\t\n", "\u200b\ufeff"])
@pytest.mark.parametrize("operation", CALLS)
def test_a_blank_reason_changes_nothing(tmp_path, operation, reason):
    stage, arguments = CALLS[operation]
    target = STAGES.setdefault("built", Stages(str(tmp_path / "stages"))).copy(stage, str(tmp_path / "target"))
    before = target.facts()
    given = {name: target.ids[value[1:-1]] if value[0] == "{" else value for name, value in arguments.items()}
    error = target.refusal(operation, **given, reason=reason)
    assert isinstance(error, InvalidArguments)
    assert "reason is blank; say it in words" in str(error)
    assert target.changed_since(before) == []


STAGES: dict[str, Stages] = {}


def test_a_blank_reason_or_risk_authorizes_and_supersedes_nothing(tmp_path):
    target = STAGES.setdefault("built", Stages(str(tmp_path / "stages"))).copy("sealed", str(tmp_path / "target"))
    judged = {"batch_id": target.batch_id, "spec_id": target.spec_id, "judger_id": target.judger_id}
    before = target.facts()
    named = {"round_id": target.round_id, "candidate_id": target.candidate_id, "action": "keep", "reason": "it helps"}
    word = {**AUTHORIZED, "action": "trial_commit", "risk": " "}
    for error in (
        target.refusal("store_assessment", **judged, supersede_reason=" "),
        target.refusal("decide_candidate", **named, override=True, override_authorization=word),
    ):
        assert isinstance(error, InvalidArguments)
        assert "is blank; say it in words" in str(error)
    assert target.changed_since(before) == []
