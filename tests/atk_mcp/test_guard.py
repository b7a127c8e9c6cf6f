"""Strangers with our names are refused, and their code is not run."""

import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.mark.parametrize("name", ["operations", "storage"])
@pytest.mark.parametrize("marker", ["__init__.py", "other.py"])
def test_a_strangers_package_is_refused_and_not_run(tmp_path, name, marker):
    stranger = tmp_path / name
    stranger.mkdir()
    (stranger / marker).write_text("print('the stranger ran')", encoding="utf-8")
    path = f"{tmp_path}{os.pathsep}{ROOT}"
    done = subprocess.run(
        [sys.executable, "-c", "import atk_mcp; print('started')"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": path},
        check=False,
    )
    assert "the stranger ran" not in done.stdout
    if marker == "__init__.py":
        assert done.returncode == 1
        assert f"'{name}' comes from {stranger}" in done.stderr
    else:  # a folder that is no package does not stand in for ours, which is found after it
        assert done.stdout == "started\n"
