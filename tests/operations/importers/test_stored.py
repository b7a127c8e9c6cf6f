"""The Records of an import are found by their ids, and by nothing that only counts to the same."""

import json

import pytest

from atk_mcp.people.attempts import found_record
from operations.importers.stored import number_in
from storage.errors import AtkError
from storage.projection import UnknownObject
from tests.support.imports import Imports


@pytest.mark.parametrize(
    ("record_id", "number"),
    [
        ("batch-1-k3x9.12", 12),
        ("batch-1-k3x9.012", None),
        ("batch-1-k3x9.٣", None),
        ("batch-1-k3x9.-1", None),
        ("batch-1-k3x9.", None),
        ("batch-1-k3x9." + "9" * 5000, None),
        ("batch-2-k3x9.12", None),
        ("12", None),
    ],
)
def test_an_id_is_one_text(record_id, number):
    assert number_in(record_id, "batch-1-k3x9") == number


def test_no_operation_takes_another_writing_of_a_number_for_a_record(tmp_path):
    imports = Imports(tmp_path / "project")
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"q": f"Question {n}", "a": "yes"}) + "\n" for n in range(40)), encoding="utf-8")
    columns = {"input": "q", "output": "a"}
    batch_id = imports.send(path, source_kind="batch_results", mapping=columns).batch_id
    named = {
        "read_record": {"record_id": "{}"},
        "inspect_trajectory": {"record_id": "{}"},
        "detect_failures": {"record_ids": ["{}"]},
        "project_trajectories": {"batch_id": batch_id, "record_ids": ["{}"], "form": "audit"},
        "store_dataset": {"batch_id": batch_id, "record_ids": ["{}"]},
    }
    for name, arguments in named.items():
        with pytest.raises(AtkError):
            imports.call(name, **json.loads(json.dumps(arguments).replace("{}", f"{batch_id}.01")))
    for number in (0, 41, 65):
        with pytest.raises(UnknownObject):
            imports.call("read_record", record_id=f"{batch_id}.{number}")
    assert imports.call("read_record", record_id=f"{batch_id}.40").value["input"]["value"] == "Question 39"
    assert found_record(imports.project, f"{batch_id}.40")["n"] == 40
    with pytest.raises(UnknownObject):
        found_record(imports.project, f"{batch_id}.01")
