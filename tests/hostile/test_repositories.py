"""A Round in every hostile repository does what was written down beforehand, and changes no byte that it should not."""

import os
import re
from pathlib import Path

import pytest

from tests.support.gitcases import expected
from tests.support.gitcases.builder import NEEDS, available
from tests.support.gitcases.driver import CASES
from tests.support.gitcases.rounds import Walk, take

PAGE = Path(__file__).parents[2] / "docs" / "hostile-repositories.md"
QUICK = (("index_lock_left", "keep"), ("unsafe_owner", "keep"), ("odd_names", "keep"))


def _runs():
    everything = os.environ.get("ATK_EVERY_REPOSITORY")
    for name, case in sorted(CASES.items()):
        for end in expected.ends(case):
            if end == "keep" or everything:  # tests/storage/test_checkpoints_cases.py rejects in each
                marks = () if (name, end) in QUICK else (pytest.mark.slow,)
                yield pytest.param(case, end, marks=marks, id=f"{name}-{end}")


@pytest.mark.parametrize(("case", "end"), list(_runs()))
def test_a_round_does_what_it_has_to_and_leaves_the_rest_alone(case, end, tmp_path):
    if not available(case.needs):
        pytest.skip(f"this machine cannot make one: it needs {NEEDS[case.needs]}")
    outcome = take(case, end, str(tmp_path))
    assert (outcome.answers, outcome.problems) == (expected.expected(case, end), []), outcome.said


def test_what_has_to_happen_is_written_down_for_every_kind():
    assert expected.unknown() == set()


def test_the_page_has_a_row_for_every_kind_and_none_that_went_wrong():
    rows = re.findall(r"^\| (\w+) \| .* \| (.*) \| [\d.]+ \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert dict(rows) == dict.fromkeys(CASES, "as expected")


@pytest.mark.parametrize("path", ["run.sh", ".git/config", ".git/refs/heads/other", "new"])
def test_what_a_step_touches_and_should_not_is_noticed(tmp_path, monkeypatch, path):
    """What the other tests rely on."""
    seal = Walk.seal

    def careless(walk):
        seal(walk)
        with open(os.path.join(walk.root, path), "a", encoding="utf-8") as file:
            file.write("\n")

    monkeypatch.setattr(Walk, "seal", careless)
    monkeypatch.setattr(Walk, "reject", lambda _: None)
    problems = take(CASES["clean"], "reject", str(tmp_path)).problems
    assert f"seal changed [b'repo/{path}']" in problems
