"""An import is held to the contract of its source and version, and refers to it."""

import json

from storage.schema.traces import ImportedBatch
from tests.operations.catalog.test_find_records import TRACES, score, trace
from tests.operations.catalog.test_record_source_contract import MEANING
from tests.support.imports import Imports


def test_an_import_is_held_to_the_contract_of_its_version(tmp_path):
    imports = Imports(tmp_path / "project")
    made = imports.call("record_source_contract", **MEANING)
    rows = [
        trace(1, scores=[score("quality", 0.5)]),
        trace(2, scores=[score("quality", 70)], output=None),
        trace(3, metadata={"region": "east"}),
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    sent = imports.send(path, **TRACES, source_namespace="support", mapping_version="1")
    assert [told.partition(" ")[2] for told in sent.warnings if told.startswith(made.contract_id)] == [
        "scores.quality: expected 0 to 1, found 1 beyond, such as 70",
        "output: expected in every Record, found in 2 of 3",
        "metadata.metadata.region: expected one of north, south, found 1 beside them, such as east",
    ]
    assert imports.project.state().get(ImportedBatch, sent.batch_id).contract_id == made.contract_id
    strange = imports.send(path, **TRACES, source_namespace="support", mapping_version="9")
    assert "no contract of this source says what mapping_version 9 means" in strange.warnings
    free = imports.send(path, **TRACES, source_namespace="support")
    assert not any("contract" in told for told in free.warnings)
    assert imports.project.state().get(ImportedBatch, free.batch_id).contract_id is None
