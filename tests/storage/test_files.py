"""Files of the store: relative to a handle, never through a link, whole or not at all."""

from __future__ import annotations

import os

import pytest

from storage.files import Folder, StoreDamaged


@pytest.fixture
def store(tmp_path):
    with Folder(str(tmp_path)) as folder:
        yield folder


def test_a_written_file_is_read_back_with_its_digest_and_mode(store):
    stored = store.write_new("a", [b"one", b"two"])
    assert store.read("a") == b"onetwo"
    assert store.digest("a") == stored
    assert stored.size == 6
    assert os.stat(store.full("a")).st_mode & 0o777 == 0o600


def test_chunks_of_any_size_are_stored_in_order(store, monkeypatch):
    monkeypatch.setattr("storage.files.CHUNK", 4)
    store.write_new("a", [b"1", b"", b"23", b"456789", b"0"])
    assert store.read("a") == b"1234567890"


def test_a_file_is_never_written_over(store):
    store.write_new("a", [b"one"])
    with pytest.raises(FileExistsError):
        store.write_new("a", [b"two"])
    assert store.read("a") == b"one"


def test_a_short_write_is_gone_on_with(store, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, bytes(data)[:2]))
    store.write_new("a", [b"seven b"])
    assert store.read("a") == b"seven b"


def test_a_folder_is_private(store):
    store.make_folders("a/b")
    assert os.stat(store.full("a/b")).st_mode & 0o777 == 0o700


@pytest.mark.parametrize("path", ["../a", "a/../b", "/a", "a//b", ".", "", "a/", "a\0b"])
def test_a_path_that_could_leave_the_store_is_a_bug(store, path):
    with pytest.raises(ValueError, match="BUG"):
        store.read(path)


def outside(tmp_path):
    folder = tmp_path.parent / f"{tmp_path.name}-outside"
    folder.mkdir()
    (folder / "file").write_bytes(b"the user's")
    return folder


USES = {
    "read": lambda store: store.read("link/file"),
    "write": lambda store: store.write_new("link/new", [b"x"]),
    "replace": lambda store: store.replace("link/file", b"x"),
    "remove": lambda store: store.remove_tree("link/file"),
    "names": lambda store: store.names("link"),
    "exists": lambda store: store.exists("link/file"),
    "folders": lambda store: store.make_folders("link/new"),
    "sync": lambda store: store.sync("link"),
    "digest": lambda store: store.digest("link/file"),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_linked_folder_is_damage_and_is_never_followed(store, tmp_path, use):
    folder = outside(tmp_path)
    os.symlink(folder, store.full("link"))
    with pytest.raises(StoreDamaged) as refused:
        use(store)
    assert "is a link" in refused.value.reason
    assert os.listdir(folder) == ["file"]
    assert (folder / "file").read_bytes() == b"the user's"


@pytest.mark.parametrize("use", [lambda s: s.read("link"), lambda s: s.digest("link")], ids=["read", "digest"])
def test_a_linked_file_is_damage(store, tmp_path, use):
    os.symlink(outside(tmp_path) / "file", store.full("link"))
    with pytest.raises(StoreDamaged):
        use(store)


def test_a_link_is_removed_and_what_it_names_stays(store, tmp_path):
    folder = outside(tmp_path)
    store.make_folders("tree")
    os.symlink(folder, store.full("tree/link"))
    store.remove_tree("tree")
    assert store.names() == []
    assert (folder / "file").read_bytes() == b"the user's"


def test_a_tree_that_cannot_be_listed_is_removed(store):
    store.make_folders("tree/closed/deep")
    os.chmod(store.full("tree/closed"), 0)
    store.remove_tree("tree")
    assert store.names() == []


def test_removing_what_is_missing_is_fine(store):
    store.remove_tree("nothing/here")


def test_a_pipe_is_refused_at_once(store):
    os.mkfifo(store.full("pipe"))
    with pytest.raises(StoreDamaged, match="not a regular file"):
        store.read("pipe")


def test_a_view_is_replaced_whole_and_a_left_spare_does_not_matter(store):
    store.replace("view", b"one")
    store.write_new(".view.new", [b"half"])
    store.replace("view", b"two")
    assert store.read("view") == b"two"
    assert store.names() == ["view"]


def test_moving_never_covers_anything(store):
    store.make_folders("a")
    store.make_folders("b")
    with pytest.raises(FileExistsError):
        store.move("a", "b")
    assert store.names() == ["a", "b"]


def test_the_handles_are_given_back(store):
    before = len(os.listdir("/proc/self/fd"))
    store.make_folders("a/b/c")
    store.write_new("a/b/c/d", [b"x"])
    store.read("a/b/c/d")
    store.names("a/b")
    store.sync("a/b/c")
    store.move("a/b/c", "a/e")
    with pytest.raises(FileNotFoundError):
        store.read("a/b/c/d")
    assert len(os.listdir("/proc/self/fd")) == before
