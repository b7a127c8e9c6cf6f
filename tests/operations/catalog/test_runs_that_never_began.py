"""A server that dies before its run could begin leaves a run to go on with, and a log that is on the disk."""

from __future__ import annotations

import os

from storage import effects
from storage.schema.batches import Batch
from tests.support.projects import FIX, bare


def test_a_run_that_was_killed_before_the_files_were_switched_is_interrupted_and_goes_on(at):
    target = at("sealed")
    pid = os.fork()
    if pid == 0:
        effects.make_it_so = lambda *_, **__: os._exit(7)
        target.call("run_evaluation", round_id=target.round_id, revision_id=target.b0, wait_seconds=100)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7

    target.call("inspect_or_recover_operation")

    left = target.state.all(Batch)[-1]
    assert (left.status, left.end_reason, left.counts) == ("interrupted", "server_gone", {})
    assert target.read("prompt.txt") == FIX
    made = target.call("run_evaluation", continue_batch_id=left.id, wait_seconds=200)
    assert (made.status, made.supersedes_batch_id) == ("sealed", left.id)
    assert target.read("prompt.txt") == FIX


def test_a_log_whose_writer_was_killed_is_flushed_as_another_file(tmp_path, monkeypatch):
    project = bare(tmp_path / "project")
    log = "evidence/batch-2-test/attempts.log"
    project.store.make_folders("evidence/batch-2-test")
    written = project.store.write_new(log, [b"what the system said it has\n"])
    before = os.stat(project.store.full(log)).st_ino
    flush, flushed = os.fsync, []

    def noted(fd):
        flush(fd)
        flushed.append(os.fstat(fd).st_ino)

    monkeypatch.setattr(os, "fsync", noted)
    assert project.store.flushed_anew(log) == written

    after = os.stat(project.store.full(log)).st_ino
    assert after != before
    assert flushed == [after, os.stat(project.store.full("evidence/batch-2-test")).st_ino]
