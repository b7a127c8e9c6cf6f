"""A Round brought to the stage that a test needs, on the target of `tests.support.projects`.

Evidence, verdicts and the Validation are put into the store as records: who tests what follows them needs no runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from storage.schema.assessments import EvaluationSpec, Judger
from storage.schema.candidates import Candidate
from storage.schema.rounds import Round
from storage.schema.validations import GateStatistics, Validation
from tests.support.projects import AT, FIX, Target, call_of

DIGEST = "0" * 64


@dataclass
class Answered:
    """A response to what a test stored without an operation."""

    message: str = "stored"
    journal_record: int | None = None
    warnings: tuple[str, ...] = ()

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        assert mode == "json"
        return {"message": self.message, "warnings": list(self.warnings)}

    def model_copy(self, *, update: Any) -> Answered:
        return Answered(**{**vars(self), **update})


def store(target: Target, *records: Any) -> None:
    """Commits records as they are."""
    with target.project.transaction(call_of("store")) as tx:
        for record in records:
            tx.put(record)
        tx.commit(Answered())


def ready_round(target: Target) -> str:
    """Opens and freezes a Round with one Issue about the refunds. Returns the Round's id."""
    target.store_cases()
    spec = EvaluationSpec(
        id="spec-1-test",
        version="1",
        boundary="the agent",
        dimensions=("correctness",),
        dimension_rules={"correctness": "the queue is the expected one"},
        denominator_rule="all",
        digest=DIGEST,
    )
    store(target, spec, Judger(id="judger-1-test", version="1", digest=DIGEST))
    round_id = str(target.call("create_round").round_id)
    issue = {
        "id": "refunds",
        "symptom": "Refunds are filed under other.",
        "hypothesis": "The prompt does not name them.",
        "case_ids": ["refund-1", "refund-2"],
    }
    target.call("store_diagnosis", round_id=round_id, issues=[issue])
    plan = {"repeatability": "deterministic", "spec_id": spec.id, "judger_id": "judger-1-test"}
    target.call("freeze_round", round_id=round_id, plan={**plan, "budget": {"candidates": 3}})
    return round_id


def draft(target: Target) -> str:
    """Adds a candidate that is being edited: one file changed, one made. Returns its id."""
    round_id = ready_round(target)
    value = target.state.get(Round, round_id)
    made = target.call(
        "prepare_candidate",
        round_id=round_id,
        primary_issue_id=value.issue_ids[0],
        paths=["prompt.txt", "notes/why.txt"],
    )
    target.write("prompt.txt", FIX)
    target.write("notes/why.txt", "Refunds go to billing.\n")
    return str(made.candidate_id)


def sealed(target: Target) -> str:
    """Seals that candidate. Returns its id."""
    candidate_id = draft(target)
    target.call("seal_candidate", round_id=target.state.all(Round)[-1].id, candidate_id=candidate_id)
    return candidate_id


def judged(target: Target, result: Any = "pass") -> str:
    """Gives that candidate a Validation. Returns the candidate's id."""
    candidate_id = sealed(target)
    validate(target, candidate_id, result)
    return candidate_id


def validate(target: Target, candidate_id: str, result: Any = "pass") -> None:
    """Gives a sealed candidate a Validation."""
    candidate = target.state.get(Candidate, candidate_id)
    statistics = GateStatistics(
        rule="counts",
        primary_dimension="correctness",
        primary_delta=0.0,
        questions=(),
        outcome_counts=(),
        cases=(),
        repeats=1,
        look=1,
        alpha=0.05,
        alpha_of_this_look=0.0,
        alpha_spent=0.0,
        alpha_left=0.05,
    )
    validation = Validation(
        id="validation-1-test",
        round_id=candidate.round_id,
        mode="incremental",
        left_assessment_id="assessment-1-left",
        right_assessment_id="assessment-1-right",
        left_batch_id="batch-1-left",
        right_batch_id="batch-1-right",
        left_revision_id=candidate.parent_revision_id,
        right_revision_id=str(candidate.revision_id),
        candidate_id=candidate.id,
        issue_id=candidate.primary_issue_id,
        target_case_ids=candidate.target_case_ids,
        result=result,
        reasons=("as the test says",),
        limitations=(),
        statistics=statistics,
        rule="counts",
        look=1,
        alpha_spent=0.0,
        plan_digest=DIGEST,
        left_table_digest=DIGEST,
        right_table_digest=DIGEST,
        comparison_sha256=DIGEST,
        created_at=AT,
    )
    store(target, validation)
