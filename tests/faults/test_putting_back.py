"""A server that dies while it puts the worktree back after a run costs neither the run nor what lay there before."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from operations.verification import verify
from tests.faults.story import AGENT, PATIENCE_SECONDS, PROMPT, REFUNDS, ROOT, Story

KILLED = """\
import os, signal, sys
from importlib import import_module

module, name, given = sys.argv[1:]
found = import_module(module)
assert hasattr(found, name)


def armed(*_, **__):
    setattr(found, name, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))


from storage import runs
sealed_body = runs.sealed_body


def sealing(*arguments, **more):
    armed()
    return sealed_body(*arguments, **more)


runs.sealed_body = sealing

import json
from operations.invocation import invoke
from operations.registry import all_operations

invoke(all_operations()["run_evaluation"], json.loads(given))
"""
"""Runs a side in a process that dies when its sealing comes to one function."""

MOMENTS = {
    "before it looked": ("storage.runs", "worktree_differs", PROMPT),
    "before anything is put back": ("storage.checkpoints.restoring", "_take", PROMPT),
    "when all is put back": ("storage.runs", "_write_records", REFUNDS),
    "before the batch is recorded": ("storage.runs", "_sealed", REFUNDS),
}
"""Where the server dies, and what the prompt then says."""


@pytest.fixture(scope="module")
def with_a_candidate(tmp_path_factory):
    """A Round whose worktree holds a sealed candidate: a run of the baseline has to put it aside."""
    folder = tmp_path_factory.mktemp("candidate")
    mark = folder / "litter-now"
    littering = AGENT + f'if os.path.exists({str(mark)!r}): open("litter.txt", "w").close()\n'
    story = Story(folder, agent=littering).open()
    candidate_id = story.draft()
    story.target.write("prompt.txt", REFUNDS)
    story.seal(candidate_id)
    shutil.copytree(story.target.root, folder / "kept", symlinks=True)
    return story, mark


@pytest.fixture
def story(with_a_candidate):
    made, mark = with_a_candidate
    yield made
    mark.unlink(missing_ok=True)
    shutil.rmtree(made.target.root)
    shutil.copytree(mark.parent / "kept", made.target.root, symlinks=True)


def killed_when_sealing(story, moment):
    """Runs the baseline in a process that is killed there. Returns the batch's id."""
    module, name, prompt = MOMENTS[moment]
    given = {"project_path": story.target.root, "round_id": story.round_id, "revision_id": story.baseline}
    died = subprocess.run(
        [sys.executable, "-c", KILLED, module, name, json.dumps({**given, "wait_seconds": PATIENCE_SECONDS})],
        env={**os.environ, "PYTHONPATH": ROOT},
        cwd=ROOT,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert died.returncode == -9
    assert story.target.read("prompt.txt") == prompt
    (run,) = story.target.state.runs.values()
    return run.batch_id


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_run_is_sealed_as_it_was_and_the_candidate_is_there_again(story, moment):
    batch_id = killed_when_sealing(story, moment)
    told = story.call("inspect_or_recover_operation").message
    batch = story.batch(batch_id)
    assert (batch.status, batch.notes) == ("sealed", ())
    ended = f"{batch_id} is sealed; of {batch.slots} attempts: {batch.slots} completed."
    assert told == f"Of 1 open operation, 1 settled. {ended}"
    assert story.target.read("prompt.txt") == REFUNDS
    assert story.dirty() == " M prompt.txt"
    assert verify(story.target.project).findings == []


KILLED_AGAIN = """\
import json, os, signal, sys
from operations.invocation import invoke
from operations.registry import all_operations
from storage.files import Folder

write_new = Folder.write_new


def dying(folder, path, *arguments, **more):
    if path.endswith("/seen.json"):
        os.kill(os.getpid(), signal.SIGKILL)
    return write_new(folder, path, *arguments, **more)


Folder.write_new = dying
invoke(all_operations()["inspect_or_recover_operation"], json.loads(sys.argv[1]))
"""
"""Recovers in a process that dies should it keep once more what the first try saw."""


def test_a_second_kill_in_the_recovery_costs_the_run_nothing(story):
    batch_id = killed_when_sealing(story, "before the batch is recorded")
    given = json.dumps({"project_path": story.target.root})
    arguments = [sys.executable, "-c", KILLED_AGAIN, given]
    again = subprocess.run(
        arguments, env={**os.environ, "PYTHONPATH": ROOT}, cwd=ROOT, timeout=PATIENCE_SECONDS, check=False
    )
    assert again.returncode in (0, -9)
    story.call("inspect_or_recover_operation")
    batch = story.batch(batch_id)
    assert (batch.status, batch.notes) == ("sealed", ())


def test_what_the_run_left_is_told_though_it_was_put_back_by_half(story, with_a_candidate):
    with_a_candidate[1].touch()
    batch_id = killed_when_sealing(story, "when all is put back")
    os.remove(story.target.path("litter.txt"))
    story.call("inspect_or_recover_operation")
    batch = story.batch(batch_id)
    assert batch.status == "contaminated"
    assert batch.notes == ("litter.txt was not the Revision's when the run had ended",)


def test_what_an_agent_wrote_there_before_the_run_ended_counts_for_nothing(story):
    batch_id = killed_when_sealing(story, "before it looked")
    forged = story.target.path(f".atk/work/{batch_id}/seen.json")
    with open(forged, "w", encoding="utf-8") as file:
        json.dump({"ended": {}, "changed": []}, file)
    story.target.write("notes.txt", "left by the agent\n")
    story.call("inspect_or_recover_operation")
    assert story.batch(batch_id).status == "contaminated"


def test_a_folder_of_the_run_that_is_gone_holds_nothing_up(story):
    batch_id = killed_when_sealing(story, "before it looked")
    shutil.rmtree(story.target.path(f".atk/work/{batch_id}"))
    story.call("inspect_or_recover_operation")
    assert story.batch(batch_id).status in ("sealed", "partial")
    assert story.target.read("prompt.txt") == REFUNDS
