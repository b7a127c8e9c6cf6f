"""Where ATK cannot run, its programs say so in a sentence and load nothing."""

import os
import subprocess
import sys

import pytest

from atk_mcp import platforms
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


@pytest.mark.parametrize(
    ("module", "name", "given"), [("atk_mcp", "atk-mcp", []), ("atk_mcp.inspector", "atk", ["status"])]
)
def test_a_umask_that_takes_rights_from_the_owner_is_refused_at_start_and_nothing_made(tmp_path, module, name, given):
    started = subprocess.run(
        [sys.executable, "-m", module, *given],
        env={**os.environ, "PYTHONPATH": ROOT}, cwd=tmp_path, umask=0o277, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (started.returncode, started.stdout) == (2, "")
    assert started.stderr == (
        f"{name}: The umask is 0277, which takes rights from the owner of what is made: ATK could not use its own "
        "folders. Set one of 0077 or less (`umask 0077`; `UMask=` in a unit of systemd) where it is started.\n"
    )
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_a_umask_that_leaves_the_owners_rights_is_left_as_it_is(mask):
    before = os.umask(mask)
    try:
        assert platforms.refusal() is None
    finally:
        left = os.umask(before)
    assert left == mask
