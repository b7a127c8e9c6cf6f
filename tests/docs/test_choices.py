"""What the page on repeats and margins advises is what the table of the statistics and the rules say."""

import re
from pathlib import Path

from operations.tuning.ledger import alpha_of_look

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "how-to" / "choose-repeats-and-margins.md").read_text(encoding="utf-8")
STATISTICS = (DOCS / "statistics.md").read_text(encoding="utf-8")


def tenths(cases, targets, repeats, margin):
    """Returns in how many of ten first looks a true repair passes, as the table of the statistics has it."""
    row = rf"^\| standard \| {cases} \| {targets} \| {repeats} \| {margin} \| 1 \| fix \| ([0-9.]+) \|"
    (found,) = re.findall(row, STATISTICS, re.MULTILINE)
    return round(10 * float(found))


def test_each_plan_finds_a_repair_as_often_as_the_table_says():
    rows = re.findall(
        r"^\| (\d+) Cases, (.+?) \| `incremental_repeats: (\d+)`, `margin: ([0-9.]+)`.*? \| (.+) \|$",
        PAGE,
        re.MULTILINE,
    )
    assert len(rows) == 5
    for cases, who, repeats, margin, often in rows:
        named = re.search(r"(\d+)(?: of them)? targets", who)
        targets = named[1] if named else str(int(cases) // 5)
        assert int(re.match(r"(\d+) of 10 times", often)[1]) == tenths(cases, targets, repeats, margin), cases


def test_the_first_looks_are_tested_at_what_the_page_says():
    told = re.search(r"tested more strictly \(([0-9., ]+), \.\.\.\)", PAGE)[1]
    assert told.split(", ") == [f"{alpha_of_look(0.05, look):.2g}".removeprefix("0") for look in (1, 2, 3)]
