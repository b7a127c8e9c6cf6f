"""Agents that are no program of the target, evaluated as a client has it done: by one call, over stored Cases."""

import json
import os
import shutil
import socket
import subprocess
import sys

import pytest

from storage import contents
from storage.schema.batches import Batch
from tests.support.codexlab.stub import ResponsesStub
from tests.support.projects import CASES, FIX, Target

NODE = shutil.which("node")
CODEX = os.environ.get("CODEX_BIN") or shutil.which("codex")
AGENT = os.path.join(os.path.dirname(__file__), "..", "..", "..", "support", "agents", "http_agent.js")
ASK = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())"
SKILL = """\
---
name: triage
description: Names the desk that a ticket belongs to. Use for every ticket.
---

# Triage

An invoice goes to billing. Say the desk's name and nothing else.
"""

pytestmark = pytest.mark.slow
no_node = pytest.mark.skipif(NODE is None, reason="no Node.js on PATH")
no_codex = pytest.mark.skipif(CODEX is None, reason="no Codex: npm install -g @openai/codex, or name it in CODEX_BIN")


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def served(tmp_path, port, **preparation):
    """A target whose agent is a Node.js server, started by its preparation for each batch."""
    target = Target(tmp_path / "target", initialize=False)
    shutil.copy(AGENT, target.path("http_agent.js"))
    target.git("add", ".")
    target.git("commit", "-q", "-m", "A server")
    url = f"http://127.0.0.1:{port}"
    target.initialize(
        command=[],
        adapter="http",
        adapter_options={"endpoint": f"{url}/answer", "ready_url": f"{url}/ready", "output_field": "text"},
        replay_preparation={
            "service": [NODE, "http_agent.js", str(port)],
            "probe": [sys.executable, "-c", ASK, f"{url}/tree"],
            **preparation,
        },
        protected_paths=["http_agent.js"],
    )
    target.store_cases()
    return target


def evaluated(target):
    """Runs every Case at HEAD. Returns the batch and its Records."""
    answer = target.call("run_evaluation", revision_commit=target.head, wait_seconds=200)
    records = contents.records(target.project, target.state, answer.batch_id) if answer.counts["done"] else []
    return target.state.get(Batch, answer.batch_id), records


@no_node
def test_a_server_in_another_language_is_evaluated_at_each_revision(tmp_path, port):
    target = served(tmp_path, port)
    batch, records = evaluated(target)
    assert (batch.status, batch.counts, batch.notes) == ("sealed", {"completed": len(CASES)}, ())
    assert [r.output for r in records] == ["billing", "billing", "technical", "technical", "other", "other"]
    assert all(r.loading_evidence[0]["component_id"] == "prompt" for r in records)

    target.write("prompt.txt", FIX)
    target.git("commit", "-q", "-am", "Know refunds")
    batch, records = evaluated(target)

    assert (batch.status, [r.output for r in records]) == ("sealed", [expected for _, _, expected in CASES])
    with socket.socket() as nobody:
        assert nobody.connect_ex(("127.0.0.1", port)) != 0  # the server has gone with its batch


@no_node
def test_a_changed_revision_whose_server_was_not_restarted_is_no_evidence(tmp_path, port):
    target = served(tmp_path, port, service=(), argv=("true",), ready_seconds=2)
    environment = {**os.environ, "ATK_TREE": target.git("rev-parse", "HEAD^{tree}")}
    old = subprocess.Popen([NODE, "http_agent.js", str(port)], cwd=target.root, env=environment)
    try:
        assert evaluated(target)[0].status == "sealed"
        target.write("prompt.txt", FIX)
        target.git("commit", "-q", "-am", "Know refunds")
        batch, records = evaluated(target)
    finally:
        old.kill()
        old.wait()
    assert (batch.status, batch.end_reason, records) == ("contaminated", "not_prepared", [])
    assert environment["ATK_TREE"] in batch.notes[0]


@no_codex
def test_a_business_skill_is_evaluated_under_the_codex_cli(tmp_path):
    target = Target(tmp_path / "target", initialize=False)
    target.write("skills/triage/SKILL.md", SKILL)
    target.git("add", ".")
    target.git("commit", "-q", "-m", "A Skill")
    target.write("invoice.txt", "Invoice 7\n")
    rows = [
        {"id": "c1", "input": "Where is my invoice?", "attachments": ["invoice.txt"]},
        {"id": "c2", "input": "Hello?"},
    ]
    target.write("cases.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    turns = [{"steps": [{"say": "billing"}]}, {"steps": [{"say": "other"}]}]
    with ResponsesStub({"turns": turns}) as stub:
        provider = {"name": "scripted", "base_url": stub.base_url, "wire_api": "responses"}
        without_retries = {"request_max_retries": 0, "stream_max_retries": 0}
        proxy = f"http://127.0.0.1:{stub.port}"
        names = ("HTTP_PROXY", "HTTPS_PROXY", "https_proxy", "http_proxy")
        target.initialize(
            command=[],
            adapter="codex-skill",
            adapter_options={
                "skill_path": "skills/triage",
                "component_id": "skill",
                "codex": CODEX,
                "model": "stub-model",
                "config": {"model_provider": "stub", "model_providers": {"stub": {**provider, **without_retries}}},
                "arguments": ["--disable", "plugins"],
            },
            case_environment={**dict.fromkeys(names, proxy), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"},
            components=[
                {"component_id": "skill", "role": "prompt", "change_role": "variable", "source_path": "skills/triage"}
            ],
            allowed_paths=["skills"],
            protected_paths=[],
        )
        target.call("store_dataset", source="cases.jsonl")
        answer = target.call("run_evaluation", revision_commit=target.head, concurrency=1, wait_seconds=200)
        batch = target.state.get(Batch, answer.batch_id)
        records = contents.records(target.project, target.state, batch.id)
        assert (stub.log.errors, stub.log.egress) == ([], [])
        told = ["/1/attachments/invoice.txt" in json.dumps(request) for request in stub.log.requests]
        assert told == [True, False]
    assert (batch.status, batch.notes, [r.output for r in records]) == ("sealed", (), ["billing", "other"])
    for record in records:
        [loaded] = record.loading_evidence
        assert (loaded["component_id"], loaded["path"], loaded["state"]) == ("skill", "SKILL.md", "loaded")
        assert loaded["staged_from_path"] == target.path("skills/triage/SKILL.md")
        assert {event["type"] for event in record.events} >= {"thread.started", "turn.completed"}
