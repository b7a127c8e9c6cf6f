"""A Node.js agent behind HTTP, served by its preparation: each Revision is measured by the server that has it."""

import os
import shutil
import socket
import subprocess
import sys

import pytest

from operations.execution.adapters.process import agent_process
from operations.execution.preparing import prepare
from storage.masking import Masker
from storage.schema.projects import Project
from tests.support.projects import CASES, FIX, Target

NODE = shutil.which("node")
AGENT = os.path.join(os.path.dirname(__file__), "..", "..", "..", "support", "agents", "http_agent.js")
ASK = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())"

pytestmark = [pytest.mark.slow, pytest.mark.skipif(NODE is None, reason="no Node.js on PATH")]


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture
def target(tmp_path, port):
    made = Target(tmp_path / "repository", initialize=False)
    shutil.copy(AGENT, made.path("http_agent.js"))
    made.git("add", ".")
    made.git("commit", "-q", "-m", "A server")
    url = f"http://127.0.0.1:{port}"
    made.initialize(
        command=[],
        adapter="http",
        adapter_options={"endpoint": f"{url}/answer", "ready_url": f"{url}/ready", "output_field": "text"},
        replay_preparation={
            "service": [NODE, "http_agent.js", str(port)],
            "probe": [sys.executable, "-c", ASK, f"{url}/tree"],
        },
        protected_paths=["http_agent.js"],
    )
    made.first = made.call("try_case", input="Where is my invoice?")
    return made


def prepared(target, **update):
    project = target.state.all(Project)[0]
    process = agent_process(project, target.root, timeout_seconds=30)
    tree = target.git("rev-parse", "HEAD^{tree}")
    spec = project.replay_preparation.model_copy(update=update)
    runtime = prepare(
        spec,
        tree=tree,
        commit=target.head,
        cwd=process.working_directory,
        environment=process.environment,
        masker=Masker(b"k" * 32),
    )
    return runtime, process


def answers(bench, target):
    """Evaluates the target's Cases at HEAD as a run does. Returns the Records by Case."""
    runtime, process = prepared(target)
    with runtime:
        assert runtime.result.ready, runtime.result
        records = bench.run(
            process.command,
            [text for _, text, _ in CASES],
            environment=process.environment,
            working_directory=process.working_directory,
            infrastructure_exit_codes=process.infrastructure_exit_codes,
            concurrency=2,
        )
        assert runtime.check().ready
    return records


def test_a_server_in_another_language_is_evaluated_end_to_end_and_follows_each_revision(bench, tmp_path, target):
    assert (target.first.smoke.outcome, target.first.smoke.output) == ("completed", "billing")
    assert target.first.smoke.loading_evidence[0]["component_id"] == "prompt"
    before = answers(bench, target)
    assert [r.output for r in before] == ["billing", "billing", "technical", "technical", "other", "other"]
    assert {r.metrics["cost"] for r in before} == {0.25}
    target.write("prompt.txt", FIX)
    target.git("commit", "-q", "-am", "Know refunds")
    (tmp_path / "second").mkdir()
    after = answers(type(bench)(str(tmp_path / "second")), target)
    assert [r.output for r in after] == [expected for _, _, expected in CASES]


def test_a_changed_revision_whose_server_was_not_restarted_is_caught(target, port):
    old_tree = target.git("rev-parse", "HEAD^{tree}")
    old = subprocess.Popen(
        [NODE, "http_agent.js", str(port)], cwd=target.root, env={**os.environ, "ATK_TREE": old_tree}
    )
    try:
        target.write("prompt.txt", FIX)
        target.git("commit", "-q", "-am", "Know refunds")
        runtime, _ = prepared(target, service=(), argv=("true",), ready_seconds=5)
        assert runtime.result.outcome == "stale", runtime.result
        assert old_tree in runtime.result.notes[0]
        blocked, _ = prepared(target)  # its own server cannot take the port that the old one holds
        assert blocked.result.outcome == "service_ended", blocked.result
        assert "EADDRINUSE" in blocked.result.steps[-1].output
    finally:
        old.kill()
        old.wait()
