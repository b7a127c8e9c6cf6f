"""Long imports over the real server: one server imports, another waits and stops, and either may be killed."""

import json
import os
import signal
import subprocess
import sys

import pytest

from operations.execution.announcing import PREFIX
from tests.faults.story import Wire, until
from tests.support.imports import go_on, hold, processes_of
from tests.support.projects import bare

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROWS = 50_000
LONG = 100
"""Seconds that bound a wait. Nothing here takes nearly as long unless it is broken."""


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    """An export that takes seconds to read."""
    path = tmp_path_factory.mktemp("large") / "t.jsonl"
    row = {"timestamp": "2026-01-01T00:00:00Z", "input": "word " * 20, "output": "a"}
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps({"id": f"t-{n}", **row}) + "\n" for n in range(ROWS))
    return {"source": str(path), "source_kind": "langfuse", "adapter_profile": "langfuse_trace_bundle"}


@pytest.fixture
def project(tmp_path):
    return bare(tmp_path / "project")


@pytest.fixture
def servers(project):
    with Wire(project.root) as one, Wire(project.root) as other:
        yield one, other


def left(project):
    """Returns what imports left behind: processes, staged and work folders, locks."""
    store = project.store
    staged = [name for name in store.names("evidence") if name.startswith(".")]
    return [*staged, *store.names("work/imports"), *(o for o in store.names("owners") if processes_of(o))]


def stop_was_asked(project, import_id):
    return project.store.exists(f"work/imports/{import_id.removeprefix(PREFIX)}/stop")


def reading(server, import_id):
    """Holds an import as soon as rows have been read."""

    def read():
        return server.done("wait_for_batch", batch_id=import_id, wait_seconds=0.02)["counts"]["rows"]

    until(read, "the import reads nothing")
    hold(import_id)


def test_one_server_imports_and_another_waits_for_the_whole_answer(project, servers, export):
    one, other = servers
    started = one.done("import_evidence", **export, wait_seconds=0)
    assert started["status"] == "running"
    told = started["next"][0]
    assert told["tool"] == "wait_for_batch"
    reading(other, import_id=told["arguments"]["batch_id"])
    status = other.done("get_status")
    assert status["running_imports"][0]["rows"] > 0
    assert status["running_imports"][0]["bytes_total"] == os.path.getsize(export["source"])
    go_on(told["arguments"]["batch_id"])
    found = other.done("wait_for_batch", **told["arguments"], wait_seconds=LONG)
    assert found["counts"] == {"records": ROWS, "traces": ROWS}
    assert found["imported"]["completeness"] == "unknown"
    assert one.done("wait_for_batch", **told["arguments"])["batch_id"] == found["batch_id"]
    until(lambda: not left(project), "the import left something")


def test_one_server_imports_and_another_stops_it(project, servers, export):
    one, other = servers
    import_id = one.done("import_evidence", **export, wait_seconds=0)["import_id"]
    reading(other, import_id)
    assert other.done("stop_batch", batch_id=import_id, wait_seconds=0)["status"] == "running"
    go_on(import_id)
    assert other.done("stop_batch", batch_id=import_id, wait_seconds=LONG)["status"] == "stopped"
    for server in servers:
        refused = server.call("wait_for_batch", batch_id=import_id)["structuredContent"]
        assert refused["code"] == "import_lost"
        assert refused["next"][0]["tool"] == "import_evidence"
    until(lambda: not left(project), "the import left something")
    assert project.state().objects.get("import", {}) == {}


def test_cancelling_the_call_that_started_an_import_stops_it(project, servers, export):
    one, other = servers
    number = one.begin("import_evidence", **export, wait_seconds=LONG)
    until(lambda: other.done("get_status")["running_imports"], "no import runs")
    import_id = other.done("get_status")["running_imports"][0]["import_id"]
    reading(other, import_id)
    one.send({"method": "notifications/cancelled", "params": {"requestId": number}})
    until(lambda: stop_was_asked(project, import_id), "the import is not asked to stop")
    go_on(import_id)
    until(lambda: not left(project), "the import left something")
    assert other.done("get_status")["running_imports"] == []
    assert project.state().objects.get("import", {}) == {}


def test_a_killed_server_takes_its_import_with_it_and_nothing_is_left(project, servers, export):
    one, other = servers
    import_id = one.done("import_evidence", **export, wait_seconds=0)["import_id"]
    reading(other, import_id)
    assert processes_of(import_id)
    one.process.kill()
    go_on(import_id)
    until(lambda: not processes_of(import_id), "the import runs on without its server")
    assert left(project) == []
    assert other.call("wait_for_batch", batch_id=import_id)["structuredContent"]["code"] == "import_lost"


def test_what_a_server_and_its_import_left_that_were_killed_at_once_goes_with_the_next_call(project, servers, export):
    one, other = servers
    import_id = one.done("import_evidence", **export, wait_seconds=0)["import_id"]
    reading(other, import_id)
    pids = processes_of(import_id)
    os.kill(one.process.pid, signal.SIGSTOP)
    for pid in (one.process.pid, *pids):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not processes_of(import_id), "the import runs on")
    assert any(name.startswith(".staging") for name in project.store.names("evidence"))
    assert other.call("wait_for_batch", batch_id=import_id)["structuredContent"]["code"] == "import_lost"
    assert left(project) == []


def test_an_import_in_a_terminal_tells_how_far_it_is_and_is_stopped_by_ctrl_c(project, export):
    request = json.dumps(export)
    command = [sys.executable, "-m", "atk_mcp.inspector", "call", "import_evidence", "--project", project.root]
    with subprocess.Popen(
        [*command, "--request", request], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    ) as terminal:
        until(lambda: any(n.startswith(".staging") for n in project.store.names("evidence")), "it does not begin")
        assert b"stays until" in terminal.stderr.readline()
        assert b"rows read" in terminal.stderr.readline()
        terminal.send_signal(signal.SIGINT)
        told = terminal.stderr.read()
        assert b"Error [import_stopped]" in told
        assert terminal.wait(LONG) == 130
    assert left(project) == []
    done = subprocess.run([*command, "--request", request], capture_output=True, cwd=ROOT, check=True, timeout=LONG)
    assert json.loads(done.stdout)["counts"] == {"records": ROWS, "traces": ROWS}
