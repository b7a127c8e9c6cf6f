"""The records of judging refuse what would make a verdict mean nothing."""

import pytest
from pydantic import ValidationError

from storage.schema.assessments import Assessment, EvaluationSpec, Judger

DIGEST = "0" * 64
SPEC = {
    "id": "spec-1-abcd",
    "version": "1",
    "boundary": "the agent's answer",
    "dimensions": ("correctness", "tone"),
    "dimension_rules": {"correctness": "is right", "tone": "is kind"},
    "denominator_rule": "every Record",
    "digest": DIGEST,
}
MATCHED = [
    {"source_ref": "a", "expected": "pass", "observed": "pass"},
    {"source_ref": "b", "expected": "fail", "observed": "fail"},
]
ASSESSMENT = {
    "id": "assessment-2-abcd",
    "batch_id": "batch-1-abcd",
    "spec_id": "spec-1-abcd",
    "spec_digest": DIGEST,
    "judger_id": "judger-1-abcd",
    "judger_digest": DIGEST,
    "judger_readiness": "uncalibrated",
    "csv_sha256": DIGEST,
    "row_count": 1,
    "counts": {"correctness": {"pass": 1}},
    "created_at": "2026-01-01T00:00:00.000000+00:00",
}


def judger(readiness, examples):
    values = {"id": "judger-1-abcd", "version": "1", "digest": DIGEST}
    return Judger.model_validate(values | {"readiness": readiness, "calibration_examples": examples})


@pytest.mark.parametrize(
    "change",
    [
        {"dimensions": ()},
        {"dimensions": ("correctness",)},
        {"dimensions": ("correctness", "correctness", "tone")},
        {"dimension_rules": {"correctness": "is right"}},
    ],
)
def test_specification_has_one_rule_for_each_of_its_dimensions(change):
    assert EvaluationSpec.model_validate(SPEC).dimensions == ("correctness", "tone")
    with pytest.raises(ValidationError):
        EvaluationSpec.model_validate(SPEC | change)


@pytest.mark.parametrize(
    "examples",
    [[], MATCHED[:1], MATCHED[1:], [*MATCHED, {"source_ref": "c", "expected": "pass", "observed": "unknown"}]],
)
def test_calibrated_judger_shows_a_pass_and_a_fail_and_no_mistake(examples):
    assert judger("calibrated", MATCHED).readiness == "calibrated"
    assert judger("uncalibrated", examples).readiness == "uncalibrated"
    with pytest.raises(ValidationError):
        judger("calibrated", examples)


@pytest.mark.parametrize(
    "change",
    [
        {"supersedes": "assessment-1-abcd"},
        {"supersedes": "assessment-1-abcd", "supersede_reason": " "},
        {"supersede_reason": "better"},
    ],
)
def test_assessment_supersedes_another_only_with_a_reason(change):
    assert Assessment.model_validate(ASSESSMENT).supersedes is None
    whole = ASSESSMENT | {"supersedes": "assessment-1-abcd", "supersede_reason": "a better rule"}
    assert Assessment.model_validate(whole).supersede_reason == "a better rule"
    with pytest.raises(ValidationError):
        Assessment.model_validate(ASSESSMENT | change)
