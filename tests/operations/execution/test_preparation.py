"""The folder of an attempt holds what its command asks for and nothing of another attempt."""

import os

import pytest

from operations.execution.cases import CaseFile
from operations.execution.preparation import Preparer


@pytest.fixture
def preparer(bench):
    opened = []

    def make(*command):
        plan = bench.plan(command, ("first", "second"))
        opened.append(CaseFile(plan.cases_path, {slot.case_id for slot in plan.slots}))
        return Preparer(plan, opened[-1]), plan.slots

    yield make
    for file in opened:
        file.close()


def content(path):
    with open(path) as file:
        return file.read()


def test_only_what_is_asked_for_is_made(preparer):
    prepare, slots = preparer("agent", "{case_id}")
    assert os.listdir(prepare.prepare(slots[0]).folder) == []


def test_an_events_file_is_a_path_in_the_folder_that_the_agent_may_make(preparer):
    prepare, slots = preparer("agent", "{events_file}")
    prepared = prepare.prepare(slots[0])
    assert prepared.argv == ["agent", os.path.join(prepared.folder, "events.jsonl")]
    assert os.listdir(prepared.folder) == []


def test_a_folder_that_holds_nothing_else_is_used_again_under_its_new_number(bench, preparer):
    prepare, slots = preparer("agent", "{input_file}", "{output_dir}")
    first = prepare.prepare(slots[0])
    prepare.take_back(first)
    second = prepare.prepare(slots[1])
    assert (second.inode, second.folder) == (first.inode, os.path.join(bench.work, "1"))
    assert not os.path.exists(first.folder)
    assert content(second.argv[1]) == '"second"'
    assert os.listdir(second.argv[2]) == []


def test_a_folder_with_something_of_the_agent_stays_as_it_is(preparer):
    prepare, slots = preparer("agent", "{input_file}", "{output_dir}")
    first = prepare.prepare(slots[0])
    open(os.path.join(first.argv[2], "metrics.json"), "w").close()
    prepare.take_back(first)
    prepare.prepare(slots[1])
    assert content(first.argv[1]) == '"first"'


def test_a_folder_that_was_replaced_is_not_used_again(preparer):
    prepare, slots = preparer("agent", "{case_id}")
    first = prepare.prepare(slots[0])
    os.rename(first.folder, first.folder + ".moved")
    os.mkdir(first.folder, 0o700)
    prepare.take_back(first)
    assert prepare.prepare(slots[1]).inode != os.lstat(first.folder).st_ino
