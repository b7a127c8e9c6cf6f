"""Tables fit the terminal that they are shown on."""

import sys

import pytest

from atk_mcp.people.tables import console, table

ROWS = (("case-1", 2, "plenty of words \u202e here"), ("case-2", 0, None))


@pytest.fixture
def shown(monkeypatch, capsys):
    """Returns a function that shows the rows on a terminal of some width and gives the lines."""

    def made(columns):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        for name, value in {"COLUMNS": str(columns), "TERM": "xterm", "NO_COLOR": "1"}.items():
            monkeypatch.setenv(name, value)
        console().print(table(("Case", "#Repeats", "Output"), ROWS, title="batch-1"))
        return [line.rstrip() for line in capsys.readouterr().out.splitlines()]

    return made


def test_a_narrow_terminal_gets_a_few_lines_for_each_row_and_no_column_of_letters(shown):
    lines = shown(40)
    assert lines == [
        "batch-1",
        "case-1",
        "  Repeats: 2",
        "  Output: plenty of words \\u202e here",
        "case-2",
        "  Repeats: 0",
    ]


def test_a_wide_terminal_gets_a_line_for_each_row(shown):
    lines = shown(100)
    assert len(lines) == 4
    assert lines[2].split() == ["case-1", "2", "plenty", "of", "words", "\\u202e", "here"]
