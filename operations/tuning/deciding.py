"""What a Decision about a Candidate or a Round has to rest on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from storage.errors import AtkError, NextCall
from storage.schema.assessments import Assessment
from storage.schema.batches import Batch
from storage.schema.candidates import Candidate
from storage.schema.rounds import Round
from storage.schema.validations import ExternalValidation, Validation


@dataclass(kw_only=True, eq=False)
class ValidationNeeded(AtkError):
    """The decision rests on no Validation."""

    message = "{action} of {subject} needs {needed}."
    next_calls = (
        NextCall(
            "compare_and_gate",
            {"round_id": "{round_id}", "mode": "{mode}", "candidate_id": "{candidate_id}"},
            {
                "left_assessment_id": "of the parent or B0",
                "right_assessment_id": "of the candidate or current revision",
            },
        ),
    )

    action: str
    subject: str
    round_id: str
    mode: str
    candidate_id: str | None
    needed: str


@dataclass(kw_only=True, eq=False)
class NotNewestValidation(AtkError):
    """A decision rests on the newest Validation, so that nobody picks the one that suits."""

    message = "{given} is not the newest Validation of {subject}: that is {newest} with result {result}. Decide by it."
    next_calls = (NextCall("read_record", {"record_id": "{newest}"}),)

    given: str
    subject: str
    newest: str
    result: str


@dataclass(kw_only=True, eq=False)
class CandidateLost(AtkError):
    """What was sealed is not in the repository any more, so that it cannot be committed."""

    message = (
        "The commit {commit} of {candidate_id} is not in this repository any more: {ref} held it, and was deleted. "
        "Fetch that ref from a copy of the repository, or reject the candidate."
    )

    next_calls = (
        NextCall(
            "decide_candidate",
            {"round_id": "{round_id}", "candidate_id": "{candidate_id}", "action": "reject"},
            {"reason": "what it held is lost"},
        ),
        NextCall("get_status"),
    )

    round_id: str
    candidate_id: str
    commit: str
    ref: str


@dataclass(kw_only=True, eq=False)
class ValidationOutdated(AtkError):
    """What the Validation compared does not count any more: it was judged, continued or retried anew since."""

    message = (
        "{validation_id} rests on {replaced}, and {replaced_by} took its place since. Compare what counts now, and "
        "decide by that."
    )
    next_calls = (
        NextCall("get_status", {"round_id": "{round_id}"}),
        NextCall("read_record", {"record_id": "{replaced_by}"}),
    )

    round_id: str
    validation_id: str
    replaced: str
    replaced_by: str


@dataclass(kw_only=True, eq=False)
class ResultForbids(AtkError):
    """The Validation's result does not allow the action."""

    message = "{validation_id} says {result}, so {action} is not open: {way_on}."
    next_calls = (
        NextCall("read_record", {"record_id": "{validation_id}"}),
        NextCall("get_status", {"round_id": "{round_id}"}),
    )

    round_id: str
    validation_id: str
    result: str
    action: str
    way_on: str


@dataclass(kw_only=True, eq=False)
class OverrideUnauthorized(AtkError):
    """An override was asked for without saying who allowed it and what it risks."""

    message = (
        "{action} against the result needs override_authorization with source user, action {needed}, a reason and the "
        "risk, as the person gave them. {problem}."
    )
    next_calls = (NextCall("get_status", {"round_id": "{round_id}"}),)

    round_id: str
    action: str
    needed: str
    problem: str


def newest(validations: Sequence[Validation], given: str | None, subject: str) -> Validation | None:
    """Returns the newest of `validations`, which is the one that counts.

    Raises:
        NotNewestValidation: The caller names an older one, or a stranger.
    """
    last = validations[-1] if validations else None
    if given is not None and (last is None or given != last.id):
        raise NotNewestValidation(
            given=given, subject=subject, newest=last.id if last else "none", result=last.result if last else "none"
        )
    return last


def replacement(
    validation: Validation | ExternalValidation, assessments: Sequence[Assessment], batches: Sequence[Batch]
) -> tuple[str, str] | None:
    """Returns something that a Validation rests on and what took its place since, or None where all of it counts."""
    grounds: tuple[str, ...] = ()
    if isinstance(validation, Validation):
        ran = validation.left_batch_id, validation.right_batch_id
        judged = validation.left_assessment_id, validation.right_assessment_id
        grounds = (*ran, *judged)
    else:
        grounds = validation.batch_id, validation.assessment_id
    later = {a.supersedes: a.id for a in assessments} | {b.supersedes_batch_id: b.id for b in batches}
    return next(((old, later[old]) for old in grounds if old in later), None)


def require_current(
    validation: Validation | ExternalValidation | None, assessments: Sequence[Assessment], batches: Sequence[Batch]
) -> None:
    """Refuses a Validation of verdicts or runs that others took the place of, so that nobody keeps what suited better.

    Raises:
        ValidationOutdated: It names what took the place.
    """
    if validation is not None and (found := replacement(validation, assessments, batches)):
        old, new = found
        raise ValidationOutdated(
            round_id=validation.round_id, validation_id=validation.id, replaced=old, replaced_by=new
        )


def of_candidate(candidate: Candidate, validations: Sequence[Validation]) -> list[Validation]:
    """Returns the incremental Validations of a Candidate as it is sealed."""
    return [
        v
        for v in validations
        if v.candidate_id == candidate.id and v.mode == "incremental" and v.right_revision_id == candidate.revision_id
    ]


def of_round(value: Round, validations: Sequence[Validation]) -> list[Validation]:
    """Returns the final Validations of a Round as it stands now."""
    return [
        v
        for v in validations
        if v.round_id == value.id
        and v.mode == "final"
        and v.left_revision_id == value.baseline_revision_id
        and v.right_revision_id == value.current_revision_id
    ]
