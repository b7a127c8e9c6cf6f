"""What is found about the runtime around a batch is kept where whoever seals it finds it."""

import os

import pytest

from operations.execution.adapters.process import AgentProcess
from operations.execution.measuring import FINDINGS_FILE, begin, not_begun
from storage.masking import Masker
from storage.schema.projects import Component, Preparation, Project, RuntimeFindings

TREE = "a" * 40
SERVICE = {"service": ("sh", "-c", 'echo $$ > pids; echo "$ATK_TREE" > running; exec sleep 600')}


@pytest.fixture
def start(tmp_path):
    """Begins to measure a target with a model whose version is in a file."""
    (tmp_path / "work").mkdir()
    (tmp_path / "version").write_text("v1")

    def made(**preparation):
        model = Component(
            component_id="model",
            role="model",
            change_role="fixed",
            version_command=("cat", "version"),
            expected_version="v1",
        )
        project = Project(
            id="project-1-abcd",
            workspace_path=str(tmp_path),
            created_at="2024-05-06T07:08:09+00:00",
            analysis_only=True,
            command=("sh", "-c", "true"),
            components=(model,),
            replay_preparation=Preparation(mode="command", ready_seconds=5, **preparation) if preparation else None,
            run_config_digest="0" * 64,
        )
        return begin(
            project,
            AgentProcess(project.command, {"PATH": os.environ["PATH"]}, str(tmp_path), ()),
            root=str(tmp_path),
            work_folder=str(tmp_path / "work"),
            tree=TREE,
            commit="c" * 40,
            masker=Masker(b"k" * 32),
        )

    made.kept = lambda: RuntimeFindings.model_validate_json((tmp_path / "work" / FINDINGS_FILE).read_text())
    return made


def test_a_runtime_that_stays_the_revisions_has_nothing_to_be_said_of_it(start, tmp_path, left_alive):
    measured = start(**SERVICE, probe=("cat", "running"))
    assert measured.ready
    before = start.kept()
    assert (before.ended, before.contaminated) == (False, False)
    assert before.components[0]["version"] == "v1"
    assert before.environment["variables"] == ["PATH"]
    after = measured.end()
    assert after == start.kept()
    assert after == before.model_copy(update={"ended": True})
    assert left_alive([int((tmp_path / "pids").read_text())]) == []


def test_a_stale_runtime_is_not_ready_and_the_reason_is_kept(start, tmp_path):
    (tmp_path / "running").write_text("b" * 40)
    measured = start(argv=("true",), probe=("cat", "running"))
    assert not measured.ready
    kept = start.kept()
    assert kept.contaminated
    assert "another content is running" in kept.notes[0]


def test_a_service_that_died_during_the_batch_contaminates_it(start, tmp_path, left_alive):
    measured = start(**SERVICE, probe=("cat", "running"))
    pid = int((tmp_path / "pids").read_text())
    os.kill(pid, 9)
    assert left_alive([pid]) == []
    after = measured.end()
    assert (after.contaminated, after.notes) == (True, ("The service ended by itself (signal 9).",))


def test_a_model_that_changed_during_the_batch_is_drift(start, tmp_path):
    measured = start()
    (tmp_path / "version").write_text("v2")
    after = measured.end()
    assert after.drift == ("The version of model changed while the batch ran: v1 before, v2 after.",)
    assert after.contaminated is False


def test_a_model_that_is_another_than_expected_is_a_problem_and_no_drift(start, tmp_path):
    (tmp_path / "version").write_text("v3")
    after = start().end()
    assert (after.drift, len(after.problems)) == ((), 1)
    assert "printed v3, expected is v1" in after.problems[0]


def test_why_a_run_did_not_begin_is_kept(start, tmp_path):
    not_begun(str(tmp_path / "work"), "no process can be started", Masker(b"k" * 32))
    assert start.kept().notes == ("The run could not begin: no process can be started.",)
