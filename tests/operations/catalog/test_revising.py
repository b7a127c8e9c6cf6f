"""initialize_project with revise gives a project another configuration while nothing relies on the present one."""

import pytest

from storage.schema.projects import Project as ProjectRecord

RUNS = {"command": ["sh", "agent.sh", "{input_file}"], "allowed_paths": ["prompt.txt"], "external_effects": []}


def test_revision_keeps_the_project_and_makes_the_new_configuration_run(at):
    target = at("stored")
    before = target.state.all(ProjectRecord)[0]

    answer = target.call("initialize_project", revise=True, timeout_seconds=7, infrastructure_exit_codes=[9], **RUNS)

    after = target.state.all(ProjectRecord)
    assert [p.id for p in after] == [before.id] == [answer.project_id]
    assert after[0].created_at == before.created_at
    assert (after[0].timeout_seconds, answer.run_config_digest) == (7, after[0].run_config_digest)
    assert after[0].run_config_digest != before.run_config_digest
    assert answer.journal_record == target.state.position.number
    batch = target.call("run_evaluation", revision_commit=target.head, wait_seconds=200)
    assert batch.status == "sealed"


def test_a_project_without_revise_is_told_the_way_out(at):
    error = at("stored").refusal("initialize_project", **RUNS)

    assert error.code == "already_initialized"
    assert "revise: true" in str(error)
    assert {"revise": True} in [call.arguments for call in error.next if call.tool == "initialize_project"]


def test_an_active_round_keeps_its_configuration(at):
    target = at("frozen")
    before = target.facts()

    error = target.refusal("initialize_project", revise=True, **RUNS)

    assert error.code == "another_round_active"
    assert not target.changed_since(before)


def test_a_round_that_is_not_frozen_is_named(at):
    target = at("opened")

    answer = target.call("initialize_project", revise=True, **RUNS)

    assert any(target.round_id in warning for warning in answer.warnings)


@pytest.mark.parametrize(
    ("more", "obstacle"),
    [
        ({"command": ["no-such-program-here", "{input}"]}, "no-such-program-here is not found"),
        ({"command": ["./missing.sh", "{input}"]}, "./missing.sh is not found"),
        ({"external_effects": [{"name": "mail"}]}, "nothing protects mail"),
    ],
)
def test_what_cannot_run_is_not_called_ready(at, more, obstacle):
    target = at("blank")

    answer = target.call("initialize_project", **{**RUNS, **more})

    assert obstacle in answer.message
    assert "ready" not in answer.message
    assert (answer.next[0].tool, answer.next[0].arguments) == ("initialize_project", {"revise": True})
    assert target.call("initialize_project", revise=True, **RUNS).message.endswith("is ready to run.")


def test_an_analysis_only_project_becomes_runnable(at):
    target = at("blank")
    target.call("initialize_project", analysis_only=True)

    answer = target.call("initialize_project", revise=True, **RUNS)

    assert not answer.analysis_only
    assert target.call("create_round").baseline_commit == target.head


def test_only_what_is_missing_is_asked_for(at):
    error = at("blank").refusal("initialize_project", command=["sh"], external_effects=[])

    assert error.facts["missing"] == ["allowed_paths"]
    assert "external_effects" not in str(error)
