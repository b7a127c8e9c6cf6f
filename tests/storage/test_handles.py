"""A call that is refused gives back every handle: a server that answers for days has no others."""

from __future__ import annotations

import errno
import itertools
import os
import shutil

import pytest

from storage import owners
from storage.errors import AtkError
from storage.project import Project
from storage.sealing import HoldoutKeyUnusable, read_key
from tests.support import toys
from tests.support.projects import bare, call_of
from tests.support.rounds import Answered


def handles():
    """Returns what this process has open."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
        except FileNotFoundError:  # that of the listing
            continue
    return sorted(found)


def short_key(store):
    toys.overwrite(f"{store}/mask.key", b"short")


def folder_for_a_key(store):
    os.unlink(f"{store}/mask.key")
    os.mkdir(f"{store}/mask.key")


def linked_journal(store):
    os.rename(f"{store}/journal", f"{store}/elsewhere")
    os.symlink("elsewhere", f"{store}/journal")


@pytest.mark.parametrize("damage", [short_key, folder_for_a_key, linked_journal])
def test_store_that_cannot_be_opened_keeps_no_handle(tmp_path, monkeypatch, damage):
    damage(bare(tmp_path).store.path)
    monkeypatch.setattr("storage.project._opened", {})
    before = handles()
    with pytest.raises(AtkError):
        Project.open(str(tmp_path))
    assert handles() == before


def test_store_that_another_took_the_place_of_is_closed(tmp_path):
    bare(tmp_path)
    before = len(handles())
    for _ in range(3):
        shutil.rmtree(tmp_path / ".atk")
        bare(tmp_path)
    assert len(handles()) == before


def test_effect_that_could_not_be_announced_leaves_no_owner_alive(tmp_path, monkeypatch):
    toys.use_toy_effects(monkeypatch)
    project = bare(tmp_path)
    before = handles()
    with pytest.raises(ValueError, match="JSON"), project.transaction(call_of(no_number=float("nan"))) as tx:
        tx.intend([], Answered(), claims=[])
    assert handles() == before
    assert not [nonce for nonce in project.store.names("owners") if owners.is_alive(project.store, nonce)]


def test_disk_that_fails_at_any_call_of_a_founding_costs_no_handle(tmp_path, monkeypatch):
    for at in itertools.count(1):
        root = tmp_path / str(at)
        root.mkdir()
        before = handles()
        error = OSError(errno.EIO, os.strerror(errno.EIO))
        with toys.failing_at(monkeypatch, ["mkdir", "open", "write", "fsync", "rename"], at, error) as count:
            try:
                bare(root)
            except (OSError, AtkError):
                assert handles() == before, at
        if count[0] < at:
            break
    assert at > 20


def test_folder_where_a_holdout_key_belongs_costs_no_handle(tmp_path):
    before = handles()
    with pytest.raises(HoldoutKeyUnusable):
        read_key(str(tmp_path))
    assert handles() == before
