"""Where ATK cannot run, its programs say so in a sentence and load nothing."""

import os
import subprocess
import sys

import pytest

from tests.faults.story import ROOT


@pytest.mark.parametrize(
    ("module", "name", "given"), [("atk_mcp", "atk-mcp", []), ("atk_mcp.inspector", "atk", ["list"])]
)
def test_a_python_that_leaves_docstrings_out_is_refused_at_start(module, name, given):
    started = subprocess.run(
        [sys.executable, "-m", module, *given],
        env={**os.environ, "PYTHONOPTIMIZE": "2"}, cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (started.returncode, started.stdout) == (2, "")
    assert started.stderr == (
        f"{name}: Python was told to leave docstrings out (PYTHONOPTIMIZE=2 or -OO), and ATK tells its clients by them "
        "what its operations do. Take PYTHONOPTIMIZE out of the environment in which it is started.\n"
    )
