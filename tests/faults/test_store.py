"""Faults of the store: an interrupted beginning, edited files and hashes that nobody checked (A14, A16, A17)."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from operations.invocation import InvalidArguments
from operations.tuning.freezing import PlanInvalid
from storage.errors import AtkError
from storage.files import StoreDamaged
from storage.project import Project
from storage.projection import UnknownObject
from tests.faults.story import PYTHON, REFUNDS, ROOT, Story, environment
from tests.support.projects import Target

STEPS = 60


def test_a14_an_interrupted_beginning_leaves_nothing_or_a_whole_project_and_can_be_repeated(tmp_path):
    """ATK 1.0.0 wrote its files one by one: a second init of the half-made folder was refused, and nothing else ran."""
    template = Target(tmp_path / "t", initialize=False)
    for step in range(1, STEPS + 1):
        shutil.copytree(template.root, f"{template.root}-{step}")
    request = {"command": [*PYTHON, "agent.py"], "external_effects": [], "allowed_paths": ["prompt.txt"]}
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "interrupted.py")
    done = subprocess.run(
        [sys.executable, script, str(STEPS), template.root, "initialize_project", json.dumps(request)],
        capture_output=True, text=True, check=True, env=environment(), cwd=ROOT,
    )  # fmt: skip
    ends = [int(line.split()[1]) for line in done.stdout.splitlines()]
    assert set(ends) == {0, 9}
    assert ends.index(0) > 10
    for step, end in enumerate(ends[: ends.index(0) + 1], start=1):
        target = Target.__new__(Target)
        target.root = os.path.realpath(f"{template.root}-{step}")
        whole = os.path.lexists(target.path(".atk"))
        if end == 0 or whole:
            assert target.call("get_status").initialized
            assert target.call("get_status").writable
        else:
            assert target.call("initialize_project", **request).project_id
        assert [n for n in os.listdir(target.root) if n.startswith(".atk")] == [".atk"]
        assert target.store_cases()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A project with one of every large file that the journal names."""
    story = Story(tmp_path_factory.mktemp("finished")).open()
    story.keep(lambda: story.target.write("prompt.txt", REFUNDS))
    return story


@pytest.fixture
def copy(finished, tmp_path):
    """A copy of it that a test may spoil."""
    shutil.copytree(finished.target.root, tmp_path / "copy", symlinks=True)
    target = Target.__new__(Target)
    target.root = os.path.realpath(tmp_path / "copy")
    return target


def stored(target, holder, name):
    """The newest file of a name below one of the store's folders."""
    folder = target.path(f".atk/{holder}")
    newest = max(os.listdir(folder), key=lambda entry: int(entry.split("-")[1]))
    return f".atk/{holder}/{newest}/{name}"


def flip(path, at):
    """Changes one byte of a file, by one bit that no line break has."""
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x01 if byte not in (0x0A, 0x0B) else byte ^ 0x40]))


FILES = {
    "cases": ("datasets", "cases.jsonl"),
    "records": ("evidence", "records.jsonl"),
    "slots": ("evidence", "slots.jsonl"),
    "assessment": ("assessments", "assessment.csv"),
    "comparison": ("validations", "comparison.csv"),
}

SEALED = {**FILES, "attempts": ("evidence", "attempts.log")}
"""What is part of a seal, also what nobody reads any more."""


@pytest.mark.parametrize("kind", SEALED)
@pytest.mark.parametrize("how", ["edited", "removed"])
def test_a16_an_edited_or_missing_stored_file_is_named_with_its_path(copy, kind, how):
    """ATK 1.0.0 accepted an edited attempt file and an edited manifest: neither was part of any seal."""
    assert copy.call("inspect_or_recover_operation").warnings == []
    path = copy.path(stored(copy, *SEALED[kind]))
    if how == "edited":
        flip(path, os.path.getsize(path) // 2)
    else:
        os.remove(path)
    found = copy.call("inspect_or_recover_operation")
    assert any(path in warning for warning in found.warnings), found
    assert len(found.warnings) == 1


@pytest.mark.parametrize("kind", ["cases", "records", "assessment", "comparison"])
def test_a16_whoever_reads_an_edited_file_is_told_and_gets_none_of_it(copy, kind):
    """ATK 1.0.0 served what it found."""
    path = stored(copy, *FILES[kind])
    flip(copy.path(path), 3)
    with pytest.raises(StoreDamaged) as refused:
        copy.call("read_record", record_id=path.split("/")[2])
    assert refused.value.path == copy.path(path)


def test_a16_no_decision_is_built_on_an_edited_verdict(copy):
    """ATK 1.0.0 read the CSV again at each comparison, whoever had edited it in the meantime."""
    state = copy.state
    validation = next(iter(state.objects["validation"].values()))
    sides = {"left_assessment_id": validation.left_assessment_id, "right_assessment_id": validation.right_assessment_id}
    batch_id = validation.right_batch_id
    with open(copy.path(f".atk/evidence/{batch_id}/records.jsonl"), "ab") as file:
        file.write(b"{}\n")
    with pytest.raises(StoreDamaged):
        copy.call("store_assessment", batch_id=batch_id, judger={"method": "contains"}, spec_id=state_spec(state))
    assert set(sides.values()) <= set(state.objects["assessment"])


def state_spec(state):
    return next(iter(state.objects["spec"]))


def test_a16_every_flipped_byte_of_the_journal_is_noticed_and_stops_all_writing(copy):
    """ATK 1.0.0 had no journal; its manifests could be edited at any byte without anybody noticing."""
    path = copy.path(".atk/journal/" + os.listdir(copy.path(".atk/journal"))[0])
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        whole = file.read()
    before = copy.call("get_status").position
    for at in sorted({0, 1, 9, 80, 150, *range(200, size - 1, size // 25), size - 2}):
        if whole[at] == 0x0A:
            continue
        flip(path, at)
        fresh()
        status = copy.call("get_status")
        assert not status.writable, at
        assert path in status.warnings[0]
        assert "byte" in status.warnings[0]
        for attempt in (copy.store_cases, lambda: copy.call("read_record", record_id="round-999-none")):
            with pytest.raises(StoreDamaged) as refused:
                attempt()
            assert refused.value.path == path
        with open(path, "rb") as file:
            assert sum(a != b for a, b in zip(file.read(), whole, strict=True)) == 1
        with open(path, "wb") as file:
            file.write(whole)
    fresh()
    assert copy.call("get_status").writable
    assert copy.store_cases()
    assert copy.call("get_status").position == before + 1


def test_a16_a_journal_is_checked_again_by_who_has_it_open(copy):
    """A process that holds the state in memory must not build on bytes that were changed under it."""
    assert copy.store_cases()
    path = copy.path(".atk/journal/" + os.listdir(copy.path(".atk/journal"))[0])
    flip(path, os.path.getsize(path) - 20)
    with pytest.raises(StoreDamaged):
        copy.store_cases()
    assert not copy.call("get_status").writable


def fresh():
    """Forgets what this process has read, as a new one would."""
    from storage import project

    with project._guard:
        project._opened.clear()


def test_a17_identities_are_checked_when_a_plan_is_frozen_and_never_given_by_the_caller(tmp_path):
    """ATK 1.0.0 froze any hash that it was given; that it was wrong was found after two paid runs."""
    story = Story(tmp_path)
    story.assess(story.evaluate_head().batch_id)
    made = story.call("create_round")
    issue = {"id": "refunds", "symptom": "s", "hypothesis": "h", "case_ids": ["refund-1"]}
    story.call("store_diagnosis", round_id=made.round_id, issues=[issue])
    plan = {"repeatability": "deterministic", **story.judged_by}

    def freeze(**fields):
        return story.call("freeze_round", round_id=made.round_id, plan={**plan, **fields})

    for name in ("spec_digest", "judger_digest", "run_config_digest", "case_fingerprints", "evaluation_spec_hash"):
        with pytest.raises(InvalidArguments, match=name):
            freeze(**{name: "0" * 64})
    for name in ("spec_id", "judger_id", "dataset_id"):
        with pytest.raises(UnknownObject, match="nothing-1"):
            freeze(**{name: "nothing-1"})
    with pytest.raises((PlanInvalid, AtkError), match="no-such-case"):
        freeze(case_ids=["no-such-case"])
    path = story.target.path(f".atk/datasets/{story.dataset_id}/cases.jsonl")
    flip(path, 40)
    with pytest.raises(StoreDamaged):
        freeze()
    flip(path, 40)
    frozen = freeze()
    assert frozen.plan["spec_digest"] == story.call("read_record", record_id=story.judged_by["spec_id"]).value["digest"]
    assert Project.open(story.target.root).state().position.number == frozen.journal_record
