"""A long import in a process of its own: followed, stopped, refused and killed, and what is left of it."""

import json
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from operations.execution import importing
from operations.execution.announcing import PREFIX, stamp_of
from operations.importers._fields import ValuesConflict
from operations.importers.evidence import ImportStopped
from operations.invocation import invoke
from operations.registry import all_operations
from storage.errors import AtkError
from storage.transaction import Call, ResourceBusy
from tests.faults.story import until
from tests.support.imports import Imports, go_on, hold, processes_of

TRACES = {"adapter_profile": "langfuse_trace_bundle"}
ROWS = 50_000
"""An export of so many takes seconds to read."""
LONG = 60
"""Seconds that bound a wait. Nothing here takes nearly as long unless it is broken."""


def row(number):
    return {"id": f"t-{number}", "timestamp": "2026-01-01T00:00:00Z", "input": "word " * 20, "output": "a"}


def write(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(one) + "\n" for one in rows)
    return str(path)


@pytest.fixture
def imports(tmp_path):
    return Imports(tmp_path / "project")


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """An export that takes seconds to read."""
    return write(tmp_path_factory.mktemp("large") / "t.jsonl", (row(n) for n in range(ROWS)))


@pytest.fixture
def small(tmp_path):
    return write(tmp_path / "small.jsonl", (row(n) for n in range(3)))


def begun(imports, source, **more):
    """Starts an import, holds it once rows have been read, and returns its id."""
    started = imports.send(source, **TRACES, wait_seconds=0, **more)
    assert (started.status, started.batch_id) == ("running", None)
    assert [step.tool for step in started.next] == ["wait_for_batch", "stop_batch"]
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        found = imports.call("wait_for_batch", batch_id=started.import_id, wait_seconds=0.02)
        if found.counts["rows"]:
            hold(started.import_id)
            return started.import_id
    raise AssertionError("it reads nothing")


def asked_to_stop(imports, import_id):
    """Asks a held import to stop, lets it go on, and returns how that ended."""
    assert imports.call("stop_batch", batch_id=import_id, wait_seconds=0).status == "running"
    go_on(import_id)
    return imports.call("stop_batch", batch_id=import_id, wait_seconds=LONG)


def left(imports):
    """Returns what imports left in the store, besides what it records."""
    store = imports.project.store
    staged = [name for name in store.names("evidence") if name.startswith(".")]
    return [*staged, *store.names("work/imports"), *store.names("owners")]


def nothing_is_left(imports, import_id):
    assert left(imports) == []
    assert processes_of(import_id) == []


def comparable(response):
    found = response.model_dump()
    text = json.dumps({k: v for k, v in found.items() if k not in ("import_id", "journal_record")})
    return text.replace(found["batch_id"], "BATCH")


def test_the_answer_is_the_same_whichever_process_reads_the_export(imports, small, tmp_path, monkeypatch):
    here = imports.send(small, **TRACES)
    monkeypatch.setattr(importing, "SHORT_BYTES", 0)
    other = Imports(tmp_path / "other")
    there = other.send(small, **TRACES, wait_seconds=LONG)
    assert comparable(there) == comparable(here)
    assert (here.import_id, there.status) == (None, "sealed")
    assert [r["input"] for r in other.raw(there.batch_id)] == [r["input"] for r in imports.raw(here.batch_id)]
    nothing_is_left(other, there.import_id)


def test_what_a_long_import_answers_in_the_end_is_given_to_whoever_waits(imports, large):
    import_id = begun(imports, large)
    status = imports.call("get_status")
    assert status.running_imports[0]["import_id"] == import_id
    assert status.running_imports[0]["bytes_read"] > 0
    assert status.next[0].arguments == {"batch_id": import_id}
    go_on(import_id)
    found = imports.call("wait_for_batch", batch_id=import_id, wait_seconds=LONG)
    assert (found.status, found.counts) == ("sealed", {"records": ROWS, "traces": ROWS})
    assert found.imported["fields"]["trace.input"] == {"kept": ROWS}
    assert found.journal_record == imports.project.state().position.number
    assert found.next[0].arguments == {"record_id": f"{found.batch_id}.1"}
    assert imports.call("wait_for_batch", batch_id=import_id).batch_id == found.batch_id
    assert imports.call("wait_for_batch", batch_id=found.batch_id).status == "sealed"
    assert imports.call("get_status").running_imports == []
    nothing_is_left(imports, import_id)


def test_who_asks_for_an_import_that_runs_joins_it(imports, large):
    import_id = begun(imports, large)
    for _ in range(2):
        again = imports.send(large, **TRACES, wait_seconds=0.01)
        assert (again.import_id, again.status) == (import_id, "running")
    arguments = {"project_path": imports.root, "source": large, "source_kind": "langfuse", **TRACES}
    given_up = invoke(all_operations()["import_evidence"], arguments, cancelled=lambda: True)
    assert given_up.import_id == import_id
    assert len(imports.project.store.names("work/imports")) == 1
    go_on(import_id)
    joined = imports.send(large, **TRACES, wait_seconds=LONG)
    assert joined.counts == {"records": ROWS, "traces": ROWS}
    assert joined.batch_id == imports.call("wait_for_batch", batch_id=import_id).batch_id
    nothing_is_left(imports, import_id)


def test_what_is_joined_is_the_same_request_of_files_that_nobody_wrote_to(imports, tmp_path):
    source = write(tmp_path / "own.jsonl", [row(1)])

    def stamp(**arguments):
        given = {"source": source, "wait_seconds": 1, **arguments}
        call = Call(operation="import_evidence", arguments=given, request_id=None, at="2026-01-01T00:00:00Z")
        return stamp_of(imports.project, call, [source])

    before = stamp()
    assert stamp(wait_seconds=240) == before
    assert stamp(source_namespace="other") != before
    write(source, [row(1), row(2)])
    assert stamp() != before


def test_many_small_files_are_no_short_export(tmp_path):
    names = [str(tmp_path / f"{n}.json") for n in range(3)]
    for name in names:
        write(name, [row(1)])
    assert importing.is_short(names)
    assert not importing.is_short(names * 400)


def test_a_repeated_request_is_answered_with_what_runs_and_then_with_the_result(imports, large):
    import_id = begun(imports, large, request_id="once")
    again = imports.send(large, **TRACES, wait_seconds=0.1, request_id="once")
    assert (again.import_id, again.status) == (import_id, "running")
    with pytest.raises(ResourceBusy, match="once"):
        imports.send(large, **TRACES, wait_seconds=0, request_id="once", source_namespace="other")
    go_on(import_id)
    done = imports.call("wait_for_batch", batch_id=import_id, wait_seconds=LONG)
    result = imports.send(large, **TRACES, wait_seconds=0, request_id="once")
    assert (result.batch_id, result.status, result.import_id) == (done.batch_id, "sealed", import_id)
    assert len(imports.project.state().objects["import"]) == 1


def test_a_stopped_import_leaves_nothing(imports, large):
    import_id = begun(imports, large)
    stopped = asked_to_stop(imports, import_id)
    assert (stopped.status, stopped.batch_id) == ("stopped", None)
    assert stopped.counts["rows"] > 0
    nothing_is_left(imports, import_id)
    for operation in ("wait_for_batch", "stop_batch"):
        with pytest.raises(importing.ImportLost, match="it was stopped"):
            imports.call(operation, batch_id=import_id)
    assert imports.project.store.names("evidence") == []


def test_giving_up_the_call_that_started_it_stops_an_import_and_giving_up_a_wait_does_not(imports, large):
    import_id = begun(imports, large)
    given_up = {"project_path": imports.root, "batch_id": import_id, "wait_seconds": LONG}
    waited = invoke(all_operations()["wait_for_batch"], given_up, cancelled=lambda: True)
    assert waited.status == "running"
    asked_to_stop(imports, import_id)
    heard = threading.Event()
    arguments = {"project_path": imports.root, "source": large, "source_kind": "langfuse", **TRACES}
    with pytest.raises(importing.ImportLost):
        invoke(
            all_operations()["import_evidence"],
            {**arguments, "wait_seconds": LONG},
            progress=lambda *_: heard.set(),
            cancelled=heard.is_set,
        )
    assert left(imports) == []
    assert importing.running(imports.project) == []


def test_a_killed_import_leaves_nothing(imports, large):
    import_id = begun(imports, large)
    os.kill(*processes_of(import_id), signal.SIGKILL)
    with pytest.raises(importing.ImportLost, match="signal 9"):
        imports.call("wait_for_batch", batch_id=import_id, wait_seconds=LONG)
    nothing_is_left(imports, import_id)


def test_an_import_that_ignores_its_stop_is_ended(imports, large):
    import_id = begun(imports, large)
    with ThreadPoolExecutor() as pool:
        ends = pool.submit(imports.call, "stop_batch", batch_id=import_id, wait_seconds=LONG)
        until(lambda: imports.project.store.exists(f"work/imports/{import_id.removeprefix(PREFIX)}/stop"), "no stop")
        assert not ends.done()
        os.kill(*processes_of(import_id), signal.SIGKILL)
        assert ends.result().status == "stopped"
    nothing_is_left(imports, import_id)


def test_a_refusal_is_the_same_whichever_process_meets_it_and_is_told_later_as_well(imports, tmp_path, monkeypatch):
    path = write(tmp_path / "t.jsonl", [{**row(1), "output": "left"}, {**row(1), "output": "right"}])
    with pytest.raises(ValuesConflict) as here:
        imports.send(path, **TRACES)
    monkeypatch.setattr(importing, "SHORT_BYTES", 0)
    with pytest.raises(ValuesConflict) as there:
        imports.send(path, **TRACES, wait_seconds=LONG)
    assert (str(there.value), there.value.facts, there.value.next) == (
        str(here.value), here.value.facts, here.value.next,
    )  # fmt: skip
    import_id = PREFIX + imports.project.store.names("work/imports")[0]
    with pytest.raises(ValuesConflict):
        imports.call("wait_for_batch", batch_id=import_id)
    imports.call("inspect_or_recover_operation")
    with pytest.raises(importing.ImportLost):
        imports.call("wait_for_batch", batch_id=import_id)
    nothing_is_left(imports, import_id)


def test_what_is_no_file_leads_back_to_the_import(imports, tmp_path):
    os.mkfifo(tmp_path / "t.jsonl")
    with pytest.raises(AtkError) as refused:
        imports.send(tmp_path / "t.jsonl", **TRACES, wait_seconds=LONG)
    assert [call.tool for call in refused.value.next] == ["import_evidence"]


def test_a_crash_is_told_by_its_incident(imports):
    import_id = begun_and_crashed(imports)
    with pytest.raises(importing.ImportCrashed, match="incident-1234"):
        imports.call("wait_for_batch", batch_id=import_id)


def begun_and_crashed(imports, nonce="0123456789abcdef"):
    """Leaves what a process leaves that crashed."""
    folder = imports.project.store.full(f"work/imports/{nonce}")
    os.makedirs(folder)
    about = {"source": "t.jsonl", "began": "2026-01-01", "request_id": None, "digest": "0"}
    for name, content in (("about.json", about), ("outcome.json", {"incident_id": "incident-1234"})):
        write(os.path.join(folder, name), [content])
    return PREFIX + nonce


def test_an_import_in_a_terminal_is_seen_and_stopped_from_elsewhere(imports, large):
    arguments = {"project_path": imports.root, "source": large, "source_kind": "langfuse", **TRACES}
    ended = []

    def stay():
        try:
            invoke(all_operations()["import_evidence"], arguments, stays=True)
        except AtkError as error:
            ended.append(error)

    terminal = threading.Thread(target=stay)
    terminal.start()
    end = time.monotonic() + LONG
    while not (jobs := importing.running(imports.project)) and time.monotonic() < end:
        time.sleep(0.01)
    import_id = jobs[0].import_id
    assert imports.call("stop_batch", batch_id=import_id, wait_seconds=LONG).status == "stopped"
    terminal.join(LONG)
    assert [type(error) for error in ended] == [ImportStopped]
    nothing_is_left(imports, import_id)


def test_a_server_that_dies_before_it_asked_leaves_nothing(imports):
    from operations.execution.announcing import announce
    from tests.support.projects import call_of

    owner = announce(imports.project, call_of("import_evidence"), "t.jsonl", "stamp")
    owner.release()
    importing.sweep_imports(imports.project)
    assert left(imports) == []


def test_an_answer_that_was_recorded_is_found_though_the_process_died_before_it_left(imports, small, monkeypatch):
    monkeypatch.setattr(importing, "SHORT_BYTES", 0)
    done = imports.send(small, **TRACES, wait_seconds=LONG)
    begun_and_crashed(imports, done.import_id.removeprefix(PREFIX))
    assert imports.call("wait_for_batch", batch_id=done.import_id).batch_id == done.batch_id


def test_what_stands_where_imports_work_is_taken_away_by_the_next_change(imports, small):
    folder = imports.project.store.full("work/imports")
    os.makedirs(folder)
    write(os.path.join(folder, "file"), [1])
    os.symlink("/etc", os.path.join(folder, "link"))
    os.makedirs(os.path.join(folder, "folder", "outcome.json"))
    assert imports.call("get_status").running_imports == []
    imports.send(small, **TRACES)
    assert imports.project.store.names("work/imports") == []
    os.rmdir(folder)
    os.symlink("/etc", folder)
    assert imports.send(small, **TRACES, source_namespace="again").status == "sealed"
    assert os.path.exists("/etc/passwd")
    assert not os.path.islink(folder)


def test_a_source_with_a_long_name_leaves_room_in_a_status(imports):
    from operations.execution.announcing import announce
    from tests.support.projects import call_of

    owner = announce(imports.project, call_of("import_evidence"), "长" * 4_000, "stamp")
    assert len(imports.call("get_status").model_dump_json().encode()) < 4_000
    owner.release()


@pytest.mark.parametrize("content", ["[1]", "{", "{}", '{"source": 1}', "[" * 100_000, '{"error": "UnknownObject"}'])
def test_what_an_agent_planted_among_imports_is_not_believed(imports, content):
    from storage.owners import Owner

    owner = Owner(imports.project.store)
    folder = imports.project.store.full(f"work/imports/{owner.nonce}")
    os.makedirs(folder)
    for name in ("about.json", "progress.json", "outcome.json"):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(content)
    assert imports.call("get_status").running_imports == []
    with pytest.raises(importing.ImportLost):
        imports.call("wait_for_batch", batch_id=PREFIX + owner.nonce)
    owner.release()
    imports.call("inspect_or_recover_operation")
    assert imports.project.store.names("work/imports") == []


def test_a_status_is_given_though_something_else_stands_where_imports_work(imports):
    work = imports.project.store.full("work")
    if os.path.exists(work):
        os.rename(work, f"{work}-aside")
    os.symlink("/etc", work)
    assert imports.call("get_status").running_imports == []
