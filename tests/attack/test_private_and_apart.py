"""What ATK makes is its user's alone, and two projects of one server know nothing of each other."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from storage.schema.candidates import Candidate
from storage.schema.datasets import Dataset
from tests.support.imports import Imports
from tests.support.projects import Target
from tests.support.rounds import judged

ROOT = Path(__file__).parents[2]


@pytest.fixture
def open_umask():
    """Nothing is kept from others but what a program asks for itself."""
    before = os.umask(0)
    yield
    os.umask(before)


def reachable_by_others(top):
    """Names what anybody but the owner may reach, and what its owner may not."""
    wrong = []
    for folder, names, files in os.walk(top):
        for name in (*names, *files):
            path = os.path.join(folder, name)
            mode = stat.S_IMODE(os.lstat(path).st_mode)
            if mode & 0o077 or not mode & 0o400:
                wrong.append(f"{os.path.relpath(path, top)} {mode:04o}")
    return wrong


@pytest.mark.usefixtures("open_umask")
def test_no_file_or_folder_of_a_round_can_be_reached_by_others(tmp_path):
    target = Target(tmp_path / "target")
    candidate_id = judged(target)
    round_id = target.state.get(Candidate, candidate_id).round_id
    target.call("decide_candidate", round_id=round_id, candidate_id=candidate_id, action="keep", reason="better")
    target.call("finish_round", round_id=round_id, action="abandon", reason="enough")
    assert stat.S_IMODE(os.stat(target.path(".atk")).st_mode) == 0o700
    assert reachable_by_others(target.path(".atk")) == []


@pytest.mark.usefixtures("open_umask")
def test_no_file_or_folder_of_an_import_or_a_run_can_be_reached_by_others(tmp_path):
    imports = Imports(tmp_path / "project")
    (tmp_path / "answers.csv").write_text("q,a\nx,y\n")
    imports.send(tmp_path / "answers.csv", source_kind="batch_results", mapping={"input": "q", "output": "a"})
    assert reachable_by_others(imports.project.store.path) == []
    target = Target(tmp_path / "target", initialize=False)
    target.initialize(command=["true"], components=[])
    target.store_cases()
    target.call("run_evaluation", revision_commit=target.head, wait_seconds=200)
    assert reachable_by_others(target.path(".atk")) == []


def test_two_projects_of_one_server_know_nothing_of_each_other(tmp_path):
    one, other = Target(tmp_path / "one"), Target(tmp_path / "other")
    other.write_cases([("theirs", "a secret of theirs", "x")])
    store = {"source": "cases.csv", "request_id": "the-same"}
    calls = [("store_dataset", {**store, "project_path": x.root}) for x in (one, other)]
    made = [answer["structuredContent"] for answer in served(tmp_path, calls)]
    ids = [answer["dataset_id"] for answer in made]
    reads = [("read_record", {"record_id": ids[1], "project_path": one.root})]
    reads += [("get_status", {"project_path": x.root}) for x in (one, other)]
    refused, *status = served(tmp_path, reads)
    assert refused["isError"]
    assert "theirs" not in json.dumps([refused, status[0]])
    for target, answer, dataset_id in zip((one, other), status, ids, strict=True):
        assert answer["structuredContent"]["project_root"] == target.root
        assert [dataset.id for dataset in target.state.all(Dataset)] == [dataset_id]
    kept = [path.read_bytes() for path in Path(one.path(".atk")).rglob("*") if path.is_file()]
    assert not any(b"theirs" in data for data in kept)


def served(folder, calls):
    """Makes calls of one server. Returns their results."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    messages = [{"id": 0, "method": "initialize", "params": hello}, {"method": "notifications/initialized"}]
    messages += [
        {"id": n, "method": "tools/call", "params": {"name": name, "arguments": given}}
        for n, (name, given) in enumerate(calls, 1)
    ]
    answers = []
    with subprocess.Popen(
        [sys.executable, "-m", "atk_mcp"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as server:
        for message in messages:
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            server.stdin.flush()
            if "id" in message:
                answers.append(json.loads(server.stdout.readline()))
        server.stdin.close()
    return [answer["result"] for answer in answers[1:]]
