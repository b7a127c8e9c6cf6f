"""The detectors held against trajectories that were labelled before there was a detector.

`practice.jsonl` was looked at while the rules were written; `kept.jsonl` was not, until they were finished.
"""

import re
import sys
from pathlib import Path

from operations.trajectories.detectors import DETECTORS
from tests.support.trajectories import LABELS, read, score

PAGE = (Path(__file__).parents[3] / "docs" / "detectors.md").read_text(encoding="utf-8")


def test_on_what_was_looked_at_the_detectors_find_what_the_labels_say():
    found = score(read("practice.jsonl"))
    sys.stdout.write(f"\npractice\n{found.table()}\n")
    assert found.remarks == []
    assert found.table() in PAGE


def test_on_what_was_kept_the_detectors_are_right_nine_times_in_ten_and_miss_one_in_five_at_most():
    found = score(read("kept.jsonl"))
    sys.stdout.write("\n".join(["", "kept", found.table(), *found.remarks, ""]))
    assert found.precision(*LABELS) >= 0.9
    assert found.recall(*LABELS) >= 0.8
    assert found.table() in PAGE


def test_the_page_says_each_rule_with_its_version():
    words = " ".join(PAGE.split())
    said = [f"### {d.name} Version {d.version}. {d.rule}" for d in DETECTORS]
    assert [rule for rule in said if rule not in words] == []
    assert re.findall(r"^### (\w+)$", PAGE, re.MULTILINE) == list(LABELS)
