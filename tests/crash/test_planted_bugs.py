"""The loop finds what it is for: each bug that is planted in the product makes it report a trial that went wrong."""

from __future__ import annotations

import os
import stat

import pytest

from storage import effects
from storage.checkpoints import restoring
from storage.checkpoints.states import States, classify
from storage.transaction import Transaction

pytestmark = pytest.mark.slow


def found(rows, words):
    """Whether a trial goes wrong as it has to; the first one is enough."""
    return any(words in row.wrong for row in rows)


def test_a_rename_without_a_flush_of_the_file_is_found_by_a_power_cut(loop, monkeypatch):
    loop("store_dataset")
    monkeypatch.setattr("storage.files.sync_file", lambda _: None)
    assert found(loop("store_dataset").power("strict", seed=1), "Error")


def test_a_rename_without_a_flush_of_its_folder_is_found_by_a_power_cut(loop, monkeypatch):
    loop("store_dataset")
    flush = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: None if stat.S_ISDIR(os.fstat(fd).st_mode) else flush(fd))
    assert found(loop("store_dataset").power("strict", seed=1), "Error")


def test_a_flush_that_fails_in_silence_is_found_by_an_error_of_the_disk(loop, monkeypatch):
    loop("store_dataset")
    flush = os.fsync

    def careless(fd):
        try:
            flush(fd)
        except OSError:
            return

    monkeypatch.setattr(os, "fsync", careless)
    flushes = [n for n, point in enumerate(loop("store_dataset").points, 1) if point.flushes]
    assert found(loop("store_dataset").faults("EIO", flushes), "was swallowed")


def test_an_effect_before_its_intent_is_found_by_a_kill(loop, monkeypatch):
    loop("reject")
    announce = Transaction.intend

    def hasty(self, steps, answer, *, claims):
        with self.project.git() as git, self.project.scratch("hasty") as scratch:
            effects.make_it_so(git, steps, since_ns=0, scratch=scratch)
        return announce(self, steps, answer, claims=claims)

    monkeypatch.setattr(Transaction, "intend", hasty)
    intent = last_write_of_the_journal(loop("reject"))
    assert found(loop("reject").faults("kill", [intent]), "changed the worktree")


def last_write_of_the_journal(loop):
    """The number of the call that writes the intent, counted with the bug in place."""
    loop.reset()
    points = loop.tracer.count(loop._call).points
    return next(n for n, point in enumerate(points, 1) if point.writes and "/journal/" in point.path)


def test_a_restore_that_does_not_look_first_is_found_by_what_the_user_wrote(loop, monkeypatch):
    loop("reject")

    def blind(git, changes, scratch):
        seen = classify(git, changes, scratch)
        return States(before=(*seen.before, *seen.other), after=seen.after, other=())

    monkeypatch.setattr(restoring, "classify", blind)
    monkeypatch.setattr(effects.git_states, "classify", blind)
    places = loop("reject").chosen("edited", 1, None)
    assert found(loop("reject").faults("edited", reversed(places)), "words are gone")
