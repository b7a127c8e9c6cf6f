"""The project's lock: one writer at a time, over threads and processes, and a refusal that says who."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from storage.files import Folder, StoreDamaged
from storage.founding import alone
from storage.lock import ProjectBusy, exclusive, holder

HOLD = """\
import sys
from storage.files import Folder
from storage.lock import exclusive
with Folder(sys.argv[1]) as store, exclusive(store, "store_dataset", "2024-01-01"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def store(tmp_path):
    with Folder(str(tmp_path)) as folder:
        yield folder


@pytest.fixture
def other(store):
    """Another process that holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, store.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_process_is_refused_with_who_holds_it_doing_what_since_when(store, other):
    with pytest.raises(ProjectBusy) as refused, exclusive(store, "create_round", "now", patience=0):
        pass
    assert f"process {other.pid} " in str(refused.value)
    assert "store_dataset since 2024-01-01" in str(refused.value)


def test_a_killed_holder_holds_nothing(store, other):
    other.send_signal(signal.SIGKILL)
    other.wait()
    with exclusive(store, "create_round", "now", patience=0) as held:
        assert held.operation == "create_round"


def test_a_second_thread_waits_and_then_gets_it(store):
    order = []
    inside = threading.Event()

    def second():
        inside.wait()
        with exclusive(store, "second", "now"):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with exclusive(store, "first", "now"):
        inside.set()
        with pytest.raises(ProjectBusy), exclusive(store, "third", "now", patience=0):
            pass
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_no_two_threads_are_ever_inside(store):
    inside, most = [], []

    def work():
        for _ in range(20):
            with exclusive(store, "work", "now"):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(most) == {1}
    assert len(most) == 80


def test_the_file_stays_the_same_one(store):
    with exclusive(store, "a", "now"):
        first = os.stat(store.full("lock")).st_ino
    with exclusive(store, "b", "now"):
        assert os.stat(store.full("lock")).st_ino == first


def test_a_lock_file_that_is_replaced_is_noticed(store, monkeypatch):
    import fcntl

    real = fcntl.flock

    def replaced(fd, how):
        os.unlink(store.full("lock"))
        real(fd, how)

    monkeypatch.setattr(fcntl, "flock", replaced)
    with pytest.raises(StoreDamaged, match="replaced"), exclusive(store, "a", "now"):
        pass


def test_a_linked_lock_is_damage(store, tmp_path):
    os.symlink(tmp_path / "elsewhere", store.full("lock"))
    with pytest.raises(StoreDamaged), exclusive(store, "a", "now"):
        pass
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    "note", [b"not json", b"[" * 4000, b'"text"', b'{"pid": 1e999, "host": "h", "operation": "o", "since": "s"}']
)
def test_a_rotten_note_names_nobody(store, note):
    store.write_new("lock", [note])
    assert holder(store) == "an unknown process holds the project's lock"


def test_the_lock_is_given_back_after_an_error(store):
    with pytest.raises(KeyError), exclusive(store, "a", "now"):
        raise KeyError
    with exclusive(store, "b", "now", patience=0):
        pass


def test_who_makes_a_store_where_another_makes_one_for_long_is_refused_as_busy(tmp_path):
    root = str(tmp_path)
    with alone(root):
        with pytest.raises(ProjectBusy) as refused, alone(root, patience=0):
            pass
        assert refused.value.holder == f"another process makes or unpacks a project in {root}"
    with alone(root, patience=0) as prefix:
        assert os.path.dirname(prefix) == root
