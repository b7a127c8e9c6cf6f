"""Rows come out in order however many there are, and nothing of the sorting stays."""

import os
import random

import pytest

from operations.importers import _sorting
from operations.importers._sorting import Sorter


@pytest.mark.parametrize(("rows", "run", "fan_in"), [(0, 1, 2), (5, 1 << 20, 2), (3000, 20_000, 3), (500, 1, 4)])
def test_rows_come_out_sorted_and_the_runs_are_gone(tmp_path, monkeypatch, rows, run, fan_in):
    monkeypatch.setattr(_sorting, "RUN_BYTES", run)
    monkeypatch.setattr(_sorting, "FAN_IN", fan_in)
    monkeypatch.setattr(_sorting, "BLOCK_BYTES", 1000)
    given = [(b"t%03d" % (n * 7919 % 97), 1, n, None, "p", b"x" * (n % 50)) for n in range(rows)]
    random.Random(1).shuffle(given)
    folder = os.fspath(tmp_path / "runs")
    sorter = Sorter(folder)
    for row in given:
        sorter.add(row)
    assert list(sorter) == sorted(given)
    sorter.close()
    assert not os.path.exists(folder)
