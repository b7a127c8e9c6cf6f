"""Which specification and judger an assessment is made under, and which of several assessments is the current one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from operations import mistakes
from operations.wording import counted
from storage.errors import AtkError, NextCall
from storage.frames import canonical, digest
from storage.schema.assessments import Assessment, Confusion, EvaluationSpec, Judger

_LATER_FIELDS = frozenset(("not_applicable_rules",))
_CHANCE = 0.05
"""One minus the confidence of a bound."""

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

    message = "{field} cannot be used: {problem}. Correct it."
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

    message = "{batch_id} is {status} (Records: {records}); a batch is judged once it has ended with Records."
    next_calls = (NextCall("wait_for_batch", {"batch_id": "{batch_id}"}),)

    batch_id: str
    status: str
    records: int


@dataclass(kw_only=True, eq=False)
class DealJudged(AtkError):
    """The dealt items were judged; the sides are known by now, so judging them again would not be blind."""

    message = (
        "{deal_id} was judged: {assessment_ids} came of it. Deal the sides anew with next_judgements and anew: true; "
        "what comes of that needs supersede_reason."
    )
    next_calls = (NextCall("next_judgements", {"round_id": "{round_id}", "anew": True}),)

    deal_id: str
    round_id: str
    assessment_ids: list[str]


@dataclass(kw_only=True, eq=False)
class JudgedTogether(AtkError):
    """What is to be judged is named twice, or what a deal has fixed is chosen again."""

    message = "{problem}. Name one of batch_id, selection_id and deal_id; a deal's specification and judger are fixed."
    next_calls = (NextCall("get_status"),)

    problem: str


@dataclass(kw_only=True, eq=False)
class NothingToDeal(AtkError):
    """The plan's judger is a rule that ATK runs, which sees no sides anyway."""

    message = (
        "{judger_id} is the rule {method}, which ATK runs and which is told nothing of sides. Nothing is dealt: judge "
        "each batch with store_assessment."
    )
    next_calls = (
        NextCall(
            "store_assessment",
            {"spec_id": "{spec_id}", "judger_id": "{judger_id}"},
            {"batch_id": "the batch of each side"},
        ),
    )

    judger_id: str
    method: str
    spec_id: str


@dataclass(kw_only=True, eq=False)
class SideNotRun(AtkError):
    """A side of the comparison has no batch that could be dealt."""

    message = (
        "The {side} side, {revision_id}, has no sealed {mode} batch of {round_id} that began after the plan was "
        "frozen. Run it first: both sides are dealt together."
    )
    next_calls = (
        NextCall("run_evaluation", {"round_id": "{round_id}", "revision_id": "{revision_id}", "phase": "{mode}"}),
    )

    round_id: str
    side: str
    revision_id: str
    mode: str


def spec_from(given: Mapping[str, Any], new_id: str, batch_id: str, known: Sequence[EvaluationSpec]) -> EvaluationSpec:
    """Returns the stored specification of this content, or a new one.

    Raises:
        JudgementInvalid: It contradicts itself.
    """
    identity = _identity(given)
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
    identity = _identity(given)
    for judger in known:
        if judger.digest == identity:
            return judger
    made: Judger = _made(Judger, {**given, "id": new_id, "digest": identity}, batch_id, "judger")
    if not made.calibration_examples:
        return made
    return made.model_copy(update={"confusion": Confusion.of(made.calibration_examples)})


def _identity(given: Mapping[str, Any]) -> str:
    """Returns the digest of what was given. Fields that came later count only where they say something."""
    return digest(canonical({k: v for k, v in given.items() if v or k not in _LATER_FIELDS}))


def _made(kind: type[Any], fields: Mapping[str, Any], batch_id: str, field: str) -> Any:  # noqa: ANN401 - of that kind
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        problem = mistakes.sentence(where, first) if where else mistakes.said(first)
        raise JudgementInvalid(batch_id=batch_id, field=field, problem=problem) from None


def current(
    assessments: Iterable[Assessment],
    batch_id: str,
    judger_digest: str,
    spec_digest: str,
    selection_id: str | None = None,
) -> Assessment | None:
    """Returns the current assessment of a batch, or of a selection of it, by one judger under one specification."""
    found = None
    wanted = (batch_id, judger_digest, spec_digest, selection_id)
    for assessment in assessments:
        selected = assessment.selection.selection_id if assessment.selection else None
        if (assessment.batch_id, assessment.judger_digest, assessment.spec_digest, selected) == wanted:
            found = assessment
    return found


def blindness(assessments: Sequence[Assessment], judger: Judger) -> tuple[str, ...]:
    """Returns what a reader should know of whether the judge could tell the sides apart; nothing of a rule."""
    if judger.method != "client":
        return ()
    seen = [a.id for a in assessments if a.deal_id is None]
    if seen:
        return (f"Not dealt blind, so that the judge could know the side: {', '.join(seen)}.",)
    apart = len({a.deal_id for a in assessments}) > 1
    return ("The two sides were judged in different deals.",) if apart else ()


def remarks(judger: Judger) -> tuple[str, ...]:
    """Returns what a reader of a comparison should know of the judger's calibration: sentences, or none.

    The bound on false passes is the exact (Clopper-Pearson) one-sided 95 % bound where none was seen: 1 - 0.05^(1/n).
    """
    if judger.method != "client":
        return ()
    found = judger.confusion or Confusion.of(judger.calibration_examples)
    failures, passes = found.true_failures + found.false_passes, found.true_passes + found.false_failures
    if not failures + passes + found.undecided:
        return (f"Nothing is known of how often {judger.id} is wrong: it has no calibration examples.",)
    said = (
        f"{judger.id} on its calibration examples: {counted(found.false_passes, 'false pass', 'es')} among "
        f"{counted(failures, 'decided failure')}, {counted(found.false_failures, 'false failure')} among "
        f"{counted(passes, 'decided pass', 'es')}, {found.undecided} undecided."
    )
    if found.false_passes or not failures:
        return (said,)
    bound = 1 - _CHANCE ** (1 / failures)
    return (said, f"So few examples do not exclude that it passes {bound:.0%} of what fails (95 % bound).")
