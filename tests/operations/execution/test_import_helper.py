"""A second process makes an import no different, only shorter, and leaves nothing when it dies."""

from __future__ import annotations

import json
import marshal
import os
import signal

import pytest

from operations.execution import import_helper
from operations.execution.import_helper import ImportHelper
from operations.execution.processes import is_readable
from operations.importers import _json_lines, _langfuse_shares
from operations.importers._fields import MappingSourceMissing, ValuesConflict
from operations.importers._intake import Guard
from operations.importers._json_values import dumps, loads
from operations.importers._langfuse_shares import Setup
from operations.importers._share_worker import _answer
from operations.importers._shares import MOST, in_order
from operations.importers._source import Options
from operations.importers.evidence import EvidenceImport, TooManyDamaged
from operations.importers.sources import open_source
from tests.support.imports import Imports

SECRET = "ghp_Planted0123456789abcdefghijkl"


class Waited:
    """A helper that is waited for until it is ready."""

    def __init__(self, setup):
        self.helper, self.taken = ImportHelper(setup), {"take": 0, "assemble": 0}
        assert is_readable(self.helper._from, 60)

    def offer(self, kind, share):
        took = self.helper.offer(kind, share)
        self.taken[kind] += took
        return took

    def has_answered(self):
        return self.helper.has_answered()

    def answer(self):
        return self.helper.answer()

    def kill(self):
        os.kill(self.helper.pid, signal.SIGKILL)

    def end(self):
        self.helper.end()


class Inside:
    """Does every other share as the process would, in this one."""

    def __init__(self, setup):
        self.shares, self.waiting, self.offered = setup.shares(), [], 0

    def offer(self, kind, share):
        self.offered += 1
        if self.offered % 2:
            self.waiting.append(marshal.dumps((kind, tuple(share))))
        return bool(self.offered % 2)

    def has_answered(self):
        return False

    def answer(self):
        return marshal.loads(_answer(self.shares, *marshal.loads(self.waiting.pop(0)))) or None

    def end(self):
        """There is nothing to end."""


@pytest.fixture
def imports(tmp_path):
    return Imports(tmp_path / "project")


@pytest.fixture
def small_shares(monkeypatch):
    """Makes many shares of a small export."""
    monkeypatch.setattr(_json_lines, "BLOCK_BYTES", 2000)
    monkeypatch.setattr(_langfuse_shares, "TOGETHER", 2000)


def row(number, **more):
    text = json.dumps({"api_key": SECRET}) if number % 7 == 0 else "plain words"
    return {
        "id": f"o-{number}",
        "traceId": f"t-{number % 40}",
        "type": "TOOL",
        "startTime": f"2026-06-01T10:00:{number % 60:02d}Z",
        "input": text,
        **({"level": "ERROR"} if number % 5 == 0 else {}),
        **more,
    }


def export(tmp_path, rows):
    path = tmp_path / "observations.jsonl"
    path.write_text("".join(one if isinstance(one, str) else json.dumps(one) + "\n" for one in rows))
    return str(path)


def reading_of(imports, path, runs, *, max_damaged=0, mappings=({}, {}, {})):
    source = open_source("langfuse", Options(adapter_profile="langfuse_observation_rows", mappings=mappings))
    guard = Guard(imports.project.masker)
    return EvidenceImport(path, source, source.find(path), guard, str(runs), max_damaged=max_damaged)


def read(imports, path, runs, *, helper=None, kill=False, **options):
    """Reads an export. Returns everything that comes of it, and what the helper took."""
    reading = reading_of(imports, path, runs, **options)
    setup = Setup.of(reading.source.settings, tuple(f.name for f in reading.found.files), imports.project.mask_key, ())
    helper = helper and helper(setup)
    reading.helper = helper
    try:
        loose, records = [], []
        for record in reading.records(loose.append):
            records.append(loads(record) if isinstance(record, bytes) else loads(dumps(record)))
            if kill and len(records) == 1:
                helper.kill()
    finally:
        if helper is not None:
            helper.end()
    said = (records, loose, reading.warnings(), reading.fields, dict(reading.tally.counts), reading.files)
    return said, reading.damaged, getattr(helper, "taken", None)


ROWS = [
    *(row(n) for n in range(120)),
    "\n",
    "{damaged\n",
    *(row(n, other=None) for n in range(120, 200)),
    json.dumps({"id": "o-lost"}) + "\n",
    *(row(n, endTime="2026-06-01T09:00:00Z") for n in range(200, 280)),
    json.dumps(row(281))[:-4],
]


@pytest.mark.usefixtures("small_shares")
def test_what_is_read_is_the_same_with_a_helper_and_without(imports, tmp_path):
    path = export(tmp_path, ROWS)
    alone, damaged, _ = read(imports, path, tmp_path / "a", max_damaged=2)
    together, damaged_together, taken = read(imports, path, tmp_path / "b", helper=Waited, max_damaged=2)
    assert min(taken.values()) > 0, taken  # how much depends on which of the two is faster
    assert together == alone
    assert damaged_together == damaged
    assert len(alone[0]) == 40
    assert SECRET not in repr(alone)
    assert [(one.row, one.line) for one in damaged] == [(121, 122), (202, 203)]


@pytest.mark.usefixtures("small_shares")
def test_a_helper_that_is_killed_changes_nothing(imports, tmp_path):
    path = export(tmp_path, ROWS)
    alone, _, _ = read(imports, path, tmp_path / "a", max_damaged=2)
    together, _, taken = read(imports, path, tmp_path / "b", helper=Waited, kill=True, max_damaged=2)
    assert taken["take"] > 5
    assert together == alone


@pytest.mark.usefixtures("small_shares")
@pytest.mark.parametrize(
    ("rows", "options", "error"),
    [
        (ROWS, {"max_damaged": 1}, TooManyDamaged),
        ([*map(row, range(200)), row(3, input="another")], {}, ValuesConflict),
        ([*map(row, range(200))], {"mappings": ({}, {"name": "absent"}, {})}, MappingSourceMissing),
    ],
)
def test_a_refusal_is_the_same_with_a_helper(imports, tmp_path, rows, options, error):
    path = export(tmp_path, rows)
    said = []
    for helper in (None, Inside):
        with pytest.raises(error) as refused:
            read(imports, path, tmp_path / f"runs-{helper}", helper=helper, **options)
        said.append(refused.value.facts)
    assert said[0] == said[1]
    assert not [name for name in os.listdir(tmp_path) if name.startswith("runs")]


def test_an_import_has_a_helper_where_it_pays(imports, tmp_path, monkeypatch):
    path = export(tmp_path, map(row, range(50)))
    started = []
    made = ImportHelper.__init__

    def start(self, setup):
        made(self, setup)
        started.append(self)

    monkeypatch.setattr(ImportHelper, "__init__", start)
    profile = {"adapter_profile": "langfuse_observation_rows"}
    imports.send(path, **profile)
    assert not started
    monkeypatch.setattr(import_helper, "LEAST_BYTES", 1)
    monkeypatch.setattr(import_helper, "_cores", lambda: 2)
    imports.send(path, **profile, source_namespace="other")
    (helper,) = started
    assert helper._process.returncode is not None


def test_an_import_goes_on_where_no_helper_can_be_started(imports, tmp_path, monkeypatch):
    path = export(tmp_path, map(row, range(50)))
    monkeypatch.setattr(import_helper, "LEAST_BYTES", 1)
    monkeypatch.setattr(import_helper, "_cores", lambda: 2)
    monkeypatch.setattr(import_helper.sys, "executable", str(tmp_path / "nothing"))
    assert imports.send(path, adapter_profile="langfuse_observation_rows").counts["observations"] == 50


class Slow:
    """A helper that takes every other share and answers only when it is waited for."""

    def __init__(self):
        self.waiting, self.offered = [], 0

    def offer(self, _, share):
        self.offered += 1
        if self.offered % 2:
            self.waiting.append(share)
        return bool(self.offered % 2)

    def has_answered(self):
        return False

    def answer(self):
        (number,) = self.waiting.pop(0)
        return None if number % 4 == 0 else number * 10


def test_shares_come_in_order_whoever_does_them_and_no_more_wait_than_may():
    ahead = 0
    drawn = []

    def shares():
        for number in range(50):
            drawn.append(number)
            yield (number,)

    for place, made in enumerate(in_order("k", shares(), lambda one: one[0] * 10, lambda said: said, Slow())):
        assert made == place * 10
        ahead = max(ahead, len(drawn) - place)
    assert place == 49
    assert ahead <= MOST + 1
