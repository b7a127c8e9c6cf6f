"""Owners: alive as long as a process holds them, and never taken for dead before."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading

import pytest

from storage import owners
from storage.files import Folder
from storage.owners import Owner, forget_dead, is_alive


@pytest.fixture
def store(tmp_path):
    with Folder(str(tmp_path)) as folder:
        yield folder


def test_an_owner_is_alive_until_it_lets_go(store):
    owner = Owner(store)
    assert is_alive(store, owner.nonce)
    owner.release()
    assert not is_alive(store, owner.nonce)


def test_a_child_that_inherits_the_lock_keeps_it_alive(store):
    owner = Owner(store)
    child = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, pass_fds=[owner.fd]
    )
    owner.release()
    assert is_alive(store, owner.nonce)
    child.communicate()
    assert not is_alive(store, owner.nonce)


def test_an_owner_without_a_file_is_dead(store):
    assert not is_alive(store, "0123456789abcdef")


def test_asking_does_not_make_another_asker_think_it_alive(store):
    owner = Owner(store)
    owner.release()
    fd = store.open(f"owners/{owner.nonce}", os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_SH)  # as another process does while it asks
    assert not is_alive(store, owner.nonce)
    os.close(fd)


def test_only_a_dead_owner_is_forgotten(store):
    alive, dead = Owner(store), Owner(store)
    dead.release()
    forget_dead(store, alive.nonce)
    forget_dead(store, dead.nonce)
    assert store.names("owners") == [alive.nonce]
    alive.release()


def test_an_owner_whose_file_is_taken_away_before_it_is_locked_makes_another(store, monkeypatch):
    real, taken = fcntl.flock, []

    def flock(fd, how):
        if not taken:  # another process finds it unlocked, between its making and its locking
            taken.extend(store.names("owners"))
            os.unlink(store.full(f"owners/{taken[0]}"))
        real(fd, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    owner = Owner(store)
    assert owner.nonce not in taken
    assert is_alive(store, owner.nonce)
    owner.release()


def test_owners_stay_alive_while_others_clean_up(store):
    stop = threading.Event()
    store.make_folders("owners")

    def clean():
        while not stop.is_set():
            for nonce in store.names("owners"):
                forget_dead(store, nonce)

    cleaner = threading.Thread(target=clean)
    cleaner.start()
    for _ in range(200):
        owner = Owner(store)
        assert is_alive(store, owner.nonce)
        assert store.exists(f"owners/{owner.nonce}")
        owner.release()
    stop.set()
    cleaner.join()


def test_a_lock_that_cannot_be_taken_leaves_no_handle(store, monkeypatch):
    def refuse(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(owners.fcntl, "flock", refuse)
    store.make_folders("owners")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="No locks"):
        Owner(store)
    assert len(os.listdir("/proc/self/fd")) == before
