"""A repair that was made outside the project is validated by what its permission froze, and by nothing else."""

import pytest

from operations.invocation import invoke
from operations.registry import all_operations
from operations.tuning import budget
from operations.tuning.external_fix import judged
from operations.verification import verify
from storage.errors import AtkError
from storage.schema.batches import Batch
from storage.schema.candidates import Issue
from storage.schema.rounds import Round
from tests.operations.catalog.stages import issue
from tests.support.projects import FIX, PROMPT
from tests.support.rounds import store

WORD = {"source": "user", "action": "validate_external_fix", "reason": "the index was built anew", "risk": "12 runs"}
HANDOFF = {
    "disposition": "external_handoff",
    "handoff": {"trigger_input": "a refund", "expected": "billing", "actual": "other"},
}


@pytest.fixture
def handed_over(at):
    """A Round that found that somebody else has to repair something, and closed; the repair is there since."""
    target = at("frozen")
    target.call("store_diagnosis", round_id=target.round_id, issues=[issue("index", "refund-1", "refund-2", **HANDOFF)])
    target.call("finish_round", round_id=target.round_id, action="close_without_adoption", reason="not ours to repair")
    return target


def repaired(target, content=FIX):
    """What somebody else did: here it is a commit of theirs."""
    target.write("prompt.txt", content)
    target.git("commit", "-q", "-a", "-m", "A new index")


def ask(target, **more):
    given = {
        "previous_round_id": target.round_id,
        "external_fix_identity": "index@2",
        "external_fix_authorization": WORD,
    }
    return target.call("create_round", **{**given, **more})


def shown(target, made):
    """Runs and judges the baseline for a Round, and has the repair validated."""
    target.ids |= {"round_id": made.round_id, "b0": made.revision_id}
    batch_id, assessment_id = target.run(made.revision_id, "final")
    return batch_id, target.call("validate_external_fix", round_id=made.round_id, assessment_id=assessment_id)


def test_repair_that_passes_every_frozen_case_completes_the_round_and_resolves_the_issue(handed_over):
    target = handed_over
    repaired(target)

    made = ask(target)
    value = target.state.get(Round, made.round_id)
    assert (value.status, value.external_fix.recorded_as) == ("finalizing", "reported_by_client")
    assert len(value.plan.case_ids) == 6
    assert target.call("get_status").next[0].tool == "run_evaluation"
    assert budget.account(value, value.plan, ()).reserve == value.plan.budget.executions == 6

    batch_id, found = shown(target, made)
    assert (found.result, found.batch_id) == ("pass", batch_id)
    ended = target.call("finish_round", round_id=made.round_id, action="complete_external_fix", reason="it is repaired")

    assert (ended.status, ended.validation_id) == ("completed", found.external_validation_id)
    (resolved,) = [i for i in target.state.all(Issue) if i.name == "index"]
    assert (resolved.resolution, resolved.revision) == ("resolved", 2)
    report = verify(target.project)
    assert report.findings == []
    assert report.checked["validations of repairs"] == 1
    again = target.refusal("create_round", previous_round_id=made.round_id, external_fix_identity="index@3")
    assert again.code == "external_fix_refused"


def test_repair_that_does_not_prove_what_it_loaded_does_not_pass(handed_over):
    repaired(handed_over)
    made = ask(handed_over)
    value = handed_over.state.get(Round, made.round_id)
    plan = value.plan.model_copy(update={"required_loaded_component_ids": ("prompt",)})
    store(handed_over, value.model_copy(update={"plan": plan}))
    _, answer = shown(handed_over, made)
    assert (answer.result, "prompt" in str(answer)) == ("insufficient", True)


def test_repair_that_still_fails_one_case_completes_nothing(handed_over):
    target = handed_over
    repaired(target, PROMPT + "want a refund -> billing\n")
    made = ask(target)

    _, found = shown(target, made)

    assert found.result == "no_effect"
    assert "refund-2 in correct" in found.reasons[0]
    error = target.refusal("finish_round", round_id=made.round_id, action="complete_external_fix", reason="x")
    assert error.code == "external_fix_not_shown"
    target.call("finish_round", round_id=made.round_id, action="close_without_adoption", reason="not repaired")
    assert verify(target.project).findings == []


def test_caller_can_pick_neither_cases_nor_repeats_nor_an_older_run_nor_a_candidate(handed_over):
    target = handed_over
    repaired(target)
    made = ask(target)
    run = {"round_id": made.round_id, "revision_id": made.revision_id, "phase": "final"}

    fewer = target.refusal("run_evaluation", **run, case_ids=["refund-1"])
    more = target.refusal("run_evaluation", **run, repeats=7)
    own = target.refusal("prepare_candidate", round_id=made.round_id, primary_issue_id=target.issue_id)
    before = target.refusal("validate_external_fix", round_id=made.round_id, assessment_id=target.assessment_id)
    other = target.refusal("validate_external_fix", round_id=target.round_id, assessment_id=target.assessment_id)

    assert [e.code for e in (fewer, more, own)] == ["run_not_planned", "run_not_planned", "wrong_round_status"]
    assert before.code == "sides_not_comparable"
    assert other.code == "no_external_fix"
    assert [b for b in target.state.all(Batch) if b.round_id == made.round_id] == []


def test_person_is_asked_before_the_round_is_opened(handed_over):
    target, asked = handed_over, []
    given = {
        "project_path": target.root,
        "previous_round_id": target.round_id,
        "external_fix_identity": "index@2",
        "external_fix_authorization": WORD,
    }
    create = all_operations()["create_round"]

    with pytest.raises(AtkError) as refused:
        invoke(create, given, ask=lambda question: asked.append(question) or "decline")
    assert refused.value.code == "not_confirmed"
    made = invoke(create, given, ask=lambda _: "accept")

    assert "on 6 Cases" in asked[0].text
    assert target.state.get(Round, made.round_id).external_fix.recorded_as == "confirmed_in_client"


def test_round_for_a_repair_needs_a_handoff_and_the_persons_word(handed_over):
    target = handed_over
    for left_out in ("external_fix_authorization", "previous_round_id"):
        given = {
            "previous_round_id": target.round_id,
            "external_fix_identity": "index@2",
            "external_fix_authorization": WORD,
        }
        given.pop(left_out)
        error = target.refusal("create_round", **given)
        assert (error.code, error.facts["identity"]) == ("external_fix_refused", "index@2")
        assert left_out in error.facts["problem"]


@pytest.mark.parametrize(
    ("outcomes", "result"),
    [
        ({"correct": {"a": ("pass", "pass")}}, "pass"),
        ({"correct": {"a": ("pass", "fail")}}, "no_effect"),
        ({"correct": {"a": ("fail", "unknown")}}, "no_effect"),
        ({"correct": {"a": ("pass", "unknown")}}, "insufficient"),
        ({"correct": {"a": ("pass", "not_applicable")}}, "insufficient"),
        ({"correct": {"a": ("pass",)}, "polite": {"a": ("not_applicable",)}}, "pass"),
        ({"correct": {"a": ()}}, "insufficient"),
    ],
)
def test_every_slot_has_to_pass_and_what_is_not_known_never_does(at, outcomes, result):
    plan = at("frozen").round.plan.model_copy(update={"case_ids": ("a",), "primary_dimension": "correct"})
    assert judged(outcomes, plan, ())[0] == result
    assert judged(outcomes, plan, ("the batch is partial",))[0] == ("insufficient" if result == "pass" else result)
    assert judged({}, plan.model_copy(update={"case_ids": ()}), ())[0] == "insufficient"
