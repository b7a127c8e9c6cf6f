"""A Round follows another one at the Revision where that ended, and an analysis-only project becomes a runnable one."""

import pytest

from operations.verification import verify
from storage.schema.projects import Project as ProjectRecord
from storage.schema.rounds import Revision, Round
from tests.operations.catalog.stages import issue
from tests.support.projects import FIX, PROMPT

RUNTIME = {
    "command": ["sh", "agent.sh", "{input_file}"],
    "external_effects": [],
    "allowed_paths": ["prompt.txt"],
    "components": [],
}


def test_reused_revision_is_the_baseline_under_its_own_id_and_a_whole_round_stands_on_it(at):
    target = at("completed")
    first = target.round
    revisions = len(target.state.all(Revision))

    made = target.call("create_round", previous_round_id=first.id, reuse_revision=True)

    second = target.state.get(Round, made.round_id)
    assert made.revision_id == first.current_revision_id == second.baseline_revision_id
    assert (second.reused_baseline, second.previous_round_id, second.baseline_commit) == (True, first.id, target.head)
    assert len(target.state.all(Revision)) == revisions

    target.ids |= {"round_id": made.round_id, "b0": made.revision_id}
    found = target.call("store_diagnosis", round_id=made.round_id, issues=[issue("crashes", "crash-1")]).issue_ids
    known = {"dataset_id": target.dataset_id, "spec_id": target.spec_id, "judger_id": target.judger_id}
    target.call("freeze_round", round_id=made.round_id, plan={"repeatability": "deterministic", **known})
    candidate = target.call("prepare_candidate", round_id=made.round_id, primary_issue_id=found["crashes"])
    target.ids["candidate_id"] = candidate.candidate_id
    target.write("prompt.txt", FIX + "x -> y\n")
    target.seal()
    _, left = target.run(target.b0)
    _, right = target.run(target.revision_id)
    target.ids |= {"left_assessment_id": left, "right_assessment_id": right}
    assert target.compare().result == "no_effect"
    target.decide("reject")
    assert target.read("prompt.txt") == FIX
    target.call("finish_round", round_id=made.round_id, action="close_without_adoption", reason="nothing to gain")
    assert verify(target.project).findings == []


@pytest.mark.parametrize("how", ["configuration", "surroundings"])
def test_revision_is_not_reused_where_something_else_would_run(at, how):
    target = at("completed")
    if how == "configuration":
        target.initialize(revise=True, command=["sh", "agent.sh", "{input_file}", "more"])
    else:
        target.write("stray.txt", "new\n")

    error = target.refusal("create_round", previous_round_id=target.round_id, reuse_revision=True)

    assert error.code == "revision_not_reusable"
    assert (
        target.call("create_round", previous_round_id=target.round_id).revision_id != target.round.current_revision_id
    )


def test_analysis_only_project_becomes_runnable_and_keeps_its_evidence_and_its_rules(at):
    target = at("blank")
    target.call("initialize_project", analysis_only=True, redact_keys=["customer"], require_confirmation=True)
    dataset_id = target.store_cases()
    before = target.state.all(ProjectRecord)[0]

    target.call("initialize_project", configure_runtime=True, **RUNTIME)

    now = target.state.all(ProjectRecord)[0]
    assert (now.id, now.analysis_only, now.redact_keys) == (before.id, False, ("customer",))
    assert now.require_confirmation
    ran = target.call("run_evaluation", dataset_id=dataset_id, revision_commit=target.head, wait_seconds=100)
    assert ran.status == "sealed"
    assert target.read("prompt.txt") == PROMPT


def test_runnable_project_is_not_configured_again_by_the_way(at):
    target = at("initialized")
    error = target.refusal("initialize_project", configure_runtime=True, **RUNTIME)
    assert error.code == "runtime_configured"
    assert error.next[0].arguments == {"revise": True}
