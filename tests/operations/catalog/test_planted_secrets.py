"""A secret of every kind, planted wherever evidence can hold one: none is stored, answered or logged."""

import gzip
import json
import os
import sys

import pytest

from atk_mcp import incidents, results
from operations.catalog.projects.initialize_project import SecretInConfiguration
from operations.invocation import invoke
from operations.registry import all_operations
from storage.errors import AtkError
from storage.masking import RedactPatternUnusable, _patterns
from tests.support.imports import Imports
from tests.support.projects import Target

SECRETS = {
    "field": "swordfish-7-by-its-name",
    "token": "ghp_" + "Planted0123456789abcdefgh",
    "nested": "nested-9-secret-by-name",
    "url": "url-3-password",
    "address": "ann.planted@example.org",
    "key": "patient-4711-planted",
    "pattern": "CUST-123456",
    "scanner": "AGE-SECRET-KEY-1QQPZRY9X8GF2TVDW0S3JN54KHCE6MUA7LQQPZRY9X8GF2TVDW0S3JN54KH",
}
RULES = {"redact_keys": ["patient_id"], "redact_patterns": [r"\bCUST-[0-9]{6}\b"], "second_look": True}

VALUES = (
    {"db_password": SECRETS["field"]},
    f"see {SECRETS['token']} there",
    json.dumps({"a": json.dumps({"b": [json.dumps({"api_key": SECRETS["nested"], "n": 1})]})}),
    f"get https://ann:{SECRETS['url']}@host/x",
    [{"id": "c", "content": "hm", "author_email": SECRETS["address"]}],
    {"patient_id": SECRETS["key"]},
    f"customer {SECRETS['pattern']} called",
    f"key {SECRETS['scanner']} here",
)
"""One for each kind, as a JSON value that holds the secret."""

TEXTS = tuple(value if isinstance(value, str) else json.dumps(value) for value in VALUES)
BARE = tuple(SECRETS[kind] for kind in ("token", "pattern", "scanner"))
"""Those that are known wherever they stand, in names too."""


def survivors(*places):
    found = "\n".join(place if isinstance(place, str) else place.decode("utf-8", "replace") for place in places)
    return sorted(kind for kind, secret in SECRETS.items() if secret in found)


def traces():
    """Traces with a secret in each field that an export has."""
    common = {"timestamp": "2026-01-01T00:00:00Z", "input": "q", "output": "a"}
    rows = [{"id": f"t-{n}-{name}", **common, name: value} for n, value in enumerate(VALUES)
            for name in ("input", "output", "metadata", "comments")]  # fmt: skip
    rows += [{"id": f"x-{n}-{name}", **common, name: text} for n, text in enumerate(TEXTS)
             for name in ("name", "userId", "sessionId", "release", "version", "environment", "new")]  # fmt: skip
    rows += [{"id": f"g-{n}", **common, "tags": [text, "plain"]} for n, text in enumerate(TEXTS)]
    rows += [{"id": f"k-{n}", **common, "metadata": {text: 1, "deep": [{text: text}]}} for n, text in enumerate(BARE)]
    rows += [{"id": f"i-{text}", **common} for text in BARE]
    return [*rows, *({"id": f"c-{n}", **common, text: 1} for n, text in enumerate(BARE))]


def scores():
    usual = {"traceId": "t-0-input", "name": "quality", "dataType": "TEXT", "timestamp": "2026-01-01T00:00:00Z"}
    rows = [{"id": f"s-{n}-{name}", **usual, name: text} for n, text in enumerate(TEXTS)
            for name in ("stringValue", "comment", "name", "source", "authorUserName")]  # fmt: skip
    loose = [{"id": f"l-{n}", **usual, "traceId": None, "comment": text} for n, text in enumerate(TEXTS)]
    return [*rows, *loose, *({"id": f"m-{text}", **usual, "traceId": "nobody", "stringValue": "x"} for text in BARE)]


@pytest.fixture
def imports(tmp_path):
    return Imports(tmp_path / "project", **{name: tuple(v) if isinstance(v, list) else v for name, v in RULES.items()})


@pytest.fixture
def write(tmp_path):
    def write(name, *rows, raw=None):
        path = tmp_path / "export" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw if raw is not None else "".join(json.dumps(row) + "\n" for row in rows).encode())
        return str(path)

    return write


def sent(imports, *arguments, **more):
    """Returns all that a client is told, whether the import is refused or not."""
    try:
        return json.dumps(results.of_response(imports.send(*arguments, **more)), default=str)
    except AtkError as error:
        return json.dumps(results.of_error(error), default=str)


def test_an_export_with_a_secret_in_every_field_leaves_none(imports, write, capfd):
    write("traces.jsonl", *traces())
    folder = os.path.dirname(
        write("scores.jsonl.gz", raw=gzip.compress("".join(json.dumps(s) + "\n" for s in scores()).encode()))
    )
    roles = {"file_roles": {"traces.jsonl": "trace", "scores.jsonl.gz": "score"}}
    tried = sent(imports, folder, dry_run=True, **roles)
    answer = imports.send(folder, **roles)
    shown = answer.model_dump_json()
    read = imports.call("read_record", record_id=f"{answer.batch_id}.1").model_dump_json()
    whole = imports.call("read_record", record_id=answer.batch_id).model_dump_json()
    out, err = capfd.readouterr()
    assert survivors(imports.every_byte(), tried, shown, read, whole, out, err) == []
    assert answer.counts["masked_by_second_look"] > 0
    assert answer.counts["records"] >= len(traces())


def test_equal_secrets_have_equal_masks_in_every_field(imports, write):
    batch_id = imports.send(write("traces.jsonl", *traces()), adapter_profile="langfuse_trace_bundle").batch_id
    masker = imports.project.masker
    stored = imports.every_byte().decode("utf-8", "replace")
    for kind in ("token", "pattern", "scanner", "key", "address", "field", "nested"):
        assert masker.mask(SECRETS[kind]) in stored, kind
    assert imports.batch(batch_id).counts["traces"] == len(traces())


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_rows_of_results_leave_none(imports, write, ending):
    rows = [
        {"case": f"c{n}", "question": text, "answer": text, "note": text, "grade": text} for n, text in enumerate(TEXTS)
    ]
    if ending == ".csv":
        cells = [list(rows[0]), *([str(cell) for cell in row.values()] for row in rows)]
        raw = "\n".join(",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in cells).encode()
        source = write("r.csv", raw=raw + b"\n")
    else:
        source = write("r.jsonl", *rows)
    mapping = {"case_id": "case", "input": "question", "output": "answer", "scores": {"grade": "grade"}}
    answer = sent(imports, source, source_kind="batch_results", mapping=mapping)
    assert survivors(imports.every_byte(), answer) == []
    assert "Record" in answer


def test_damage_conflicts_names_of_files_and_what_a_request_says_leave_none(imports, write, capfd):
    told = []
    one = {"timestamp": "2026-01-01T00:00:00Z", "input": "q"}
    for n, text in enumerate(TEXTS):
        twice = f'{{"id":"t","k":{json.dumps(text)},"k":{json.dumps(text)}}}\n'.encode()
        told += [sent(imports, write(f"d{n}.jsonl", raw=twice), max_damaged=limit,
                      adapter_profile="langfuse_trace_bundle") for limit in (0, 1)]  # fmt: skip
        clash = write(f"c{n}.jsonl", {"id": "t", **one, "output": text}, {"id": "t", **one, "output": "b"})
        told.append(sent(imports, clash, adapter_profile="langfuse_trace_bundle"))
    for text in BARE:
        source = write(f"{text}.jsonl", {"id": f"t-{text}", **one}, {"input": "no id"})
        more = {"adapter_profile": "langfuse_trace_bundle", "max_damaged": 1}
        told += [sent(imports, source, **more), sent(imports, source, dry_run=True), sent(imports, source + "no")]
        told.append(sent(imports, source, mapping={"trace": {"input": text}}, **more))
        told.append(sent(imports, source, file_roles={text: "trace"}))
    for n, text in enumerate(TEXTS):
        source = write(f"s{n}.jsonl", {"id": f"t{n}", **one})
        said = {"mapping_version": text, "filtered_scope": text, "source_namespace": text[:200]}
        told.append(sent(imports, source, adapter_profile="langfuse_trace_bundle", **said))
    told += capfd.readouterr()
    assert survivors(imports.every_byte(), *told) == []


AGENT = """\
import json, os, sys

texts = json.load(open(os.environ["PLANTED"]))
out = sys.argv[1]
print("\\n".join(texts))
print("\\n".join(texts), file=sys.stderr)
with open(os.path.join(out, "loading.json"), "w") as file:
    json.dump([{"component_id": "prompt", "note": text} for text in texts], file)
with open(os.path.join(out, "metrics.json"), "w") as file:
    json.dump({"tokens": 150}, file)
"""


def test_what_an_agent_writes_leaves_none(tmp_path, capfd, monkeypatch):
    planted = tmp_path / "planted.json"
    planted.write_text(json.dumps(TEXTS))
    monkeypatch.setenv("PLANTED", str(planted))
    target = Target(tmp_path / "target", initialize=False)
    target.write("agent.py", AGENT)
    target.git("commit", "-q", "-am", "Write secrets")
    told = [target.initialize(command=[sys.executable, "agent.py", "{output_dir}"], environment=["PLANTED"], **RULES)]
    told.append(target.call("try_case", input="x"))
    dataset = target.store_cases()
    run = target.call("run_evaluation", dataset_id=dataset, revision_commit=target.head, wait_seconds=100)
    told += [run, target.call("read_record", record_id=f"{run.batch_id}.1")]
    answers = "".join(one.model_dump_json() for one in told)
    assert survivors(every_file(target), answers, *capfd.readouterr()) == []
    assert "[masked:" in answers
    assert run.status == "sealed"


def every_file(target):
    found = []
    for folder, _, names in os.walk(target.path(".atk")):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                found.append(file.read())
    return b"\n".join(found)


def test_what_a_client_says_leaves_none(at):
    target = at("stored")
    target.initialize(revise=True, **RULES)
    told = []
    for text in TEXTS:
        told += [said(target, "store_dataset", source=text), said(target, "read_record", record_id=text)]
        told.append(said(target, "try_case", input="x", request_id=text))
        told.append(
            said(target, "store_assessment", batch_id="batch-1-none", evaluation_spec={"note": text}, judger={})
        )
    assert survivors(every_file(target), *told) == []


def said(target, name, **arguments):
    try:
        return invoke(all_operations()[name], {"project_path": target.root, **arguments}).model_dump_json()
    except AtkError as error:
        return json.dumps(results.of_error(error), default=str)


def test_a_crash_is_logged_without_them(imports, capfd):
    for text in TEXTS:
        incidents.record(RuntimeError(text), "import_evidence", {"project_path": imports.root})
    log = imports.every_byte()
    assert b"incident-" in log
    assert survivors(log, *capfd.readouterr()) == []


# -- the rules themselves ----------------------------------------------------------------------------------------------


def test_rules_over_every_name_of_atks_own_break_nothing(tmp_path):
    """A project may name fields or patterns that ATK's own records have: those stay, and what was said is masked."""
    target = Target(tmp_path / "target", initialize=False)
    target.initialize(
        redact_keys=["status", "id", "name", "kind", "title", "records", "commit", "message", "input"],
        redact_patterns=["[0-9]{4}", "[0-9a-f]{8,}", "(?i)finished|batch|dataset"],
    )
    dataset = target.store_cases()
    run = target.call("run_evaluation", dataset_id=dataset, revision_commit=target.head, wait_seconds=100)
    assert run.status == "sealed"
    again = target.call("read_record", record_id=run.batch_id)
    assert again.id == run.batch_id
    assert target.call("get_status").project_id.startswith("project-")


def test_a_configuration_that_its_own_rules_would_mask_is_refused(tmp_path):
    target = Target(tmp_path / "target", initialize=False)
    with pytest.raises(SecretInConfiguration, match="runtime_notes"):
        target.initialize(runtime_notes=f"ask {SECRETS['pattern']}", **RULES)
    with pytest.raises(SecretInConfiguration, match="runtime_notes"):
        target.initialize(runtime_notes=f"use {SECRETS['scanner']}", **RULES)
    with pytest.raises(SecretInConfiguration, match=r"redact_patterns\.0"):
        target.initialize(redact_patterns=[SECRETS["token"]])
    with pytest.raises(RedactPatternUnusable, match="look-around"):
        target.initialize(redact_patterns=["(?=x)"])
    assert not os.path.exists(target.path(".atk"))


@pytest.mark.parametrize(("module", "rule", "code"), [
    ("re2", {"redact_patterns": ["x1"]}, "pattern_engine_missing"),
    ("betterleaks", {"second_look": True}, "second_look_missing"),
])  # fmt: skip
def test_rules_without_their_package_are_refused_and_an_existing_project_stays_shut(
    tmp_path, monkeypatch, module, rule, code
):
    opened = Target(tmp_path / "opened")
    opened.call("initialize_project", analysis_only=True, revise=True, **rule)
    target = Target(tmp_path / "target", initialize=False)
    monkeypatch.setitem(sys.modules, module, None)
    _patterns._compiled.cache_clear()
    with pytest.raises(AtkError) as refused:
        target.initialize(**rule)
    assert refused.value.code == code
    assert not os.path.exists(target.path(".atk"))
    with pytest.raises(AtkError) as refused:
        opened.store_cases()
    assert refused.value.code == code
