"""The page about rows to train on is followed as it stands."""

from pathlib import Path

from tests.support.fences import Reader, blocks_of, environment

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "training-rows.md").read_text(encoding="utf-8")


def test_a_log_becomes_a_row_and_says_what_it_left(tmp_path, monkeypatch):
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    Reader(tmp_path).read(blocks_of(PAGE))
