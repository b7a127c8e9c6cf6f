"""A Validation: two Revisions compared on frozen Cases, the result by the frozen rule, and the statistics beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from storage.schema.base import CaseId, Digest, ObjectId, Record, Value
from storage.schema.rounds import Rule

Result = Literal["pass", "no_effect", "regression", "insufficient", "invalid"]
Mode = Literal["incremental", "final"]
Answer = Literal["yes", "no", "undecided"]

SUMMARY_BYTES = 5_500
"""A summary stays below this, however many Cases were compared."""

_NAME_SHOWN = 40
_REASON_SHOWN = 240


class QuestionStatistics(Value):
    """One question put to the outcomes, and what they say.

    `difference`, `lower`, `upper`, `worst` and `best` are mean pass rates of right minus left, between -1 and 1.
    `lower` and `upper` are one-sided bounds, each at 95 %. `worst` and `best` bound the difference over every way in
    which the unknown outcomes could have been. A figure that cannot be computed is None.
    """

    question: Literal[
        "screen", "improvement", "harm", "concentrated_harm", "non_inferiority", "general_claim", "efficiency"
    ]
    dimension: str
    answer: Answer
    unit: Literal["execution_within_case", "case", "source_group"]
    n: int
    """Cases with a known outcome on both sides."""
    groups: int
    """Units that count as independent: Cases, or the source groups they come from."""
    left_executions: int
    right_executions: int
    difference: float | None
    standard_error: float | None = None
    lower: float | None = None
    upper: float | None = None
    p: float | None = None
    adjusted_p: float | None = None
    """`p` after Holm's correction over the required dimensions, for the harm question."""
    method: str
    alpha: float
    margin: float | None = None
    least_attainable_p: float | None = None
    smallest_detectable_effect: float | None = None
    """What a test of this size finds in four of five times."""
    coverage: float
    """Known outcomes over planned ones, both sides together; where an outcome does not apply, none was planned."""
    worst: float | None = None
    best: float | None = None


class MetricStatistics(Value):
    """What both sides spent of one metric, and whether the plan's limit holds.

    Totals are sums over all attempts at the compared slots, retries included, in the metric's own unit. `ratio` is the
    geometric mean over Cases of right over left, with its one-sided bounds, each at 95 %.
    """

    metric: str
    source: str
    """Who measured it."""
    n: int
    """Cases with a figure on both sides."""
    coverage: float
    """`n` over the Cases that were compared."""
    left_total: float | None
    right_total: float | None
    ratio: float | None = None
    lower: float | None = None
    upper: float | None = None
    most_total: float | None = None
    most_ratio: float | None = None
    held: Answer | None = None
    """Whether the limit holds; None where the plan sets none."""


class OutcomeCounts(Value):
    """How many Cases of one dimension moved which way."""

    dimension: str
    fixed: int = 0
    regressed: int = 0
    persistent_failure: int = 0
    stable_success: int = 0
    unchanged_mixed: int = 0
    unknown: int = 0
    not_applicable: int = 0


class CaseLists(Value):
    """The Cases behind the counts, of one dimension, in the plan's order."""

    dimension: str
    fixed: tuple[CaseId, ...] = ()
    regressed: tuple[CaseId, ...] = ()
    persistent_failure: tuple[CaseId, ...] = ()
    unknown: tuple[CaseId, ...] = ()
    fell_to_nothing: tuple[CaseId, ...] = ()


class GateStatistics(Value):
    """What a gate reports beside its result, whichever rule decided."""

    rule: Rule
    primary_dimension: str
    primary_delta: float | None
    """Mean over Cases of right minus left pass rate in the primary dimension."""
    questions: tuple[QuestionStatistics, ...]
    outcome_counts: tuple[OutcomeCounts, ...]
    cases: tuple[CaseLists, ...]
    repeats: int
    look: int
    alpha: float
    alpha_of_this_look: float
    alpha_spent: float
    alpha_left: float
    metrics: tuple[MetricStatistics, ...] = ()


class GateResult(Value):
    """A result with its reasons, each a sentence, and its statistics."""

    result: Result
    reasons: tuple[str, ...]
    limitations: tuple[str, ...] = ()
    statistics: GateStatistics

    @property
    def screened_out(self) -> bool:
        """Whether the screening targets ended the look before the others were asked."""
        return any(q.question == "screen" and q.answer == "no" for q in self.statistics.questions)

    @property
    def summary(self) -> dict[str, Any]:
        """The result below `SUMMARY_BYTES` of JSON: long lists are cut, and say how long they were."""
        return summarise(self.result, self.reasons, self.limitations, self.statistics)


class Validation(Record):
    """A comparison of two Revisions on frozen Cases, and its result."""

    kind: ClassVar[str] = "validation"

    round_id: ObjectId
    mode: Mode
    left_assessment_id: ObjectId
    right_assessment_id: ObjectId
    left_batch_id: ObjectId
    right_batch_id: ObjectId
    left_revision_id: ObjectId
    right_revision_id: ObjectId
    candidate_id: ObjectId | None
    issue_id: ObjectId | None
    target_case_ids: tuple[CaseId, ...]
    result: Result
    reasons: tuple[str, ...]
    limitations: tuple[str, ...]
    statistics: GateStatistics
    rule: Rule
    look: int
    alpha_spent: float
    plan_digest: Digest
    left_table_digest: Digest
    right_table_digest: Digest
    comparison_sha256: Digest
    created_at: str
    charged_case_ids: tuple[CaseId, ...] | None = None
    """The Cases whose error budget this look was charged to; None in Validations that charged every target."""

    @property
    def fixed_case_ids(self) -> tuple[str, ...]:
        """The Cases that pass more often on the right in the primary dimension."""
        return next((c.fixed for c in self.statistics.cases if c.dimension == self.statistics.primary_dimension), ())

    @property
    def summary(self) -> dict[str, Any]:
        """As `GateResult.summary`."""
        return summarise(self.result, self.reasons, self.limitations, self.statistics)


class ExternalValidation(Record):
    """Whether the baseline passes every frozen Case after a repair that was made outside the project."""

    kind: ClassVar[str] = "external_validation"

    round_id: ObjectId
    component_identity: str
    issue_ids: tuple[ObjectId, ...]
    revision_id: ObjectId
    batch_id: ObjectId
    assessment_id: ObjectId
    result: Result
    reasons: tuple[str, ...]
    plan_digest: Digest
    table_digest: Digest
    created_at: str


class Look(Value):
    """How often a Case has been among the targets of an incremental comparison, over all candidates and Rounds."""

    case_id: CaseId
    count: int


def summarise(
    result: Result, reasons: Sequence[str], limitations: Sequence[str], statistics: GateStatistics
) -> dict[str, Any]:
    """Returns the whole as JSON values below `SUMMARY_BYTES`, showing as many entries of each list as fit."""
    shown: dict[str, Any] = {}
    for most, small in ((16, False), (16, True), (8, False), (8, True), *((n, True) for n in (6, 4, 3, 2, 1, 0))):
        shown = {
            "result": result,
            "reasons": _cut([r[:_REASON_SHOWN] for r in reasons], most),
            "limitations": _cut([x[:_REASON_SHOWN] for x in limitations], min(most, 2)),
            "rule": statistics.rule,
            "primary_dimension": statistics.primary_dimension[:_NAME_SHOWN],
            "primary_delta": _short(statistics.primary_delta),
            "repeats": statistics.repeats,
            "error_budget": {
                "look": statistics.look,
                "alpha": _short(statistics.alpha),
                "alpha_of_this_look": _short(statistics.alpha_of_this_look),
                "spent": _short(statistics.alpha_spent),
                "left": _short(statistics.alpha_left),
            },
            "questions": _cut([_question(q, small=small) for q in statistics.questions], most),
            "outcome_counts": _cut([_counts(c) for c in statistics.outcome_counts], most),
            "cases": _cut([_lists(c, min(most, 4)) for c in statistics.cases], most),
            **({"metrics": [_plain(m) for m in statistics.metrics]} if statistics.metrics else {}),
        }
        if len(json.dumps(shown, separators=(",", ":")).encode()) < SUMMARY_BYTES:
            break
    return shown


_LEFT_OUT = frozenset({"left_executions", "right_executions", "standard_error", "method", "least_attainable_p"})
"""What a shorter summary leaves to the Validation."""


def _question(found: QuestionStatistics, *, small: bool) -> dict[str, Any]:
    """Returns what is known of a question; bounds under unknown outcomes only where some are unknown."""
    shown = _plain(found)
    if found.adjusted_p == found.p:
        shown.pop("adjusted_p", None)
    if found.worst == found.difference == found.best:
        shown.pop("worst", None)
        shown.pop("best", None)
    return {k: v for k, v in shown.items() if not small or k not in _LEFT_OUT}


def _plain(value: Value) -> dict[str, Any]:
    """Returns the fields that are known, numbers to six digits, names cut."""
    return {k: _short(v) for k, v in value.model_dump().items() if v is not None}


def _counts(counts: OutcomeCounts) -> dict[str, Any]:
    """Returns the counts that are not zero."""
    return {k: v for k, v in _plain(counts).items() if v}


def _lists(cases: CaseLists, most: int) -> dict[str, Any]:
    found = {"dimension": cases.dimension[:_NAME_SHOWN]} | {
        k: _cut([c[:_NAME_SHOWN] for c in ids], most)
        for k, ids in cases.model_dump(exclude={"dimension"}).items()
        if ids
    }
    return dict(found)


def _cut(entries: list[Any], most: int) -> list[Any] | dict[str, Any]:
    """Returns the list, or its beginning together with how long it was."""
    return entries if len(entries) <= most else {"count": len(entries), "first": entries[:most]}


def _short(value: object) -> object:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    return value[:_NAME_SHOWN] if isinstance(value, str) else value
