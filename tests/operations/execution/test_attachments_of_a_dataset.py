"""Attachments of a dataset that lies in a folder of its own reach the agent, and one that changed is named."""

import json
import sys

from storage.schema.batches import Batch
from tests.support.projects import Target

AGENT = (
    "import json, sys; listed = json.load(open(sys.argv[1])); "
    "print(open(listed[0]['path'], encoding='utf-8').read().strip())"
)


def made(tmp_path):
    target = Target(tmp_path / "target", initialize=False)
    target.initialize(command=[sys.executable, "-c", AGENT, "{attachments_file}"], working_directory=".")
    target.write("data/letter.txt", "a letter\n")
    target.write("data/cases.jsonl", json.dumps({"id": "one", "input": "x", "attachments": ["letter.txt"]}) + "\n")
    target.write(".gitignore", "cases.csv\ndata/\n")
    target.git("commit", "-q", "-am", "Ignore the data")
    dataset = target.call("store_dataset", source="data/cases.jsonl").dataset_id
    return target, dataset


def run(target, dataset):
    answer = target.call("run_evaluation", dataset_id=dataset, revision_commit=target.head, wait_seconds=200)
    return target.state.get(Batch, answer.batch_id), target.call("read_record", record_id=f"{answer.batch_id}.1").value


def test_the_agent_opens_the_attachment_by_the_path_that_it_is_told(tmp_path):
    batch, record = run(*made(tmp_path))
    assert (batch.status, record["output"]) == ("sealed", "a letter\n")


def test_an_attachment_that_changed_is_infrastructure_and_is_named(tmp_path):
    target, dataset = made(tmp_path)
    target.write("data/letter.txt", "another letter\n")
    batch, record = run(target, dataset)
    assert (batch.status, record["execution"]["status"]) == ("partial", "infra_error")
    assert "letter.txt" in record["execution"]["error"]
