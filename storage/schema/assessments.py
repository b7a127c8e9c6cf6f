"""An assessment: verdicts for the Records of a batch, under one evaluation specification and one judger."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, JsonValue, StringConstraints, model_validator

from storage.schema.base import Digest, ObjectId, Record, Value
from storage.schema.evidence import Count

Verdict = Literal["pass", "fail", "unknown", "not_applicable"]
Validity = Literal["valid", "invalid", "unknown"]
"""Whether a Record can be judged at all. Where it cannot, its verdict is `unknown`."""

Readiness = Literal["calibrated", "uncalibrated"]
JudgeMethod = Literal[
    "client", "command", "exact", "contains", "regex", "numeric", "json_equality", "json_subset", "json_schema"
]
"""Who judges: the client, a rule that the server runs, or a permitted command that it starts."""

Dimension = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"\S")]
"""What a verdict is about, such as `correctness`."""

MIN_CALIBRATION_OF_A_KIND = 1
"""Matched examples of each of `pass` and `fail` that a calibrated judger shows at the least."""


class EvaluationSpec(Record):
    """What is judged, by which rules, and over which denominator."""

    kind: ClassVar[str] = "spec"

    version: str
    boundary: str
    """What belongs to the target and what does not."""
    dimensions: Annotated[tuple[Dimension, ...], Field(min_length=1)]
    dimension_rules: dict[str, str]
    """One rule for each dimension."""
    denominator_rule: str
    """Which Records count."""
    not_applicable_rules: dict[Dimension, str] = {}
    """Dimension → when it does not apply to a Record. Without such a rule no verdict is `not_applicable`."""
    digest: Digest

    @model_validator(mode="after")
    def _one_rule_for_each_dimension(self) -> Self:
        if len(set(self.dimensions)) != len(self.dimensions) or set(self.dimensions) != set(self.dimension_rules):
            raise ValueError("dimensions must differ, and dimension_rules must have exactly one rule for each of them")
        strays = set(self.not_applicable_rules) - set(self.dimensions)
        if strays or not all(rule.strip() for rule in self.not_applicable_rules.values()):
            raise ValueError("not_applicable_rules must name dimensions, each with the rule when it does not apply")
        return self


class CalibrationExample(Value):
    """One judgement whose right answer is known."""

    source_ref: Annotated[str, StringConstraints(min_length=1)]
    """Where the example stems from, such as a Record's id."""
    expected: Literal["pass", "fail"]
    observed: Verdict

    @property
    def matched(self) -> bool:
        """Whether the judger said what is right."""
        return self.expected == self.observed


class Confusion(Value):
    """How a judger's verdicts on its calibration examples compare with what is right."""

    true_passes: Count = 0
    true_failures: Count = 0
    false_passes: Count = 0
    """Said to pass, and right was that it fails."""
    false_failures: Count = 0
    """Said to fail, and right was that it passes."""
    undecided: Count = 0
    """Said to be unknown or not applicable."""

    @classmethod
    def of(cls, examples: Iterable[CalibrationExample]) -> Confusion:
        """Returns the counts of some examples."""
        names = {
            ("pass", "pass"): "true_passes",
            ("fail", "fail"): "true_failures",
            ("fail", "pass"): "false_passes",
            ("pass", "fail"): "false_failures",
        }
        counts: dict[str, int] = {}
        for example in examples:
            name = names.get((example.expected, example.observed), "undecided")
            counts[name] = counts.get(name, 0) + 1
        return cls(**counts)


class Judger(Record):
    """Who judges, how, and how well that is known to work."""

    kind: ClassVar[str] = "judger"

    version: str
    readiness: Readiness = "uncalibrated"
    method: JudgeMethod = "client"
    dimension: Dimension | None = None
    """The dimension that a server-run judge decides; None for a client that decides them all."""
    settings: dict[str, JsonValue] = {}
    calibration_examples: tuple[CalibrationExample, ...] = ()
    confusion: Confusion | None = None
    """Counted over the examples; None where there are none."""
    digest: Digest

    @model_validator(mode="after")
    def _confusion_is_that_of_the_examples(self) -> Self:
        if self.confusion is not None and self.confusion != Confusion.of(self.calibration_examples):
            raise ValueError("confusion must be that of calibration_examples")
        return self

    @model_validator(mode="after")
    def _calibrated_judger_shows_it(self) -> Self:
        if self.readiness == "calibrated":
            matched = [example.expected for example in self.calibration_examples if example.matched]
            few = min(matched.count("pass"), matched.count("fail")) < MIN_CALIBRATION_OF_A_KIND
            if few or len(matched) != len(self.calibration_examples):
                raise ValueError(
                    "a calibrated judger needs calibration_examples that all match, at least one pass and one fail"
                )
        return self


class EvidenceRef(Value):
    """A piece of evidence in a batch."""

    batch_id: ObjectId
    evidence_id: str


class VerdictRow(Value):
    """One verdict: a Record judged in one dimension."""

    record_id: ObjectId
    dimension: Dimension
    validity: Validity
    validity_reason: str
    verdict: Verdict
    score: Annotated[float, Field(allow_inf_nan=False)] | None
    reason: str
    evidence_refs: Annotated[tuple[EvidenceRef, ...], Field(min_length=1)]
    judger_kind: str

    @model_validator(mode="after")
    def _only_a_valid_record_has_a_verdict(self) -> Self:
        if self.validity != "valid" and self.verdict != "unknown":
            raise ValueError(f"validity {self.validity} leaves only the verdict unknown, not {self.verdict}")
        return self


DEFAULTED = "default"
"""The `judger_kind` of a verdict that nobody gave: that of the rest of an Assessment. It decides no comparison."""


class Rest(Value):
    """The verdict of all Records of an Assessment that were not judged one by one, and why it may stand for them."""

    verdict: Literal["pass", "fail", "unknown"]
    reason: str


class SelectionJudged(Value):
    """Which Records of a batch an Assessment is of, where it is not of all: the stored selection as it was found."""

    selection_id: ObjectId
    rule: dict[str, Any]
    sample: Annotated[int, Field(ge=1)] | None = None
    seed: int | None = None
    record_count: Annotated[int, Field(ge=1)]
    ids_sha256: Digest
    """Digest of the selection's list of ids; the CSV has a row for each of them and for no other."""


class Deal(Record):
    """The Records of both sides of a comparison, dealt to be judged without a sight of the side.

    `items.jsonl` beside it holds the seed, then for each item its number and the Records that it stands for: those of
    one Case with the same output. Items are in the order of SHA-256 of `<seed>:<their Records, joined by commas>`.
    """

    kind: ClassVar[str] = "deal"

    round_id: ObjectId
    mode: Literal["incremental", "final"]
    left_batch_id: ObjectId
    right_batch_id: ObjectId
    spec_id: ObjectId
    spec_digest: Digest
    judger_id: ObjectId
    judger_digest: Digest
    item_count: Count
    record_count: Count
    """Records of both batches."""
    settled_count: Count
    """Records that no item is of, because how they ended decides their verdict."""
    items_sha256: Digest
    """Digest of `items.jsonl`."""
    assessment_ids: tuple[ObjectId, ...] = ()
    """Left and right, once it was judged."""
    created_at: str
    """UTC, ISO 8601."""


class Assessment(Record):
    """Verdicts for a batch. Its CSV, named by digest, holds them; one Assessment per batch, spec and judger is current.

    Another one supersedes it and says why, so that choosing among judgements leaves a trace.
    """

    kind: ClassVar[str] = "assessment"

    batch_id: ObjectId
    spec_id: ObjectId
    spec_digest: Digest
    judger_id: ObjectId
    judger_digest: Digest
    judger_readiness: Readiness
    csv_sha256: Digest
    row_count: Annotated[int, Field(ge=1)]
    counts: dict[str, dict[Verdict, int]]
    """How many Records have each verdict, by dimension."""
    rest: Rest | None = None
    """What was said of all that was not judged; None where every verdict was given."""
    defaulted: dict[str, Count] = {}
    """How many verdicts of each dimension are that of the rest; a comparison takes them for unknown."""
    selection: SelectionJudged | None = None
    """None where every Record of the batch was judged; a comparison takes only such an Assessment."""
    deal_id: ObjectId | None = None
    """The Deal by which both sides were judged without a sight of the side."""
    supersedes: ObjectId | None = None
    supersede_reason: str | None = None
    created_at: str
    """UTC, ISO 8601."""

    @model_validator(mode="after")
    def _superseding_has_a_reason(self) -> Self:
        if (self.supersedes is None) != (not (self.supersede_reason or "").strip()):
            raise ValueError("supersedes and supersede_reason are given together")
        return self
