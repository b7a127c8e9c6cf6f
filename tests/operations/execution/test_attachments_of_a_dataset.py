"""A dataset keeps the bytes of its attachments: agents get copies of them, whatever becomes of the project's files."""

import hashlib
import json
import os
import shutil
import stat
import sys

import pytest

from operations.importers import _attachments
from storage.errors import AtkError
from storage.schema.batches import Batch
from storage.schema.datasets import Dataset
from tests.support.projects import Target

READS = (
    "import json, sys; listed = json.load(open(sys.argv[1])); "
    "print(open(listed[0]['path'], encoding='utf-8').read().strip())"
)
SPOILS = READS + "; open(listed[0]['path'], 'a').write('spoiled')"
LISTS = "import json, os, sys; print(json.dumps([f['path'] for f in json.load(open(sys.argv[1]))]))"
IN_PLACE = "print(open('data/letter.txt', encoding='utf-8').read().strip())"
TOKEN = "ghp_" + "a1B2" * 9
"""Has the form of a credential. An attachment is kept as it is."""


def made(tmp_path, agent=READS, *, asks=("{attachments_file}",), files=("letter.txt",), cases=("one",), **settings):
    target = Target(tmp_path / "target", initialize=False)
    target.initialize(command=[sys.executable, "-c", agent, *asks], working_directory=".", **settings)
    for name in files:
        target.write(f"data/{name}", "a letter\n")
    rows = [json.dumps({"id": case, "input": "x", "attachments": list(files)}) for case in cases]
    target.write("data/cases.jsonl", "\n".join(rows) + "\n")
    target.write(".gitignore", "cases.csv\ndata/\n")
    target.git("commit", "-q", "-am", "Ignore the data")
    dataset = target.call("store_dataset", source="data/cases.jsonl").dataset_id
    return target, dataset


def run(target, dataset, **arguments):
    given = {"dataset_id": dataset, "revision_commit": target.head, "wait_seconds": 200, **arguments}
    answer = target.call("run_evaluation", **given)
    return target.state.get(Batch, answer.batch_id), target.call("read_record", record_id=f"{answer.batch_id}.1").value


def kept_file(target, dataset, content=b"a letter\n"):
    return target.path(f".atk/datasets/{dataset}/attachments/{hashlib.sha256(content).hexdigest()}")


def refusal(target, operation, **arguments):
    with pytest.raises(AtkError) as refused:
        target.call(operation, **arguments)
    return refused.value


def append(path):
    with open(path, "ab") as file:
        file.write(b"x")


def without_kept_bytes(monkeypatch):
    """Stores datasets as they were stored before their attachments were kept."""
    monkeypatch.setattr(_attachments.KeptAttachments, "keep", lambda *_: None)


def test_the_agent_opens_a_copy_by_the_path_that_it_is_told(tmp_path):
    batch, record = run(*made(tmp_path))
    assert (batch.status, record["output"]) == ("sealed", "a letter\n")


def test_a_source_that_changed_or_is_gone_does_not_matter_any_more(tmp_path):
    target, dataset = made(tmp_path)
    target.write("data/letter.txt", "another letter\n")
    assert run(target, dataset)[1]["output"] == "a letter\n"
    shutil.rmtree(target.path("data"))
    batch, record = run(target, dataset)
    assert (batch.status, record["output"]) == ("sealed", "a letter\n")


def test_copies_lie_as_the_files_do_and_under_their_names(tmp_path):
    files = ("pages/index.html", "pages/img/logo.svg")
    target, dataset = made(tmp_path, LISTS, files=files)
    paths = json.loads(run(target, dataset)[1]["output"])
    [first, second] = [path.partition("/attachments/")[2] for path in paths]
    assert [first, second] == ["data/pages/index.html", "data/pages/img/logo.svg"]
    assert target.state.get(Dataset, dataset).kept_attachments == 1  # of equal bytes


def test_what_an_agent_does_to_its_copy_stays_its_own(tmp_path):
    target, dataset = made(tmp_path, SPOILS, cases=("one", "two"))
    batch, record = run(target, dataset, repeats=2, concurrency=1)
    assert (batch.status, batch.counts, record["output"]) == ("sealed", {"completed": 4}, "a letter\n")
    with open(kept_file(target, dataset), "rb") as file:
        assert file.read() == b"a letter\n"


def test_an_attachment_is_kept_verbatim_for_its_owner_alone(tmp_path):
    target, _ = made(tmp_path)
    target.write("data/letter.txt", TOKEN)
    dataset = target.call("store_dataset", source="data/cases.jsonl").dataset_id
    path = kept_file(target, dataset, TOKEN.encode())
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    name = os.path.relpath(path, target.path(".atk"))
    assert target.state.files[name].sha256 == os.path.basename(path)


def test_an_agent_that_asks_for_no_attachments_is_held_to_the_files_of_the_project(tmp_path):
    target, dataset = made(tmp_path, IN_PLACE, asks=("{input}",))
    assert run(target, dataset)[1]["output"] == "a letter\n"
    target.write("data/letter.txt", "another letter\n")
    batch, record = run(target, dataset)
    assert (batch.status, record["execution"]["status"]) == ("partial", "infra_error")
    assert "letter.txt" in record["execution"]["error"]


def test_a_dataset_without_kept_bytes_is_held_to_the_files_of_the_project(tmp_path, monkeypatch):
    without_kept_bytes(monkeypatch)
    target, dataset = made(tmp_path)
    assert run(target, dataset)[1]["output"] == "a letter\n"
    target.write("data/letter.txt", "another letter\n")
    batch, record = run(target, dataset)
    assert (batch.status, record["execution"]["status"]) == ("partial", "infra_error")
    assert "letter.txt" in record["execution"]["error"]


@pytest.mark.parametrize("spoil", [os.unlink, append])
def test_damaged_kept_bytes_are_named_and_nothing_runs(tmp_path, spoil):
    target, dataset = made(tmp_path)
    before = target.state.position.number
    spoil(kept_file(target, dataset))
    refused = refusal(target, "run_evaluation", dataset_id=dataset, revision_commit=target.head)
    assert refused.code == "store_damaged"
    assert kept_file(target, dataset) in str(refused)
    assert "data/letter.txt of the Case one" in str(refused)
    assert target.state.position.number == before


def test_what_a_batch_is_continued_with_is_looked_at_as_well(tmp_path):
    target, dataset = made(tmp_path, "import sys; sys.exit(75)", infrastructure_exit_codes=[75])
    batch, _ = run(target, dataset)
    assert batch.status == "partial"
    os.unlink(kept_file(target, dataset))
    refused = refusal(target, "run_evaluation", retry_batch_id=batch.id, retry_execution_ids=[f"{batch.id}.1"])
    assert refused.code == "store_damaged"


@pytest.mark.parametrize(
    ("bound", "value", "said"),
    [
        ("MAX_FILE_BYTES", 8, "9 bytes in one file, and a dataset keeps at most 8"),
        ("MAX_DATASET_BYTES", 17, "18 bytes of attachments, and a dataset keeps at most 17"),
        ("MAX_FILES", 1, "2 different attachments, and a dataset keeps at most 1"),
    ],
)
def test_more_than_a_dataset_keeps_is_refused_whole(tmp_path, monkeypatch, bound, value, said):
    target, _ = made(tmp_path)
    target.write("data/second.txt", "2 letters")
    rows = ({"input": "x", "attachments": [name]} for name in ("letter.txt", "second.txt"))
    target.write("data/cases.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(_attachments, bound, value)
    known = os.listdir(target.path(".atk/datasets"))
    refused = refusal(target, "store_dataset", source="data/cases.jsonl")
    assert refused.code == "attachments_too_large"
    assert said in str(refused)
    assert os.listdir(target.path(".atk/datasets")) == known


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch):
    target, _ = made(tmp_path)
    keep = _attachments.KeptAttachments.keep

    def changed(self, case, *key):
        target.write("data/letter.txt", "changed\n")
        return keep(self, case, *key)

    monkeypatch.setattr(_attachments.KeptAttachments, "keep", changed)
    with pytest.raises(AtkError, match="changed while it was read"):
        target.call("store_dataset", source="data/cases.jsonl")
