"""A stored Case can be tried before anything is planned: its input and its attachments reach the agent."""

import json
import os
import sys

import pytest

from operations.importers import _attachments
from storage.errors import AtkError
from tests.support.projects import Target

AGENT = (
    "import json, sys; files = json.load(open(sys.argv[3])); "
    "print(sys.argv[1], sys.argv[2], *(open(file['path']).read().strip() for file in files))"
)


@pytest.fixture
def target(tmp_path):
    made = Target(tmp_path / "target", initialize=False)
    made.initialize(command=[sys.executable, "-c", AGENT, "{case_id}", "{input}", "{attachments_file}"], components=[])
    made.write("letter.txt", "a letter\n")
    rows = [{"id": "plain", "input": "hello"}, {"id": "long", "input": "see", "attachments": ["letter.txt"]}]
    made.write("cases.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    return made


def tried(target, dataset_id, **given):
    return target.call("try_case", dataset_id=dataset_id, **given).smoke.output


def test_a_stored_case_is_tried_with_copies_of_its_attachments(target):
    dataset_id = target.call("store_dataset", source="cases.jsonl").dataset_id
    os.unlink(target.path("letter.txt"))
    assert tried(target, dataset_id) == "plain hello\n"
    assert tried(target, dataset_id, case_id="long") == "long see a letter\n"


def test_of_a_dataset_without_kept_bytes_the_projects_files_are_shown(target, monkeypatch):
    monkeypatch.setattr(_attachments.KeptAttachments, "keep", lambda *_: None)
    dataset_id = target.call("store_dataset", source="cases.jsonl").dataset_id
    assert tried(target, dataset_id, case_id="long") == "long see a letter\n"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "neither is given"),
        ({"input": "x", "dataset_id": "{dataset_id}"}, "both input and dataset_id are given"),
        ({"dataset_id": "{dataset_id}", "case_id": "other"}, "has no Case other that may be shown"),
    ],
)
def test_what_names_no_one_case_is_refused(target, given, problem):
    dataset_id = target.call("store_dataset", source="cases.jsonl").dataset_id
    with pytest.raises(AtkError) as refused:
        target.call("try_case", **{name: value.format(dataset_id=dataset_id) for name, value in given.items()})
    assert refused.value.code == "nothing_to_try"
    assert problem in str(refused.value)


def test_an_input_of_null_is_an_input(target):
    assert target.call("try_case", input=None).smoke.output == "try null\n"


def test_damaged_kept_bytes_are_named(target):
    dataset_id = target.call("store_dataset", source="cases.jsonl").dataset_id
    folder = target.path(f".atk/datasets/{dataset_id}/attachments")
    [name] = os.listdir(folder)
    os.unlink(os.path.join(folder, name))
    with pytest.raises(AtkError, match=r"letter\.txt of the Case long, is missing"):
        target.call("try_case", dataset_id=dataset_id, case_id="long")


MEDDLER = "import sys; open('prompt.txt', 'a').write('more'); open('left.txt', 'w').write('x'); print('done')"


def test_an_attempt_that_changes_the_worktree_says_which_files_and_what_that_means_for_a_run(tmp_path):
    made = Target(tmp_path / "target", initialize=False)
    made.initialize(command=[sys.executable, "-c", MEDDLER, "{input}"], components=[])
    tried_once = made.call("try_case", input="x")
    assert (tried_once.smoke.outcome, tried_once.changed_paths) == ("completed", ["left.txt", "prompt.txt"])
    assert "is contaminated" in tried_once.warnings[0]
    again = made.call("try_case", input="x")
    assert again.changed_paths == ["prompt.txt"], "what was there before as it is now is no change"


def test_an_attempt_that_leaves_the_worktree_alone_warns_of_nothing(target):
    assert target.call("try_case", input="x").changed_paths == []
