"""Which specification and judger an assessment is made under, and which of several assessments is the current one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from storage.errors import AtkError, NextCall
from storage.frames import canonical, digest
from storage.schema.assessments import Assessment, EvaluationSpec, Judger

_ID_FIELDS = {"evaluation_spec": "spec_id", "judger": "judger_id"}


@dataclass(kw_only=True, eq=False)
class JudgementUnspecified(AtkError):
    """An assessment needs a specification and a judger: given whole once, named by id afterwards."""

    message = "The assessment needs {needed}. {known}"
    next_calls = (
        NextCall("store_assessment", {"batch_id": "{batch_id}"}, {"arguments": "with {fields} as the message says"}),
    )

    batch_id: str
    needed: str
    fields: list[str]
    known: str

    @classmethod
    def of(cls, batch_id: str, missing: Mapping[str, Sequence[str]]) -> JudgementUnspecified:
        """Returns the refusal that asks for every one of `missing` at once: field → the ids of what is stored."""
        ids = {name: _ID_FIELDS[name] for name in missing}
        needed = " and ".join(f"{name} (whole, stored once) or {ids[name]} (stored before)" for name in missing)
        known = " ".join(
            f"For {ids[name]} there is {', '.join(found)}." if found else f"For {ids[name]} none is stored yet."
            for name, found in missing.items()
        )
        return cls(batch_id=batch_id, needed=needed, fields=list(missing), known=known)


@dataclass(kw_only=True, eq=False)
class JudgementInvalid(AtkError):
    """The specification or judger contradicts itself."""

    message = "{field} cannot be used: {problem}."
    next_calls = (NextCall("store_assessment", {"batch_id": "{batch_id}"}, {"arguments": "with {field} corrected"}),)

    batch_id: str
    field: str
    problem: str


@dataclass(kw_only=True, eq=False)
class AssessmentStands(AtkError):
    """The batch was judged by this judger already; another judgement needs a reason that stays on record."""

    message = (
        "{assessment_id} is the current assessment of {batch_id} by {judger_id}. To judge it anew, give "
        "supersede_reason: the newer one counts, and the reason is kept."
    )
    next_calls = (
        NextCall("read_record", {"record_id": "{assessment_id}"}),
        NextCall("store_assessment", {"batch_id": "{batch_id}"}, {"supersede_reason": "why it is judged again"}),
    )

    batch_id: str
    judger_id: str
    assessment_id: str


@dataclass(kw_only=True, eq=False)
class BatchNotReadable(AtkError):
    """A batch that runs, or in which nothing was confirmed, cannot be judged."""

    message = "{batch_id} is {status} with {records} Records; a batch is judged once it has ended with Records."
    next_calls = (NextCall("wait_for_batch", {"batch_id": "{batch_id}"}),)

    batch_id: str
    status: str
    records: int


def spec_from(given: Mapping[str, Any], new_id: str, batch_id: str, known: Sequence[EvaluationSpec]) -> EvaluationSpec:
    """Returns the stored specification of this content, or a new one.

    Raises:
        JudgementInvalid: It contradicts itself.
    """
    identity = digest(canonical(dict(given)))
    for spec in known:
        if spec.digest == identity:
            return spec
    made: EvaluationSpec = _made(
        EvaluationSpec, {**given, "id": new_id, "digest": identity}, batch_id, "evaluation_spec"
    )
    return made


def judger_from(given: Mapping[str, Any], new_id: str, batch_id: str, known: Sequence[Judger]) -> Judger:
    """Returns the stored judger of this content, or a new one.

    Raises:
        JudgementInvalid: It contradicts itself.
    """
    identity = digest(canonical(dict(given)))
    for judger in known:
        if judger.digest == identity:
            return judger
    made: Judger = _made(Judger, {**given, "id": new_id, "digest": identity}, batch_id, "judger")
    return made


def _made(kind: type[Any], fields: Mapping[str, Any], batch_id: str, field: str) -> Any:  # noqa: ANN401 - of that kind
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        said = first["msg"].removeprefix("Value error, ")
        problem = f"{where}: {said}" if where else said
        raise JudgementInvalid(batch_id=batch_id, field=field, problem=problem) from None


def current(
    assessments: Iterable[Assessment], batch_id: str, judger_digest: str, spec_digest: str
) -> Assessment | None:
    """Returns the current assessment of a batch by one judger under one specification."""
    found = None
    for assessment in assessments:
        same = (assessment.batch_id, assessment.judger_digest, assessment.spec_digest)
        if same == (batch_id, judger_digest, spec_digest):
            found = assessment
    return found
