"""The checkpoint answers as it must in every hostile repository, and touches nothing else of the user's."""

from __future__ import annotations

import shlex

import pytest

from tests.support.gitcases.builder import NEEDS, available
from tests.support.gitcases.driver import CASES, drive

QUICK = {
    "autocrlf_true",
    "clean",
    "detached",
    "exec_bits",
    "file_becomes_dir",
    "hooks",
    "linked_worktree",
    "monorepo_subdir",
    "odd_names",
    "symlinks",
    "untracked_in_the_way",
    "user_edits_after_seal",
}
"""What runs by default: the ordinary ways, and those that broke a checkpoint before."""


def _runs():
    for name, case in sorted(CASES.items()):
        marks = () if name in QUICK else (pytest.mark.slow,)
        for end in ("reject", "keep"):
            # tests/hostile/test_repositories.py keeps in each of the others, by the operations
            if end == "reject" or (name in QUICK and case.freeze == case.seal == "ok"):
                yield pytest.param(case, end, marks=marks, id=f"{name}-{end}")


@pytest.mark.parametrize(("case", "end"), list(_runs()))
def test_every_step_answers_as_it_must_and_leaves_the_rest_alone(case, end, tmp_path, monkeypatch):
    if not available(case.needs):
        pytest.skip(f"this machine cannot make one: it needs {NEEDS[case.needs]}")
    monkeypatch.setenv("HOME", str(tmp_path / "case"))
    if case.mid and case.mid.after == "env":
        for assignment in shlex.split(case.mid.shell):
            monkeypatch.setenv(*assignment.split("=", 1))

    run = drive(case, end, str(tmp_path / "case"))

    assert run.problems == []


def test_the_quick_cases_exist():
    assert set(CASES) >= QUICK
