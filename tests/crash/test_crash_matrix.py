"""The command for the whole matrix goes on where it was stopped, and fails where a trial or a part of it does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.crashloop.tracer import missing

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "scripts" / "crash-matrix"
PART = ("--only", "store_dataset,store_knowledge", "--mode", "kill", "--seed", "1")


def crash_matrix(results, *arguments):
    command = [sys.executable, SCRIPT, "--results", results, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def rows(results):
    return [json.loads(line) for line in results.read_text().splitlines()]


@pytest.fixture
def results(tmp_path):
    if reason := missing():
        pytest.skip(reason)
    return tmp_path / "matrix.jsonl"


def test_a_run_of_two_operations_at_once_is_gone_on_with(results):
    assert crash_matrix(results, "--jobs", "2", *PART, "--most", "2").returncode == 0
    first = rows(results)
    with results.open("a") as file:
        file.write('{"scenario": "store_dat')  # as a run that is killed may leave it
    ran = crash_matrix(results, "--jobs", "2", *PART, "--most", "3")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    made = [(row["scenario"], row["at"]) for row in rows(results)]
    assert len(made) == len(set(made))
    assert rows(results)[: len(first)] == first
    assert "| store_dataset | " in ran.stdout
    assert f"{len(made)} trials, 0 wrong" in ran.stdout


def test_a_trial_that_went_wrong_is_named_and_fails_the_command(results):
    row = {"scenario": "keep", "mode": "kill", "at": "7", "point": "rename a", "status": 137, "wrong": "it is gone"}
    results.write_text(json.dumps(row) + "\n")
    ran = crash_matrix(results, "--table")
    assert ran.returncode == 1
    assert "keep kill at 7: rename a\nit is gone" in ran.stdout


def test_an_unknown_operation_or_mode_is_named_with_those_that_there_are(results):
    ran = crash_matrix(results, "--only", "keep,no_such_operation")
    assert (ran.returncode, results.exists()) == (2, False)
    assert "no such operation: no_such_operation. There are initialize_project, " in ran.stderr
    assert "no such mode: burn. There are kill, " in crash_matrix(results, "--mode", "burn").stderr


def test_a_part_that_cannot_run_is_told_and_fails_the_command(results):
    results.write_text('{"scenario": "no row"}\n')
    ran = crash_matrix(results, "--jobs", "2", *PART, "--most", "1")
    assert ran.returncode == 3
    assert f"{results}.log says why" in ran.stderr
    assert "KeyError" in Path(f"{results}.log").read_text()
