"""Every hostile input meets the operation that would meet it; what has to happen is in `tests.support.badinputs`."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from atk_mcp import inspector, results, snapshot
from operations.importers._assessment_csv import read_assessment_csv
from operations.importers._rows import SourceNotRegular
from operations.importers._streams import UnpacksTooFar
from operations.invocation import invoke
from operations.registry import all_operations
from storage import project as projects
from storage.errors import AtkError
from storage.files import StoreDamaged
from storage.frames import ORIGIN, encode
from storage.journal import NewerFormat, segment_path
from storage.project import LegacyStore
from tests.support.badinputs import (
    ENTRIES,
    ESCAPES,
    FORMULAS,
    INJECTIONS,
    MARKUP,
    ORDINARY,
    TAGS,
    TIMES,
    VARIABLES,
    lines,
)
from tests.support.imports import Imports
from tests.support.projects import Target

PACKAGES = ("atk_mcp", "operations", "storage")
SPEC = {"dimensions": ["correct"], "dimension_rules": {"correct": "it is right"}}
NO_IDS = {"request_id", ("inspect_or_recover_operation", "round_id")}
"""The caller's own word, and an argument that is not looked at."""
ROWS = {"adapter_profile": "langfuse_observation_rows"}


@pytest.fixture
def imports(tmp_path):
    return Imports(tmp_path / "project")


@pytest.fixture
def sent(imports, tmp_path):
    """Returns a function that imports a file of an entry."""

    def send(entry, name, **more):
        path = tmp_path / name
        path.write_bytes(ENTRIES[entry].files[name]())
        return imports.send(path, **{**ROWS, **more})

    return send


def told(name, arguments):
    """Returns all that a client is told, as one text, and whether the call was refused."""
    try:
        answer, refused = results.of_response(invoke(all_operations()[name], arguments)), False
    except AtkError as error:
        answer, refused = results.of_error(error), True
    return json.dumps(answer, ensure_ascii=False), refused


def files_below(folder):
    return {os.path.join(d, name) for d, _, names in os.walk(folder) for name in names}


def test_every_entry_has_a_test_and_every_test_an_entry():
    tests = [name.removeprefix("test_") for name in globals() if name.startswith("test_")]
    alone = {entry: [t for t in tests if t.startswith(f"{entry}_is_") or t == entry] for entry in ENTRIES}
    assert {entry for entry, found in alone.items() if not found} == set()
    assert len(ENTRIES) == 27
    assert {t for t in tests if t != "every_entry_has_a_test_and_every_test_an_entry"} == {
        t for found in alone.values() for t in found
    }


def test_id_traversal_is_refused_by_every_argument_that_is_an_id(imports, tmp_path):
    before, tried = files_below(tmp_path), 0
    for name, operation in all_operations().items():
        schema = snapshot.tool(operation)["inputSchema"]
        for field, part in schema["properties"].items():
            if not field.endswith("_id") or part.get("type") != "string" or (name, field) in NO_IDS or field in NO_IDS:
                continue
            some = ENTRIES["id_traversal"].values if name == "read_record" else ("../x", "a\0b")
            for value in some:
                needed = {key: value for key in schema.get("required", ()) if key.endswith("_id")}
                given = {"project_path": imports.root, **needed, field: value}
                text, refused = told(name, given)
                assert refused, (name, field, value, text)
                tried += 1
    assert tried > 60
    assert files_below(tmp_path) == before


def test_attachment_outside_is_refused_and_not_a_byte_of_it_told(tmp_path):
    target = Target(tmp_path / "target")
    os.symlink("/etc", target.path("link_to_etc"))
    for path in ENTRIES["attachment_outside"].values:
        target.write("cases.jsonl", lines({"id": "c", "input": "x", "attachments": [path]}))
        text, refused = told("store_dataset", {"project_path": target.root, "source": "cases.jsonl"})
        assert refused, path
        assert path in json.loads(text)["structuredContent"]["message"]
        assert not any(never in text for never in ENTRIES["attachment_outside"].never)


@pytest.mark.parametrize("place", ["owners/evil", "journal/000009.log", "datasets", "evidence"])
def test_store_symlinks_is_refused_and_nothing_behind_them_touched(imports, tmp_path, place):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep.txt").write_text("precious")
    (tmp_path / "cases.jsonl").write_bytes(lines({"id": "c", "input": "x"}))
    full = imports.project.store.full(place)
    shutil.rmtree(full, ignore_errors=True)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    os.symlink(outside, full)
    projects._opened.clear()
    with pytest.raises(StoreDamaged, match="is a link"):
        imports.call("store_dataset", source=str(tmp_path / "cases.jsonl"))
    assert os.listdir(outside) == ["keep.txt"]
    assert (outside / "keep.txt").read_text() == "precious"


def test_special_files_is_refused_at_once(imports, tmp_path):
    os.mkfifo(tmp_path / "trace.jsonl")
    with open(tmp_path / "sparse.jsonl", "wb") as file:
        file.truncate(10 << 30)
    os.symlink("/dev/zero", tmp_path / "zero.jsonl")
    os.mkdir(tmp_path / "dir.jsonl")
    os.symlink("loop.jsonl", tmp_path / "loop.jsonl")
    for name in ("trace", "zero", "dir", "loop"):
        for call in ({"source": str(tmp_path / f"{name}.jsonl"), **ROWS}, {"source": str(tmp_path / f"{name}.jsonl")}):
            operation = "import_evidence" if ROWS.items() <= call.items() else "store_dataset"
            given = {"source_kind": "langfuse"} if operation == "import_evidence" else {}
            text, refused = told(operation, {"project_path": imports.root, **call, **given})
            assert refused, (name, text)
    with pytest.raises(SourceNotRegular, match="sparse file"):
        imports.send(tmp_path / "sparse.jsonl", **ROWS)


def test_git_option_injection_is_refused_and_nothing_runs(tmp_path):
    target = Target(tmp_path / "target")
    target.store_cases()
    before = files_below(tmp_path)
    for revision in ENTRIES["git_option_injection"].values:
        given = {"project_path": target.root, "revision_commit": revision}
        text, refused = told("run_evaluation", given)
        assert refused, text
    new = {path for path in files_below(tmp_path) - before if f"{os.sep}.atk{os.sep}" not in path}
    assert new == set()


def test_shell_in_case_is_data_for_the_agent(tmp_path):
    target = Target(tmp_path / "target", initialize=False)
    target.write("agent.sh", 'printf "%s" "$1"\n')
    target.git("add", ".")
    target.git("commit", "-q", "-m", "agent")
    target.initialize(command=["sh", "agent.sh", "{input}"], components=[], protected_paths=[])
    inputs = ENTRIES["shell_in_case"].values
    target.write(".git/info/exclude", "shell.jsonl\n")
    target.write("shell.jsonl", lines(*({"id": f"c{n}", "input": text} for n, text in enumerate(inputs))))
    dataset_id = target.call("store_dataset", source="shell.jsonl").dataset_id
    batch = target.call("run_evaluation", dataset_id=dataset_id, revision_commit=target.head, wait_seconds=200)
    assert (batch.counts["completed"], batch.counts["infra_error"]) == (len(inputs) - 1, 1)
    outputs = {}
    for n, text in enumerate(inputs):
        record = target.call("read_record", record_id=f"{batch.batch_id}.{n + 1}").value
        outputs[text] = record.get("output", record.get("observable_output"))
    for text in inputs[:-1]:
        assert json.dumps(text)[1:-1].strip("\\n ") in json.dumps(outputs[text]), text
    assert not [path for path in files_below(tmp_path) if os.path.basename(path) == "pwned"]


@pytest.mark.parametrize(
    "given",
    [
        {"command": "python agent.py {input} && touch pwned"},
        {"command": []},
        {"command": ["python", 3]},
        {"timeout_seconds": "inf"},
        {"timeout_seconds": float("inf")},
        {"timeout_seconds": True},
        {"timeout_seconds": 0},
        {"runner": {"command": "python agent.py"}},
    ],
    ids=str,
)
def test_runner_as_string_is_refused(tmp_path, given):
    target = Target(tmp_path / "target", initialize=False)
    with pytest.raises(AtkError):
        target.initialize(**given)
    assert not os.path.exists(target.path(".atk"))


def test_runner_env_is_refused_where_a_loader_would_obey_or_a_name_is_none(tmp_path):
    target = Target(tmp_path / "target")
    bad = {"LD_PRELOAD", "bad name", "A=B"}
    for name, value in VARIABLES.items():
        for field in ({"environment": [name]}, {"case_environment": {name: value}}):
            if name in bad:
                with pytest.raises(AtkError, match=r"loader|names of variables"):
                    target.initialize(revise=True, **field)
    assert bad < VARIABLES.keys()


def test_agent_stdout_frames_is_data(tmp_path):
    """Over the real server: every line on its wire is an answer of its own."""
    target = Target(tmp_path / "target", initialize=False)
    target.write("agent.py", ENTRIES["agent_stdout_frames"].files["agent.py"]())
    target.git("add", ".")
    target.git("commit", "-q", "-m", "agent")
    target.initialize(command=[sys.executable, "agent.py"])
    target.write_cases([("c1", "x", "y")])
    target.store_cases()
    calls = [("run_evaluation", {"revision_commit": target.head, "wait_seconds": 200}), ("get_status", {})]
    wire, errors = spoken(target.root, calls)
    assert [answer.get("id") for answer in wire] == [0, 1, 2]
    assert not any("forged" in json.dumps(answer) for answer in wire)
    assert b"\x1b" not in errors
    batch_id = wire[1]["result"]["structuredContent"]["batch_id"]
    record = target.call("read_record", record_id=f"{batch_id}.1").value
    assert "forged" in json.dumps(record), "what the agent printed is evidence"


def spoken(root, calls):
    """Talks to a server of its own over its pipes. Returns its answers, one for each line, and its stderr."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    messages = [{"id": 0, "method": "initialize", "params": hello}, {"method": "notifications/initialized"}]
    messages += [
        {"id": n, "method": "tools/call", "params": {"name": name, "arguments": given}}
        for n, (name, given) in enumerate(calls, 1)
    ]
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with subprocess.Popen(
        [sys.executable, "-m", "atk_mcp"],
        cwd=root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": here},
    ) as server:
        answers = []
        for message in messages:
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            server.stdin.flush()
            if "id" in message:
                answers.append(json.loads(server.stdout.readline()))
        rest, errors = server.communicate()
    return answers + [json.loads(line) for line in rest.splitlines()], errors


def test_agent_metrics_lies_is_dropped_with_a_note(tmp_path):
    target = Target(tmp_path / "target", initialize=False)
    target.write("metrics.json", ENTRIES["agent_metrics_lies"].files["metrics.json"]())
    target.write("agent.sh", 'cp metrics.json "$1/"\necho done\n')
    target.git("add", ".")
    target.git("commit", "-q", "-m", "agent")
    target.initialize(command=["sh", "agent.sh", "{output_dir}"])
    target.write_cases([("c1", "x", "y")])
    target.store_cases()
    batch = target.call("run_evaluation", revision_commit=target.head, wait_seconds=200)
    record = json.dumps(target.call("read_record", record_id=f"{batch.batch_id}.1").value)
    assert "metrics.json" in record
    assert '"cost"' not in record
    assert '"verdict": "pass"' not in record


@pytest.mark.slow
def test_gzip_bomb_is_refused_in_bounded_memory(sent):
    with pytest.raises(UnpacksTooFar):
        sent("gzip_bomb", "bomb.jsonl.gz")


def test_zip_slip_is_refused_and_nothing_unpacked(sent, tmp_path):
    before = files_below(tmp_path)
    with pytest.raises(AtkError, match="in no format that is read"):
        sent("zip_slip", "slip.zip")
    assert files_below(tmp_path) - before == {str(tmp_path / "slip.zip")}
    assert not os.path.exists("/abs/pwned")


def test_json_depth_is_refused_and_the_process_lives(sent, imports):
    with pytest.raises(AtkError, match="nests deeper than 100"):
        sent("json_depth", "deep.json")
    assert imports.call("get_status").writable


def test_jsonl_line_separators_is_two_records(sent, imports):
    batch_id = sent("jsonl_line_separators", "u2028.jsonl").batch_id
    first, second = imports.raw(batch_id)
    assert "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg" in json.dumps(first, ensure_ascii=False).replace(
        "\\u000b", "\x0b"
    ).replace("\\f", "\x0c").replace("\\u001c", "\x1c")
    assert second["source"]["trace_id"] == "t-2"


@pytest.mark.parametrize(("name", "rows"), [("bom.jsonl", 1), ("crlf.jsonl", 2), ("no_newline.jsonl", 1)])
def test_jsonl_encodings_is_accepted_where_nothing_has_to_be_guessed(sent, imports, name, rows):
    batch_id = sent("jsonl_encodings", name).batch_id
    assert imports.batch(batch_id).counts["observations"] == rows


@pytest.mark.parametrize(("name", "place"), [("utf16.jsonl", "byte 0 is 0xff"), ("latin1.jsonl", "is 0xe9")])
def test_jsonl_encodings_is_refused_with_its_place_where_it_is_no_utf_8(sent, name, place):
    with pytest.raises(AtkError, match=f"not UTF-8.*{place}"):
        sent("jsonl_encodings", name)


def test_jsonl_torn_tail_is_on_record(sent):
    (told_of, *_) = sent("jsonl_torn_tail", "torn.jsonl").warnings
    assert "line 2 is an interrupted append and was left out; completeness unknown" in told_of


@pytest.mark.slow
def test_one_huge_line_is_stored_whole_and_told_in_part(sent, imports):
    batch_id = sent("one_huge_line", "huge.jsonl").batch_id
    (record,) = imports.raw(batch_id)
    assert len(json.dumps(record)) > 8_000_000
    text, refused = told("read_record", {"project_path": imports.root, "record_id": record["id"]})
    assert not refused
    assert len(text) < 2 * results.LIMIT
    assert "ask for this field" in text


def test_times_is_an_unknown_duration_and_a_kept_text(sent, imports):
    batch_id = sent("times", "times.jsonl").batch_id
    events = [record["log"]["events"][0] for record in imports.raw(batch_id)]
    assert len(events) == len(TIMES)
    assert all(event.get("duration_seconds", 0) is None or event.get("duration_seconds", 0) >= 0 for event in events)
    assert [event.get("at_text") for event in events] == [str(a) for a, _ in TIMES]
    assert {n for n, event in enumerate(events) if event.get("duration_seconds") is not None} <= {2, 5, 6}


def test_yaml_laughs_is_never_expanded(sent, tmp_path):
    with pytest.raises(AtkError, match="in no format that is read"):
        sent("yaml_laughs", "laughs.yaml")
    target = Target(tmp_path / "target", initialize=False)
    laughs = ENTRIES["yaml_laughs"].files["laughs.yaml"]()
    target.write("skill/SKILL.md", b"---\nname: skill\n" + laughs + b"---\nDo it.\n")
    target.git("add", ".")
    target.git("commit", "-q", "-m", "skill")
    component = {"component_id": "skill", "role": "skill", "change_role": "variable", "source_path": "skill"}
    made = target.initialize(components=[component], allowed_paths=["skill"])
    assert made.message
    root = Path(__file__).parents[2]
    sources = [path.read_text(encoding="utf-8") for top in PACKAGES for path in (root / top).rglob("*.py")]
    assert len(sources) > 100
    assert not any(re.search(r"^\s*(import|from) (yaml|ruamel)", source, re.MULTILINE) for source in sources)


def test_csv_formula_in_is_guarded_and_comes_back_as_it_was(imports, tmp_path):
    (tmp_path / "answers.jsonl").write_bytes(lines(*({"q": str(n), "a": "x"} for n in range(len(FORMULAS)))))
    kind = {"source_kind": "batch_results", "mapping": {"input": "q", "output": "a"}}
    batch_id = imports.send(tmp_path / "answers.jsonl", **kind).batch_id
    rows = [
        {"record_id": f"{batch_id}.{n}", "dimension": "correct", "verdict": "pass", "reason": text}
        for n, text in enumerate(FORMULAS, 1)
    ]
    judger = {"method": "client"}
    text, refused = told(
        "store_assessment",
        {"project_path": imports.root, "batch_id": batch_id, "evaluation_spec": SPEC, "judger": judger, "rows": rows},
    )
    assert not refused, text
    assessment_id = json.loads(text)["structuredContent"]["assessment_id"]
    data = imports.project.store.read(f"assessments/{assessment_id}/assessment.csv")
    reasons = {row.record_id: row.reason for row in read_assessment_csv(data)}
    assert [reasons[row["record_id"]] for row in rows] == list(FORMULAS)
    for cell in data.decode().replace("\r\n", ",").split(","):
        assert not cell.strip('"').startswith(("=", "+", "@", "\t", "\uff1d"))


def test_xss_trace_is_text_on_every_page_that_is_written(sent, imports):
    batch_id = sent("xss_trace", "xss.jsonl").batch_id
    rows = [{"record_id": f"{batch_id}.1", "dimension": "correct", "verdict": "fail", "reason": " ".join(MARKUP)}]
    judged = {"evaluation_spec": SPEC, "judger": {"method": "client"}, "rows": rows}
    assessment_id = imports.call("store_assessment", batch_id=batch_id, **judged).assessment_id
    if "render_assessment_html" in all_operations():
        imports.call("render_assessment_html", assessment_id=assessment_id)
    pages = [path for path in files_below(imports.project.store.path) if path.endswith(".html")]
    assert len(pages) >= ("render_assessment_html" in all_operations())
    for page in pages:
        text = Path(page).read_text(encoding="utf-8")
        assert [never for never in ENTRIES["xss_trace"].never if never in text] == []
        assert "default-src 'none'" in text


def test_terminal_escapes_is_shown_by_number(sent, imports, capsys):
    batch_id = sent("terminal_escapes", "escapes.jsonl").batch_id
    records = [record["id"] for record in imports.raw(batch_id)]
    for more in ([], ["--json"]):
        for record_id in records:
            request = json.dumps({"record_id": record_id, "field": "log"})
            assert inspector.main(["call", "read_record", "--project", imports.root, "--request", request, *more]) == 0
        for text in ESCAPES:
            request = json.dumps({"record_id": text})
            inspector.main(["call", "read_record", "--project", imports.root, "--request", request, *more])
    shown = "".join(capsys.readouterr())
    assert "owned" in shown
    assert "FAKE LINE" in shown
    assert [never for never in (*ENTRIES["terminal_escapes"].never, "\r") if never in shown] == []


def test_prompt_injection_is_data_in_fields_of_its_own(sent, imports):
    batch_id = sent("prompt_injection", "injection.jsonl").batch_id
    status = told("get_status", {"project_path": imports.root})[0]
    found = told("find_records", {"project_path": imports.root, "batch_id": batch_id})[0]
    for text in INJECTIONS:
        assert json.dumps(text)[1:41] not in status + found
    for n in range(1, len(INJECTIONS) + 1):
        answer, refused = told("read_record", {"project_path": imports.root, "record_id": f"{batch_id}.{n}"})
        assert not refused
        assert TAGS not in answer
        told_of = json.loads(answer)["structuredContent"]
        assert set(told_of) == {"message", "kind", "id", "fields", "value", "next_cursor", "next"}
        assert not any(text[:20] in json.dumps([told_of["message"], told_of["next"]]) for text in INJECTIONS)


def test_secrets_is_masked_in_all_that_is_kept_and_said(sent, imports):
    batch_id = sent("secrets", "secrets.jsonl").batch_id
    (record,) = imports.raw(batch_id)
    said = told("read_record", {"project_path": imports.root, "record_id": record["id"]})[0]
    kept = imports.every_byte().decode("utf-8", "replace") + json.dumps(record) + said
    assert [never for never in ENTRIES["secrets"].never if never in kept] == []
    assert kept.count("[masked:") > len(ENTRIES["secrets"].never)


def test_not_secrets_is_left_as_it_is(sent, imports):
    batch_id = sent("not_secrets", "not_secrets.jsonl").batch_id
    (record,) = imports.raw(batch_id)
    assert record["log"]["events"][0]["prompt"]["value"] == ORDINARY


@pytest.mark.parametrize("data", ENTRIES["journal_tamper"].values)
def test_journal_tamper_is_named_and_nothing_is_cut(imports, data):
    path = imports.project.store.full(segment_path(1))
    with open(path, "rb") as file:
        whole = file.read()
    with open(path, "wb") as file:
        file.write(data + whole)
    projects._opened.clear()
    with pytest.raises(AtkError, match=r"damaged|newer"):
        imports.call("store_knowledge", knowledge={"body": "a lesson", "applicability": "here"})
    with open(path, "rb") as file:
        assert file.read() == data + whole


def test_journal_tamper_is_refused_as_newer_where_the_format_is(imports):
    store = imports.project.store
    first = {"kind": "checkpoint", "n": 0, "prev": ORIGIN, "format": 999, "project_id": "project-1-test", "at": ""}
    with open(store.full(segment_path(1)), "wb") as file:
        file.write(encode(first)[0])
    projects._opened.clear()
    with pytest.raises(NewerFormat, match="999"):
        imports.call("store_knowledge", knowledge={"body": "a lesson", "applicability": "here"})


def test_legacy_store_is_refused_untouched(tmp_path):
    target = Target(tmp_path / "target", initialize=False)
    target.write(".atk/results/v1/r.csv", "x\n")
    with pytest.raises(LegacyStore, match="results"):
        target.initialize()
    assert files_below(target.path(".atk")) == {target.path(".atk/results/v1/r.csv")}
