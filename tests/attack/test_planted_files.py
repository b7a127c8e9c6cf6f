"""Whatever an agent or a checked-out branch puts under `.atk/`: nothing hangs or is followed, all is named."""

import os
import shutil

import pytest

from operations.invocation import invoke
from operations.registry import all_operations
from storage import project as projects
from storage.errors import AtkError
from storage.files import Folder, StoreDamaged
from storage.project import Project
from tests.support.projects import bare
from tests.support.toys import SEGMENT, names, place, put, read, reopened

FILES = (SEGMENT, "lock", "mask.key", "project.json", "owners/planted")
FOLDERS = ("journal", "owners", "datasets", "evidence", "assessments", "validations")


def clear(path):
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)


@pytest.fixture
def project(tmp_path):
    made = bare(tmp_path / "project")
    put(made, "kept")
    return made


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "file").write_text("theirs" * 100)
    return folder


def tried(project):
    """Makes a change twice, as one process would. Returns what it met each time."""
    projects._opened.clear()
    found = []
    for _ in range(2):
        try:
            put(Project.open(project.root), "new", version="2")
        except AtkError as error:
            found.append(error)
    return found


@pytest.mark.parametrize("path", FILES)
@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
def test_what_is_no_file_where_a_file_belongs_is_named_and_never_waited_for(project, outside, path, kind):
    full = os.path.join(project.store.path, path)
    clear(full)
    {"pipe": os.mkfifo, "folder": os.mkdir, "link": lambda at: os.symlink(outside / "file", at)}[kind](full)
    before = (outside / "file").read_bytes()
    found = tried(project)
    if not (path == "owners/planted" and kind == "pipe"):  # a pipe holds no lock, so it is a dead owner's
        assert len(found) == 2
        assert all(os.path.basename(path) in str(error) for error in found)
    assert (outside / "file").read_bytes() == before


@pytest.mark.parametrize("path", FOLDERS)
@pytest.mark.parametrize("kind", ["pipe", "file", "link"])
def test_what_is_no_folder_where_a_folder_belongs_refuses_every_change_and_not_the_first_alone(
    project, outside, path, kind
):
    full = os.path.join(project.store.path, path)
    clear(full)
    {
        "pipe": os.mkfifo,
        "file": lambda at: os.close(os.open(at, os.O_CREAT)),
        "link": lambda at: os.symlink(outside, at),
    }[kind](full)
    found = tried(project)
    assert [type(error) for error in found] == [StoreDamaged, StoreDamaged]
    assert os.listdir(outside) == ["file"]


@pytest.mark.parametrize("kind", ["pipe", "file", "link"])
def test_what_stands_in_the_place_of_the_work_folder_is_taken_away_and_not_followed(project, outside, kind):
    full = os.path.join(project.store.path, "work")
    clear(full)
    {
        "pipe": os.mkfifo,
        "file": lambda at: os.close(os.open(at, os.O_CREAT)),
        "link": lambda at: os.symlink(outside, at),
    }[kind](full)
    assert tried(project) == []
    assert (outside / "file").read_text() == "theirs" * 100
    assert not os.path.lexists(full)


def test_a_lock_that_is_another_name_of_a_users_file_is_not_written_to(project, outside):
    clear(project.store.full("lock"))
    os.link(outside / "file", project.store.full("lock"))
    assert [type(error) for error in tried(project)] == [StoreDamaged, StoreDamaged]
    assert (outside / "file").read_text() == "theirs" * 100


def test_a_view_and_a_lock_of_many_gigabytes_cost_no_memory(project):
    for path in ("project.json", "lock"):
        os.truncate(project.store.full(path), 1 << 40)
    assert tried(project) == []
    assert os.path.getsize(project.store.full("project.json")) < 10_000


def test_a_journal_that_ends_before_its_first_record_is_damage_and_is_not_cut(project):
    with open(project.store.full(SEGMENT), "wb") as file:
        file.write(b"junk")
    assert [type(error) for error in tried(project)] == [StoreDamaged, StoreDamaged]
    assert read(project.store.full(SEGMENT)) == b"junk"
    status = invoke(all_operations()["get_status"], {"project_path": project.root})
    assert not status.writable


def test_a_store_of_ours_whose_journal_is_gone_is_damaged_and_not_a_strangers(project):
    shutil.rmtree(project.store.full("journal"))
    assert [type(error) for error in tried(project)] == [StoreDamaged, StoreDamaged]


def test_a_journal_that_lost_its_end_takes_no_evidence_away(project):
    short = os.path.getsize(project.store.full(SEGMENT))
    put(project, "between")
    path = place(project, b"{}")
    os.truncate(project.store.full(SEGMENT), short)
    found = tried(project)
    assert [type(error) for error in found] == [StoreDamaged, StoreDamaged]
    assert "ends before record 4" in str(found[0])
    assert project.store.read(path) == b"{}"


def test_what_a_crash_placed_for_the_record_that_was_to_be_next_is_taken_away(project):
    next_one = f"datasets/dataset-{project.state().position.number + 1}-abcd"
    project.store.make_folders(next_one)
    assert tried(project) == []
    assert project.store.names("datasets") == []
    assert "new" in names(reopened(project))


def test_a_tree_without_end_is_taken_away(tmp_path):
    """Deeper than a stack or the open files of a process, and with folders that cannot be listed."""
    top = tmp_path / "work"
    here = os.getcwd()
    os.makedirs(top / "x" / "0" / "0")
    (top / "x" / "0" / "file").write_text("x")
    (top / "x" / "1").write_text("x")
    os.chdir(top / "x")
    try:
        for _ in range(2_000):
            os.mkdir("d")
            os.chdir("d")
        os.makedirs("hidden/below")
        os.chmod("hidden", 0)
    finally:
        os.chdir(here)
    with Folder(str(tmp_path)) as store:
        store.remove_tree("work")
        assert store.names() == []


def test_a_refused_file_leaves_no_handle_open(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with Folder(str(tmp_path)) as store:
        before = len(os.listdir("/dev/fd"))
        for name in ("folder", "pipe"):
            with pytest.raises(StoreDamaged):
                store.read(name)
        assert len(os.listdir("/dev/fd")) == before
