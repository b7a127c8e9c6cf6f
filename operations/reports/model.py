"""What a report shows: plain values gathered from sealed records, the same for every form that it is written in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from storage.schema.validations import GateStatistics, Result

Mark = Literal["pass", "fail", "unknown", "not_applicable"]
Role = Literal["target", "protected", "holdout", "other"]
Move = Literal["regressed", "fixed", "mixed", "failing", "passing", "unknown", "not_applicable"]

MOVES: dict[Move, str] = {
    "regressed": "passes less often",
    "fixed": "passes more often",
    "mixed": "passes as often",
    "failing": "still fails",
    "passing": "still passes",
    "unknown": "not known",
    "not_applicable": "does not apply",
}
"""What a move is called. A Case that passes less often is no proof of harm where the agent varies."""

MARKS: dict[str, Mark] = {"p": "pass", "f": "fail", "u": "unknown", "n": "not_applicable"}
"""Letters of a stored comparison, and what they say."""


@dataclass(frozen=True, kw_only=True)
class CaseOutcome:
    """One Case in one dimension of a comparison: what each repeat of both sides came to."""

    case_id: str
    dimension: str
    role: Role
    left: tuple[Mark, ...]
    right: tuple[Mark, ...]

    @property
    def left_rate(self) -> float | None:
        """Passes over known outcomes of the left side, or None where none is known."""
        return rate(self.left)

    @property
    def right_rate(self) -> float | None:
        """As `left_rate`, of the right side."""
        return rate(self.right)

    @property
    def difference(self) -> float | None:
        """Right minus left, between -1 and 1; None where a side has no known outcome."""
        left, right = self.left_rate, self.right_rate
        return None if left is None or right is None else right - left

    @property
    def move(self) -> Move:
        """What happened to the Case. It is `mixed` where both sides pass and fail alike often."""
        change = self.difference
        if change is None:
            return "not_applicable" if {*self.left, *self.right} == {"not_applicable"} else "unknown"
        if change:
            return "regressed" if change < 0 else "fixed"
        return "passing" if self.left_rate == 1 else "failing" if self.left_rate == 0 else "mixed"


def rate(marks: Sequence[Mark]) -> float | None:
    """Returns passes over known outcomes, between 0 and 1, or None where none is known."""
    known = [m for m in marks if m in ("pass", "fail")]
    return sum(m == "pass" for m in known) / len(known) if known else None


@dataclass(frozen=True, kw_only=True)
class Decided:
    """A Decision, and on whose word it rests."""

    decision_id: str
    action: str
    reason: str
    at: str
    override: bool = False
    authorized: str | None = None
    """Who allowed an override and how that is known, in words; None where nothing out of the ordinary was allowed."""
    risk: str | None = None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A Validation with the outcomes that it rests on, worst Cases first."""

    validation_id: str
    mode: str
    candidate_id: str | None
    result: Result
    reasons: tuple[str, ...]
    limitations: tuple[str, ...]
    statistics: GateStatistics
    left_revision_id: str
    right_revision_id: str
    left_batch_id: str
    right_batch_id: str
    left_assessment_id: str
    right_assessment_id: str
    comparison_sha256: str
    at: str
    newest: bool
    """Whether no later Validation of the same candidate or Round replaces it."""
    outcomes: tuple[CaseOutcome, ...]
    decided: Decided | None = None

    @property
    def primary(self) -> tuple[CaseOutcome, ...]:
        """The outcomes of the primary dimension."""
        return tuple(o for o in self.outcomes if o.dimension == self.statistics.primary_dimension)


_GONE = ("rejected", "deferred", "withdrawn")
"""What a candidate can come to after its comparison, so that the Round holds nothing of it."""


def headline_of(comparisons: Sequence[Comparison]) -> Comparison | None:
    """Returns what a report of these comparisons, newest first, is about: the newest final one, else the newest."""
    return next((c for c in comparisons if c.mode == "final" and c.newest), None) or next(iter(comparisons), None)


@dataclass(frozen=True, kw_only=True)
class RepairShown:
    """A repair made outside the project, and whether the baseline passes every frozen Case with it."""

    validation_id: str
    component: str
    """What was repaired, and in which version: the caller's words."""
    result: Result
    reasons: tuple[str, ...]
    batch_id: str
    assessment_id: str
    at: str
    authorized: str
    """Who allowed it and how that is known, in words."""


@dataclass(frozen=True, kw_only=True)
class CandidateShown:
    """A candidate: what it answers, what it changed, what became of it."""

    candidate_id: str
    status: str
    change_kind: str
    symptom: str
    hypothesis: str
    paths: tuple[str, ...]
    sealed_commit: str | None
    diff: str | None
    """Its change as Git shows it, masked; None where nothing is sealed or the commits are not here."""
    diff_left_out: int = 0
    """Lines of the change that are not shown."""
    decided: Decided | None = None


@dataclass(frozen=True, kw_only=True)
class IssueShown:
    """An Issue of the plan that no candidate was for."""

    issue_id: str
    symptom: str


@dataclass(frozen=True, kw_only=True)
class VerdictShown:
    """A verdict on one attempt in one dimension."""

    dimension: str
    verdict: Mark
    reason: str
    score: float | None
    evidence_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class AttemptShown:
    """One attempt at a Case, on one side."""

    record_id: str
    repeat: int
    status: str
    duration_seconds: float
    output: str | None
    """What the agent said, cut; None where it said nothing or it may not be seen."""
    output_left_out: int
    """Characters of the output that are not shown."""
    note: str | None
    """Why there is no output, or what was unusual."""
    verdicts: tuple[VerdictShown, ...]
    events: tuple[str, ...]
    """What the agent did, a line each, cut."""
    events_left_out: int = 0


@dataclass(frozen=True, kw_only=True)
class CaseShown:
    """A Case with its attempts on both sides of the comparison that the report is about."""

    case_id: str
    usage: str
    source_group_id: str | None
    input: str
    """As text; JSON where it is no text. Cut."""
    expected: str | None
    fingerprint: str
    left: tuple[AttemptShown, ...]
    right: tuple[AttemptShown, ...]
    outcomes: tuple[CaseOutcome, ...]
    """One for each dimension."""


@dataclass(frozen=True, kw_only=True)
class HeatCell:
    """How one Case did in one run."""

    passed: int
    known: int
    unknown: int

    @property
    def rate(self) -> float | None:
        """Passes over known outcomes; None where nothing is known."""
        return self.passed / self.known if self.known else None


@dataclass(frozen=True, kw_only=True)
class HeatColumn:
    """One Revision as it was assessed: what the heat map has a column for."""

    label: str
    batch_id: str
    assessment_id: str
    cells: dict[str, HeatCell]
    """Case → how it did. A Case that is missing was not evaluated there."""


@dataclass(frozen=True, kw_only=True)
class BatchShown:
    """A run and how it is known."""

    batch_id: str
    status: str
    phase: str
    revision_id: str
    slots: int
    counts: dict[str, int]
    executions: int
    """What the Round paid for it."""
    totals: dict[str, float]
    records_sha256: str | None
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """What a Round may spend, what it spent, and who allowed what."""

    executions: int
    used: int
    reserve: int
    free: int
    candidates: int
    drafted: int
    alpha: float
    looks: dict[str, int]
    """Case → looks that were charged to it, over all candidates and Rounds."""
    alpha_left: dict[str, float]
    """Case → what is left of alpha for it."""
    exposures: tuple[dict[str, Any], ...]
    authorizations: tuple[dict[str, str], ...]
    batches: tuple[BatchShown, ...]


@dataclass(frozen=True, kw_only=True)
class RoundReport:
    """Everything that a report of a Round shows."""

    project_id: str
    round_id: str
    status: str
    created_at: str
    closed_at: str | None
    branch: str | None
    baseline_commit: str | None
    """None where the Round only looks at evidence, without Git."""
    current_commit: str | None
    current_revision_id: str | None
    """The Revision at which the Round stands; None where nothing can be run."""
    journal_record: int
    """The last record of the journal that the report knows."""
    plan: dict[str, Any]
    """What the plan froze, as names and values; empty where nothing is frozen."""
    plan_digest: str | None
    comparisons: tuple[Comparison, ...]
    """Newest first."""
    candidates: tuple[CandidateShown, ...]
    untried: tuple[IssueShown, ...]
    """Issues of the plan that no candidate was for."""
    heat: tuple[HeatColumn, ...]
    heat_case_ids: tuple[str, ...]
    cases: tuple[CaseShown, ...]
    """Those of the headline comparison, worst first."""
    ledger: Ledger | None
    decided: Decided | None
    unseen: tuple[str, ...] = field(default=())
    """Holdout Cases whose content may not be seen yet."""
    repair: RepairShown | None = None
    """What such a Round validated in place of a comparison."""

    @property
    def headline(self) -> Comparison | None:
        """The comparison that the report is about; see `headline_of`."""
        return headline_of(self.comparisons)

    @property
    def result(self) -> Result | None:
        """The result of the headline, or of the repair that was validated; None where there is neither yet."""
        about = self.headline or self.repair
        return about.result if about is not None else None

    @property
    def taken_back(self) -> str | None:
        """Says that what passed in the headline is not in the Round any more; None where it is, or nothing passed."""
        about = self.headline
        if about is None or about.result != "pass":
            return None
        if about.mode == "final":
            if about.right_revision_id == self.current_revision_id:
                return None
            return (
                f"What passed, {about.right_revision_id}, was taken back; the Round is at {self.current_revision_id}."
            )
        gone = [c for c in self.candidates if c.candidate_id == about.candidate_id and c.status in _GONE]
        return f"What passed, {gone[0].candidate_id}, was {gone[0].status}: nothing of it is kept." if gone else None

    def plain(self) -> dict[str, Any]:
        """Returns everything as JSON values."""
        found: dict[str, Any] = _plain(asdict(self))
        return found


@dataclass(frozen=True, kw_only=True)
class JudgedShown:
    """A Record with its verdicts."""

    attempt: AttemptShown
    subject: str
    """The Case or trace that it is of."""
    input: str | None
    expected: str | None


@dataclass(frozen=True, kw_only=True)
class AssessmentReport:
    """Everything that a report of an Assessment shows."""

    project_id: str
    assessment_id: str
    batch_id: str
    spec_id: str
    judger: str
    """Its id and method, and how well it is known to work, in words."""
    boundary: str
    rules: dict[str, str]
    """Dimension → its rule."""
    counts: dict[str, dict[str, int]]
    """Dimension → verdict → Records."""
    whole: bool
    """Whether every Record of the batch was judged."""
    supersedes: str | None
    supersede_reason: str | None
    superseded_by: str | None
    created_at: str
    csv_sha256: str
    journal_record: int
    judged: tuple[JudgedShown, ...]
    """Failures first."""


def _plain(value: Any) -> Any:  # noqa: ANN401 - any part of a report
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value.model_dump(mode="json") if isinstance(value, GateStatistics) else value
