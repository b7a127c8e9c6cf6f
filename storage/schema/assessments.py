"""An assessment: verdicts for the Records of a batch, under one evaluation specification and one judger."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, JsonValue, StringConstraints, model_validator

from storage.schema.base import Digest, ObjectId, Record, Value

Verdict = Literal["pass", "fail", "unknown", "not_applicable"]
Validity = Literal["valid", "invalid", "unknown"]
"""Whether a Record can be judged at all. Where it cannot, its verdict is `unknown`."""

Readiness = Literal["calibrated", "uncalibrated"]
JudgeMethod = Literal["client", "exact", "contains"]
"""Who judges: the client, or a rule that the server runs."""

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
    digest: Digest

    @model_validator(mode="after")
    def _one_rule_for_each_dimension(self) -> Self:
        if len(set(self.dimensions)) != len(self.dimensions) or set(self.dimensions) != set(self.dimension_rules):
            raise ValueError("dimensions must differ, and dimension_rules must have exactly one rule for each of them")
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
    digest: Digest

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
    supersedes: ObjectId | None = None
    supersede_reason: str | None = None
    created_at: str
    """UTC, ISO 8601."""

    @model_validator(mode="after")
    def _superseding_has_a_reason(self) -> Self:
        if (self.supersedes is None) != (not (self.supersede_reason or "").strip()):
            raise ValueError("supersedes and supersede_reason are given together")
        return self
