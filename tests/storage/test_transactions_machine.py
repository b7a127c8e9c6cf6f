"""A state machine over the store: wherever it is cut, what was acknowledged stays and nothing is half done.

Every step may be cut by the end of the process at any of its file-changing calls. After it the store is opened anew,
and has to be what the model says: with the step made, or without it. A step that was acknowledged has been made.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from storage.files import StoreDamaged
from storage.frames import Frame, scan
from storage.transaction import Replayed, RequestIdReused
from tests.support import toys
from tests.support.killing import Cut, Killer
from tests.support.projects import bare, call_of
from tests.support.toys import names, reopened

cuts = st.none() | st.tuples(st.integers(1, 40), st.booleans())
requests = st.none() | st.sampled_from(["r1", "r2", "r3"])
keys = st.sampled_from(["a", "b", "c"])
versions = st.sampled_from(["1", "2"])


class Store(RuleBasedStateMachine):
    """The store against plain values."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.patch = pytest.MonkeyPatch()
        toys.use_toy_effects(self.patch)

    @initialize()
    def make(self):
        self.toy = os.path.join(self.folder, "toy.txt")
        toys.write(self.toy, "0")
        self.project = bare(self.folder)
        self.judgers, self.files, self.target, self.requests = {}, {}, "0", {}

    def teardown(self):
        self.patch.undo()
        shutil.rmtree(self.folder)

    def step(self, work, made, request, arguments, cut):
        """Does `work`, perhaps cut; takes `made` into the model where it was done. Returns what was answered."""
        if request in self.requests:
            wanted = Replayed if self.requests[request] == arguments else RequestIdReused
            with pytest.raises(wanted):
                work()
            return
        answered = False
        if cut is None:
            work()
            answered = True
        else:
            try:
                with Killer(cut[0], torn=cut[1]):
                    work()
                answered = True
            except Cut:
                self.end_process()
        before = self.observed()
        made()
        if self.model() != before:
            assert not answered, "what was acknowledged is lost"
            self.unmake()
            assert self.model() == before, "half of a step is there"
        elif request is not None and (answered or self.recorded(request)):
            self.requests[request] = arguments

    def end_process(self):
        """The locks of a process go with it, and another one opens the store."""
        for fd in os.listdir("/proc/self/fd"):
            try:
                path = os.readlink(f"/proc/self/fd/{fd}")
            except FileNotFoundError:
                continue
            if path.startswith(f"{self.folder}/.atk/") or (path == f"{self.folder}/.atk" and int(fd) > 2):
                os.close(int(fd))
        self.project = reopened(self.project)
        self.project.recover(call_of("recover"))

    def recorded(self, request):
        return request in self.project.state().requests

    def observed(self):
        state = self.project.state()
        judgers = {r.id: r.version for r in state.objects.get("judger", {}).values() if not r.id.startswith("effect-")}
        files = sorted(self.project.store.read(path) for path in state.files)
        return judgers, files, toys.text(self.toy)

    def model(self):
        return self.judgers, sorted(self.files.values()), self.target

    @rule(key=keys, version=versions, request=requests, cut=cuts)
    def put(self, key, version, request, cut):
        old = dict(self.judgers)
        self.unmake = lambda: setattr(self, "judgers", old)
        self.step(
            lambda: toys.put(self.project, key, request, version=version, v=version),
            lambda: self.judgers.__setitem__(key, version),
            request,
            ("put", key, version),
            cut,
        )

    @rule(content=st.sampled_from([b"one", b"two"]), request=requests, cut=cuts)
    def place(self, content, request, cut):
        number = len(self.files)
        self.unmake = lambda: self.files.pop(number)
        self.step(
            lambda: toys.place(self.project, content, request),
            lambda: self.files.__setitem__(number, content),
            request,
            ("place", content),
            cut,
        )

    @rule(request=requests, cut=cuts)
    def change_outside(self, request, cut):
        old, new = self.target, str(int(self.target) + 1)
        known = self.requests.get(request)
        after = known[1] if known and known[0] == "change" else new
        self.unmake = lambda: setattr(self, "target", old)
        self.step(
            lambda: toys.announce(self.project, self.toy, old, after, request).carry_out(),
            lambda: setattr(self, "target", new),
            request,
            ("change", after),
            cut,
        )

    @rule()
    def restart(self):
        self.end_process()

    @rule(data=st.data())
    def tear_a_copy(self, data):
        """The journal of a copy, cut at any byte, is a prefix of what was recorded; the next change goes on there."""
        with tempfile.TemporaryDirectory() as folder:
            copy = os.path.join(folder, ".atk")
            shutil.copytree(self.project.store.path, copy)
            journal = os.path.join(copy, toys.SEGMENT)
            whole = toys.read(journal)
            ends = [frame.end for frame in scan(whole) if isinstance(frame, Frame)]  # a store begins with two
            toys.overwrite(journal, whole[: data.draw(st.integers(ends[1], len(whole)), label="bytes left")])
            torn = reopened(mock.Mock(root=folder, store=mock.Mock(path=copy)))
            kept = list(torn.journal_records())
            assert kept == list(self.project.journal_records())[: len(kept)]
            assert torn.damage() is None
            if any(int(name.split("-")[1]) > len(kept) for name in torn.store.names("datasets")):
                with pytest.raises(StoreDamaged):  # no crash leaves files of a record that is not the next
                    toys.put(torn, "after")
            elif not torn.state().intents:
                toys.put(torn, "after")
                assert names(reopened(torn))[-1] == "after"
            torn.store.close()

    @invariant()
    def nothing_is_open_and_nothing_lies_about(self):
        state = self.project.state()
        assert self.project.damage() is None
        assert (state.intents, self.project.unresolved) == ({}, [])
        assert self.observed() == self.model()
        assert len(self.project.store.names("datasets")) == len(self.files)
        assert self.project.store.names("owners") == []


Store.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
test_whatever_is_cut_the_store_is_what_was_acknowledged = Store.TestCase
