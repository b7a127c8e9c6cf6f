"""A project's folder: made whole or not at all, opened only when it is ours, and refused untouched when it is not."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading

import pytest

from storage.errors import AtkError
from storage.files import StoreDamaged
from storage.project import AlreadyInitialized, LegacyStore, Project, ProjectNotInitialized
from tests.support import toys
from tests.support.projects import AT, Target, bare, call_of
from tests.support.toys import names, put, reopened

FOLDERS = ["assessments", "datasets", "deals", "evidence", "journal", "selections", "validations"]
FILES = [".gitignore", "lock", "mask.key", "project.json"]


def test_a_new_project_is_private_whole_and_ignored_by_git(tmp_path):
    project = bare(tmp_path)
    assert project.state().project_id == "project-1-test"
    found = {name: os.stat(project.store.full(name)).st_mode & 0o777 for name in project.store.names()}
    assert found == dict.fromkeys(FOLDERS, 0o700) | dict.fromkeys(FILES, 0o600)
    assert os.stat(project.store.path).st_mode & 0o777 == 0o700
    assert os.listdir(tmp_path) == [".atk"]


def test_git_sees_nothing_of_a_project(tmp_path):
    target = Target(tmp_path / "target")
    target.store_cases()
    assert target.git("status", "--porcelain") == ""


def test_there_is_no_project_where_none_was_made(tmp_path):
    with pytest.raises(ProjectNotInitialized):
        Project.open(str(tmp_path))


def test_a_second_project_is_refused_and_the_first_stays(tmp_path):
    put(bare(tmp_path), "a")
    with pytest.raises(AlreadyInitialized, match="project-1-test"):
        bare(tmp_path)
    assert names(Project.open(str(tmp_path))) == ["a"]


LEGACY = {
    "empty": {},
    "atk 1.0.0": {"project.json": b'{"atk_version": "1.0.0"}', "index.jsonl": b"{}\n", "rounds/r1/round.json": b"{}"},
    "a stranger's": {"notes.txt": b"mine"},
    "a journal folder without a journal": {"journal/readme": b"x"},
}


@pytest.mark.parametrize("files", LEGACY.values(), ids=LEGACY)
def test_a_folder_that_is_not_ours_is_refused_untouched(tmp_path, files):
    for path, content in files.items():
        (tmp_path / ".atk" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / ".atk" / path).write_bytes(content)
    (tmp_path / ".atk").mkdir(exist_ok=True)
    before = toys.tree(tmp_path)
    for attempt in (lambda: Project.open(str(tmp_path)), lambda: bare(tmp_path)):
        with pytest.raises(LegacyStore, match="left untouched") as refused:
            attempt()
        assert refused.value.found == sorted({path.split("/")[0] for path in files})
    assert toys.tree(tmp_path) == before


@pytest.mark.parametrize("what", ["folder", "nothing", "file"])
def test_a_store_that_is_a_link_or_a_file_is_refused_untouched(tmp_path, what):
    root = tmp_path / "root"
    root.mkdir()
    real = bare(tmp_path / "real")
    if what == "file":
        (root / ".atk").write_bytes(b"x")
    else:
        os.symlink(real.store.path if what == "folder" else tmp_path / "nowhere", root / ".atk")
    before = toys.tree(tmp_path)
    for attempt in (lambda: Project.open(str(root)), lambda: bare(root)):
        with pytest.raises(StoreDamaged, match="is a link or a file"):
            attempt()
    assert toys.tree(tmp_path) == before


@pytest.mark.parametrize("place", ["journal", "journal/000001.log", "datasets", "owners", "lock", "project.json"])
def test_a_link_in_the_store_is_never_followed_by_a_change(tmp_path, place):
    project = bare(tmp_path / "root")
    toys.place(project, b"{}")
    there = project.store.full(place)
    elsewhere = tmp_path / "elsewhere"
    if os.path.isdir(there):
        os.rename(there, elsewhere)
    else:
        elsewhere.write_bytes(toys.read(there))
        os.unlink(there)
    os.symlink(elsewhere, there)
    before = toys.tree(elsewhere) if elsewhere.is_dir() else elsewhere.read_bytes()
    with pytest.raises(StoreDamaged, match="is a link"):
        toys.place(reopened(project), b"{}")
    assert (toys.tree(elsewhere) if elsewhere.is_dir() else elsewhere.read_bytes()) == before


CALLS = ["mkdir", "open", "write", "fsync", "rename"]


class Cut(BaseException):
    """The process ends here."""


def test_an_initialize_that_is_cut_anywhere_leaves_nothing_that_blocks_the_next(tmp_path, monkeypatch):
    at = 0
    while True:
        at += 1
        root = tmp_path / str(at)
        root.mkdir()
        (root / "mine.txt").write_bytes(b"mine")
        cut = False
        with toys.failing_at(monkeypatch, CALLS, at, Cut()) as count:
            try:
                bare(root)
            except Cut:
                cut = True
        if not os.path.exists(root / ".atk"):
            assert cut
            bare(root)
        assert sorted(os.listdir(root)) == [".atk", "mine.txt"], at
        assert reopened(Project.open(str(root))).state().position.number == 1
        if count[0] < at:
            break
    assert at > 20


def test_of_two_that_initialize_at_once_one_makes_the_project_and_the_other_is_told(tmp_path):
    made, told, start = [], [], threading.Barrier(4)

    def work():
        start.wait()
        try:
            made.append(bare(tmp_path))
        except AlreadyInitialized as error:
            told.append(error.project_id)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(made), told) == (1, ["project-1-test"] * 3)
    assert os.listdir(tmp_path) == [".atk"]


def test_a_store_that_is_moved_aside_and_made_anew_is_not_taken_for_the_old_one(tmp_path):
    put(bare(tmp_path), "a")
    os.rename(tmp_path / ".atk", tmp_path / ".atk-old")
    bare(tmp_path)
    assert names(Project.open(str(tmp_path))) == []


def test_a_damaged_key_is_refused(tmp_path):
    project = bare(tmp_path)
    toys.overwrite(project.store.full("mask.key"), b"short")
    with pytest.raises(AtkError, match="key"):
        reopened(project)


WRITER = """\
import sys
from tests.support.toys import put
from storage.project import Project
project = Project.open(sys.argv[1])
for n in range(int(sys.argv[3])):
    put(project, f"{sys.argv[2]}-{n}", request_id=f"{sys.argv[2]}-{n}")
"""


def test_several_processes_and_threads_write_one_after_the_other_and_see_each_other(tmp_path):
    project = bare(tmp_path)
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, project.root, f"p{number}", "10"], stderr=subprocess.PIPE)
        for number in range(2)
    ]
    threads = [
        threading.Thread(target=lambda mark=f"t{number}": [put(project, f"{mark}-{n}") for n in range(10)])
        for number in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for writer in writers:
        assert writer.communicate()[1] == b""
    wanted = {f"{mark}-{n}" for mark in ("p0", "p1", "t0", "t1") for n in range(10)}
    assert set(names(project)) == wanted
    assert project.state().position.number == 41
    assert reopened(project).state() == project.state()


def test_a_forked_child_that_only_reads_sees_the_state(tmp_path):
    project = bare(tmp_path)
    put(project, "a")
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=lambda: answers.put(names(project)))
    child.start()
    child.join()
    assert answers.get() == ["a"]


def test_the_time_of_a_call_is_what_the_journal_says(tmp_path):
    project = bare(tmp_path)
    put(project, "a")
    assert [record["at"] for record in project.journal_records()] == [AT] * 3
    assert call_of().at == AT
