"""What a machine takes away while ATK works: the disk's space, the right to write, the folder itself, git, threads."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import threading
import time

import pytest

from operations.execution import importing, keeper
from operations.health import examine
from operations.verification import verify
from storage.checkpoints import StoreApart
from storage.git import Git, GitFailed
from storage.project import Project, ProjectNotInitialized, StorageFailed
from storage.schema.batches import Batch
from tests.faults.story import ROOT
from tests.operations.catalog.stages import Stages, tree_of
from tests.support.projects import Target, call_of

WAITS = """\
import os, sys, time
open(sys.argv[1] + "/begun", "w").close()
while not os.path.exists(sys.argv[1] + "/go"):
    time.sleep(0.02)
"""
"""An agent that waits until it is told to go on."""

TOO_MANY = os.strerror(errno.EMFILE)


class Disk:
    """A small file system of its own, where this user may mount one."""

    def __init__(self, at):
        self.at = str(at)
        os.makedirs(at)
        if os.geteuid() != 0 or self._run("mount", "-t", "tmpfs", "-o", "size=2m", "none", self.at):
            pytest.skip("no file system can be mounted here")

    def _run(self, *command):
        return subprocess.run(command, capture_output=True, check=False).returncode

    def again(self, options):
        """Gives it another size, or takes away the right to write."""
        assert self._run("mount", "-o", f"remount,{options}", self.at) == 0

    def fill(self):
        """Takes what space there is."""
        with open(f"{self.at}/ballast", "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 16))
            except OSError as error:
                assert error.errno == errno.ENOSPC  # noqa: PT017 - it is the end that is wanted

    def empty(self):
        """Gives the space back."""
        os.unlink(f"{self.at}/ballast")

    def gone(self):
        """Takes it away, whatever still holds it."""
        return self._run("umount", "-l", self.at)


@pytest.fixture
def disk(tmp_path):
    made = Disk(tmp_path / "disk")
    yield made
    made.gone()


@pytest.fixture
def stacks(monkeypatch):
    """What threads died of."""
    found = []
    monkeypatch.setattr(threading, "excepthook", lambda about: found.append(about.exc_value))
    return found


def whole(project):
    """Nothing is open, wrong, or left."""
    project.recover(call_of("recover"))
    report = verify(project)
    assert (report.findings, report.open_work) == ([], [])
    assert (project.store.names("owners"), project.store.names("work/imports")) == ([], [])
    assert [name for name in os.listdir(project.store.full("evidence")) if name.startswith(".staging")] == []


def export(path, rows):
    made = ({"q": f"question {number}", "a": "an answer " * 60, "right": "x"} for number in range(rows))
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in made)
    return str(path)


def imported(target, source):
    mapping = {"input": "q", "output": "a", "expected": "right"}
    given = {"source": source, "source_kind": "batch_results", "mapping": mapping, "wait_seconds": 60}
    return target.call("import_evidence", request_id="large", **given)


@pytest.mark.slow
def test_an_import_that_the_disk_cannot_hold_says_so_and_is_made_once_there_is_room(disk, tmp_path):
    target = Target(f"{disk.at}/target")
    source = export(tmp_path / "export.jsonl", 7_500)  # more than the server reads itself
    assert os.path.getsize(source) > importing.SHORT_BYTES
    with pytest.raises(StorageFailed) as refused:
        imported(target, source)
    assert refused.value.reason == os.strerror(errno.ENOSPC)
    assert refused.value.advice == "Free some space on that disk."
    assert target.project.store.names("evidence") == []
    disk.again("size=64m")
    made = imported(target, source)
    assert imported(target, source).batch_id == made.batch_id
    assert target.project.store.names("evidence") == [made.batch_id]
    assert sum(made.counts.values()) == 7_500
    whole(target.project)


def test_a_full_disk_is_named_and_what_was_refused_is_made_once_there_is_room(disk):
    target = Target(f"{disk.at}/target")
    disk.fill()
    with pytest.raises(StorageFailed) as refused:
        target.store_cases(request_id="once")
    assert refused.value.place == f" (on the disk of {target.root}, 0 KiB free)"
    disk.empty()
    made = target.store_cases(request_id="once")
    assert target.store_cases(request_id="once") == made
    whole(target.project)


def test_a_lock_that_git_cannot_write_on_a_full_disk_is_told_with_what_to_do(disk):
    target = Target(f"{disk.at}/target", initialize=False)
    disk.fill()
    with Git(target.root) as git, pytest.raises(GitFailed) as refused:
        git.run("update-ref", "refs/atk/x", target.head)
    assert refused.value.reason.endswith("x.lock' (free some space on that disk and call again)")


def test_a_project_on_a_disk_that_became_read_only_is_read_with_its_interrupted_run(disk, tmp_path):
    target = Stages(str(tmp_path / "stages")).copy("stored", f"{disk.at}/target")
    pid = os.fork()
    if pid == 0:
        keeper._supervise = lambda _: os.kill(os.getpid(), 9)  # its server dies there
        target.call("run_evaluation", revision_commit=target.head, wait_seconds=60)
        os._exit(0)
    os.waitpid(pid, 0)
    assert len(target.state.runs) == 1
    disk.again("ro")
    assert [run["state"][:18] for run in target.call("get_status").running_batches] == ["its server is gone"]
    with pytest.raises(StorageFailed) as refused:
        target.store_cases()
    assert refused.value.advice == "The file system is mounted read-only; mount it for writing."
    disk.again("rw")
    assert target.store_cases()
    whole(target.project)


def test_a_disk_that_is_gone_is_no_project_and_one_that_comes_back_is(disk, tmp_path):
    target = Target(f"{disk.at}/target")
    kept = tmp_path / "kept"
    shutil.copytree(target.root, kept)
    assert target.call("get_status").initialized
    disk.gone()
    os.makedirs(target.root)
    with pytest.raises(ProjectNotInitialized):
        target.store_cases()
    shutil.copytree(kept, target.root, dirs_exist_ok=True)
    assert target.store_cases()
    whole(target.project)


@pytest.mark.slow
def test_a_store_under_a_mount_of_its_own_is_named_holds_no_call_up_and_will_do_once_it_is_back(tmp_path):
    target = Stages(str(tmp_path / "stages")).copy("drafted", str(tmp_path / "target"))
    store, elsewhere, files = target.path(".atk"), tmp_path / "elsewhere", tree_of(target.root, skip=(".git", ".atk"))
    os.rename(store, elsewhere)
    mounted = Disk(store)
    try:
        shutil.copytree(elsewhere, store, dirs_exist_ok=True)
        given = {"round_id": target.round_id, "candidate_id": target.candidate_id, "reason": "another idea"}
        with pytest.raises(StoreApart) as refused:
            target.call("cancel_draft", request_id="once", **given)
        assert (refused.value.path, refused.value.store) == ("prompt.txt", store)
        assert tree_of(target.root, skip=(".git", ".atk")) == files
        assert [check.advice for check in examine(target.root) if check.level == "problem"] == [
            "Take that mount away, and keep the files of `.atk/` in the project."
        ]
        assert target.store_cases()
        whole(target.project)
        shutil.rmtree(elsewhere)
        shutil.copytree(store, elsewhere)
    finally:
        mounted.gone()
    os.rmdir(store)
    os.rename(elsewhere, store)
    assert target.call("cancel_draft", request_id="once", **given).candidate_id == target.candidate_id
    whole(target.project)


@pytest.mark.slow
@pytest.mark.parametrize("then", ["removed", "moved"])
def test_a_folder_that_goes_while_a_run_goes_on_leaves_no_stack_and_no_process(tmp_path, stacks, then):
    wait = tmp_path / "wait"
    wait.mkdir()
    target = Target(tmp_path / "target", initialize=False)
    target.write("agent.py", WAITS)
    target.git("commit", "-q", "-am", "It waits")
    target.initialize(command=[sys.executable, "agent.py", str(wait)], components=[])
    target.store_cases()
    batch_id = target.call("run_evaluation", revision_commit=target.head, concurrency=1, wait_seconds=0).batch_id
    company = keeper._kept[batch_id]
    while not os.path.exists(wait / "begun"):
        time.sleep(0.02)
    there = tmp_path / "elsewhere"
    if then == "moved":
        os.rename(target.root, there)
    else:
        shutil.rmtree(target.root, ignore_errors=True)
    (wait / "go").touch()
    company.join(60)
    assert not company.is_alive()
    assert stacks == []
    if then == "moved":
        target.root = str(there)
        assert target.call("wait_for_batch", batch_id=batch_id).status in {"interrupted", "contaminated", "partial"}
        whole(target.project)


def test_a_run_that_nobody_can_keep_company_is_sealed_without_an_attempt(tmp_path, monkeypatch):
    target = Stages(str(tmp_path / "stages")).copy("stored", str(tmp_path / "target"))

    def no_room(_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_room)
        with pytest.raises(StorageFailed) as refused:
            target.call("run_evaluation", revision_commit=target.head)
    assert "ulimit -u" in refused.value.advice
    (batch,) = target.state.all(Batch)
    assert (batch.status, batch.end_reason, dict(batch.counts)) == ("interrupted", "not_prepared", {})
    whole(target.project)


def test_a_run_whose_supervisor_cannot_be_started_says_why_and_is_sealed_without_an_attempt(tmp_path, monkeypatch):
    target = Stages(str(tmp_path / "stages")).copy("stored", str(tmp_path / "target"))

    def too_many(*_):
        raise OSError(errno.EMFILE, TOO_MANY)

    with monkeypatch.context() as patched:
        patched.setattr(keeper, "launch", too_many)
        target.call("run_evaluation", revision_commit=target.head, wait_seconds=60)
    (batch,) = target.state.all(Batch)
    assert (batch.status, batch.end_reason, dict(batch.counts)) == ("interrupted", "not_prepared", {})
    assert batch.notes == (f"The run could not begin: [Errno {errno.EMFILE}] {TOO_MANY}.",)
    whole(target.project)


RUNS = """\
import json, resource, sys
from operations.invocation import invoke
from operations.registry import all_operations
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
asked = {"project_path": sys.argv[1], "revision_commit": "HEAD", "repeats": 10, "concurrency": 60, "wait_seconds": 60}
invoke(all_operations()["run_evaluation"], asked)
"""
"""Enough files for a server, too few for a supervisor with as many guardians."""


@pytest.mark.slow
def test_a_run_for_whose_guardians_there_are_too_few_files_says_so(tmp_path):
    target = Stages(str(tmp_path / "stages")).copy("stored", str(tmp_path / "target"))
    environment = {**os.environ, "PYTHONPATH": ROOT}
    subprocess.run([sys.executable, "-c", RUNS, target.root], env=environment, check=True)
    (batch,) = target.state.all(Batch)
    assert (batch.status, batch.end_reason, dict(batch.counts)) == ("interrupted", "not_prepared", {})
    why = f"No process could be started: {TOO_MANY}, where 60 attempts are to run at once"
    assert batch.notes == (
        f"The run could not begin: {why}. Raise the limit of open files (`ulimit -n`) and start the server again.",
    )
    whole(target.project)


@pytest.mark.slow
def test_an_import_that_nobody_can_keep_company_leaves_nothing(tmp_path, monkeypatch):
    target = Target(tmp_path / "target")
    source = export(tmp_path / "export.jsonl", 7_500)

    def no_room(_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_room)
        with pytest.raises(StorageFailed) as refused:
            imported(target, source)
    assert "ulimit -u" in refused.value.advice
    whole(target.project)


def test_memory_that_runs_out_is_told_and_no_fault_of_the_product(tmp_path, monkeypatch):
    target = Target(tmp_path / "target")

    def none_left(*_):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(Project, "transaction", none_left)
        with pytest.raises(StorageFailed) as refused:
            target.store_cases(request_id="once")
    assert str(refused.value).startswith(f"The system refused: {os.strerror(errno.ENOMEM)}. There is no memory left;")
    assert target.store_cases(request_id="once")
    whole(target.project)


ASKS = """\
import sys
from storage.git import Git
from storage.errors import AtkError
try:
    Git(sys.argv[1]).line("rev-parse", "HEAD")
except AtkError as error:
    sys.exit(f"{error.code}: {error}")
"""


REFUSED_FILES = """\
import resource, sys
from storage.git import Git
from storage.project import StorageFailed
resource.setrlimit(resource.RLIMIT_NOFILE, (7, 7))
try:
    Git(sys.argv[1]).line("rev-parse", "HEAD")
except OSError as error:
    sys.exit(str(StorageFailed.of(error)))
"""
"""Enough files to look for git, too few for the pipes to it."""


def test_a_git_that_the_system_does_not_start_is_no_failure_of_gits(tmp_path):
    target = Target(tmp_path / "target", initialize=False)
    asked = subprocess.run(
        [sys.executable, "-c", REFUSED_FILES, target.root],
        env={**os.environ, "PYTHONPATH": ROOT}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (asked.returncode, asked.stderr) == (1, str(StorageFailed.of(OSError(errno.EMFILE, TOO_MANY))) + "\n")


def test_a_git_that_fails_when_it_is_first_asked_is_refused_in_a_sentence(tmp_path):
    target = Target(tmp_path / "target", initialize=False)
    program = tmp_path / "bin/git"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'git: broken library' >&2\nexit 127\n")
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    asked = subprocess.run(
        [sys.executable, "-c", ASKS, target.root],
        env={**os.environ, "PATH": path, "PYTHONPATH": ROOT}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert asked.returncode == 1
    assert asked.stderr.startswith("git_failed: `git version` failed with status 127: ")
    assert "broken library" in asked.stderr
