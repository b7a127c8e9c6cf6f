"""A server that dies at any step of an isolated run leaves a batch that can be sealed, and nothing anywhere else."""

import os
import shutil
import subprocess
import sys

import pytest

from operations.tuning.sides import SideStands
from storage.schema.batches import Batch
from tests.faults.story import ROOT
from tests.support.side_log import Logged

KILLED = """\
import os, signal, sys
from importlib import import_module

module, name, root, round_id = sys.argv[1:]
found = import_module(module)
assert hasattr(found, name)
setattr(found, name, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))

from operations.invocation import invoke
from operations.registry import all_operations

given = {"project_path": root, "round_id": round_id, "wait_seconds": 100}
invoke(all_operations()["run_evaluation"], given)
"""
"""Runs a Round's baseline in a process that dies when it comes to one function."""

MOMENTS = {
    "before the folder is marked": ("storage.checkpoints.places", "_identity"),
    "before the checkout": ("storage.checkpoints.isolated", "_linked"),
    "before the agent's repository": ("storage.checkpoints.isolated", "_lend"),
    "before it is checked": ("storage.checkpoints.isolated", "apart_differs"),
    "before the supervisor": ("operations.execution.keeper", "_supervise"),
    "before the sealing": ("storage.runs", "_write_records"),
    "before the folder is removed": ("storage.runs", "clear_work"),
}


def places(tmp_path):
    """The folders of runs that there are, marked or not."""
    top = tmp_path / "cache/atk/runs"
    return [name for project in top.glob("*") for name in project.iterdir()]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_kill_leaves_no_folder_and_the_next_run_is_whole(moment, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    target = Logged(tmp_path, cases=1)
    target.open_round(replay="isolated")
    before = target.git("status", "--porcelain", "--ignored"), target.git("worktree", "list", "--porcelain")

    died = subprocess.run(
        [sys.executable, "-c", KILLED, *MOMENTS[moment], target.root, target.round_id],
        env={**os.environ, "PYTHONPATH": ROOT},
        cwd=ROOT,
        timeout=120,
        check=False,
    )

    assert died.returncode == -9
    [batch] = target.state.all(Batch)
    assert len(places(tmp_path)) == 1
    target.call("inspect_or_recover_operation")
    assert places(tmp_path) == []
    assert target.state.runs == {}
    sealed = "sealed" if moment in ("before the sealing", "before the folder is removed") else "interrupted"
    assert target.batch(batch.id).status == sealed
    assert (target.git("status", "--porcelain", "--ignored"), target.git("worktree", "list", "--porcelain")) == before
    if sealed == "sealed":  # the side stands, and is not run again
        with pytest.raises(SideStands, match=batch.id):
            target.round_run()
    else:
        assert target.round_run().status == "sealed"
    assert places(tmp_path) == []


FAILING_ONCE = """\
#!/bin/sh
case "$GIT_INDEX_FILE" in *scratch-seal*)
    if mkdir "{mark}" 2>/dev/null; then echo "fatal: Unable to write new index file" >&2; exit 128; fi;;
esac
exec {git} "$@"
"""


def test_a_disk_that_failed_once_while_the_folder_was_looked_at_costs_no_run(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    target = Logged(tmp_path, cases=1)
    target.open_round(replay="isolated")
    program = tmp_path / "bin/git"
    program.parent.mkdir()
    program.write_text(FAILING_ONCE.format(mark=tmp_path / "failed", git=shutil.which("git")))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")

    ran = target.round_run()

    assert (tmp_path / "failed").is_dir()
    assert (ran.status, ran.notes) == ("sealed", [])
