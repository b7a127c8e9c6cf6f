"""Large files are read only as what was recorded: a missing or rotten one is named, never guessed."""

from __future__ import annotations

import os

import pytest

from storage import contents
from storage.files import StoreDamaged
from tests.support import toys
from tests.support.projects import CASES, Target, bare


def test_the_cases_of_a_dataset_come_in_the_order_of_their_source(tmp_path):
    target = Target(tmp_path / "target")
    dataset_id = target.store_cases()
    found = contents.cases(target.project, target.state, dataset_id)
    assert [(case.id, case.input, case.expected) for case in found] == list(CASES)


@pytest.mark.parametrize("byte", [0, 3, -1])
def test_a_flipped_byte_is_named_and_never_read(tmp_path, byte):
    project = bare(tmp_path)
    path = toys.place(project, b'{"id": "a"}\n')
    data = bytearray(project.store.read(path))
    data[byte] ^= 1
    toys.overwrite(project.store.full(path), bytes(data))
    with pytest.raises(StoreDamaged, match="does not have the digest") as refused:
        contents.checked(project, project.state(), path)
    assert refused.value.path == project.store.full(path)


def test_a_file_that_was_cut_or_emptied_is_named(tmp_path):
    project = bare(tmp_path)
    path = toys.place(project, b'{"id": "a"}\n')
    for left in (b"", b'{"id"'):
        toys.overwrite(project.store.full(path), left)
        with pytest.raises(StoreDamaged, match="does not have the digest"):
            contents.checked(project, project.state(), path)


def test_a_missing_file_is_named_and_the_rest_can_be_read(tmp_path):
    project = bare(tmp_path)
    first, second = toys.place(project, b"1"), toys.place(project, b"2")
    os.unlink(project.store.full(first))
    with pytest.raises(StoreDamaged, match="is missing"):
        contents.checked(project, project.state(), first)
    assert contents.checked(project, project.state(), second) == b"2"


def test_a_file_that_no_record_names_is_not_read(tmp_path):
    project = bare(tmp_path)
    project.store.write_new("datasets/stray", [b"x"])
    with pytest.raises(StoreDamaged, match="named by no journal record"):
        contents.checked(project, project.state(), "datasets/stray")
