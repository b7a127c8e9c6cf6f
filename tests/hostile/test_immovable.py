"""What an agent leaves and nobody of ours can remove, as a container's user may, holds no call up and is named."""

import os
import subprocess

import pytest

from operations.verification import verify
from storage.files import Folder
from storage.project import Project
from tests.faults.story import AGENT, PYTHON, Story

STUCK = (
    AGENT
    + """
import subprocess
where = sys.argv[2] if len(sys.argv) > 2 else "stuck"
os.makedirs(os.path.join(where, "below"), exist_ok=True)
open(os.path.join(where, "below", "kept"), "w").close()
open(os.path.join(where, "gone"), "w").close()
subprocess.run(["chattr", "+i", os.path.join(where, "below")], check=True)
"""
)
"""The agent of the story, which then makes a folder that not even root can remove."""


@pytest.fixture(autouse=True)
def letting_go(tmp_path):
    """Lets go of everything in the end, and skips where nothing can be held."""
    probe = tmp_path / "probe"
    probe.mkdir()
    if subprocess.run(["chattr", "+i", probe], capture_output=True, check=False).returncode:
        pytest.skip("no file can be made immutable here")
    yield
    subprocess.run(["chattr", "-R", "-f", "-i", tmp_path], capture_output=True, check=False)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def reopened(story):
    """The project as a process finds it that starts now."""
    return Project.open(story.target.root)


def test_what_can_be_removed_is_and_the_rest_is_said_to_stay(tmp_path):
    for name in ("tree/a/stuck", "tree/a/loose/deep", "tree/z"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").touch()
    subprocess.run(["chattr", "+i", tmp_path / "tree/a/stuck"], check=True)
    with Folder(str(tmp_path)) as folder:
        assert not folder.clear("tree")
        left = sorted(
            os.path.relpath(os.path.join(at, f), tmp_path) for at, _, files in os.walk(tmp_path / "tree") for f in files
        )
        assert left == ["tree/a/stuck/file"]
        with pytest.raises(PermissionError):
            folder.remove_tree("tree")
        subprocess.run(["chattr", "-i", tmp_path / "tree/a/stuck"], check=True)
        assert folder.clear("tree")
    assert not (tmp_path / "tree").exists()


def test_an_isolated_run_is_sealed_and_the_next_is_made(tmp_path, cache):
    story = Story(tmp_path, agent=STUCK).open(replay="isolated")
    run = story.run()
    (kept,) = (cache / "atk/runs").glob("*/*")
    assert any(f"{kept} could not be taken away whole" in said for said in run.warnings)
    assert len(story.outputs(run.batch_id)) == 4
    assert verify(reopened(story)).findings == []
    assert story.evaluate_head().status in ("sealed", "contaminated")


def test_a_run_whose_output_folders_stay_is_sealed_and_other_processes_go_on(tmp_path):
    command = [*PYTHON, "agent.py", "{input_file}", "{output_dir}"]
    story = Story(tmp_path, agent=STUCK, command=command)
    run = story.evaluate_head()
    assert run.status == "sealed"
    kept = story.target.path(f".atk/work/{run.batch_id}")
    assert any(f"{kept} could not be taken away whole" in said for said in run.warnings)
    warned = story.call("inspect_or_recover_operation").warnings
    assert story.target.state.runs == {}
    assert any(kept in said for said in warned)
    assert story.evaluate_head().status == "sealed"
    subprocess.run(["chattr", "-R", "-f", "-i", kept], capture_output=True, check=False)
    story.call("inspect_or_recover_operation")
    assert not os.path.exists(kept)


def test_an_attempt_of_try_case_says_what_stays(tmp_path):
    command = [*PYTHON, "agent.py", "{input_file}", "{output_dir}"]
    story = Story(tmp_path, agent=STUCK, command=command)
    tried = story.call("try_case", input="My invoice is wrong")
    assert any("could not be taken away whole; remove it by hand" in note for note in tried.smoke.notes)
