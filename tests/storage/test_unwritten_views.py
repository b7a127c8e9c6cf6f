"""A view is there from the beginning; one that the disk refuses is told of, and the next change tries again."""

from __future__ import annotations

import errno
import os

import pytest

from atk_mcp.inspector import main
from operations import confirming
from operations.confirming import Question
from operations.verification import verify
from storage.files import Folder
from storage.project import Project
from storage.schema.assessments import Judger
from tests.support.projects import AT, bare, call_of
from tests.support.rounds import DIGEST, Answered


@pytest.fixture
def project(tmp_path):
    return bare(tmp_path / "project")


@pytest.fixture
def disk(monkeypatch):
    """The disk, which may refuse whatever is replaced."""
    write, full = Folder.replace, []

    def replace(self, path, data):
        if full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(self, path, data)

    monkeypatch.setattr(Folder, "replace", replace)
    return full


def store(project, name):
    with project.transaction(call_of()) as tx:
        tx.put(Judger(id=name, version="1", digest=DIGEST))
        return tx.commit(Answered())


def test_a_new_project_is_as_it_was_recorded(project):
    assert verify(project).findings == []


def test_a_view_that_could_not_be_written_is_told_of_and_written_by_the_next_change(project, disk):
    disk.append("full")
    answer = store(project, "judger-1-full")
    assert "judgers/judger-1-full.json could not be written" in answer.warnings[0]
    disk.clear()
    assert store(project, "judger-2-room").warnings == []
    assert verify(project).findings == []


def test_a_view_that_a_recovery_could_not_write_is_told_of_as_well(project, disk, monkeypatch):
    os.unlink(project.store.full("project.json"))
    monkeypatch.setattr("storage.project._opened", {})
    again = Project.open(project.root)
    disk.append("full")
    assert "project.json could not be written" in store(again, "judger-1-full").warnings[0]


def test_an_answer_of_a_person_that_the_disk_refuses_is_a_refusal_in_words(project, monkeypatch, capsys):
    question = Question(operation="finish_round", subject="round-1-test", text="May I?", facts={})
    asked = confirming.leave_open(project, question, AT)

    def refuse(_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("storage.journal.sync_file", refuse)
    assert main(["approve", asked.id, "--decline", "--project", project.root]) == 1
    assert "[storage_failed]" in capsys.readouterr().err


def test_what_keeps_the_store_out_of_git_is_written_anew(project):
    with open(project.store.full(".gitignore"), "wb") as file:
        file.write(b"!\n")
    assert [found.path for found in verify(project).findings] == [".gitignore"]
    project.recover(call_of())
    assert verify(project).findings == []


@pytest.mark.parametrize(("path", "data"), [("mask.key", bytes(32)), ("journal/000001.log", b"")])
def test_another_key_and_an_empty_journal_are_named(project, path, data):
    full = project.store.full(path)
    assert path != "mask.key" or os.path.getsize(full) == len(data)
    with open(full, "wb") as file:
        file.write(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("storage.project._opened", {})
        assert path in [found.path for found in verify(Project.open(project.root)).findings]
