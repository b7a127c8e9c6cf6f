"""The page about logging a trajectory is followed as it stands."""

import re
from pathlib import Path

from operations.trajectories.form import _NEEDED
from tests.support.fences import Reader, blocks_of, environment

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "log-a-trajectory.md").read_text(encoding="utf-8")


def test_a_log_is_written_read_and_found_out_when_a_line_is_lost(tmp_path, monkeypatch):
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    Reader(tmp_path).read(blocks_of(PAGE))


def test_the_table_of_kinds_says_what_each_cannot_do_without():
    rows = re.findall(r"^\| `(\w+)` \| (.*?) ?\|", PAGE, re.MULTILINE)
    assert {kind: re.findall(r"`(\w+)`", needed) for kind, needed in rows} == {k: [*v] for k, v in _NEEDED.items()}
