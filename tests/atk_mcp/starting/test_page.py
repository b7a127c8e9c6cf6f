"""The page about the first ten minutes can be followed as it stands."""

from pathlib import Path

from tests.support.fences import Reader, blocks_of, environment

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "first-ten-minutes.md"


def test_the_first_ten_minutes_go_as_the_page_says(tmp_path, monkeypatch):
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    Reader(tmp_path).read(blocks_of(PAGE.read_text(encoding="utf-8")))
