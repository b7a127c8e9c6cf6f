"""What ran is identified before and after a batch, and what changed in between is told."""

import os
import sys

import pytest

from operations.execution.versions import Observation, Observed, content_digest, observe, target_python, version_notes
from storage.schema.projects import Component, Project

ENVIRONMENT = {"PATH": os.environ["PATH"]}


def project(*components, **fields):
    return Project(
        id="project-1-abcd",
        workspace_path="/target",
        created_at="2024-05-06T07:08:09+00:00",
        analysis_only=True,
        components=components,
        run_config_digest="0" * 64,
        **fields,
    )


def fixed(script, **fields):
    return Component(
        component_id="model",
        role="model",
        change_role="fixed",
        version_command=("sh", "-c", script),
        version_timeout_seconds=1,
        **fields,
    )


def look(folder, made):
    return observe(made, cwd=str(folder), root=str(folder), environment=ENVIRONMENT)


@pytest.mark.parametrize(
    ("script", "expected", "version", "issue"),
    [
        ("echo v1.2+b", None, "v1.2+b", None),
        ("echo v1", "v1", "v1", None),
        ("echo v1", "v2", "v1", "expected_version_mismatch"),
        ("echo v1; exit 3", None, None, "nonzero_exit"),
        ("echo two words", None, None, "invalid_output"),
        ("exit 0", None, None, "invalid_output"),
        ("sleep 60", None, None, "timeout"),
    ],
)
def test_a_version_command_is_believed_or_its_trouble_named(tmp_path, script, expected, version, issue):
    (found,) = look(tmp_path, project(fixed(script, expected_version=expected))).components
    assert (found.version, found.issue, bool(found.detail)) == (version, issue, issue is not None)


def test_a_version_command_that_cannot_be_started_is_named(tmp_path):
    component = Component(component_id="m", role="model", change_role="fixed", version_command=("no-such-program",))
    (found,) = look(tmp_path, project(component)).components
    assert found.issue == "launch_error"


def test_one_lost_answer_is_asked_for_again(tmp_path):
    script = "if mkdir once 2>/dev/null; then exit 1; fi; echo v1"
    (found,) = look(tmp_path, project(fixed(script))).components
    assert (found.version, found.issue) == ("v1", None)


def test_components_are_digested_as_files_folders_links_or_nothing(tmp_path):
    (tmp_path / "prompt").write_text("hello")
    (tmp_path / "code" / "__pycache__").mkdir(parents=True)
    (tmp_path / "code" / "a.py").write_text("1")
    names = ("prompt", "code", "absent")
    roles = ("variable", "variable", "fixed")
    found = zip(names, roles, strict=True)
    made = project(*(Component(component_id=n, role="x", change_role=r, source_path=n) for n, r in found))
    first = look(tmp_path, made)
    (tmp_path / "code" / "__pycache__" / "a.pyc").write_text("cache")
    assert version_notes(first, look(tmp_path, made)).drift == ()
    os.symlink("a.py", tmp_path / "code" / "b.py")
    notes = version_notes(first, look(tmp_path, made))
    assert notes.drift == ("The content of code changed while the batch ran.",)
    assert notes.problems == ("There is nothing at the source_path of absent.",)


@pytest.mark.parametrize("change", ["rename", "content", "mode", "link"])
def test_every_change_below_a_folder_changes_its_digest(tmp_path, change):
    (tmp_path / "f").write_text("1")
    (tmp_path / "sub").mkdir()
    before = content_digest(str(tmp_path))
    if change == "rename":
        os.rename(tmp_path / "f", tmp_path / "sub" / "f")
    elif change == "content":
        (tmp_path / "f").write_text("2")
    elif change == "mode":
        os.chmod(tmp_path / "f", 0o755)
    else:
        os.unlink(tmp_path / "f")
        os.symlink("1", tmp_path / "f")
    assert content_digest(str(tmp_path)) != before


def test_a_folder_that_cannot_be_listed_is_not_taken_for_an_empty_one(tmp_path):
    """One that lies so deep that no path can name it, which holds for every user."""
    alone = content_digest(str(tmp_path))
    handle = os.open(tmp_path, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=handle)
        below = os.open("d" * 250, os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = below
    os.close(handle)
    assert content_digest(str(tmp_path)) != alone


def test_the_environment_names_interpreter_packages_platform_and_variables_without_values(tmp_path):
    environment = {**ENVIRONMENT, "AGENT_KEY": "s3cret"}
    made = project(python=sys.executable)
    found = observe(made, cwd=str(tmp_path), root=str(tmp_path), environment=environment).environment
    assert found["variables"] == ["AGENT_KEY", "PATH"]
    assert found["python"]["version"] == ".".join(map(str, sys.version_info[:3]))
    assert found["python"]["packages"]["pytest"] == pytest.__version__
    assert "s3cret" not in str(found)
    assert os.listdir(tmp_path) == []


def test_a_python_that_cannot_tell_is_unknown_and_not_empty(tmp_path):
    found = look(tmp_path, project(python="no-such-python")).environment
    assert "unknown" in found["python"]


@pytest.mark.parametrize(
    ("fields", "python"),
    [
        ({"command": ("python3.12", "a.py")}, "python3.12"),
        ({"command": ("node", "a.js")}, None),
        ({"command": ("node", "a.js"), "python": "venv/bin/python"}, "venv/bin/python"),
    ],
)
def test_the_targets_python_is_the_declared_one_or_the_commands(fields, python):
    assert target_python(project(**fields)) == python


def observed(**fields):
    component = Observed(component_id="model", change_role="fixed", **fields)
    return Observation(components=(component,), environment={"platform": "x", "python": None})


def test_a_version_that_changed_or_was_lost_is_drift_and_one_that_stayed_wrong_is_a_problem():
    changed = version_notes(observed(version="1"), observed(version="2"))
    assert changed.drift == ("The version of model changed while the batch ran: 1 before, 2 after.",)
    lost = version_notes(observed(version="1"), observed(issue="timeout", detail="late"))
    assert lost.drift == ("The version of model changed while the batch ran: 1 before, unknown (late) after.",)
    wrong = observed(issue="nonzero_exit", detail="exit code 3")
    assert version_notes(wrong, wrong).drift == ()
    assert version_notes(wrong, wrong).problems == ("The version of model is not what it has to be: exit code 3.",)


def test_another_interpreter_is_drift():
    before = observed(version="1")
    after = before.model_copy(update={"environment": {"platform": "x", "python": {"version": "3"}}})
    assert version_notes(before, after).drift == ("The environment's python changed while the batch ran.",)


def test_a_variable_component_that_the_candidate_moved_away_is_no_problem(tmp_path):
    made = project(Component(component_id="prompt", role="x", change_role="variable", source_path="moved"))
    assert version_notes(look(tmp_path, made), look(tmp_path, made)).problems == ()
